"""The shipped conversation is what the demo promises: long, dated, consistent, every answer to be found."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from zeromem_gpu.demo import CONVERSATION, QUESTIONS

TRACE_FIELDS = {"id", "bank", "session", "turn", "time", "speaker", "text"}


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def turns() -> list[dict[str, Any]]:
    return _rows(CONVERSATION)


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    return _rows(QUESTIONS)


def test_conversation_is_long_enough(turns: list[dict[str, Any]]) -> None:
    assert len(turns) >= 200
    assert len({turn["session"] for turn in turns}) >= 8
    assert {turn["speaker"] for turn in turns} == {"Ines", "Owen"}


def test_every_turn_is_one_complete_trace(turns: list[dict[str, Any]]) -> None:
    for turn in turns:
        assert set(turn) - {"caption"} == TRACE_FIELDS, turn["id"]
        assert turn["bank"] == "demo", turn["id"]
        assert turn["text"].strip(), turn["id"]


def test_ids_are_unique_and_name_their_place(turns: list[dict[str, Any]]) -> None:
    assert max(Counter(turn["id"] for turn in turns).values()) == 1
    for turn in turns:
        assert turn["id"] == f"D{turn['session'][1:]}:{turn['turn']}"


def test_time_only_moves_forward(turns: list[dict[str, Any]]) -> None:
    times = [datetime.fromisoformat(turn["time"]) for turn in turns]
    assert times == sorted(times)
    assert all(time.tzinfo is None for time in times)


def test_sessions_are_weeks_apart_and_turns_count_up(turns: list[dict[str, Any]]) -> None:
    sessions: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for turn in turns:
        sessions[turn["session"]].append(turn)
    starts = [datetime.fromisoformat(session[0]["time"]) for session in sessions.values()]
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert min(gap.days for gap in gaps) >= 14
    assert (starts[-1] - starts[0]).days >= 210
    for session in sessions.values():
        assert [turn["turn"] for turn in session] == list(range(1, len(session) + 1))


def test_hard_cases_of_chat_are_present(turns: list[dict[str, Any]]) -> None:
    assert sum("caption" in turn for turn in turns) >= 5
    assert any(ord(character) > 0x1F000 for turn in turns for character in turn["text"])
    text = " ".join(turn["text"] for turn in turns)
    for one, other in (("Porto", "Lisbon"), ("Biscuit", "Truffle")):
        assert min(text.count(one), text.count(other)) >= 5, (one, other)


def test_twenty_questions_point_at_turns_that_exist(
    turns: list[dict[str, Any]], questions: list[dict[str, Any]]
) -> None:
    ids = [turn["id"] for turn in turns]
    assert len(questions) == 20
    for row in questions:
        assert set(row) == {"question", "answer", "expected", "bank"}
        assert row["question"].endswith("?")
        assert row["answer"].strip()
        assert row["bank"] == "demo"
        assert row["expected"] == sorted(set(row["expected"]), key=ids.index), row["question"]
        assert row["expected"], row["question"]


def test_some_questions_need_a_chain_of_turns(questions: list[dict[str, Any]]) -> None:
    lengths = Counter(len(row["expected"]) for row in questions)
    assert lengths[1] >= 8
    assert lengths[2] + lengths[3] >= 6
    assert lengths[3] >= 2
    assert max(lengths) <= 3
