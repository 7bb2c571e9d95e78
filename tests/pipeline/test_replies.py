"""Question and answer in adjacent turns: a reply inherits how well the question before it fits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from tests.support import small_memory
from zeromem_gpu import Boundary, Config, Memory, Trace
from zeromem_gpu.build.views import bank_view


def memory_of(*turns: tuple[str | None, str], sessions: Iterable[str] = (), limit: int = 1000) -> Memory:
    memory = small_memory(Config(closure=False, calibrate=False, unit_chars=limit))
    places = list(sessions) or ["s"] * len(turns)
    memory.add(
        Trace(id=str(at), text=text, speaker=who, session=place, turn=at)
        for at, ((who, text), place) in enumerate(zip(turns, places, strict=True))
    )
    return memory


def replies(memory: Memory) -> list[int]:
    assert memory._index is not None
    rows = bank_view(memory._index, memory._index.banks["default"], memory.config).rows
    found: list[int] = rows.replies.tolist()
    return found


@pytest.mark.parametrize(
    ("text", "asks"),
    [("Why?", True), ("Why? Tell me.", False), ("“Why?!” ", True), ("何？", True), ("", False)],
)
def test_a_question_at_the_end_asks(text: str, asks: bool) -> None:
    memory = memory_of(("Ann", text), ("Bob", "Because."))
    assert replies(memory) == ([1] if asks else [])


def test_who_replies() -> None:
    """Another turn of the session by another speaker; turns without speakers count."""
    assert replies(memory_of(("Ann", "Why?"), ("Ann", "I wonder."))) == []
    assert replies(memory_of((None, "Why?"), (None, "Because."))) == [1]
    assert replies(memory_of(("Ann", "Why?"), ("Bob", "So."), sessions=("a", "b"))) == []
    split = memory_of((None, "Why is it so? It was like this before. Who knows?"), limit=40)
    assert replies(split) == [], "the rest of one trace does not reply to its beginning"
    late = memory_of(("Ann", "Why?"), ("Bob", "Because."))
    late.add(Trace(id="0", text="I see.", speaker="Ann", session="s", turn=0))
    assert replies(late) == [], "an update is what counts"


TURNS = (
    ("Ann", "Where did you buy the blue kettle?"),
    ("Bob", "Near the harbour, last spring."),
    *(("Ann" if at % 2 == 0 else "Bob", f"The {at} blue things were bought for that.") for at in range(8)),
)
QUESTION = "Where was the blue kettle bought?"


@pytest.mark.parametrize("views", ["graph", "hierarchy"])
def test_a_reply_comes_up(views: str) -> None:
    memory = memory_of(*TURNS)
    plain = {"chain_weight": 0.0, "window_share": 0.0, "episode_share": 0.0, "local_share": 0.0}
    config = memory.config.replace(views=views, **plain)
    with_it, without = (
        [one.trace.id for one in memory.search(QUESTION, config=config.replace(**change))]
        for change in ({"reply": 2.0, "graph_reply": 2.0}, {"reply": 0.0, "graph_reply": 0.0})
    )
    assert set(with_it[:2]) == {"0", "1"}
    assert "1" not in without[:2]


def test_a_hidden_question_adds_nothing() -> None:
    memory = memory_of(*TURNS)
    bob = Boundary(speakers="Bob")
    scores = [
        [
            one.hierarchy_score
            for one in memory.search(QUESTION, boundary=bob, config=memory.config.replace(reply=weight))
        ]
        for weight in (0.0, 5.0)
    ]
    assert np.allclose(np.array(scores[0], float), np.array(scores[1], float))


def test_a_date_is_told_where_it_is_told() -> None:
    memory = memory_of(*TURNS)
    question = "When was the blue kettle bought?"
    assert memory.search(question).profile.answer_type == "date"
    scores = [
        [one.score for one in memory.search(question, config=memory.config.replace(reply=w, graph_reply=w))]
        for w in (0.0, 5.0)
    ]
    assert scores[0] == scores[1]
