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
import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from zeromem_kernels.checks import expect, expect_number, expect_one_of
from zeromem_kernels.scale import tile_reduce
from zeromem_kernels.slices import Slices, build_slices
from zeromem_kernels.tiles import Axis, Csr, compiled, on_triton, run_tiles

logger = logging.getLogger(__name__)

# a residual is worth its pass only near the end: every graph measured needs at least this many sweeps
_UNCHECKED_SWEEPS = 6
# float32 sums stop improving the residual near 1e-7; more sweeps than this only repeat rounding
_MOST_SWEEPS = 64


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

    `sweeps` int32 [T, width], `residuals` float32 [T, width], L1 before the last scaling; NaN where nobody
    measured them.
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
        storage: what y is kept in between sweeps. float16 (sums stay float32) halves the traffic for an L1 error of
            about 3e-4 and takes `sweeps_for(gamma, tolerance, solver)` sweeps where `sweeps` is None.

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
    if sweeps is None and storage == torch.float16:
        sweeps = sweeps_for(gamma, tolerance, solver)
    if on_triton(reset):
        return _triton_form(graph, reset, axis, hidden, gamma, tolerance, solver, sweeps, storage)
    cpu = compiled(reset)
    if cpu is None or storage == torch.float16:
        return _torch_form(graph, reset, axis, hidden, gamma, tolerance, solver, sweeps, storage)
    x = torch.empty_like(reset)
    done = torch.zeros((len(axis.tiles), reset.shape[1]), dtype=torch.int32)
    residuals = torch.zeros((len(axis.tiles), reset.shape[1]))
    mask = torch.empty((0, 0), dtype=torch.bool) if hidden is None else hidden
    w = graph.weights
    head = (axis.tiles.bank, axis.ptr, w.indptr, w.indices, w.weights, graph.degree)
    unchecked, most = _UNCHECKED_SWEEPS, _most_sweeps(gamma, solver)
    if sweeps is not None:  # a residual is never below −1: the last sweep ends it
        tolerance, unchecked, most = -1.0, sweeps, sweeps
    g, eps = _f32(gamma), _f32(tolerance)
    if solver == "sor":
        run_tiles(cpu.sor, axis.tiles, *head, graph.colour_ptr, graph.colour_rows, axis.starts, reset, mask,
                  g, _f32(_omega(gamma)), eps, unchecked, most, x, done, residuals)  # fmt: skip
    else:
        run_tiles(cpu.power_iteration, axis.tiles, *head, axis.starts, reset, mask,
                  g, eps, most, x, done, residuals)  # fmt: skip
    return PageRank(x, done, residuals if sweeps is None else residuals.fill_(torch.nan))


def sweeps_for(gamma: float, tolerance: float, solver: str) -> int:
    """Sweeps after which the L1 error is at most `tolerance`.

    Power iteration from r: ‖π_T − π‖₁ ≤ 2γ^(T+1). SOR: a gain of (ω−1)^¾ a sweep, below what every graph
    measured gained; on a bipartite graph it is ω−1.
    """
    rate = gamma if solver == "power" else (_omega(gamma) - 1.0) ** 0.75
    if rate <= 0.0:
        return 1
    sweeps = math.ceil(math.log(tolerance / 2.0) / math.log(rate))
    return max(sweeps - (solver == "power"), 1)


def is_sound(graph: Graph, ptr: Tensor) -> bool:
    """Whether W is symmetric and no edge joins two rows of one colour: what SOR needs.

    Args:
        graph: the stacked graphs.
        ptr: int64 [banks + 1], the nodes of each bank.
    """
    w = graph.weights
    nodes = len(graph.degree)
    row = torch.repeat_interleave(torch.arange(nodes, device=ptr.device), w.indptr.diff())
    bank = torch.repeat_interleave(torch.arange(len(ptr) - 1, device=ptr.device), ptr.diff())
    column = w.indices + ptr[bank[row]]
    there, back = torch.sort(row * nodes + column), torch.sort(column * nodes + row)
    if not torch.equal(there.values, back.values):
        return False
    if not torch.equal(w.weights[there.indices], w.weights[back.indices]):
        return False
    colour = _colour_of(graph, ptr)
    return not bool((colour[row] == colour[column]).any())


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
        expect_number("sweeps", sweeps, 1, 10_000)


@lru_cache
def _say_once(what: str) -> None:
    logger.warning(what)


def _triton_form(
    graph: Graph, reset: Tensor, axis: Axis, hidden: Tensor | None, gamma: float, tolerance: float, solver: str,
    sweeps: int | None, storage: torch.dtype,
) -> PageRank:  # fmt: skip
    from zeromem_kernels.gpu.solve import Sweeper, solve

    w, in_place = graph.weights, solver == "sor"
    slices = w.slices or slice_graph(graph, axis.ptr)
    state = Sweeper(slices, graph.degree, reset, axis, hidden, gamma, storage, in_place)
    step = torch.full(
        (len(axis.tiles), reset.shape[1]), _omega(gamma) if in_place else 1.0, device=reset.device
    )
    done, residuals = solve(
        state, step, in_place=in_place, tolerance=tolerance * (1.0 - gamma), sweeps=sweeps,
        unchecked=_UNCHECKED_SWEEPS, most=_most_sweeps(gamma, solver),
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


def _omega(gamma: float) -> float:
    """The relaxation that is optimal for a bipartite graph: 2/(1 + √(1−γ²))."""
    return 2.0 / (1.0 + math.sqrt(1.0 - gamma * gamma))


def _most_sweeps(gamma: float, solver: str) -> int:
    """Where to stop at the latest: a sweep gains γ by power iteration, about √(ω−1) at worst by SOR."""
    rate = gamma if solver == "power" else math.sqrt(_omega(gamma) - 1.0)
    return max(_MOST_SWEEPS, math.ceil(math.log(1e-9) / math.log(rate))) if rate > 0 else _MOST_SWEEPS


def _torch_form(
    graph: Graph, reset: Tensor, axis: Axis, hidden: Tensor | None, gamma: float, tolerance: float, solver: str,
    sweeps: int | None, storage: torch.dtype,
) -> PageRank:  # fmt: skip
    """y ← b + (γ/d) Σ W y with b = (1−γ) r/d; float16 rounds y and b as storage under a scale would."""
    tiles, width = axis.tiles, reset.shape[1]
    rows, columns, weights = axis.lift(graph.weights, axis)
    degree = graph.degree[axis.stacked_row][:, None]
    one = torch.where(degree > 0, degree, 1.0)
    gain = torch.where(degree > 0, gamma / one, 0.0)
    free = torch.ones_like(reset, dtype=torch.bool) if hidden is None else ~hidden
    bias = torch.where(free, (1.0 - gamma) * reset / one, 0.0)
    y = torch.where(free & (degree > 0), reset / one, bias)
    scale = torch.ones((len(tiles), width), device=y.device)
    if storage == torch.float16:
        scale = power_of_two(tile_reduce(y, axis, "amax").clamp_(min=0.0))
        bias, y = bias * scale[axis.tile_of_row], y * scale[axis.tile_of_row]

    def stored(x: Tensor) -> Tensor:
        return x.to(storage).float()

    bias, y = stored(bias), stored(y)
    colours = _edges_by_colour(graph, axis, rows) if solver == "sor" else []
    omega = _omega(gamma)
    running = torch.ones((len(tiles), width), dtype=torch.bool, device=reset.device)
    done = torch.zeros((len(tiles), width), dtype=torch.int32, device=reset.device)
    residuals = torch.full((len(tiles), width), torch.nan, device=reset.device)
    count, most = 0, _most_sweeps(gamma, solver) if sweeps is None else sweeps
    while True:
        if solver == "power" or (sweeps is None and count >= _UNCHECKED_SWEEPS):
            flow = torch.zeros_like(y).index_add_(0, rows, y[columns] * weights[:, None])
            new = torch.where(free, bias + gain * flow, 0.0)
        if sweeps is None and (solver == "power" or count >= _UNCHECKED_SWEEPS):
            total = tile_reduce((new - y).abs() * degree, axis, "sum") / scale
            done = torch.where(running, count, done)
            residuals = torch.where(running, total, residuals)
            running = running & ~(total <= tolerance * (1.0 - gamma))
        if count >= most or not bool(running.any()):
            break
        active = running[axis.tile_of_row]
        if solver == "power":
            y = stored(torch.where(active, new, y))
        for members, edges in colours:
            picked, source = rows[edges], columns[edges]
            flow = torch.zeros_like(y).index_add_(0, picked, y[source] * weights[edges][:, None])
            relaxed = torch.where(free[members], bias[members] + gain[members] * flow[members], 0.0)
            y[members] = stored(
                y[members] + torch.where(active[members], omega * (relaxed - y[members]), 0.0)
            )
        count += 1
    if sweeps is not None:
        done.fill_(sweeps)
    x = y * one
    # a float32 sum over a bank's nodes would itself be off by more than the tolerance
    total = torch.zeros((len(tiles), width), dtype=torch.float64, device=x.device)
    total.index_add_(0, axis.tile_of_row, x.double())
    pi = (x * torch.where(total == 0, 0.0, 1.0 / total)[axis.tile_of_row]).float()
    return PageRank(pi, done, residuals)


def power_of_two(peaks: Tensor) -> Tensor:
    """The scale that brings each peak into [2¹³, 2¹⁴), float32 of their shape; 1 for a column without mass.

    max y ≤ max r/d holds throughout, so nothing overflows float16 even when SOR overshoots by a factor of 3.
    """
    exponent = torch.frexp(peaks).exponent
    return torch.where(peaks > 0, torch.ldexp(torch.ones_like(peaks), 14 - exponent), 1.0)


def _edges_by_colour(graph: Graph, axis: Axis, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Per colour: its rows of this axis, and the positions of the edges that end in them."""
    colour = _colour_of(graph, axis.ptr)[axis.stacked_row]
    return [
        (torch.nonzero(colour == k).flatten(), torch.nonzero(colour[rows] == k).flatten()) for k in range(3)
    ]


def _colour_of(graph: Graph, ptr: Tensor) -> Tensor:
    """The colour of each stacked row, int64."""
    colour = torch.empty(len(graph.degree), dtype=torch.int64, device=ptr.device)
    banks = torch.arange(len(ptr) - 1, device=ptr.device).repeat_interleave(ptr.diff())
    spans = graph.colour_ptr.diff()
    labels = torch.arange(len(spans), device=ptr.device).repeat_interleave(spans) % 3
    colour[graph.colour_rows.long() + ptr[banks]] = labels
    return colour
