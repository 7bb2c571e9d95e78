"""float16 vectors: a choice for cards, never the default, and what it may change."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support import small_memory
from zeromem_gpu import Config, Memory, Trace
from zeromem_gpu.build.stack import Stack
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.stacks import Stacks
from zeromem_kernels.similarity import HALF_ERROR

HALF = Config(vector_storage="float16")
QUESTIONS = (
    "What did Ann say about the kayak?",
    "Who went to Oslo with Bob?",
    "When did it rain in Bergen?",
)


@pytest.fixture
def memory() -> Memory:
    made = small_memory()
    words = "kayak Oslo Bob Bergen rain cake red boat Cleo music".split()
    rng = np.random.default_rng(3)
    made.add(
        Trace(f"{bank}{i}", f"{' '.join(rng.choice(words, 5))} {i}.", bank, f"s{i // 6}", i, speaker="Ann")
        for bank in ("one", "two")
        for i in range(18)
    )
    # the second time vectors no longer lie in the order of rows
    made.delete(["one3"], bank="one")
    return made


@pytest.fixture
def as_on_a_card(monkeypatch: pytest.MonkeyPatch) -> list[Stack]:
    """The choice holds on the CPU, where the same functions multiply halves; the stacks that were made."""
    made: list[Stack] = []
    real = Stacks.get

    def kept(self: Stacks, *given: object) -> Stack:
        made.append(real(self, *given))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(Stacks, "_half", lambda self, config: config.vector_storage == "float16")
    monkeypatch.setattr(Stacks, "get", kept)
    return made


def stored(stack: Stack) -> set[torch.dtype]:
    lists = (stack.unit_vectors, stack.sentence_vectors, stack.entity_vectors)
    return {placed.stored.dtype for vectors in lists for placed in vectors}


def test_scores_move_by_no_more_than_cosines_do(memory: Memory, as_on_a_card: list[Stack]) -> None:
    asked = {"bank": ["one", "two", "one"], "top_k": 5}
    exact = memory.search(QUESTIONS, **asked)  # type: ignore[call-overload]
    halves = memory.search(QUESTIONS, **asked, config=HALF)  # type: ignore[call-overload]
    again = memory.search(QUESTIONS, **asked)  # type: ignore[call-overload]
    assert [stored(stack) for stack in as_on_a_card] == [{torch.float32}, {torch.float16}, {torch.float32}]
    # products of words are exact on their grid and stay so
    assert {x.dtype for stack in as_on_a_card for x in stack.term_vectors} == {torch.float32}
    moved = 0.0
    for one, other, third in zip(exact, halves, again, strict=True):
        assert [(e.trace.id, e.score) for e in one] == [(e.trace.id, e.score) for e in third]
        by_id = {e.trace.id: e.score for e in one}
        both = [(by_id[e.trace.id], e.score) for e in other if e.trace.id in by_id]
        assert len(both) >= 3
        moved = max(moved, *(abs(a - b) for a, b in both))
    # scores are sums of cosines that were spread over [0, 1], where an error grows with them
    assert 0.0 < moved <= 50 * HALF_ERROR


def test_a_cpu_keeps_float32(memory: Memory) -> None:
    plain, asked = memory.search(QUESTIONS, bank="one"), memory.search(QUESTIONS, bank="one", config=HALF)
    for one, other in zip(plain, asked, strict=True):
        assert [(e.trace.id, e.score) for e in one] == [(e.trace.id, e.score) for e in other]
    device = torch.device("cpu")
    assert not Stacks(device)._half(HALF)
    assert Stacks(torch.device("cuda"))._half(HALF)
    assert not Stacks(torch.device("cuda"))._half(Config())


def test_another_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="vector_storage: got 'half'; allowed: 'float32' or 'float16'"):
        Config(vector_storage="half")  # type: ignore[arg-type]
