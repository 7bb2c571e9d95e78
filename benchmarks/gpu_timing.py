"""Timing on a CUDA device by events, whole calls in CUDA graphs, and all kernels compiled beforehand."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from typing import Any, NamedTuple

import torch

WARM_UP = 3
LEAST, MOST = 20, 200

Call = Callable[[], Any]


class Timing(NamedTuple):
    """The median of so many runs, in seconds."""

    median: float
    runs: int


def on_device(calls: Sequence[Call], budget: float) -> Timing:
    """Median time of a call between two events; several calls take turns, so that each finds the L2 taken.

    As many runs as fit `budget` seconds, from `LEAST` to `MOST`: only a call of more than a fortieth of a
    second overruns it.
    """
    for call in calls:
        for _ in range(WARM_UP):
            call()
    torch.cuda.synchronize()
    turn = cycle(calls)
    first = _between_events(next(turn))
    fit = int(budget / max(first, 1e-6))
    runs = min(max(fit, LEAST), MOST)
    pairs = []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        next(turn)()
        end.record()
        pairs.append((begin, end))
    torch.cuda.synchronize()
    return Timing(statistics.median(begin.elapsed_time(end) / 1e3 for begin, end in pairs), runs)


def _between_events(call: Call) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def on_clock(calls: Sequence[Call]) -> Timing:
    """One run on the wall clock: what the dry run puts in place of a measurement."""
    begin = time.perf_counter()
    calls[0]()
    return Timing(time.perf_counter() - begin, 1)


def captured(call: Call) -> Call:
    """A call that replays `call`, which must ask the device nothing, as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()

    def replay() -> Any:
        graph.replay()
        # the graph writes into what it returned when it was captured
        return kept

    return replay


@contextmanager
def compiling(workers: int | None = None) -> Iterator[set[str]]:
    """Within this block a Triton launch compiles its kernel and does not run it; leaving waits for all.

    The launches are the real ones, so each variant (sizes of 1, multiples of 16, alignments) is the one
    that is needed later. Compilation leaves the GIL in LLVM and in ptxas: threads are enough. Yields the
    names of the kernels met.
    """
    from triton.runtime.jit import JITFunction

    try:
        from triton.runtime._async_compile import AsyncCompileMode
    except ImportError:  # an older triton compiles one after another
        AsyncCompileMode = None  # type: ignore[assignment,misc]
    run, met = JITFunction.run, set()

    def only_compile(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        met.add(self.__name__)
        return run(self, *args, grid=grid, warmup=True, **kwargs)

    JITFunction.run = only_compile
    try:
        if AsyncCompileMode is None:
            yield met
            return
        with ThreadPoolExecutor(workers or os.cpu_count()) as pool, AsyncCompileMode(pool):
            yield met
    finally:
        JITFunction.run = run
