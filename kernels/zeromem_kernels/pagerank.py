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

import math
from typing import NamedTuple

import torch
from torch import Tensor

from zeromem_kernels.tiles import Axis, Csr, compiled, run_tiles

# a residual is worth its pass only near the end: every graph measured needs at least this many sweeps
_UNCHECKED_SWEEPS = 6
# float32 sums stop improving the residual near 1e-7; more sweeps than this only repeat rounding
_MOST_SWEEPS = 64


class Graph(NamedTuple):
    """Stacked symmetric graphs: `weights` is W (contexts, then entities), `degree` float32 its row sums.

    `colour_rows` int32 are local rows ordered by bank and colour, `colour_ptr` int64 [3·banks + 1] their
    boundaries; no edge joins two rows of one colour.
    """

    weights: Csr
    degree: Tensor
    colour_rows: Tensor
    colour_ptr: Tensor


class PageRank(NamedTuple):
    """`pi` float32 [rows, width] with columns of sum 1 (0 where r is 0), and how it got there.

    `sweeps` int32 [T, width], `residuals` float32 [T, width], L1 before the last scaling.
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
) -> PageRank:
    """Solve for every column of `reset`.

    Args:
        graph: the stacked graphs.
        reset: r, float32 [rows, width], columns of sum 1 or 0.
        axis: the node axis of reset.
        hidden: bool [rows, width] of rows that take no part, or None.
        gamma: γ in [0, 1).
        tolerance: the L1 error allowed.
        solver: "sor" or "power".

    Returns:
        π with sweeps and residuals. A column whose reset is zero stays zero.
    """
    if cpu := compiled(reset):
        x = torch.empty_like(reset)
        sweeps = torch.zeros((len(axis.tiles), reset.shape[1]), dtype=torch.int32)
        residuals = torch.zeros((len(axis.tiles), reset.shape[1]))
        mask = torch.empty((0, 0), dtype=torch.bool) if hidden is None else hidden
        w = graph.weights
        head = (axis.tiles.bank, axis.ptr, w.indptr, w.indices, w.weights, graph.degree)
        g, eps = _f32(gamma), _f32(tolerance)
        if solver == "sor":
            run_tiles(cpu.sor, axis.tiles, *head, graph.colour_ptr, graph.colour_rows, axis.starts, reset, mask,
                      g, _f32(_omega(gamma)), eps, _UNCHECKED_SWEEPS, _most_sweeps(gamma, solver), x, sweeps, residuals)  # fmt: skip
        else:
            run_tiles(cpu.power_iteration, axis.tiles, *head, axis.starts, reset, mask,
                      g, eps, _most_sweeps(gamma, solver), x, sweeps, residuals)  # fmt: skip
        return PageRank(x, sweeps, residuals)
    return _torch_form(graph, reset, axis, hidden, gamma, tolerance, solver)


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
    graph: Graph,
    reset: Tensor,
    axis: Axis,
    hidden: Tensor | None,
    gamma: float,
    tolerance: float,
    solver: str,
) -> PageRank:
    tiles, width = axis.tiles, reset.shape[1]
    rows, columns, weights = axis.lift(graph.weights, axis)
    degree = graph.degree[axis.stacked_row][:, None]
    inverse = torch.where(degree > 0, 1.0 / degree, 0.0)
    free = torch.ones_like(reset, dtype=torch.bool) if hidden is None else ~hidden
    y = torch.where(free, torch.where(degree > 0, reset * inverse, (1.0 - gamma) * reset), 0.0)
    linked = free & (degree > 0)
    colours = _edges_by_colour(graph, axis, rows) if solver == "sor" else []
    omega = _omega(gamma)
    running = torch.ones((len(tiles), width), dtype=torch.bool, device=reset.device)
    sweeps = torch.zeros((len(tiles), width), dtype=torch.int32, device=reset.device)
    residuals = torch.zeros((len(tiles), width), device=reset.device)
    done, most = 0, _most_sweeps(gamma, solver)
    while True:
        if done >= _UNCHECKED_SWEEPS or solver == "power":
            flow = torch.zeros_like(y).index_add_(0, rows, y[columns] * weights[:, None])
            new = ((1.0 - gamma) * reset + gamma * flow) * inverse
            gap = torch.where(linked, (new - y).abs() * degree, 0.0)
            total = torch.zeros_like(residuals).index_add_(0, axis.tile_of_row, gap)
            sweeps = torch.where(running, done, sweeps)
            residuals = torch.where(running, total, residuals)
            running = running & (total > tolerance * (1.0 - gamma))
            if done >= most or not bool(running.any()):
                break
        active = linked & running[axis.tile_of_row]
        if solver == "power":
            y = torch.where(active, new, y)
        for members, edges in colours:
            picked, source = rows[edges], columns[edges]
            flow = torch.zeros_like(y).index_add_(0, picked, y[source] * weights[edges][:, None])
            new_rows = ((1.0 - gamma) * reset[members] + gamma * flow[members]) * inverse[members]
            y[members] += torch.where(active[members], omega * (new_rows - y[members]), 0.0)
        done += 1
    x = torch.where(degree > 0, y * degree, y)
    # a float32 sum over a bank's nodes would itself be off by more than the tolerance
    total = torch.zeros((len(tiles), width), dtype=torch.float64, device=x.device)
    total.index_add_(0, axis.tile_of_row, x.double())
    pi = (x * torch.where(total > 0, 1.0 / total, 0.0)[axis.tile_of_row]).float()
    return PageRank(pi, sweeps, residuals)


def _edges_by_colour(graph: Graph, axis: Axis, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Per colour: its rows of this axis, and the positions of the edges that end in them."""
    stacked_colour = torch.empty(len(graph.degree), dtype=torch.int64, device=rows.device)
    banks = torch.arange(len(axis.ptr) - 1, device=rows.device).repeat_interleave(axis.ptr.diff())
    spans = graph.colour_ptr.diff()
    labels = torch.arange(len(spans), device=rows.device).repeat_interleave(spans) % 3
    stacked_colour[graph.colour_rows.long() + axis.ptr[banks]] = labels
    colour = stacked_colour[axis.stacked_row]
    return [
        (torch.nonzero(colour == k).flatten(), torch.nonzero(colour[rows] == k).flatten()) for k in range(3)
    ]
