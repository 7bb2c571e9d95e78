"""Whole searches with the Triton forms, in Triton's interpreter, against the compiled engine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import small_memory
from zeromem_gpu import Boundary, Config, Memory, Trace
from zeromem_kernels.tiles import triton_forms

QUESTIONS = (
    "What did Ann say about the kayak in Bergen?",
    "Who met Bob?",
    "When did Cleo go to Oslo?",
)
SAID = (
    "I met Bob in Bergen.", "The kayak was red, Ann.", "Cleo went to Oslo with Bob.", "It rained.",
    "Ann sold the kayak to Cleo.", "Bob bakes cakes in Oslo.", "Bergen, again.", "Bob likes rain.",
)  # fmt: skip


def filled(config: Config | None = None, **options: object) -> Memory:
    """Two banks of eight turns in two sessions."""
    made = small_memory(config, **options)
    for bank in ("one", "two"):
        speakers = ("Ann", "Bob") if bank == "one" else ("Cleo", "Dan")
        made.add(
            Trace(
                f"{bank}{i}",
                text,
                bank,
                f"s{i // 4}",
                i,
                f"2023-05-0{1 + i // 4}T10:00:00",
                speakers[i % 2],
            )
            for i, text in enumerate(SAID)
        )
    return made


@pytest.fixture(scope="module")
def memory() -> Memory:
    return filled(Config(learned_weights=True))


@pytest.mark.parametrize(
    "change", [{}, {"solver": "power"}, {"learned": 1.0, "graph_learned": 1.0}], ids=str
)
@pytest.mark.parametrize("boundary", [None, Boundary(sessions="s1")], ids=["whole", "bounded"])
def test_the_triton_forms_find_the_same_evidence(
    memory: Memory, change: dict[str, Any], boundary: Boundary | None
) -> None:
    config = memory.config.replace(tolerance=1e-5, **change)
    asked = {"bank": ["one", "two", "one"], "boundary": boundary, "top_k": 3, "config": config}
    expected = memory.search(QUESTIONS, **asked)  # type: ignore[call-overload]
    with triton_forms():
        found = memory.search(QUESTIONS, **asked)  # type: ignore[call-overload]
    for one, other in zip(found, expected, strict=True):
        assert [e.trace.id for e in one] == [e.trace.id for e in other]
        assert [e.score for e in one] == pytest.approx([e.score for e in other], abs=2e-5)
    assert any(len(one.evidence) for one in found)
