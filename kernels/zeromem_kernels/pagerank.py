"""Batched Personalized PageRank: π = (1−γ) r + γ Pᵀ π (method.md 3.4), one column a query.

W is the symmetric weight matrix over contexts and entities, d its row sums, P = D⁻¹W. With y = D⁻¹π
the equation is d y = (1−γ) r + γ W y, one matrix for both directions. Rows without edges and hidden
rows pass nothing on; scaling the solution to Σπ = 1 is the same as returning their mass to r, without a
global sum in every sweep.

Two solvers reach the same answer. Power iteration is the reference. Three-colour SOR updates entities,
then even, then odd contexts in place, with ω = 2/(1 + √(1−γ²)): no edge joins two rows of one colour,
so the order inside a colour does not matter. Both stop, per column, by a bound that always holds:
‖π − x‖₁ ≤ ‖(1−γ) r + γ Pᵀ x − x‖₁ / (1−γ).
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from zeromem_kernels.checks import expect, expect_number, expect_one_of, expect_whole
from zeromem_kernels.scale import tile_reduce
from zeromem_kernels.slices import Slices, build_slices
from zeromem_kernels.sweeps import (
    MOST_HALF_GAMMA,
    UNCHECKED_SWEEPS,
    most_sweeps,
    omega,
    planned_sweeps,
    power_of_two,
    total_sweeps,
)
from zeromem_kernels.tiles import Axis, Csr, compiled, mask_of, on_triton, owners, run_tiles

logger = logging.getLogger(__name__)


class Graph(NamedTuple):
    """Stacked symmetric graphs: `weights` is W (contexts, then entities), `degree` float32 its row sums.

    `colour_rows` int32 are local rows ordered by bank and colour, `colour_ptr` int64 [3·banks + 1] their
    boundaries; no edge joins two rows of one colour. `sound` says whether W is known to be symmetric and
    coloured so; None makes SOR look in every call. For directed edges `weights` is Wᵀ, `degree` the row sums of
    W, and power iteration the only solver.
    """

    weights: Csr
    degree: Tensor
    colour_rows: Tensor
    colour_ptr: Tensor
    sound: bool | None = None


class PageRank(NamedTuple):
    """`pi` float32 [rows, width] with columns of sum 1 (0 where r is 0), and how it got there.

    `sweeps` int32 [T, width], `residuals` float32 [T, width], L1 before the last scaling, or (SOR on a CPU) a
    bound of it from the last sweep's gaps; NaN where nobody measured them.
    """

    pi: Tensor
    sweeps: Tensor
    residuals: Tensor


def personalized_pagerank(
    graph: Graph,
    reset: Tensor,
    axis: Axis,
    hidden: Tensor | None,
    *,
    gamma: float,
    tolerance: float = 1e-6,
    solver: str = "sor",
    sweeps: int | None = None,
    storage: torch.dtype = torch.float32,
) -> PageRank:
    """Solve for every column of `reset`.

    Args:
        graph: the stacked graphs.
        reset: r, float32 [rows, width], columns of sum 1 or 0. NaN makes its own column NaN.
        axis: the node axis of reset.
        hidden: bool [rows, width] of rows that take no part, or None.
        gamma: γ in [0, 1).
        tolerance: the L1 error allowed, above 0.
        solver: "sor" or "power". SOR on a graph that is not symmetric becomes power iteration, and says so.
        sweeps: exactly so many, without residuals; None stops each column by its own residual.
        storage: what y is kept in between sweeps; sums are float32 always. float16 (γ ≤ 0.8) halves the traffic: y is swept
            to what float16 can hold, then the residual is taken in float32 and its solution, swept in float16 too,
            added. Both numbers of sweeps follow from γ and the tolerance. With `sweeps` given there is
            no such correction and the L1 error is about 3e-4.

    Returns:
        π with sweeps and residuals. A column whose reset is zero stays zero.

    Raises:
        InvalidTensor: an argument of another dtype, shape, device or range.
        NoDevice: a CUDA device that cannot run the kernels.
    """
    _check(graph, reset, axis, hidden, gamma, tolerance, solver, sweeps, storage)
    if solver == "sor" and not (is_sound(graph, axis.ptr) if graph.sound is None else graph.sound):
        _say_once("the graph is not symmetric and three-coloured: power iteration in place of SOR")
        solver = "power"
    if storage == torch.float16 and gamma > MOST_HALF_GAMMA:
        _say_once(f"float16 storage serves γ up to {MOST_HALF_GAMMA:g}: float32 in its place")
        storage = torch.float32
    fixed = None if sweeps is None else (sweeps, 0)
    if fixed is None and storage == torch.float16:
        fixed = planned_sweeps(gamma, tolerance, solver, storage)
    if on_triton(reset):
        return _triton_form(graph, reset, axis, hidden, gamma, tolerance, solver, fixed, storage)
    cpu = compiled(reset)
    if cpu is None or storage == torch.float16:
        return _torch_form(graph, reset, axis, hidden, gamma, tolerance, solver, fixed, storage)
    x = axis.empty()
    done = torch.zeros((len(axis.tiles), reset.shape[1]), dtype=torch.int32)
    residuals = torch.zeros((len(axis.tiles), reset.shape[1]))
    mask = mask_of(hidden)
    w = graph.weights
    head = (axis.tiles.bank, axis.ptr, w.indptr, w.indices, w.weights, graph.degree)
    least, most = UNCHECKED_SWEEPS, most_sweeps(gamma, solver)
    if sweeps is not None:  # a residual is never below −1: the last sweep ends it
        tolerance, least, most = -1.0, sweeps, sweeps
    g, eps = _f32(gamma), _f32(tolerance)
    for column, lanes in cpu.pieces(reset.shape[1]):
        if solver == "sor":
            run_tiles(cpu.sor, axis.tiles, column, lanes, *head, graph.colour_ptr, graph.colour_rows, axis.starts,
                      reset, mask, g, _f32(omega(gamma)), eps, least, most, x, done, residuals)  # fmt: skip
        else:
            run_tiles(cpu.power_iteration, axis.tiles, column, lanes, *head, axis.starts, reset, mask,
                      g, eps, most, x, done, residuals)  # fmt: skip
    return PageRank(x, done, residuals if sweeps is None else residuals.fill_(torch.nan))


def is_sound(graph: Graph, ptr: Tensor) -> bool:
    """Whether W is symmetric, every row has a colour, and no edge joins two of one colour: what SOR needs.

    Args:
        graph: the stacked graphs.
        ptr: int64 [banks + 1], the nodes of each bank.
    """
    w = graph.weights
    nodes = len(graph.degree)
    row, bank = owners(w.indptr), owners(ptr)
    column = w.indices + ptr[bank[row]]
    there, back = torch.sort(row * nodes + column), torch.sort(column * nodes + row)
    if not torch.equal(there.values, back.values):
        return False
    if not torch.equal(w.weights[there.indices], w.weights[back.indices]):
        return False
    colour = _colour_of(graph, ptr)
    return not bool((colour < 0).any()) and not bool((colour[row] == colour[column]).any())


def _check(
    graph: Graph, reset: Tensor, axis: Axis, hidden: Tensor | None, gamma: float, tolerance: float, solver: str,
    sweeps: int | None, storage: torch.dtype,
) -> None:  # fmt: skip
    device, shape = axis.ptr.device, (axis.rows, axis.tiles.width)
    expect("reset", reset, torch.float32, shape, device)
    if hidden is not None:
        expect("hidden", hidden, torch.bool, shape, device)
    expect("graph.degree", graph.degree, torch.float32, (int(axis.host_ptr[-1]),), device)
    expect("graph.weights.indptr", graph.weights.indptr, torch.int64, (len(graph.degree) + 1,), device)
    expect("graph.weights.indices", graph.weights.indices, torch.int32, (None,), device)
    expect(
        "graph.weights.weights", graph.weights.weights, torch.float32, graph.weights.indices.shape, device
    )
    expect_number("gamma", gamma, 0.0, 1.0, open_end=True)
    expect_number("tolerance", tolerance, 1e-12, 2.0)
    expect_one_of("solver", solver, ("sor", "power"))
    expect_one_of("storage", storage, (torch.float32, torch.float16))
    if sweeps is not None:
        expect_whole("sweeps", sweeps, 1, 10_000)
    nodes = len(graph.degree)
    expect("graph.colour_rows", graph.colour_rows, torch.int32, (nodes,), device)
    expect("graph.colour_ptr", graph.colour_ptr, torch.int64, (3 * (len(axis.ptr) - 1) + 1,), device)


@lru_cache
def _say_once(what: str) -> None:
    logger.warning(what)


def _triton_form(
    graph: Graph, reset: Tensor, axis: Axis, hidden: Tensor | None, gamma: float, tolerance: float, solver: str,
    sweeps: tuple[int, int] | None, storage: torch.dtype,
) -> PageRank:  # fmt: skip
    from zeromem_kernels.gpu.launch import room
    from zeromem_kernels.gpu.solve import Sweeper, solve

    in_place, width = solver == "sor", reset.shape[1]
    with room(f"PageRank of {axis.rows} rows of {width} columns", reset.device):
        slices = graph.weights.slices or slice_graph(graph, axis.ptr)
        state = Sweeper(slices, graph.degree, reset, axis, hidden, gamma, storage, in_place)
        step = torch.full((len(axis.tiles), width), omega(gamma) if in_place else 1.0, device=reset.device)
        done, residuals = solve(
            state, step, tolerance=tolerance * (1.0 - gamma), sweeps=sweeps,
            unchecked=UNCHECKED_SWEEPS, most=most_sweeps(gamma, solver),
        )  # fmt: skip
        return PageRank(state.finish(), done, residuals)


def slice_graph(graph: Graph, ptr: Tensor) -> Slices:
    """The slices of W by colour, for `graph.weights.slices`; ptr int64 [banks + 1] are the nodes of each bank."""
    w = graph.weights
    return build_slices(w.indptr, w.indices, w.weights, ptr, ptr, graph.colour_rows, graph.colour_ptr)


def _f32(value: float) -> object:
    """A NumPy float32: the compiled kernels keep their sums in it."""
    import numpy as np

    return np.float32(value)


def _torch_form(
    graph: Graph, reset: Tensor, axis: Axis, hidden: Tensor | None, gamma: float, tolerance: float, solver: str,
    sweeps: tuple[int, int] | None, storage: torch.dtype,
) -> PageRank:  # fmt: skip
    """y ← b + (γ/d) Σ W y with b = (1−γ) r/d; float16 rounds y under a scale as storage would."""
    degree = graph.degree[axis.stacked_row][:, None]
    one = torch.where(degree > 0, degree, 1.0)
    free = torch.ones_like(reset, dtype=torch.bool) if hidden is None else ~hidden
    bias = torch.where(free, (1.0 - gamma) * reset / one, 0.0)
    y = torch.where(free & (degree > 0), reset / one, bias)
    gain = gamma / one
    step = _Step(graph, axis, free, gain, solver, omega(gamma), storage)
    if sweeps is None:
        y, done, residuals = _until(
            step, y, bias, one, axis, tolerance * (1.0 - gamma), most_sweeps(gamma, solver)
        )
    else:
        done = torch.full(
            (len(axis.tiles), reset.shape[1]), total_sweeps(sweeps), dtype=torch.int32, device=y.device
        )
        residuals = torch.full(done.shape, torch.nan, device=y.device)
        y, scale = step.held(y, 1.0)
        bias = bias * scale
        y = step.sweep(y, bias, sweeps[0])
        if sweeps[1]:
            gap = step.gap(y, bias)
            error, scale = step.held(gap, 1.0 / (1.0 - gamma))
            y = y + step.sweep(error, gap * scale, sweeps[1]) / scale
    x = y * one
    # a float32 sum over a bank's nodes would itself be off by more than the tolerance
    total = torch.zeros(done.shape, dtype=torch.float64, device=x.device)
    total.index_add_(0, axis.tile_of_row, x.double())
    pi = (x * torch.where(total == 0, 0.0, 1.0 / total)[axis.tile_of_row]).float()
    return PageRank(pi, done, residuals)


class _Step:
    """One sweep in torch operations, y kept in `storage`."""

    def __init__(
        self, graph: Graph, axis: Axis, free: Tensor, gain: Tensor, solver: str, omega: float, storage: torch.dtype
    ) -> None:  # fmt: skip
        self._axis, self._free, self._gain, self._omega, self._storage = axis, free, gain, omega, storage
        self._rows, self._columns, self._weights = axis.lift(graph.weights, axis)
        self._colours = _edges_by_colour(graph, axis, self._rows) if solver == "sor" else []

    def held(self, x: Tensor, grows: float) -> tuple[Tensor, Tensor]:
        """x under its power of two as it is stored, and that power for each row; float32 needs none."""
        if self._storage != torch.float16:
            return x, torch.ones_like(x)
        peaks = tile_reduce(x.abs(), self._axis, "amax").clamp_(min=0.0) * grows
        scale = power_of_two(peaks)[self._axis.tile_of_row]
        return self._stored(x * scale), scale

    def looks(self, count: int) -> bool:
        """Whether the residual is looked at after `count` sweeps."""
        return not self._colours or count >= UNCHECKED_SWEEPS

    def _stored(self, x: Tensor) -> Tensor:
        return x.to(self._storage).float()

    def gap(self, y: Tensor, bias: Tensor) -> Tensor:
        """b + (γ/d) Σ W y − y."""
        flow = torch.zeros_like(y).index_add_(0, self._rows, y[self._columns] * self._weights[:, None])
        return torch.where(self._free, bias + self._gain * flow - y, 0.0)

    def sweep(self, y: Tensor, bias: Tensor, count: int = 1, active: Tensor | None = None) -> Tensor:
        """y after `count` sweeps; columns that are not `active` (bool, as y) stay."""
        step = torch.ones_like(y) if active is None else active.float()
        for _ in range(count):
            if not self._colours:
                y = self._stored(y + step * self.gap(y, bias))
            for members, edges in self._colours:
                picked, source = self._rows[edges], self._columns[edges]
                flow = torch.zeros_like(y).index_add_(0, picked, y[source] * self._weights[edges][:, None])
                new = bias[members] + self._gain[members] * flow[members]
                moved = y[members] + self._omega * step[members] * (new - y[members])
                y = y.index_copy(0, members, torch.where(self._free[members], self._stored(moved), 0.0))
        return y


def _until(
    step: _Step, y: Tensor, bias: Tensor, degree: Tensor, axis: Axis, allowed: float, most: int
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Sweep until each column's residual is `allowed`: y, sweeps and residuals."""
    running = torch.ones((len(axis.tiles), y.shape[1]), dtype=torch.bool, device=y.device)
    done = torch.zeros(running.shape, dtype=torch.int32, device=y.device)
    residuals = torch.zeros(running.shape, device=y.device)
    for count in range(most + 1):
        if step.looks(count):
            total = tile_reduce(step.gap(y, bias).abs() * degree, axis, "sum")
            done = torch.where(running, count, done)
            residuals = torch.where(running, total, residuals)
            running = running & (total > allowed)
        if count == most or not bool(running.any()):
            break
        y = step.sweep(y, bias, 1, running[axis.tile_of_row])
    return y, done, residuals


def _edges_by_colour(graph: Graph, axis: Axis, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Per colour: its rows of this axis, and the positions of the edges that end in them."""
    colour = _colour_of(graph, axis.ptr)[axis.stacked_row]
    return [
        (torch.nonzero(colour == k).flatten(), torch.nonzero(colour[rows] == k).flatten()) for k in range(3)
    ]


def _colour_of(graph: Graph, ptr: Tensor) -> Tensor:
    """The colour of each stacked row, int64."""
    colour = torch.full((len(graph.degree),), -1, device=ptr.device)
    colour[graph.colour_rows.long() + ptr[owners(ptr)]] = owners(graph.colour_ptr) % 3
    return colour
