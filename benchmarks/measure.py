"""The pytest plugin of the suite: `python -m pytest -p benchmarks.measure benchmarks/suite`.

`measure` times a call with pytest-benchmark and the calibration in between; `lab` holds workloads that are
made once a session. What must not move is kept in `extra_info["facts"]` beside the ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import calibration as calibrating
from benchmarks.calibration import Calibration, paired
from benchmarks.clock import now
from benchmarks.machine import commit, device_facts, load_facts
from benchmarks.workloads import Workload, data_dir, hash_memory, load
from zeromem_gpu import Memory
from zeromem_gpu.device import resolve_device

# seconds and rounds of one benchmark; what takes seconds repeats well enough in three
LONG, SHORT, SLOW = (2.0, 5, 60), (0.6, 5, 20), (1.5, 3)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the suite."""
    group = parser.getgroup("zeromem")
    group.addoption("--short", action="store_true", help="small workloads, few rounds: CI's form")
    group.addoption("--threads", type=int, default=1, help="torch's threads, which ours follow (default 1)")
    group.addoption("--on", default=None, help="cpu, cuda or cuda:N (default: the library's own choice)")


def pytest_configure(config: pytest.Config) -> None:
    """Set the threads and name the marker."""
    torch.set_num_threads(config.getoption("--threads"))
    config.addinivalue_line("markers", "short: part of the short form")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The short form keeps what is marked `short`; the clock leaves out waits for a processor."""
    for item in items:
        item.add_marker(pytest.mark.benchmark(timer=now))
    if config.getoption("--short"):
        kept = [item for item in items if item.get_closest_marker("short")]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """The facts without which no figure means anything."""
    device = str(resolve_device(config.getoption("--on")))
    facts = device_facts(config.getoption("--threads"), device)
    form = "short" if config.getoption("--short") else "long"
    machine_info["zeromem"] = {"device": facts, "load": load_facts(), "commit": commit(), "form": form}


class Lab:
    """Workloads and memories of the session, each made once."""

    def __init__(self, device: torch.device, short: bool) -> None:
        self.device, self.short = device, short
        self._workloads: dict[str, Workload] = {}
        self._memories: dict[str, Memory] = {}

    def workload(self, name: str) -> Workload:
        """A text workload."""
        if name not in self._workloads:
            self._workloads[name] = load(name, data_dir())
        return self._workloads[name]

    def memory(self, name: str) -> Memory:
        """A memory that holds the workload, ready to search."""
        if name not in self._memories:
            memory = hash_memory(device=self.device)
            memory.add(self.workload(name).traces)
            memory.prepare()
            self._memories[name] = memory
        return self._memories[name]


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Lab:
    """The session's workloads."""
    return Lab(resolve_device(request.config.getoption("--on")), request.config.getoption("--short"))


@pytest.fixture(scope="session")
def calibration() -> Calibration:
    """The session's yardstick."""
    yardstick = Calibration()
    yardstick.run()
    return yardstick


class Measure:
    """Times calls; what it finds goes to pytest-benchmark and to `extra_info`."""

    def __init__(self, benchmark: Any, yardstick: Calibration, request: pytest.FixtureRequest) -> None:
        self._benchmark, self._yardstick = benchmark, yardstick
        self._short = bool(request.config.getoption("--short"))
        self._cuda = resolve_device(request.config.getoption("--on")).type == "cuda"
        marked = request.node.get_closest_marker("short") is not None
        self._benchmark.extra_info.update(
            {"calibration": calibrating.VERSION, "short": marked, "threads": torch.get_num_threads()}
        )

    def __call__(
        self,
        call: Callable[[], Any],
        *,
        facts: Mapping[str, Any],
        about: Mapping[str, Any],
        before: Callable[[], Any] | None = None,
    ) -> None:
        """Time `call`, checked and so warmed up by the caller; `before` runs untimed before a round."""
        if before is not None:
            before()
        spent = _seconds(self._synchronised(call))
        seconds, least, most = SHORT if self._short else LONG
        least = SLOW[1] if spent > SLOW[0] else least
        rounds = min(max(int(seconds / (spent + median(self._yardstick.seconds))), least), most)
        times, ratios = self._rounds([call], rounds, before)
        self._keep(facts, about, {"ratio": median(ratios)}, len(times))

    def each(
        self,
        calls: Sequence[Callable[[], Any]],
        *,
        facts: Mapping[str, Any],
        about: Mapping[str, Any],
        repeats: int = 3,
    ) -> None:
        """Time different calls one after another, all of them `repeats` times: p50 and p99 over the calls.

        A call's own figure is its best of the repeats, so that the tail is that of the questions and not
        that of the machine's other work.
        """
        times, ratios = self._rounds(calls, repeats * len(calls), None)
        best_time = np.array(times).reshape(repeats, -1).min(0)
        best_ratio = np.array(ratios).reshape(repeats, -1).min(0)
        found = {
            "ratio": float(np.percentile(best_ratio, 50)),
            "ratio_p99": float(np.percentile(best_ratio, 99)),
            "p50_s": float(np.percentile(best_time, 50)),
            "p99_s": float(np.percentile(best_time, 99)),
        }
        self._keep(facts, about, found, len(times))

    def _rounds(
        self, calls: Sequence[Callable[[], Any]], rounds: int, before: Callable[[], Any] | None
    ) -> tuple[list[float], list[float]]:
        around: list[float] = []
        wall: list[float] = []
        ready = [self._synchronised(call) for call in calls]

        def setup() -> tuple[tuple[Any, ...], dict[str, Any]]:
            if before is not None:
                before()
            around.append(self._yardstick.run())
            return (ready[(len(around) - 1) % len(ready)],), {}

        def run(call: Callable[[], Any]) -> None:
            wall.append(_seconds(call))

        self._benchmark.pedantic(run, setup=setup, rounds=rounds, iterations=1)
        around.append(self._yardstick.run())
        if self._benchmark.stats is None:  # --benchmark-disable runs each benchmark once, untimed
            pytest.skip("benchmarks are disabled: the result was right, nothing was timed")
        times = list(self._benchmark.stats.stats.data)
        self._benchmark.extra_info.update({"calibration_s": median(around), "wall_s": median(wall)})
        return times, paired(times, around)

    def _synchronised(self, call: Callable[[], Any]) -> Callable[[], Any]:
        if not self._cuda:
            return call

        def until_done() -> None:
            call()
            torch.cuda.synchronize()

        return until_done

    def _keep(
        self, facts: Mapping[str, Any], about: Mapping[str, Any], found: Mapping[str, float], rounds: int
    ) -> None:
        self._benchmark.extra_info.update({"facts": dict(facts), "about": dict(about), **found})
        self._benchmark.extra_info["timings"] = rounds


@pytest.fixture
def measure(benchmark: Any, calibration: Calibration, request: pytest.FixtureRequest) -> Measure:
    """Times one benchmark."""
    return Measure(benchmark, calibration, request)


def _seconds(call: Callable[[], Any]) -> float:
    begin = perf_counter()
    call()
    return perf_counter() - begin
