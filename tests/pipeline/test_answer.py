"""Answer calibration: what it corrects, what it leaves alone, and that it never invents or repeats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeromem_gpu import Evidence, Memory, QueryProfile, SearchResult, Trace, calibrate_answer
from zeromem_gpu.evaluate.answers import gam
from zeromem_gpu.evaluate.bootstrap import difference
from zeromem_gpu.evaluate.datasets import LOCOMO_TUNING, load_locomo

PARTY = ("1", "The party was last week and Ann baked two cakes.", "Ann", "2024-05-20T10:00:00")
TRIP = ("2", "Yesterday I bought a red kayak in Bergen.", "Bob", "2024-06-03T10:00:00")
PETS = ("3", "My dogs are called Rex and Luna, my cat Minka.", "Ann", "2024-06-10T10:00:00")


def found(
    question: str, kind: str, *told: tuple[str, str, str, str], subjects: tuple[str, ...] = ()
) -> SearchResult:
    """A result as a search would give it."""
    evidence = tuple(
        Evidence(Trace(id=i, text=text, speaker=who, time=when), 1.0, 1.0, 1.0, "primary", 0, len(text))
        for i, text, who, when in told
    )
    return SearchResult(question, "b", QueryProfile(question, subjects, answer_type=kind), evidence)


CASES = {
    "told-day-becomes-the-day-meant": (
        found("When did Bob buy a kayak?", "date", TRIP, subjects=("Bob",)),
        "3 June, 2024", "2 June 2024", "date-as-told",
    ),
    "a-day-that-no-calendar-has": (
        found("When did Bob buy a kayak?", "date", TRIP), "31 February 2024", "2 June 2024", "only-date",
    ),
    "a-day-inside-last-week": (
        found("When was the party?", "date", PARTY),
        "Last week, on 15 May 2024.", "the week before 20 May 2024", "date-as-told",
    ),
    "nothing-but-the-date": (
        found("When did they meet?", "date", ("9", "We met at noon.", "Ann", "2024-01-05T10:00:00")),
        "They met on 5 January, 2024, I think.", "5 January 2024", "date-form",
    ),
    "restated-question": (
        found("What are the names of Ann's dogs?", "list", PETS, subjects=("Ann",)),
        "Ann's dogs are named Rex and Luna.", "Rex and Luna.", "restated-question",
    ),
    "lead-in": (
        found("What did Bob buy?", "entity", TRIP), "The answer is a red kayak", "a red kayak", "lead-in",
    ),
    "aside": (
        found("Where did Bob buy a kayak?", "place", TRIP),
        "Bergen (on the third of June)", "Bergen", "aside",
    ),
    "number-of-the-evidence": (
        found("How many cakes were there?", "count", ("4", "We had 12 cakes there.", "Ann", "2024-05-20")),
        "There were 15", "There were 12", "only-number",
    ),
    "unsupported-item": (
        found("Which pets does Ann have?", "list", PETS), "Rex, Luna, Minka and Bello", "Rex, Luna, Minka",
        "unsupported-item",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("result", "said", "expected", "rule"), CASES.values(), ids=CASES.keys())
def test_what_the_evidence_corrects(result: SearchResult, said: str, expected: str, rule: str) -> None:
    text, changes = calibrate_answer(said, result)
    assert text == expected
    assert rule in [one.rule for one in changes]
    assert changes[0].before == said
    assert changes[-1].after == expected
    assert all(trace in {one.trace.id for one in result} for change in changes for trace in change.evidence)
    assert calibrate_answer(text, result) == (text, ())


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (found("When did Bob buy a kayak?", "date", TRIP), "2 June 2024"),
        (found("What did Bob buy?", "entity", TRIP), "a red kayak"),
        (
            found("Why did Bob buy it?", "reason", TRIP),
            "The answer is that Bob bought it because he likes red.",
        ),
        (found("How does Ann feel?", "description", PARTY), "Ann's feelings are mixed."),
        (found("Would Bob move?", "inference", TRIP), "Bob would likely move in 3 June 2024"),
        (found("Which pets?", "list", PETS), "Bello and Fido"),
        (found("How many cakes?", "count", PARTY), "two"),
        (found("When was it?", "date"), "no idea"),
        (found("Who?", "person", PARTY), ""),
        (found("Who?", "person", PARTY), "word " * 10_000),
        (found("Who?", "person", PARTY), '{"answer": '),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_what_stays(result: SearchResult, said: str) -> None:
    assert calibrate_answer(said, result) == (said, ())


KINDS = ["date", "count", "list", "person", "entity", "choice", "yes/no", "reason"]


@given(st.text(max_size=200), st.sampled_from(KINDS))
def test_any_text_gives_an_answer_and_a_second_pass_changes_nothing(said: str, kind: str) -> None:
    result = found("When did Ann buy cakes?", kind, PARTY, TRIP, PETS, subjects=("Ann",))
    once, _ = calibrate_answer(said, result)
    assert calibrate_answer(once, result)[0] == once
    assert bool(once.strip()) == bool(said.strip())


def test_it_helps_recorded_answers_of_the_reporting_conversations(data_dir: Path, cache_dir: Path) -> None:
    bank = "conv-42"
    assert bank not in LOCOMO_TUNING
    dataset = load_locomo(data_dir / "locomo", conversations=[bank])
    lines = (data_dir / "locomo" / "reader_answers_gpt4o_mini.jsonl").read_text("utf-8").splitlines()
    said = {(row["sample_id"], row["qa_index"]): row for row in map(json.loads, lines)}
    memory = Memory(encoder="minilm", device="cpu", cache_dir=cache_dir)
    memory.add(dataset.traces)
    results = memory.search([question.text for question in dataset.questions], bank=bank, top_k=10)
    before, after = [], []
    for question, result in zip(dataset.questions, results, strict=True):
        row = said[question.bank, question.index]
        text, _ = calibrate_answer(str(row["answer"]), result)
        before.append(gam(str(row["answer"]), str(row["gold"]))["f1"])
        after.append(gam(text, str(row["gold"]))["f1"])
    assert np.mean(after) - np.mean(before) >= 0.01
    assert difference(before, after).low > 0
