"""The packed forward on tiny random checkpoints, held against transformers and the models' own libraries.

Vectors have length 1; all differences here are rounding in float32, bounded by 2e-6 an element.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import HIDDEN, WORDS, write_bge_m3, write_sentence_bert
from zeromem_gpu.cache import DiskCache
from zeromem_gpu.encoders import CachedEncoder, checked_encode, export_vectors, resolve_encoder
from zeromem_gpu.encoders import packed_encoder as packing
from zeromem_gpu.encoders.bge_m3 import BgeM3Encoder, PackedBgeM3
from zeromem_gpu.encoders.checkpoint import UnsupportedCheckpoint, read_layout
from zeromem_gpu.encoders.lexical import LexicalWeights, checked_weights
from zeromem_gpu.encoders.packed_encoder import PackedEncoder, token_batches
from zeromem_gpu.encoders.sentence_transformer import SentenceTransformerEncoder
from zeromem_gpu.encoders.vector_file import VectorFile
from zeromem_gpu.errors import MissingDependency, ModelUnavailable

pytest.importorskip("tokenizers")
pytest.importorskip("transformers")
ROUNDING = 2e-6
ODD = ["", " ", "😀", "我在北京", "The dog.", "the dog", "z" * 30]


def sentences(count: int, seed: int = 0, most: int = 18) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, most))) + "." for _ in range(count)]


TEXTS = [*ODD, *sentences(90), *sentences(7)]


@pytest.fixture(scope="module")
def bge_m3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bge_m3(tmp_path_factory.mktemp("bge"))


@pytest.fixture(scope="module", params=["mean", "cls"])
def bert(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sentence_bert(tmp_path_factory.mktemp("bert"), pooling=request.param)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ROUNDING)


def close_weights(found: LexicalWeights, wanted: LexicalWeights) -> None:
    """The same tokens of every text, at most 1e-5 apart."""
    np.testing.assert_array_equal(found.indptr, wanted.indptr)
    np.testing.assert_array_equal(found.ids, wanted.ids)
    np.testing.assert_allclose(found.weights, wanted.weights, rtol=5e-6, atol=1e-5)


# -- equal to others --


def padded(directory: Path, texts: list[str], batch: int) -> np.ndarray:
    """The first token's vectors by transformers, padded to the longest text of each batch."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModel.from_pretrained(directory).eval()
    rows = []
    for first in range(0, len(texts), batch):
        inputs = tokenizer(texts[first : first + batch], padding=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state[:, 0]
        rows.append(torch.nn.functional.normalize(hidden, dim=-1).numpy())
    return np.concatenate(rows)


@pytest.mark.parametrize("stored", ["torch", "safetensors"])
def test_packed_equals_padded(tmp_path: Path, stored: str) -> None:
    directory = write_bge_m3(tmp_path, safetensors=stored == "safetensors")
    found = PackedBgeM3(str(directory)).encode(TEXTS)
    assert found.dtype == np.float32
    close(found, padded(directory, TEXTS, 32))
    assert np.std(found @ found.T) > 0.05, "all texts look alike: the weights say nothing"


def test_packed_equals_flag_embedding(bge_m3: Path) -> None:
    pytest.importorskip(
        "FlagEmbedding", reason="FlagEmbedding is not installed: pip install -e '.[bge-m3]'"
    )
    plain, packed = BgeM3Encoder(str(bge_m3), max_tokens=128), PackedBgeM3(str(bge_m3))
    assert plain.fingerprint == packed.fingerprint
    close(packed.encode(TEXTS), plain.encode(TEXTS))
    assert plain.weighs
    assert packed.weighs
    close_weights(packed.lexical_weights(TEXTS), plain.lexical_weights(TEXTS))
    assert plain.lexical_weights([]).indptr.tolist() == [0]


def test_lexical_weights_are_those_of_the_sparse_head(bge_m3: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    found = PackedBgeM3(str(bge_m3)).lexical_weights(TEXTS)
    head = torch.load(bge_m3 / "sparse_linear.pt", weights_only=True)
    tokenizer, model = AutoTokenizer.from_pretrained(bge_m3), AutoModel.from_pretrained(bge_m3).eval()
    for at, text in enumerate(TEXTS):
        wanted: dict[int, float] = {}
        inputs = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(inputs["input_ids"]).last_hidden_state[0]
            weights = torch.relu(hidden @ head["weight"].T + head["bias"])[:, 0].tolist()
        for token, weight in zip(inputs["input_ids"][0].tolist(), weights, strict=True):
            if weight > 0 and token not in tokenizer.all_special_ids:
                wanted[token] = max(weight, wanted.get(token, 0.0))
        mine = slice(*found.indptr[at : at + 2])
        assert found.ids[mine].tolist() == sorted(wanted)
        theirs = [wanted[token] for token in sorted(wanted)]
        np.testing.assert_allclose(found.weights[mine], theirs, rtol=5e-6, atol=1e-5)
    assert len(found.ids) > 3 * len(TEXTS)
    scores = found.score(found)
    assert scores.shape == (len(TEXTS), len(TEXTS))
    for at in (0, 4, 50):
        mine = slice(*found.indptr[at : at + 2])
        np.testing.assert_allclose(scores[at, at], (found.weights[mine] ** 2).sum(), rtol=1e-5)
    assert PackedBgeM3(str(bge_m3)).lexical_weights([]).indptr.tolist() == [0]


def test_packed_equals_sentence_transformers(bert: Path) -> None:
    pytest.importorskip("sentence_transformers")
    short = [text for text in TEXTS if not PackedEncoder(bert, name="b").splits([text]).any()]
    assert len(short) > 80
    packed, plain = resolve_encoder(str(bert)), resolve_encoder(f"plain:{bert}")
    assert isinstance(packed, PackedEncoder)
    assert isinstance(plain, SentenceTransformerEncoder)
    assert (packed.fingerprint, packed.max_tokens) == (plain.fingerprint, plain.max_tokens)
    close(packed.encode(short), plain.encode(short))


# -- nothing but the text decides --


@pytest.mark.parametrize("tokens", [1, 7, 64, 100_000])
def test_the_size_of_batches_changes_nothing(bge_m3: Path, tokens: int) -> None:
    whole = PackedBgeM3(str(bge_m3)).encode(TEXTS)
    close(PackedBgeM3(str(bge_m3), batch_tokens=tokens).encode(TEXTS), whole)


def test_order_and_duplicates_change_nothing(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = PackedEncoder(bert, name="b")
    whole = encoder.encode(TEXTS)
    order = random.Random(5).choices(range(len(TEXTS)), k=3 * len(TEXTS))
    monkeypatch.setattr(encoder, "_amounts", packing._Amounts(50, 11))  # many parts, tokenized ahead
    heard: list[int] = []
    close(encoder.encode([TEXTS[at] for at in order], heard.append), whole[order])
    assert sum(heard) == len(order)
    assert len(heard) > 5
    for size in (1, 7, 63):
        close(encoder.encode(TEXTS[:size]), whole[:size])


@pytest.mark.parametrize("tokens", [1, 7, 100_000])
def test_token_weights_depend_on_the_text_alone(bge_m3: Path, tokens: int) -> None:
    whole = PackedBgeM3(str(bge_m3)).lexical_weights(TEXTS)
    order = np.array(random.Random(6).choices(range(len(TEXTS)), k=2 * len(TEXTS)))
    other = PackedBgeM3(str(bge_m3), batch_tokens=tokens)
    close_weights(other.lexical_weights([TEXTS[at] for at in order]), whole.take(order))
    for at in (0, 4, 60):
        close_weights(other.lexical_weights([TEXTS[at]]), whole.take(np.array([at])))


def test_threads_encode_at_once_and_leave_torchs_threads_as_they_were(bge_m3: Path) -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        encoder = PackedBgeM3(str(bge_m3), batch_tokens=40)
        found: dict[int, np.ndarray] = {}
        workers = [
            threading.Thread(target=lambda at=at: found.update({at: encoder.encode(TEXTS[at:])}))
            for at in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert torch.get_num_threads() == 3
        seen: list[int] = []
        later = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        later.start()
        later.join()
        assert seen == [3]
    finally:
        torch.set_num_threads(before)
    whole = PackedBgeM3(str(bge_m3)).encode(TEXTS)
    assert sorted(found) == [0, 1, 2, 3]
    for at, vectors in found.items():
        close(vectors, whole[at:])


def test_batches_hold_every_text_once_within_the_budget() -> None:
    lengths = random.Random(1).choices(range(30), k=200)
    batches = token_batches(lengths, 64)
    assert sorted(at for batch in batches for at in batch) == [at for at, n in enumerate(lengths) if n]
    assert max(sum(lengths[at] for at in batch) for batch in batches) <= 64
    assert token_batches([], 64) == []
    assert token_batches([100, 100], 64) == [[0], [1]]


# -- faults --


def spoil(directory: Path, encoder: PackedBgeM3) -> int:
    """Make the row of "dog" NaN in a checkpoint; its token."""
    import torch

    token = encoder._tokenizer().cut(["dog"])[0].tokens[1]
    stored = torch.load(directory / "pytorch_model.bin", weights_only=True)
    stored["embeddings.word_embeddings.weight"][token] = torch.nan
    torch.save(stored, directory / "pytorch_model.bin")
    return token


def test_a_nan_in_the_weights_reaches_no_other_text(tmp_path: Path) -> None:
    directory = write_bge_m3(tmp_path)
    encoder = PackedBgeM3(str(directory))
    whole = encoder.encode(TEXTS)
    token = spoil(directory, encoder)
    vectors, bad = checked_encode(PackedBgeM3(str(directory)), TEXTS)
    assert bad.tolist() == [token in piece.tokens for piece in encoder._tokenizer().cut(TEXTS)]
    assert 3 <= bad.sum() < len(TEXTS)
    close(vectors[~bad], whole[~bad])
    assert not vectors[bad].any()


def test_what_is_not_known_goes_to_its_own_library(tmp_path: Path) -> None:
    import json

    def changed(file: str, **values: Any) -> Path:
        directory = write_sentence_bert(tmp_path / str(len(list(tmp_path.iterdir()))))
        path = directory / file
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
        return directory

    for directory, reason in (
        (changed("config.json", model_type="modernbert"), "modernbert"),
        (changed("config.json", hidden_act="relu"), "relu"),
        (changed("1_Pooling/config.json", pooling_mode_max_tokens=True), "mean_tokens.*max_tokens"),
        (changed("sentence_bert_config.json", do_lower_case=True), "lower-casing"),
    ):
        with pytest.raises(UnsupportedCheckpoint, match=reason):
            read_layout(directory)
        if reason != "modernbert":
            pytest.importorskip("sentence_transformers")
            assert isinstance(resolve_encoder(str(directory)), SentenceTransformerEncoder)


def test_missing_parts_are_named(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file, save_file

    directory = write_sentence_bert(tmp_path / "part")
    stored = load_file(directory / "model.safetensors")
    del stored["encoder.layer.1.output.dense.bias"]
    save_file(stored, directory / "model.safetensors")
    with pytest.raises(ModelUnavailable, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        PackedEncoder(directory, name="part").encode(["dog"])
    from zeromem_gpu.encoders import bge_m3 as module

    bge = write_bge_m3(tmp_path / "bge")
    (bge / "sparse_linear.pt").unlink()
    with pytest.raises(ModelUnavailable, match=r"sparse_linear\.pt"):
        module.PackedBgeM3(str(bge)).lexical_weights(["dog"])
    real = packing.util.find_spec
    monkeypatch.setattr(
        packing.util, "find_spec", lambda name, *rest: None if name == "tokenizers" else real(name, *rest)
    )
    with pytest.raises(MissingDependency, match=r"zeromem-gpu\[encoders\]"):
        PackedEncoder(bert, name="b")


def test_a_nan_weight_is_no_weight(tmp_path: Path) -> None:
    directory = write_bge_m3(tmp_path)
    encoder = PackedBgeM3(str(directory))
    whole = encoder.lexical_weights(TEXTS)
    broken = spoil(directory, encoder)
    found = checked_weights(PackedBgeM3(str(directory)), TEXTS, "learned")
    sound = np.array([broken not in piece.tokens for piece in encoder._tokenizer().cut(TEXTS)])
    close_weights(found.take(np.flatnonzero(sound)), whole.take(np.flatnonzero(sound)))
    assert len(found.take(np.flatnonzero(~sound)).ids) == 0


# -- long texts --

LONG = " ".join(sentences(9, seed=8))  # far beyond 24 tokens


def test_a_long_text_is_the_mean_of_its_sentences(bert: Path) -> None:
    encoder = PackedEncoder(bert, name="b")
    pieces = encoder._tokenizer().cut([LONG, "the dog"])
    sizes = [len(piece.tokens) for piece in pieces]
    assert [piece.text for piece in pieces] == [0] * (len(pieces) - 1) + [1]
    assert len(pieces) > 4
    assert max(sizes) <= encoder.max_tokens == 24
    words = [token for piece in pieces[:-1] for token in piece.tokens[1:-1]]
    whole = encoder._tokenizer()._tokens([LONG])[0]
    assert words == whole[1:-1], "a word was lost, or cut in two"
    assert encoder.splits([LONG, "the dog", ""]).tolist() == [True, False, False]
    alone = encoder._vectors(pieces)[:-1]
    mean = (alone * np.array(sizes[:-1])[:, None]).sum(0)
    close(encoder.encode([LONG])[0], mean / np.linalg.norm(mean))
    # what stands behind the limit counts
    assert encoder.encode([LONG])[0] @ encoder.encode([LONG[:60]])[0] < 0.99999


@pytest.mark.parametrize("text", ["z" * 400, "🎉" * 300, "我" * 200 + "。", " . " * 90], ids=repr)
def test_long_texts_without_sentences_fit_too(bert: Path, text: str) -> None:
    vectors, bad = checked_encode(PackedEncoder(bert, name="b"), [text[:500]])
    assert not bad.any()
    assert vectors.shape == (1, HIDDEN)


def test_a_long_text_has_the_highest_weight_of_its_pieces(tmp_path: Path) -> None:
    """Its pieces as texts of their own, which the special tokens frame likewise."""
    encoder = PackedBgeM3(str(write_bge_m3(tmp_path, positions=26)))
    tokenizer = encoder._tokenizer()
    pieces = [piece.tokens[1:-1] for piece in tokenizer.cut([LONG])]
    told = ["".join(map(tokenizer._tokenizer.id_to_token, tokens)).replace("▁", " ") for tokens in pieces]
    assert len(told) > 4
    alone = encoder.lexical_weights([text.strip() for text in told])
    assert len(np.unique(alone.ids)) < len(alone.ids), "no token stands in two pieces"
    of_one = LexicalWeights.of(np.zeros(len(alone.ids), np.int64), alone.ids, alone.weights, 1)
    close_weights(encoder.lexical_weights([LONG]), of_one)


def test_an_add_reports_how_many_texts_were_split(tmp_path: Path) -> None:
    from tests.support import NameExtractor
    from zeromem_gpu import Memory, Trace

    directory = write_bge_m3(tmp_path, positions=26)
    memory = Memory(encoder=str(directory), extractor=NameExtractor(), cache_dir=False, device="cpu")
    # sentences fit; two of the four turns do not
    report = memory.add([
        Trace("a", "The dog."), Trace("b", LONG), Trace("c", "the park. " * 30), Trace("d", "We saw it."),
    ])  # fmt: skip
    assert (report.added, report.split) == (4, 2)
    vectors, encoder = memory.vectors(["a", "b"]), PackedBgeM3(str(directory))
    close(vectors, encoder.encode(["The dog.", LONG]))
    assert memory.search("Who saw the museum?", top_k=4)


def test_a_cache_keeps_split_and_cut_vectors_of_a_long_text_apart(bert: Path, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    cache = DiskCache(tmp_path)
    packed, plain = PackedEncoder(bert, name="b"), SentenceTransformerEncoder(str(bert), name="b")
    assert packed.fingerprint == plain.fingerprint
    cut = CachedEncoder(plain, cache).encode([LONG, "the dog"])
    whole = CachedEncoder(packed, cache).encode([LONG, "the dog"])
    close(whole[0], packed.encode([LONG])[0])
    np.testing.assert_array_equal(whole[1], cut[1])
    assert np.abs(whole[0] - cut[0]).max() > 1e-3
    export_vectors(tmp_path / "v", cache, packed)
    np.testing.assert_array_equal(VectorFile(tmp_path / "v").encode([LONG, "the dog"]), whole)


def test_memory_stays_flat_over_many_texts(tmp_path: Path) -> None:
    import resource

    encoder = PackedEncoder(write_sentence_bert(tmp_path), name="b")

    def run(first: int, count: int) -> None:
        for start in range(first, first + count, 5_000):
            texts = [f"{WORDS[at % 30]} {WORDS[at % 37]} {at}" for at in range(start, start + 5_000)]
            assert np.isfinite(encoder.encode(texts)).all()

    run(0, 10_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(10_000, 40_000)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    # the vectors of 40,000 texts would be 10 MB, their hidden states 60 MB
    assert grown < 8, f"{grown:.1f} MB more after 40,000 texts"
