"""What one bank holds changes nothing in another, and no words of anybody's reach logs or errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.test_batch_invariance import ExactEncoder
from tests.support import HashEncoder, small_memory
from zeromem_gpu import Boundary, Config, Memory, StoreError, Trace, ZeroMemError

WORDS = ("kayak", "Bergen", "Ann", "rain", "cake", "met Bob", "Oslo", "on Monday", "Cleo", "12 boats", "?")
QUESTIONS = ("What did Ann say about the kayak?", "Who met Bob in Bergen?", "When did it rain in Oslo?")

texts = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)


def bank_of(name: str) -> st.SearchStrategy[list[Trace]]:
    trace = st.builds(
        Trace, id=st.sampled_from("abcdefgh"), text=texts, bank=st.just(name),
        session=st.sampled_from(("s1", "s2")), turn=st.integers(0, 9),
        time=st.sampled_from((None, "2023-05-01", "2023-05-09T10:00:00+02:00")),
        speaker=st.sampled_from((None, "Ann", "Bob")), caption=st.sampled_from((None, "a kayak")),
        entities=st.sampled_from(((), ("Bergen",), ("Oslo", "Cleo"))),
    )  # fmt: skip
    return st.lists(trace, max_size=9)


def answers(memory: Memory, bank: str, beside: Sequence[str] = ()) -> list[Any]:
    """Evidence with every score; questions to other banks may be in the same batch."""
    banks = [*([bank] * len(QUESTIONS)), *beside]
    found = memory.search([*QUESTIONS, *QUESTIONS[: len(beside)]], bank=banks, top_k=4)
    return [result.evidence for result in found[: len(QUESTIONS)]]


@settings(max_examples=15, deadline=None, derandomize=True)
@given(mine=bank_of("mine"), theirs=bank_of("theirs"), later=bank_of("theirs"))
def test_scores_of_a_bank_do_not_depend_on_another(
    mine: list[Trace], theirs: list[Trace], later: list[Trace]
) -> None:
    """To the last bit, whatever the other bank holds, gains or loses, asked alone or in one batch."""
    alone = small_memory(encoder=ExactEncoder(48))
    alone.add(mine)
    wanted = answers(alone, "mine")
    shared = small_memory(encoder=ExactEncoder(48))
    shared.add(theirs)
    shared.add(mine)
    assert answers(shared, "mine") == wanted
    shared.add(later)
    assert answers(shared, "mine", beside=["theirs", "nobody"]) == wanted
    shared.delete(bank="theirs")
    assert answers(shared, "mine") == wanted
    shared.compact()
    assert answers(shared, "mine") == wanted


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    mine=bank_of("mine"), theirs=bank_of("theirs"),
    sessions=st.sampled_from((None, ("s1",), ("s2",))), speakers=st.sampled_from((None, ("Ann",))),
    after=st.sampled_from((None, "2023-05-05")),
)  # fmt: skip
def test_nothing_outside_bank_and_boundary_comes_back(
    mine: list[Trace], theirs: list[Trace],
    sessions: tuple[str, ...] | None, speakers: tuple[str, ...] | None, after: str | None,
) -> None:  # fmt: skip
    """Closure, which adds neighbours and holders of a name, included."""
    memory = small_memory(Config(closure_graph=50, closure_neighbours=9))
    memory.add([*mine, *theirs])
    boundary = Boundary(sessions, speakers, after)
    results = memory.search(QUESTIONS, bank="mine", boundary=boundary, top_k=2)
    for one in (one for result in results for one in result):
        assert one.trace.bank == "mine"
        assert sessions is None or one.trace.session in sessions
        assert speakers is None or one.trace.speaker in speakers
        assert after is None or str(one.trace.time) >= after


# -- words stay out of logs and errors --

SECRET = "zebracrossing"


class Broken(HashEncoder):
    """Cannot read the secret."""

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """NaN for texts that tell it."""
        rows = super().encode(texts)
        rows[[SECRET in text for text in texts]] = np.nan
        return rows


def told() -> Memory:
    memory = small_memory(encoder=Broken())
    memory.add([Trace("t1", f"Ann keeps a {SECRET}.", "b", speaker="Ann"), Trace("t2", "Bob sails.", "b")])
    return memory


FAULTS: dict[str, Callable[[Memory], Any]] = {
    "question without a vector": lambda m: m.search(f"Where is the {SECRET}?", bank="b"),
    "question as bytes": lambda m: m.search([SECRET.encode()], bank="b"),  # type: ignore[list-item]
    "question as bytes alone": lambda m: m.search(SECRET.encode(), bank="b"),  # type: ignore[call-overload]
    "texts as one": lambda m: m.encode(SECRET),
    "text as bytes": lambda m: m.add(Trace("x", SECRET.encode())),  # type: ignore[arg-type]
    "entities as one": lambda m: m.add(Trace("x", "y", entities=SECRET)),  # type: ignore[arg-type]
    "metadata as text": lambda m: m.add(Trace("x", "y", metadata=SECRET)),  # type: ignore[arg-type]
    "metadata of objects": lambda m: m.add(Trace("x", SECRET, metadata={SECRET: object()})),
    "turn below 0": lambda m: m.add(Trace("x", SECRET, turn=-1)),
    "unknown update": lambda m: m.update(Trace("x", SECRET)),
    "two surrogates": lambda m: (
        m.add(Trace("x", f"{SECRET} \ud83d\ude00")), m.export_traces(Path("/nowhere/x"), bank="default")
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_errors_hold_no_words(fault: Callable[[Memory], Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    memory = told()
    with pytest.raises((ZeroMemError, OSError)) as error:
        fault(memory)
    assert SECRET not in str(error.value)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("line", ['{"id": 1, "text": "%s"}', '{"id": "a", "text": ["%s"]}', '{"text": "%s"',
                                  '{"id": "a", "text": "x", "speaker": {"%s": 1}}', '["%s"]'])  # fmt: skip
def test_lines_that_cannot_be_read_are_named_by_number(tmp_path: Path, line: str) -> None:
    from zeromem_gpu import read_traces

    path = tmp_path / "t.jsonl"
    path.write_text('{"id": "0", "text": "x"}\n' + line % SECRET + "\n")
    with pytest.raises(ZeroMemError, match=r"t\.jsonl:2") as error:
        list(read_traces(path))
    assert SECRET not in str(error.value)


def test_logs_of_a_life_hold_no_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Everything at debug level: adding, quarantine, searching, saving, damage, opening, forgetting."""
    caplog.set_level(logging.DEBUG)
    memory = told()
    memory.search("Who sails?", bank="b")
    memory.ask("Who sails?", bank="b", reader=lambda prompt: 1 / 0)
    memory.save(tmp_path)
    memory.save(tmp_path)
    for name in ("traces.parquet", "units.parquet"):
        path = tmp_path / "v0002" / name
        path.write_bytes(path.read_bytes()[:-9])
    from zeromem_gpu.store import inspect_directory, open_index, stored_traces

    open_index(tmp_path)
    assert [trace.id for trace in stored_traces(tmp_path)] == ["t1", "t2"]
    findings = inspect_directory(tmp_path)
    (tmp_path / "v0001" / "traces.parquet").write_bytes(b"")
    with pytest.raises(StoreError) as error:
        open_index(tmp_path)
    memory.delete("t1", bank="b")
    memory.compact()
    assert "older version" in caplog.text
    for said in (caplog.text, str(error.value), repr(findings)):
        assert SECRET not in said
        assert "Ann" not in said
