"""What every step of `gpu.py` shares: results are checked before they are timed, rows of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from benchmarks.gpu_ceilings import Ceilings
from benchmarks.gpu_timing import Call, Timing, captured, on_clock, on_device
from benchmarks.model import Cost
from zeromem_kernels.tiles import torch_forms, triton_forms

BUDGET_S = 0.5


class WrongResult(RuntimeError):
    """A kernel's result is not what it has to be: nothing of it is timed."""


@dataclass
class Bench:
    """One run. `mode` is "time", "dry" (no device: toy sizes, wall clock) or "compile" (nothing runs).

    `rows` are the report's lines, in order.
    """

    device: torch.device
    mode: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    ceilings: Ceilings = field(init=False)

    def __post_init__(self) -> None:
        """The ceilings are measured when first asked for."""
        self.ceilings = Ceilings(self.device, self._measure)

    @property
    def dry(self) -> bool:
        """Whether sizes are to be toys."""
        return self.mode == "dry"

    def triton(self) -> Any:
        """The Triton forms, on whatever device."""
        return triton_forms() if self.device.type != "cuda" else nullcontext()

    def plain(self) -> Any:
        """What serves; in a dry run the torch forms, for the kernels have dry runs of their own."""
        return torch_forms() if self.dry else nullcontext()

    def check(self, name: str, call: Call, fault: Callable[[Any], str]) -> None:
        """Run a call twice over outputs of NaN; `fault` says what is wrong with the result, or nothing.

        Raises:
            WrongResult: it is wrong, or two runs differ in a bit (a race).
        """
        if self.mode == "compile":
            with self.triton():
                call()
            return
        with poisoned(), self.triton():
            first, second = call(), call()
        for one, other in zip(_tensors(first), _tensors(second), strict=True):
            if not torch.equal(_bits(one), _bits(other)):
                raise WrongResult(f"{name}: two runs differ")
        wrong = fault(first)
        if wrong:
            raise WrongResult(f"{name}: {wrong}")

    def time(
        self, name: str, *calls: Call, cost: Cost | None = None, row_bytes: int = 0, working: int = 0,
        library: float | None = None, graph: bool = False, per: int = 1,
    ) -> float:  # fmt: skip
        """Time a call that was checked; several take turns. Returns the median in seconds.

        Args:
            name: of the line.
            calls: what to time.
            cost: the model's bytes of one call.
            row_bytes: what a gather reads in a row, for its ceiling; 0 when the kernel only streams.
            working: bytes that gathers reach.
            library: the library's time for the same, in seconds.
            graph: replay as one CUDA graph.
            per: how many of the unit named a call holds (sweeps, say).
        """
        if self.mode == "compile":
            with self.triton():
                for call in calls:
                    call()
            return 1.0
        with self.triton():
            use = tuple(map(captured, calls)) if graph and self.mode == "time" else calls
            timing = self._measure(use)
        self._add(name, Timing(timing.median / per, timing.runs), cost, row_bytes, working, library)
        return timing.median / per

    def library(self, name: str, *calls: Call, cost: Cost | None = None) -> float:
        """Time a library, which needs no compilation; several calls take turns. Returns seconds."""
        if self.mode == "compile":
            return 1.0
        timing = self._measure(calls)
        self._add(name, timing, cost, 0, 0, None)
        return timing.median

    def note(self, name: str, **facts: Any) -> None:
        """A line without a time."""
        if self.mode != "compile":
            self.rows.append({"name": name, **facts})

    def _measure(self, calls: tuple[Call, ...], budget: float = BUDGET_S) -> Timing:
        return on_clock(calls) if self.device.type != "cuda" else on_device(calls, budget)

    def _add(
        self,
        name: str,
        timing: Timing,
        cost: Cost | None,
        row_bytes: int,
        working: int,
        library: float | None,
    ) -> None:
        row: dict[str, Any] = {"name": name, "median_us": 1e6 * timing.median, "runs": timing.runs}
        if cost is not None:
            row |= {"l2_bytes": cost.l2, "memory_bytes": cost.dram, "flops": cost.flops}
            floor = cost.dram / self.ceilings.copy()
            if row_bytes:
                floor = max(floor, cost.l2 / self.ceilings.gather(row_bytes, working))
            row |= {"floor_us": 1e6 * floor, "of_ceiling": floor / timing.median}
        if library is not None:
            row["library_ratio"] = library / timing.median
        self.rows.append(row)


def differs(found: Tensor, expected: Tensor, tolerance: float) -> str:
    """Says where two results differ by more than `tolerance`, NaN included; "" where they do not."""
    gap = (found.double() - expected.double()).abs()
    worst = float(gap.max()) if gap.numel() else 0.0
    return "" if worst <= tolerance else f"off by {worst:.3g}, allowed {tolerance:.3g}"


@contextmanager
def poisoned() -> Iterator[None]:
    """Memory that nobody initialised holds NaN or nonsense."""

    def filled(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def made(*args: Any, **kwargs: Any) -> Tensor:
            out = make(*args, **kwargs)
            return out.fill_(torch.nan if out.is_floating_point() else out.dtype == torch.bool or -7777)

        return made

    with (
        mock.patch.object(torch, "empty", filled(torch.empty)),
        mock.patch.object(torch, "empty_like", filled(torch.empty_like)),
    ):
        yield


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [one for part in value for one in _tensors(part)] if isinstance(value, (tuple, list)) else []


def _bits(x: Tensor) -> Tensor:
    """The bytes of a result: NaN equals itself."""
    return x.contiguous().view(torch.uint8)
