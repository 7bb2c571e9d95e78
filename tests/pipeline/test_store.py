"""Save and open: what comes back, what may follow, and what lies in the directory."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from tests.support import HashEncoder, NameExtractor, small_memory
from zeromem_gpu import Boundary, Config, InvalidInput, Memory, StoreError, Trace
from zeromem_gpu.build.arena import Arena, Span
from zeromem_gpu.build.facts import MemoryIndex
from zeromem_gpu.store import open_index, save_index
from zeromem_gpu.store.tables import FILES

FINGERPRINT = {"encoder": "hash", "dim": 32}

ODD_TEXTS = {
    "empty": "",
    "blank": " \t\n",
    "nul": "a\x00b",
    "lone surrogates": "\ud83d then \udc00",
    "surrogates that would join": "\ud83d\ude00",
    "emoji": "😀👍🏽",
    "chinese": "我在北京学习。",
    "combining": "e\u0301",
    "line ends": "one\r\ntwo\rthree\u2028four",
    "long": "Every sentence counts. " * 400,
}


def chat() -> list[Trace]:
    """Two banks, several sessions, every field in use."""
    zurich = "2023-05-08T13:56:00+02:00"
    return [
        Trace("t1", "Ada keeps bees near Zurich.", "house", "s1", time=zurich, speaker="Ada", role="user"),
        Trace("t2", "Bob asked Ada about the honey.", "house", "s1", time="2023-05-09", speaker="Bob"),
        Trace("t3", "The hive stands in Oerlikon. It is blue.", "house", "s2", speaker="Ada", turn=7,
              caption="a photo of a blue hive", source="file-1", entities=("Hive", "Blue Hive")),
        Trace("t1", "Carl sails from Oslo to Bergen.", "boat", time=datetime(2024, 2, 1, tzinfo=UTC),
              metadata={"深": [1, 2.5, None, True, {"x": "\ud800"}], "": ""}),
    ]  # fmt: skip


def filled(**options: Any) -> Memory:
    memory = small_memory(**options)
    memory.add(chat())
    return memory


def reopen(directory: Path, **options: Any) -> Memory:
    given = {"encoder": HashEncoder(), "extractor": NameExtractor(), "cache_dir": False, "device": "cpu"}
    return Memory.open(directory, **(given | options))


def index_of(memory: Memory) -> MemoryIndex:
    assert memory._index is not None
    return memory._index


def facts(index: MemoryIndex) -> dict[str, Any]:
    """Everything an index holds, in a form that == compares (NaN as bytes)."""
    found: dict[str, Any] = {"banks": list(index.banks)}
    for name, bank in index.banks.items():
        found[name] = {
            "ids": list(bank.ids.items()),
            "sessions": list(bank.sessions.items()),
            "entities": list(bank.entities.items()),
            "dead": (bank.dead.dtype, bank.dead.tolist()),
            "tables": sorted(table for table, span in bank.spans.items() if span.length),
        }
        for table in index.arenas:
            for column, array in index.facts(bank, table).items():
                values = array.tolist() if array.dtype == object else array.tobytes()
                found[name][f"{table}.{column}"] = (array.dtype, array.shape, values)
    return found


def answers(memory: Memory) -> list[Any]:
    """Evidence with its scores, for questions of both banks with and without boundaries."""
    questions = ["Where does Ada keep bees?", "Who asked about honey?", "Where did Carl sail in 2024?"]
    banks = ["house", "house", "boat"]
    boundary = Boundary(sessions="s1", after="2023-05-09")
    found = memory.search(questions, bank=banks) + memory.search(questions, bank=banks, boundary=boundary)
    return [(result.query, result.evidence) for result in found]


def versions(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir() if entry.is_dir())


def test_everything_comes_back(tmp_path: Path) -> None:
    memory = filled(config=Config(gamma=0.5, drop_labels=("DATE",)))
    memory.save(tmp_path / "m")
    opened = reopen(tmp_path / "m")
    assert facts(index_of(opened)) == facts(index_of(memory))
    assert opened.config == memory.config
    assert opened.info()["fingerprint"] == memory.info()["fingerprint"]
    assert opened.banks == ("house", "boat")


def test_searches_give_the_same_evidence_and_scores(tmp_path: Path) -> None:
    memory = filled()
    before = answers(memory)
    memory.save(tmp_path)
    assert any(evidence for _, evidence in before)
    assert answers(reopen(tmp_path)) == before


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
def test_every_text_comes_back_as_it_was(tmp_path: Path, text: str) -> None:
    memory = small_memory()
    named = text or "x"
    given = dict.fromkeys(("id", "bank", "session"), named)
    given |= dict.fromkeys(("speaker", "role", "source", "caption"), named if named.strip() else "x")
    time = "2020-01-01T00:00:00.000001Z"
    memory.add(Trace(text=text, time=time, entities=(named, text), metadata={named: text}, **given))
    memory.save(tmp_path)
    opened = reopen(tmp_path)
    (bank,) = index_of(opened).banks.values()
    (trace,) = index_of(opened).column(bank, "traces", "trace")
    assert (trace.text, trace.id, trace.entities, trace.metadata) == (
        text, named, (named, text), json.loads(json.dumps({named: text})),
    )  # fmt: skip
    assert facts(index_of(opened)) == facts(index_of(memory))


def test_a_megabyte_of_metadata_comes_back(tmp_path: Path) -> None:
    memory = small_memory()
    metadata = {"blob": "x" * (1 << 20), "deep": [[[[[]]]]], "n": 1e308}
    memory.add(Trace("a", "Ada sings.", metadata=metadata))
    memory.save(tmp_path)
    (found,) = reopen(tmp_path).search("Ada sings?").evidence
    assert found.trace.metadata == metadata


def test_absent_fields_stay_none(tmp_path: Path) -> None:
    memory = small_memory()
    memory.add(Trace("a", "Ada sings."))
    memory.save(tmp_path)
    (found,) = reopen(tmp_path).search("Ada sings?").evidence
    given = found.trace
    assert given == Trace("a", "Ada sings.", turn=0)
    assert (given.time, given.speaker, given.role, given.source, given.caption) == (None,) * 5


def test_adding_after_opening_is_adding_without_saving(tmp_path: Path) -> None:
    memory = filled()
    memory.save(tmp_path)
    opened = reopen(tmp_path)
    untouched = index_of(opened)
    before = facts(untouched)
    more = [
        Trace("t4", "Ada sold the hive to Dora.", "house", "s1", speaker="Ada"),
        Trace("t2", "Bob asked Ada about wax.", "house", "s1", speaker="Bob"),
        Trace("n1", "Nina plays chess.", "new"),
    ]
    assert opened.add(more).updated == memory.add(more).updated == 1
    for at in range(40):  # grows the regions that were made anew
        extra = Trace(f"x{at}", f"Ada counted {at} bees.", "house", f"s{at}")
        opened.add(extra)
        memory.add(extra)
    assert facts(index_of(opened)) == facts(index_of(memory))
    assert answers(opened) == answers(memory)
    assert facts(untouched) == before
    assert facts(index_of(reopen(tmp_path))) == before


def test_the_same_traces_again_change_nothing(tmp_path: Path) -> None:
    filled().save(tmp_path)
    report = reopen(tmp_path).add(chat())
    assert (report.added, report.updated, report.unchanged) == (0, 0, 4)


def test_hidden_units_and_the_rows_they_left_come_back(tmp_path: Path) -> None:
    memory = filled()
    memory.add(Trace("t1", "Ada keeps goats in Basel now.", "house", "s1", speaker="Ada"))
    assert index_of(memory).banks["house"].dead.tolist() == [0]
    memory.save(tmp_path)
    opened = reopen(tmp_path)
    assert facts(index_of(opened)) == facts(index_of(memory))
    assert answers(opened) == answers(memory)


def test_encoded_windows_come_back(tmp_path: Path) -> None:
    memory = small_memory(Config(window_vectors="encoded"))
    memory.add([Trace(f"t{at}", f"Ada counted {at} bees.", speaker="Ada") for at in range(9)])
    memory.save(tmp_path)
    opened = reopen(tmp_path)
    assert index_of(opened).banks["default"].spans["spans"].length > 0
    assert opened.search("How many bees?").evidence == memory.search("How many bees?").evidence


def test_an_empty_memory_can_be_saved_opened_and_filled(tmp_path: Path) -> None:
    small_memory().save(tmp_path)
    opened = reopen(tmp_path)
    assert opened.banks == ()
    assert opened.search("Anything?").evidence == ()
    opened.add(chat())
    assert answers(opened) == answers(filled())


def test_three_hundred_banks_are_a_few_files(tmp_path: Path) -> None:
    memory = small_memory()
    memory.add([
        Trace(f"t{at}", f"Ada{bank} likes number {at}.", f"b{bank}", speaker=f"Ada{bank}")
        for at in range(3) for bank in range(300) if at <= bank % 3
    ])  # fmt: skip
    memory.save(tmp_path)
    assert sorted(path.name for path in (tmp_path / "v0001").iterdir()) == sorted([*FILES, "manifest.json"])
    opened = reopen(tmp_path)
    assert facts(index_of(opened)) == facts(index_of(memory))
    assert len(index_of(opened).banks["b299"].ids) == 3
    assert opened.search("What does Ada7 like?", bank="b7").evidence == (
        memory.search("What does Ada7 like?", bank="b7").evidence
    )


def test_the_last_two_versions_are_kept_and_nothing_else(tmp_path: Path) -> None:
    memory = filled()
    for wanted in (["v0001"], ["v0001", "v0002"], ["v0002", "v0003"], ["v0003", "v0004"]):
        memory.save(tmp_path)
        assert versions(tmp_path) == wanted
        assert (tmp_path / "CURRENT").read_text() == f"{wanted[-1]}\n"
    assert {path.name for path in tmp_path.iterdir()} == {"CURRENT", ".lock", "v0003", "v0004"}


def test_an_opened_memory_is_saved_to_its_own_directory_and_elsewhere(tmp_path: Path) -> None:
    filled().save(tmp_path / "a")
    opened = reopen(tmp_path / "a")
    opened.add(Trace("t9", "Dora paints.", "art"))
    opened.save(tmp_path / "a")
    opened.save(tmp_path / "deep" / "er" / "b")
    opened.save(tmp_path / "a")  # the version that is mapped goes away under it
    opened.save(tmp_path / "a")
    wanted = facts(index_of(opened))
    assert versions(tmp_path / "a") == ["v0003", "v0004"]
    assert facts(index_of(reopen(tmp_path / "a"))) == wanted
    assert facts(index_of(reopen(tmp_path / "deep" / "er" / "b"))) == wanted


def test_the_same_index_gives_the_same_bytes(tmp_path: Path) -> None:
    filled().save(tmp_path / "a")
    reopen(tmp_path / "a").save(tmp_path / "b")
    for name in FILES:
        assert (tmp_path / "a/v0001" / name).read_bytes() == (tmp_path / "b/v0001" / name).read_bytes()


def test_the_files_are_what_their_names_say(tmp_path: Path) -> None:
    memory = filled()
    memory.save(tmp_path)
    index, folder = index_of(memory), tmp_path / "v0001"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["counts"]["banks"] == 2
    assert manifest["counts"]["traces"] == 4
    assert pq.read_table(folder / "traces.parquet")["id"].to_pylist() == [b"t1", b"t2", b"t3", b"t1"]
    vectors = load_file(folder / "vectors.safetensors")
    units = np.concatenate([index.column(bank, "units", "vector") for bank in index.banks.values()])
    np.testing.assert_array_equal(vectors["units.vector"], units)
    words = load_file(folder / "facts.safetensors")["tokens.raw"]
    assert words.dtype == np.int64
    assert len(words) == manifest["counts"]["tokens"]


def test_vectors_are_mapped_not_read(tmp_path: Path) -> None:
    filled().save(tmp_path)
    opened = reopen(tmp_path)
    assert "vectors.safetensors" in Path("/proc/self/maps").read_text()
    assert opened.banks == ("house", "boat")


def test_writing_into_an_opened_array_leaves_the_file_alone(tmp_path: Path) -> None:
    filled().save(tmp_path)
    before = (tmp_path / "v0001/vectors.safetensors").read_bytes()
    index, _, _ = open_index(tmp_path)
    index.column(index.banks["house"], "units", "vector")[:] = 7
    assert (tmp_path / "v0001/vectors.safetensors").read_bytes() == before


def test_banks_of_one_index_keep_apart_after_opening(tmp_path: Path) -> None:
    filled().save(tmp_path)
    index, config, fingerprint = open_index(tmp_path)
    assert (config, fingerprint["encoder"]) == (Config(), "hash")
    offsets = [bank.spans["traces"] for bank in index.banks.values()]
    assert offsets == [Span(0, 3, 3), Span(3, 1, 1)]


def test_another_encoder_is_refused_by_both_names(tmp_path: Path) -> None:
    filled().save(tmp_path)
    opened = reopen(tmp_path, encoder=HashEncoder(dim=16))
    with pytest.raises(InvalidInput, match=r"hash@1/16.*hash@1/32"):
        opened.search("Where is Ada?", bank="house")
    with pytest.raises(InvalidInput, match=r"hash@1/16.*hash@1/32"):
        opened.add(Trace("z", "Zoe."))
    assert opened.banks == ("house", "boat")


@pytest.mark.parametrize("kind", ["missing", "empty", "file", "foreign"])
def test_what_is_no_index_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("hello")
    elif kind != "missing":
        place.mkdir()
    if kind == "foreign":
        (place / "notes.txt").write_text("hello")
        (place / "v0001").mkdir()
    with pytest.raises(StoreError, match="place"):
        Memory.open(place)
    if kind == "file":
        with pytest.raises(StoreError, match="place"):
            filled().save(place)
        assert place.read_text() == "hello"


def test_saving_removes_no_files_of_others(tmp_path: Path) -> None:
    (tmp_path / "v0001").mkdir()
    (tmp_path / "v0001" / "mine.txt").write_text("keep")
    (tmp_path / "notes.txt").write_text("keep")
    memory = filled()
    for _ in range(3):
        memory.save(tmp_path)
    assert (tmp_path / "v0001" / "mine.txt").read_text() == "keep"
    assert (tmp_path / "notes.txt").read_text() == "keep"
    assert versions(tmp_path) == ["v0001", "v0003", "v0004"]


def test_adopted_rows_are_never_written() -> None:
    schema = {"x": (np.int64, ()), "v": (np.float32, (2,))}
    columns = {"x": np.arange(5), "v": np.zeros((5, 2), np.float32)}
    for array in columns.values():
        array.flags.writeable = False
    arena = Arena.adopt(schema, columns)
    first, second = Span(0, 2, 2), Span(2, 3, 3)
    assert np.shares_memory(arena.column("x", second), columns["x"])
    grown = second
    for at in range(10, 40):
        grown = arena.append(grown, {"x": np.array([at]), "v": np.ones((1, 2), np.float32)})
    other = arena.append(Span(), {"x": np.array([7, 8]), "v": np.zeros((2, 2), np.float32)})
    assert arena.column("x", first).tolist() == [0, 1]
    assert arena.column("x", second).tolist() == [2, 3, 4]
    assert arena.column("x", grown).tolist() == [2, 3, 4, *range(10, 40)]
    assert arena.column("x", other).tolist() == [7, 8]
    assert arena.view(Span())["v"].shape == (0, 2)
    assert arena.append(first, {"x": np.empty(0, np.int64), "v": np.empty((0, 2), np.float32)}) == first


def test_an_index_of_no_rows_keeps_its_width(tmp_path: Path) -> None:
    save_index(tmp_path, MemoryIndex.empty(32), Config(), FINGERPRINT)
    index, _, fingerprint = open_index(tmp_path)
    assert (index.dim, dict(index.banks), fingerprint) == (32, {}, FINGERPRINT)
