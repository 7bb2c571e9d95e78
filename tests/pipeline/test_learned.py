"""Token weights that an encoder learned: kept with the bank, scored for the batch, absent by default."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import WORDS, write_bge_m3
from tests.support import HashEncoder, NameExtractor, small_memory
from zeromem_gpu import Config, InvalidInput, Memory, Trace, doctor
from zeromem_gpu.build import lexical
from zeromem_gpu.build.learned import WeightSegment, grow_weights
from zeromem_gpu.cache import DiskCache
from zeromem_gpu.encoders import CachedEncoder
from zeromem_gpu.encoders.lexical import LexicalWeights, checked_weights
from zeromem_gpu.encoders.vector_file import VectorFile
from zeromem_gpu.store.tables import table_rows

KEPT = Config(learned_weights=True)
ON = KEPT.replace(learned=2.0, graph_learned=2.0)
SAID = (
    "The red kayak lay in Bergen.", "Ann met Bob on Monday.", "It rained all day.", "", "😀",
    "Bob baked a cake for Ann.", "Cleo sold twelve boats in Oslo.", "The kayak is gone, Bob.",
)  # fmt: skip
QUESTIONS = ("Who sold the kayak?", "Did it rain in Oslo?", "What did Bob bake?", "kayak")


class Plain(HashEncoder):
    """Gives no token weights."""

    weighs = False


def talk() -> list[Trace]:
    return [
        Trace(f"t{at}", text, f"b{at % 2}", f"s{at // 4}", at, speaker=("Ann", "Bob")[at % 2])
        for at, text in enumerate(SAID * 3)
    ]


def filled(config: Config = KEPT, **options: Any) -> Memory:
    memory = small_memory(config, **options)
    memory.add(talk())
    return memory


def opened(folder: Path, **options: Any) -> Memory:
    given = {"encoder": HashEncoder(), "extractor": NameExtractor(), "cache_dir": False, "device": "cpu"}
    return Memory.open(folder, **given | options)


def answers(memory: Memory, config: Config, **options: Any) -> list[list[tuple[str, float]]]:
    found = memory.search(QUESTIONS, bank="b0", config=config, top_k=6, **options)
    return [[(one.trace.id, one.score) for one in result] for result in found]


# -- what it does to a search --


def test_a_weight_of_zero_changes_nothing() -> None:
    without = small_memory(encoder=Plain())
    without.add(talk())
    assert answers(filled(), KEPT) == answers(without, without.config)


@pytest.mark.parametrize("name", ["learned", "graph_learned"])
def test_each_view_has_its_own_weight(name: str) -> None:
    view, other = ("hierarchy", "graph") if name == "learned" else ("graph", "hierarchy")
    memory = filled()
    on = KEPT.replace(**{name: 2.0})
    assert answers(memory, on.replace(views=view)) != answers(memory, KEPT.replace(views=view))
    assert answers(memory, on.replace(views=other)) == answers(memory, KEPT.replace(views=other))


def test_the_unit_that_shares_the_heaviest_tokens_comes_first() -> None:
    class Told(HashEncoder):
        """One token, "gone", matters."""

        def lexical_weights(self, texts: Sequence[str]) -> LexicalWeights:
            at = np.flatnonzero(["gone" in text or "sold" in text for text in texts])
            return LexicalWeights.of(at, np.full(len(at), 7), np.full(len(at), 0.5), len(texts))

    memory = filled(encoder=Told())
    found = memory.search("Who sold what?", bank="b1", config=KEPT.replace(learned=10.0, views="hierarchy"))
    assert "gone" in found.evidence[0].text
    before = memory.search("Who sold what?", bank="b1", config=KEPT.replace(views="hierarchy"))
    assert "gone" not in before.evidence[0].text


def test_questions_are_weighed_only_where_a_view_asks_for_it() -> None:
    encoder = HashEncoder()
    memory = filled(encoder=encoder)
    encoder.weighed.clear()
    answers(memory, KEPT)
    answers(memory, KEPT.replace(learned=1.0, views="graph"))
    assert encoder.weighed == []
    memory.search([*QUESTIONS, *QUESTIONS], bank="b0", config=ON)
    assert encoder.weighed == list(QUESTIONS)


# -- how it is kept --


def test_what_is_kept_comes_and_goes_with_its_unit(tmp_path: Path) -> None:
    memory = filled(ON)
    memory.add(replace(talk()[0], text="Ann flew to Rome."))
    memory.delete("t2", bank="b0")
    memory.delete(bank="b1", sessions="s0")
    before, rows = answers(memory, ON), memory.info()["weights"]
    memory.compact()
    assert 0 < memory.info()["weights"] < rows
    assert answers(memory, ON) == before
    memory.save(tmp_path)
    again = opened(tmp_path)
    assert answers(again, ON) == before
    for one in (memory, again):
        one.add(Trace("new", "Cleo sold the red kayak.", "b0", "s9"))
    assert answers(again, ON) == answers(memory, ON) != before


def test_an_index_without_weights_has_no_table_of_them(tmp_path: Path) -> None:
    """As it was written before there were any: such folders open, and stay so when written again."""
    memory = filled(Config(), encoder=Plain())
    memory.save(tmp_path)
    manifest = json.loads((tmp_path / "v0001" / "manifest.json").read_text())
    assert "learned" not in manifest["counts"]
    index = opened(tmp_path, encoder=Plain())._index
    assert index is not None
    assert "learned" not in table_rows(index)
    filled().save(tmp_path)
    assert json.loads((tmp_path / "v0002" / "manifest.json").read_text())["counts"]["learned"] > 30


def test_segments_grow_as_if_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "_FULL", 4)
    monkeypatch.setattr(lexical, "_RATIO", 3)
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, size=90)
    unit = np.repeat(np.arange(90, dtype=np.int32), counts)
    facts = {
        "token": np.concatenate([rng.choice(9, n, replace=False) for n in counts]).astype(np.int32),
        "unit": unit,
        "weight": rng.random(len(unit)).astype(np.float32),
    }

    def told(segments: Sequence[WeightSegment]) -> list[tuple[int, int, float]]:
        return sorted(
            (int(token), int(one.postings.indices[at]), float(one.postings.weights[at]))
            for one in segments
            for row, token in enumerate(one.tokens)
            for at in range(*one.postings.indptr[row : row + 2])
        )

    segments: tuple[WeightSegment, ...] = ()
    most = 0
    for units in [*range(1, 40), 60, 61, 90]:
        so_far = {name: column[: np.searchsorted(unit, units)] for name, column in facts.items()}
        segments = grow_weights(segments, so_far, units)
        assert told(segments) == told(grow_weights((), so_far, units))
        assert [one.first for one in segments[1:]] == [one.end for one in segments[:-1]]
        most = max(most, len(segments))
    assert most > 2
    assert len(told(segments)) == len(unit)


def test_sizes_are_counted_and_guessed() -> None:
    memory = small_memory(KEPT)
    guess = memory.estimate(talk())
    memory.add(talk())
    assert 0.5 <= guess.weights / memory.info()["weights"] <= 2
    plain = small_memory().estimate(talk())
    assert plain.weights == 0
    assert guess.disk_bytes - plain.disk_bytes == 12 * guess.weights


# -- what is refused --


def test_an_encoder_that_gives_none_is_refused_by_name(tmp_path: Path) -> None:
    memory = small_memory(KEPT, encoder=Plain())
    with pytest.raises(InvalidInput, match=r"learned_weights: got an encoder without .*hash@1/32.*bge-m3"):
        memory.add(talk())
    assert memory.banks == ()
    filled().save(tmp_path)
    there = opened(tmp_path, encoder=Plain())
    assert answers(there, KEPT)
    for name in ("learned", "graph_learned"):
        with pytest.raises(InvalidInput, match=f"{name}: got an encoder without token weights"):
            answers(there, KEPT.replace(**{name: 1.0}))
    with pytest.raises(InvalidInput, match="learned_weights: got an encoder without"):
        there.add(Trace("new", "Oslo.", "b0"))


@pytest.mark.parametrize("name", ["learned", "graph_learned"])
def test_a_weight_needs_an_index_that_keeps_them(name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{name}: got 0\.5; allowed: 0 without learned_weights"):
        Config(**{name: 0.5})
    with pytest.raises(InvalidInput, match="learned_weights"):
        small_memory().search("Who?", config=ON)


def weights(indptr: Any, ids: Any, values: Any) -> LexicalWeights:
    return LexicalWeights(np.array(indptr), np.array(ids, np.int32), np.array(values, np.float32))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (weights([0, 1], [3], [1.0]), "divide by 2 texts"),
        (weights([0, 2, 1], [3], [1.0]), "divide by 2 texts"),
        (weights([0, 1, 3], [3, 4], [1.0, 1.0]), "more or fewer"),
        (weights([0, 1, 2], [3, 4], [1.0, np.nan]), "finite and above 0"),
        (weights([0, 1, 2], [3, 4], [1.0, 0.0]), "finite and above 0"),
        (weights([0, 0, 2], [4, 4], [1.0, 1.0]), "once, ascending"),
        (weights([0, 0, 2], [-4, 4], [1.0, 1.0]), "once, ascending"),
        (weights([0, 1, 2], [3, 4], [1.0, 1.0])._replace(weights=np.ones(2)), "float32"),
    ],
    ids=["texts", "order", "lengths", "nan", "zero", "twice", "sign", "dtype"],
)
def test_weights_that_are_not_what_they_should_be(given: LexicalWeights, message: str) -> None:
    encoder = HashEncoder()
    encoder.lexical_weights = lambda texts: given  # type: ignore[method-assign]
    with pytest.raises(InvalidInput, match=f"token weights of hash that .*{message}"):
        checked_weights(encoder, ["a", "b"], "learned")


def test_doctor_says_what_a_file_of_vectors_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled().save(tmp_path)

    def found(encoder: HashEncoder) -> dict[str, doctor.Check]:
        monkeypatch.setattr(doctor, "resolve_encoder", lambda name, **options: encoder)
        return {check.name: check for check in doctor._index(tmp_path, None)}

    assert found(HashEncoder())["index token weights"].ok
    fault = found(Plain())["index token weights"]
    assert (fault.ok, fault.fatal) == (False, False)
    assert "not given" in fault.detail


# -- the cache --


def test_each_distinct_text_is_weighed_once_ever(tmp_path: Path) -> None:
    first, second = HashEncoder(), HashEncoder()
    texts = ["Ann met Bob", "", "Ann met Bob", "kayak", "zebra"]
    plain = first.lexical_weights(texts)
    first.weighed.clear()
    for encoder in (first, second):
        found = CachedEncoder(encoder, DiskCache(tmp_path)).lexical_weights(texts)
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
    assert sorted(first.weighed) == sorted(set(texts))
    assert second.weighed == []
    assert not CachedEncoder(Plain(), DiskCache(tmp_path)).weighs


def test_a_file_of_vectors_carries_them(tmp_path: Path) -> None:
    """Made where the encoder runs, used where it does not."""
    given: dict[str, Any] = {"extractor": NameExtractor(), "device": "cpu"}
    there = Memory(ON, encoder=HashEncoder(), cache_dir=tmp_path / "cache", **given)
    there.add(talk())
    expected = answers(there, ON)
    there.export_vectors(tmp_path / "v.safetensors")
    here = Memory(ON, vectors=tmp_path / "v.safetensors", cache_dir=False, **given)
    here.add(talk())
    assert answers(here, ON) == expected
    with pytest.raises(InvalidInput, match=r"1 of 1 texts .*are not in .*vectors export"):
        here.search("What is new?", bank="b0")


def test_a_file_without_token_weights_says_so(tmp_path: Path) -> None:
    given: dict[str, Any] = {"extractor": NameExtractor(), "device": "cpu"}
    there = Memory(encoder=HashEncoder(), cache_dir=tmp_path / "cache", **given)
    there.add(talk())
    there.export_vectors(tmp_path / "v.safetensors")
    assert not VectorFile(tmp_path / "v.safetensors").weighs
    here = Memory(ON, vectors=tmp_path / "v.safetensors", cache_dir=False, **given)
    with pytest.raises(InvalidInput, match="learned_weights: got an encoder without token weights"):
        here.add(talk())


@pytest.mark.parametrize("name", ["weights.hashes", "weights.indptr", "weights.ids", "weights.weights"])
def test_a_file_whose_token_weights_do_not_fit_is_refused(tmp_path: Path, name: str) -> None:
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    path = tmp_path / "v.safetensors"
    there = Memory(ON, encoder=HashEncoder(), extractor=NameExtractor(), cache_dir=tmp_path, device="cpu")
    there.add(talk())
    there.export_vectors(path)
    with safe_open(path, framework="numpy") as file:
        facts = file.metadata()
    arrays = load_file(path)
    arrays[name] = arrays[name][:-1].copy()
    save_file(arrays, path, metadata=facts)
    with pytest.raises(InvalidInput, match=r"v\.safetensors: token weights that"):
        VectorFile(path)


# -- the real code, on a tiny random checkpoint --


@pytest.fixture(scope="module")
def bge_m3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("tokenizers")
    pytest.importorskip("transformers")
    return write_bge_m3(tmp_path_factory.mktemp("bge"))


def letters() -> list[Trace]:
    rng = np.random.default_rng(5)
    words = [word for word in WORDS if len(word) > 2]
    return [Trace(f"t{at}", " ".join(rng.choice(words, size=8)), "b0", f"s{at // 8}") for at in range(40)]


def test_a_question_alone_finds_what_it_finds_among_many(bge_m3: Path) -> None:
    memory = Memory(ON, encoder=str(bge_m3), extractor=NameExtractor(), cache_dir=False, device="cpu")
    memory.add(letters())
    assert memory.info()["weights"] > 100
    questions = [f"where did the doctor see the {word}?" for word in ("dog", "park", "river", "museum")]
    batch = memory.search(questions * 8, bank="b0", top_k=6)
    for question, together in zip(questions * 8, batch, strict=True):
        alone = memory.search(question, bank="b0", top_k=6)
        assert [one.score for one in alone] == pytest.approx([one.score for one in together], abs=1e-5)
    off = memory.search(questions, bank="b0", top_k=6, config=KEPT)
    assert [[e.trace.id for e in one] for one in off] != [[e.trace.id for e in one] for one in batch[:4]]


def test_another_sparse_head_is_another_encoder(bge_m3: Path, tmp_path: Path) -> None:
    import shutil

    import torch

    copy = Path(shutil.copytree(bge_m3, tmp_path / "model"))
    options: dict[str, Any] = {"extractor": NameExtractor(), "cache_dir": False, "device": "cpu"}
    memory = Memory(ON, encoder=str(copy), **options)
    memory.add(letters()[:3])
    memory.save(tmp_path / "index")
    assert Memory.open(tmp_path / "index", encoder=str(copy), **options).search("dog", config=ON)
    head = torch.load(copy / "sparse_linear.pt", weights_only=True)
    torch.save({name: -value for name, value in head.items()}, copy / "sparse_linear.pt")
    with pytest.raises(InvalidInput, match="which built this index"):
        Memory.open(tmp_path / "index", encoder=str(copy), **options).search("dog", config=ON)
