"""Replays of a function by shape: keys, buffers, eviction and what happens where a capture fails."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from zeromem_kernels.replay import Matrices, Replays


class Recorder:
    """Stands in for CUDA graphs: a capture runs nothing, a replay writes into the results it returned."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.captures, self.replays = error, 0, 0

    def __call__(self, call: Callable[[], Matrices]) -> tuple[Callable[[], None], Matrices]:
        self.captures += 1
        if self.error is not None:
            raise self.error
        outputs = {name: torch.full_like(one, torch.nan) for name, one in call().items()}

        def replay() -> None:
            self.replays += 1
            for name, one in call().items():
                outputs[name].copy_(one)

        return replay, outputs


class Owner:
    """What a call reads."""


def double(given: Matrices) -> Matrices:
    return {"twice": 2 * given["x"]}


def run(replays: Replays, x: Tensor, owner: object, key: str = "key", size: int = 1) -> Tensor:
    return replays.run(owner, key, size, {"x": x}, double)["twice"]


def test_the_third_call_of_a_shape_is_captured_and_later_ones_are_replayed() -> None:
    graphs, owner = Recorder(), Owner()
    replays = Replays(capture=graphs)
    for count in range(1, 6):
        x = torch.full((3,), float(count))
        assert torch.equal(run(replays, x, owner), 2 * x)
        assert graphs.captures == (count >= 3)
        assert graphs.replays == max(count - 2, 0)


def test_results_are_not_written_by_later_calls_and_inputs_not_by_any() -> None:
    replays, owner = Replays(capture=Recorder()), Owner()
    given = [torch.full((2,), float(at)) for at in range(6)]
    found = [run(replays, x, owner) for x in given]
    for at, (x, result) in enumerate(zip(given, found, strict=True)):
        assert x.tolist() == [at, at]
        assert result.tolist() == [2 * at, 2 * at]


def test_another_shape_dtype_key_or_owner_is_another_graph() -> None:
    graphs = Recorder()
    replays, owner, other = Replays(capture=graphs), Owner(), Owner()
    calls = [
        (torch.ones(3), owner, "key"), (torch.ones(4), owner, "key"),
        (torch.ones(3).double(), owner, "key"), (torch.ones(3), owner, "other key"),
        (torch.ones(3), other, "key"),
    ]  # fmt: skip
    for _ in range(3):
        for x, of, key in calls:
            assert torch.equal(run(replays, x, of, key), 2 * x)
    assert graphs.captures == len(replays) == len(calls)


def test_the_graph_used_longest_ago_makes_room() -> None:
    graphs, owner = Recorder(), Owner()
    replays = Replays(most=2, capture=graphs)
    for key in ("a", "b"):
        for _ in range(3):
            run(replays, torch.ones(1), owner, key)
    run(replays, torch.ones(1), owner, "a")
    for _ in range(3):
        run(replays, torch.ones(1), owner, "c")
    assert (graphs.captures, len(replays)) == (3, 2)
    run(replays, torch.ones(1), owner, "a")
    assert graphs.captures == 3, "a was used after b"
    for _ in range(3):
        run(replays, torch.ones(1), owner, "b")
    assert graphs.captures == 4


def test_graphs_stay_within_their_bytes() -> None:
    graphs, owner = Recorder(), Owner()
    replays = Replays(most_bytes=100, capture=graphs)
    for _ in range(3):
        run(replays, torch.ones(1), owner, "too large", size=101)
    assert graphs.captures == 0
    for key in ("a", "b", "c"):
        for _ in range(3):
            run(replays, torch.ones(1), owner, key, size=50)
    assert (graphs.captures, len(replays)) == (3, 2)


def test_a_call_that_cannot_be_captured_runs_each_time_and_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    graphs, owner = Recorder(RuntimeError("operation not permitted\nwhen capturing")), Owner()
    replays = Replays(capture=graphs)
    for key in ("a", "b"):
        for count in range(6):
            x = torch.full((2,), float(count))
            assert torch.equal(run(replays, x, owner, key), 2 * x)
    assert graphs.captures == 2, "once for each shape"
    assert len(replays) == 0
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "RuntimeError: operation not permitted)" in record.getMessage()


def test_an_owner_takes_its_graphs_along() -> None:
    graphs, one, other = Recorder(), Owner(), Owner()
    replays = Replays(capture=graphs)
    for owner in (one, other):
        for _ in range(3):
            run(replays, torch.ones(1), owner)
    replays.drop(one)
    assert len(replays) == 1
    run(replays, torch.ones(1), other)
    run(replays, torch.ones(1), one)
    assert graphs.captures == 2, "what comes again after that begins anew"
    replays.drop()
    assert len(replays) == 0
