"""Deleting, purging and compacting: what is left is as if the rest had never been there."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typer.testing import CliRunner

from tests.support import HashEncoder, NameExtractor, small_memory
from zeromem_gpu import Boundary, Config, Memory, Trace
from zeromem_gpu.build.views import bank_view
from zeromem_gpu.cli import app
from zeromem_gpu.errors import InvalidInput

MORE = tuple(f"x{at}" for at in range(40))
QUESTIONS = ("What did Ann say about the kayak?", "Who met Bob in Bergen?", "When did it rain?")
WORDS = ("kayak", "Bergen", "Ann", "rain", "cake", "met Bob", "Oslo", "on Monday", "Cleo", "12 boats")
SECRET = "zebra"

texts = st.lists(st.sampled_from(WORDS), min_size=0, max_size=6).map(lambda words: " ".join(words) + ".")
traces = st.builds(
    Trace,
    id=st.sampled_from("abcdefgh"),
    text=texts,
    bank=st.sampled_from(("one", "two")),
    session=st.sampled_from(("s1", "s2", "s3")),
    turn=st.integers(0, 5),
    time=st.one_of(st.none(), st.integers(1, 28).map(lambda day: f"2023-05-{day:02d}T10:00:00")),
    speaker=st.sampled_from((None, "Ann", "Bob")),
    entities=st.sampled_from(((), ("Bergen",), ("Oslo", "Cleo"))),
)


def found(memory: Memory, bank: str) -> list[list[tuple[str, int, str]]]:
    return [
        [(one.trace.id, one.start, one.rule) for one in result]
        for result in memory.search(QUESTIONS, bank=bank, top_k=4)
    ]


def scores(memory: Memory, bank: str) -> list[float]:
    return [one.score for result in memory.search(QUESTIONS, bank=bank, top_k=4) for one in result]


def same_view(memory: Memory, fresh: Memory, bank: str) -> None:
    """What a search reads of a bank is bit for bit what it reads of one that was built at once."""
    views = []
    for one in (memory, fresh):
        assert one._index is not None
        views.append(bank_view(one._index, one._index.banks[bank], one.config))
    grown, built = views

    def same(mine: object, other: object, *names: str) -> None:
        for name in names:
            np.testing.assert_array_equal(getattr(mine, name), getattr(other, name), name)

    same(grown.rows, built.rows, "session", "bounds", "time", "speaker", "types", "words_ptr", "replies")
    same(grown.rows, built.rows, "entity_keys", "sentence_ptr", "sentence_unit", "words")
    same(grown, built, "speaks")
    for name in ("vectors", "sentence_vectors", "entity_vectors"):
        mine, other = (getattr(view.rows, name) for view in views)
        at = np.arange(len(other.stored if other.rows is None else other.rows))
        np.testing.assert_array_equal(mine.take(at), other.take(at), name)
    for name in ("spans", "windows", "episodes"):
        mine, other = (getattr(view.levels, name) for view in views)
        same(mine, other, "first", "end", "low", "high", "inverse_norm", "words")
        same(mine.members, other.members, "indptr", "indices", "weights")
    same(grown.levels, built.levels, "episode_of", "cosine")
    tables = (
        "windows_of_unit",
        "neighbours",
        "incidence",
        "incidence_transposed",
        "given",
        "told",
        "replies",
    )
    for name in tables:
        same(getattr(grown, name), getattr(built, name), "indptr", "indices", "weights")
    same(grown.graph.weights, built.graph.weights, "indptr", "indices", "weights")
    same(grown.graph, built.graph, "degree", "colours", "colour_sizes")


def stored_turn(memory: Memory, trace: Trace) -> int | None:
    """The turn that a memory gave a trace."""
    assert memory._index is not None
    bank = memory._index.banks[trace.bank]
    stored: Trace = memory._index.column(bank, "traces", "trace")[bank.ids[trace.id]]
    return stored.turn


class Forgetting(RuleBasedStateMachine):
    """A memory beside a plain dictionary of what should be in it."""

    @initialize(windows=st.sampled_from(("pooled", "encoded")), learned=st.sampled_from((0.0, 1.3)))
    def begin(self, windows: str, learned: float) -> None:
        self.config = Config(
            window_vectors=windows, learned_weights=learned > 0, learned=learned, graph_learned=learned
        )
        self.memory = small_memory(self.config)
        self.kept: dict[str, dict[str, Trace]] = {}

    def _drop(self, gone: list[Trace]) -> None:
        for trace in gone:
            del self.kept[trace.bank][trace.id]
            if not self.kept[trace.bank]:
                del self.kept[trace.bank]

    def _all(self) -> list[Trace]:
        return [trace for bank in self.kept.values() for trace in bank.values()]

    @rule(given=st.lists(traces, min_size=1, max_size=5))
    def add(self, given: list[Trace]) -> None:
        self.memory.add(given)
        for trace in given:
            self.kept.setdefault(trace.bank, {})[trace.id] = trace

    @rule(
        given=st.lists(traces, min_size=1, max_size=3),
        first=st.integers(0, len(MORE) - 1),
        turn=st.booleans(),
    )
    def append(self, given: list[Trace], first: int, turn: bool) -> None:
        """One at a time, a search after each; without a turn it goes to the end of its session."""
        for at, trace in enumerate(given):
            named = replace(trace, id=MORE[(first + at) % len(MORE)], turn=trace.turn if turn else None)
            self.memory.add(named)
            mine = self.kept.setdefault(named.bank, {})
            mine[named.id] = replace(named, turn=stored_turn(self.memory, named))
            found(self.memory, named.bank)

    @rule(ids=st.lists(st.sampled_from("abcdefgh"), max_size=3), bank=st.sampled_from(("one", "two")))
    def delete_ids(self, ids: list[str], bank: str) -> None:
        gone = [trace for trace in self._all() if trace.bank == bank and trace.id in ids]
        assert self.memory.delete(ids, bank=bank) == len(gone)
        self._drop(gone)

    @rule(session=st.sampled_from(("s1", "s2")), bank=st.sampled_from(("one", "two")))
    def delete_session(self, session: str, bank: str) -> None:
        gone = [trace for trace in self._all() if trace.bank == bank and trace.session == session]
        assert self.memory.delete(bank=bank, sessions=session) == len(gone)
        self._drop(gone)

    @rule(day=st.integers(1, 20))
    def delete_old(self, day: int) -> None:
        moment = f"2023-05-{day:02d}T10:00:00"
        gone = [trace for trace in self._all() if trace.time is not None and str(trace.time) < moment]
        assert self.memory.delete(before=moment) == len(gone)
        self._drop(gone)

    @rule(bank=st.sampled_from(("one", "two", "three")))
    def delete_bank(self, bank: str) -> None:
        gone = [trace for trace in self._all() if trace.bank == bank]
        assert self.memory.delete(bank=bank) == len(gone)
        self._drop(gone)

    @rule()
    def compact(self) -> None:
        self.memory.compact()

    @rule()
    def save_and_open(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.memory.save(folder)
            self.memory = Memory.open(
                folder, encoder=HashEncoder(), extractor=NameExtractor(), cache_dir=False, device="cpu"
            )
            # the arrays are mapped from files that are about to go
            self.memory.compact()

    @invariant()
    def equals_a_fresh_build(self) -> None:
        fresh = small_memory(self.config)
        for bank in self.kept.values():
            fresh.add(list(bank.values()))
        assert sorted(self.memory.banks) == sorted(self.kept)
        assert self.memory.info()["traces"] == fresh.info()["traces"]
        for bank in self.kept:
            assert found(self.memory, bank) == found(fresh, bank)
            np.testing.assert_array_equal(scores(self.memory, bank), scores(fresh, bank))
            same_view(self.memory, fresh, bank)
            for boundary in (Boundary(sessions="s1"), Boundary(speakers="Ann", after="2023-05-05")):
                within = [
                    one.search(QUESTIONS, bank=bank, boundary=boundary) for one in (self.memory, fresh)
                ]
                mine, other = ([[e.trace.id for e in result] for result in results] for results in within)
                assert mine == other


Forgetting.TestCase.settings = settings(
    max_examples=12, stateful_step_count=8, deadline=None, derandomize=True
)
TestForgetting = Forgetting.TestCase


def some() -> list[Trace]:
    days = ("2023-05-01", "2023-05-02", "2023-05-03", None)
    return [
        Trace(
            f"t{i}",
            f"Ann met Bob {i} times, {SECRET if i == 1 else 'kayak'}.",
            "b",
            f"s{i % 2}",
            i,
            day,
            "Ann",
        )
        for i, day in enumerate(days)
    ]


def test_an_id_that_comes_back_after_its_deletion_comes_last(tmp_path: Path) -> None:
    memory = small_memory()
    given = [replace(trace, session="s", turn=0) for trace in some()]
    memory.add(given)
    memory.delete("t0", bank="b")
    memory.add(given[0])
    expected = small_memory()
    expected.add([*given[1:], given[0]])
    assert found(memory, "b") == found(expected, "b")
    memory.save(tmp_path / "m")
    opened = Memory.open(tmp_path / "m", encoder=HashEncoder(), extractor=NameExtractor(), cache_dir=False)
    assert found(opened, "b") == found(expected, "b")


def test_conditions_add_up() -> None:
    memory = small_memory()
    memory.add(some())
    assert memory.delete(sessions="s1", before="2023-05-03") == 1
    assert memory.delete("t0", sessions="s1") == 0
    assert memory.delete(before="2023-05-01") == 0
    assert memory.info()["traces"] == 3
    assert [one.trace.id for one in memory.search("How often?", bank="b", top_k=9)] != []


def test_a_search_under_way_keeps_its_version() -> None:
    memory = small_memory()
    memory.add(some())
    before = memory._index
    assert before is not None
    memory.delete(bank="b")
    assert memory.banks == ()
    assert len(before.banks["b"].ids) == 4
    assert memory.search("Who met Bob?", bank="b").evidence == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({}, "no condition"),
        ({"ids": [""]}, "ids"),
        ({"ids": 3}, "ids"),
        ({"sessions": [None]}, "sessions"),
        ({"bank": ""}, "bank"),
        ({"before": "31 February 2023"}, "time|before"),
        ({"ids": "t0"}, "one of the 2 banks"),
    ],
)
def test_bad_conditions_forget_nothing(call: dict[str, object], message: str) -> None:
    memory = small_memory()
    memory.add([*some(), Trace("x", "Oslo.", "c")])
    with pytest.raises(InvalidInput, match=message):
        memory.delete(**call)  # type: ignore[arg-type]
    assert memory.info()["traces"] == 5


def test_update_wants_ids_that_are_there() -> None:
    memory = small_memory()
    memory.add(some())
    assert memory.update(replace(some()[0], text="Ann met nobody.")).updated == 1
    with pytest.raises(InvalidInput, match="traces: got int"):
        memory.update(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="id 'new' in bank 'b'"):
        memory.update(Trace("new", "Oslo.", "b"))


def test_compacting_leaves_no_row_of_what_is_gone() -> None:
    memory = small_memory()
    memory.add(some())
    memory.add(replace(some()[2], text="Ann bought a cake."))
    memory.delete("t1")
    before = found(memory, "b")
    assert memory.compact() > 0
    index = memory._index
    assert index is not None
    bank = index.banks["b"]
    assert len(bank.dead) == 0
    texts = [trace.text for trace in index.column(bank, "traces", "trace")]
    assert len(texts) == 3
    assert SECRET not in " ".join(texts)
    assert found(memory, "b") == before


def test_purging_leaves_nothing_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    memory = small_memory()
    memory.add(some())
    memory.save(folder)
    memory.save(folder)  # two versions hold it
    ran = CliRunner().invoke(app, ["purge", str(folder), "--before", "2023-05-03"])
    assert ran.exit_code == 0, ran.output
    assert "2 traces forgotten, 2 left" in ran.output
    assert len(list(folder.glob("v*"))) == 1
    left = Memory.open(folder, encoder=HashEncoder(), extractor=NameExtractor(), cache_dir=False)
    assert {one.trace.id for one in left.search(SECRET, bank="b", top_k=9)} == {"t2", "t3"}
    for path in folder.rglob("*.parquet"):
        assert SECRET not in str(pq.read_table(path).to_pydict())
