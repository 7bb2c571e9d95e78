"""PageRank: error against float64, one sweep, whole solves launched and as a CUDA graph, widths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import gpu_reference as reference
from benchmarks import model
from benchmarks.gpu_bench import Bench
from benchmarks.gpu_graphs import Workload, even_tiles, resets
from benchmarks.gpu_steps.workloads import GAMMA, Workloads
from benchmarks.tallies import tally
from zeromem_kernels.gpu.solve import Sweeper
from zeromem_kernels.pagerank import personalized_pagerank
from zeromem_kernels.sweeps import omega, planned_sweeps, total_sweeps
from zeromem_kernels.tiles import Axis, Tiles

QUERIES = 4096
WIDTHS = (16, 32, 64, 128)


@dataclass(frozen=True)
class Form:
    """A solver with its storage; `allowed` is the L1 error beside the tolerance asked for."""

    name: str
    solver: str
    storage: torch.dtype
    allowed: float

    @property
    def in_place(self) -> bool:
        """SOR is."""
        return self.solver == "sor"


SOR_FP16 = Form("SOR fp16", "sor", torch.float16, 1.5e-6)
SOR_FP32 = Form("SOR fp32", "sor", torch.float32, 1.5e-6)
POWER_FP16 = Form("power fp16", "power", torch.float16, 1.5e-6)
POWER_FP32 = Form("power fp32", "power", torch.float32, 1.5e-6)
FORMS = (SOR_FP16, SOR_FP32, POWER_FP16, POWER_FP32)
# the interpreter is slow, and the step of baselines runs SOR in float32 too
DRY_FORMS = (SOR_FP16, POWER_FP32)


def run(bench: Bench, work: Workloads) -> None:
    """Check at toy size and on real graphs, then time."""
    if not bench.dry:
        Solves(bench, work, work.small.work, work.small.tiles, work.small.reset()).check()
    locomo = work.locomo
    if locomo is None:
        bench.note("PageRank locomo", left_out="no file of prepare_gpu")
    else:
        solves = Solves(bench, work, locomo.work, locomo.tiles, locomo.reset())
        solves.check(locomo.taken)
        for form in solves.forms:
            solves.time(form, graph=True)
    if bench.dry:
        return
    hotpotqa, width = work.hotpotqa, 32
    few = even_tiles(2 * width, width, bench.device)
    Solves(bench, work, hotpotqa, few, resets(hotpotqa, few)).check()
    for form in FORMS:
        # four float32 matrices of 4,096 columns fit into 22 GiB, the fifth of power iteration does not
        some = QUERIES if form.in_place else QUERIES // 4
        tiles = even_tiles(some, width, bench.device)
        Solves(bench, work, hotpotqa, tiles, resets(hotpotqa, tiles)).time(form, graph=form is SOR_FP16)
    for other in WIDTHS:
        tiles = even_tiles(1024, other, bench.device)
        Solves(bench, work, hotpotqa, tiles, resets(hotpotqa, tiles)).sweep(SOR_FP16)


class Solves:
    """All that is done with one reset matrix over one graph."""

    def __init__(self, bench: Bench, run: Workloads, work: Workload, tiles: Tiles, reset: Tensor) -> None:
        self.bench, self.run, self.work, self.reset = bench, run, work, reset
        self.axis: Axis = work.axis("nodes", tiles)
        slices = work.graph.weights.slices
        if slices is None:
            raise ValueError("a workload has slices")
        self.slices, self.tally = slices, tally(slices, self.axis)
        self.title = f"PageRank {work.name} {tiles.width}x{len(tiles)}"
        self.forms = DRY_FORMS if bench.dry else FORMS

    def check(self, taken: Tensor | None = None) -> None:
        """Every form's L1 error against float64, and how often the five best units are the same.

        `taken` bool [T, width] are the columns that count for the latter, None all.
        """
        expected: list[Tensor] = []

        def fault(found: tuple[Tensor, ...], form: Form) -> str:
            if not expected:
                expected.append(reference.pagerank(self.work.graph, self.reset, self.axis, GAMMA))
            error = reference.l1_error(found[0], expected[0], self.axis)
            units = self.work.axis("units", self.axis.tiles)
            same = same_best(found[0], expected[0], self.axis, units)
            same = float((same if taken is None else same[taken]).double().mean())
            self.bench.note(f"{self.title} {form.name} error", l1_error=error, same_top5=same)
            allowed = form.allowed + self.run.tolerance
            return "" if error <= allowed else f"L1 error {error:.3g}, allowed {allowed:.3g}"

        for form in self.forms:
            self.bench.check(
                f"{self.title} {form.name}", self.solver(form), lambda found, form=form: fault(found, form)
            )

    def solver(self, form: Form) -> Callable[[], tuple[Tensor, ...]]:
        """A whole solve of a fixed number of sweeps, float16 with its correction."""
        fixed = None if form.storage == torch.float16 else self._sweeps(form)[0]
        return lambda: personalized_pagerank(
            self.work.graph, self.reset, self.axis, None,
            gamma=GAMMA, tolerance=self.run.tolerance, solver=form.solver, sweeps=fixed,
            storage=form.storage,
        )  # fmt: skip

    def time(self, form: Form, *, graph: bool) -> None:
        """One sweep, the solve as it is launched, and (`graph`) replayed as one CUDA graph."""
        self.sweep(form)
        if graph:
            self._replayed(form)
        title, facts = self._whole(form, self._sweeper(form))
        self.bench.time(f"{title}, launched", self.solver(form), **facts)

    def _replayed(self, form: Form) -> None:
        state, step, sweeps = self._sweeper(form), self._step(form), self._sweeps(form)

        def whole() -> Tensor:
            state.restart(self.reset, None)
            self._sweep_all(state, step, sweeps)
            return state.finish()

        title, facts = self._whole(form, state)
        self.bench.time(f"{title}, CUDA graph", whole, graph=True, **facts)

    def _whole(self, form: Form, state: Sweeper) -> tuple[str, dict[str, Any]]:
        """The name and the model's facts of a whole solve."""
        sweeps = self._sweeps(form)
        cost = model.solve(
            self.tally, form.storage.itemsize, sweeps, in_place=form.in_place,
            lost=self._lost(form, state),
        )  # fmt: skip
        return f"{self.title} {form.name} {total_sweeps(sweeps)} sweeps", {
            "cost": cost,
            **self._gathers(form, state),
        }

    def sweep(self, form: Form) -> None:
        """One sweep over all waves, the mean of four in a row: later ones find their wave in the L2."""
        state, step, repeats = self._sweeper(form), self._step(form), 1 if self.bench.dry else 4
        cost = model.sweep(self.tally, form.storage.itemsize, in_place=form.in_place)
        cost = model.Cost(cost.l2, int(self._lost(form, state) * cost.dram), cost.flops)
        self.bench.time(
            f"{self.title} {form.name} sweep", lambda: self._sweep_all(state, step, (repeats, 0)),
            per=repeats, cost=cost, graph=True, **self._gathers(form, state),
        )  # fmt: skip

    def _sweeper(self, form: Form) -> Sweeper:
        with self.bench.triton():
            return Sweeper(
                self.slices, self.work.graph.degree, self.reset, self.axis, None, GAMMA, form.storage,
                in_place=form.in_place,
            )  # fmt: skip

    def _sweep_all(self, state: Sweeper, step: Tensor, sweeps: tuple[int, int]) -> None:
        for wave in state.waves:
            state.sweep(wave, step, state.y, sweeps[0])
            if sweeps[1]:
                state.refine(wave, step)
                state.sweep(wave, step, state.error, sweeps[1])

    def _sweeps(self, form: Form) -> tuple[int, int]:
        return planned_sweeps(GAMMA, self.run.tolerance, form.solver, form.storage)

    def _step(self, form: Form) -> Tensor:
        """ω for every column."""
        tiles = self.axis.tiles
        step = omega(GAMMA) if form.in_place else 1.0
        return torch.full((len(tiles), tiles.width), step, device=tiles.bank.device)

    def _wave_bytes(self, form: Form, state: Sweeper) -> int:
        """y of the largest wave."""
        starts, line = self.axis.host_starts, self.axis.tiles.width * form.storage.itemsize
        return max((int(starts[w.first + w.size] - starts[w.first]) * line for w in state.waves), default=0)

    def _gathers(self, form: Form, state: Sweeper) -> dict[str, int]:
        line = self.axis.tiles.width * form.storage.itemsize
        return {"row_bytes": line, "working": self._wave_bytes(form, state)}

    def _lost(self, form: Form, state: Sweeper) -> float:
        """The share of a wave's y, b and graph that the L2 cannot keep."""
        y = self._wave_bytes(form, state)
        bias = y * 4 // form.storage.itemsize
        table = self.tally.stored.cells * 8 + self.tally.stored.slices * 64
        return model.lost_share((1 if form.in_place else 2) * y + bias + table, self.run.l2_bytes)


def same_best(pi: Tensor, expected: Tensor, axis: Axis, units: Axis, k: int = 5) -> Tensor:
    """Whether a column's k best units are the same set, bool [T, width]."""
    same = torch.ones((len(axis.tiles), pi.shape[1]), dtype=torch.bool, device=pi.device)
    for tile, (first, size) in enumerate(zip(axis.host_starts, np.diff(units.host_starts), strict=False)):
        part = slice(int(first), int(first + size))
        best = [torch.topk(x[part], min(k, int(size)), dim=0).indices for x in (pi.double(), expected)]
        same[tile] = (best[0].sort(0).values == best[1].sort(0).values).all(0)
    return same
