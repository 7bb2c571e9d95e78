"""Weighted sums of score matrices, and the units' part of PageRank, without a matrix for every step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from zeromem_kernels.checks import expect
from zeromem_kernels.reset import node_rows
from zeromem_kernels.tiles import Axis, compiled, run_tiles

# the compiled form is made for so many matrices at a time
_TOGETHER = 4


def weighted_sum(parts: Sequence[tuple[float | Tensor, Tensor]], axis: Axis) -> Tensor:
    """Σ weight · x, summed in the order of the parts, each product rounded before it is added.

    Args:
        parts: at least one weight, a number or float32 [T, width], with its float32 [rows, width].
        axis: the axis of every x.

    Returns:
        float32 [rows, width].

    Raises:
        InvalidTensor: an argument of another dtype, shape or device.
    """
    device, shape = axis.ptr.device, (axis.rows, axis.tiles.width)
    for place, (weight, x) in enumerate(parts):
        expect(f"parts[{place}]", x, torch.float32, shape, device)
        if isinstance(weight, Tensor):
            expect(f"parts[{place}] weight", weight, torch.float32, (len(axis.tiles), shape[1]), device)
    if cpu := compiled(parts[0][1]):
        out = axis.empty()
        for first in range(0, len(parts), _TOGETHER):
            some = parts[first : first + _TOGETHER]
            weights = np.empty((len(some), len(axis.tiles), shape[1]), np.float32)
            for place, (weight, _) in enumerate(some):
                weights[place] = weight
            given = [x.numpy() for _, x in some]
            given += given[:1] * (_TOGETHER - len(some))
            run_tiles(cpu.weighted_sum, axis.tiles, axis.starts, tuple(given), weights, first > 0, out)
        return out
    total = torch.zeros((), device=device)
    for place, (weight, x) in enumerate(parts):
        added = weight * x if not isinstance(weight, Tensor) else weight[axis.tile_of_row] * x
        total = added if place == 0 else total + added
    return total


def plus_rows(x: Tensor, others: Tensor, rows: Tensor, axis: Axis) -> Tensor:
    """x + others[rows], −inf where either is.

    Args:
        x: float32 [rows, width].
        others: float32 [m, width], of another axis.
        rows: int64 [rows], the row of `others` that belongs to each row of x.
        axis: the axis of x.

    Returns:
        float32 [rows, width].

    Raises:
        InvalidTensor: an argument of another dtype, shape or device.
    """
    device, width = axis.ptr.device, axis.tiles.width
    expect("x", x, torch.float32, (axis.rows, width), device)
    expect("others", others, torch.float32, (None, width), device)
    expect("rows", rows, torch.int64, (axis.rows,), device)
    if cpu := compiled(x):
        out = axis.empty()
        run_tiles(cpu.plus_rows, axis.tiles, axis.starts, x, others, rows, out)
        return out
    return x + others[rows]


def unit_scores(
    pi: Tensor, instead: Tensor, chosen: Tensor, units: Axis, entities: Axis, nodes: Axis
) -> Tensor:
    """π of the units in the columns that are chosen, another matrix in those that are not.

    Args:
        pi: float32 [node rows, width].
        instead: float32 [unit rows, width].
        chosen: bool [T, width].
        units: the unit axis.
        entities: the entity axis.
        nodes: the node axis; a bank's nodes are its units, then its entities.

    Returns:
        float32 [unit rows, width].

    Raises:
        InvalidTensor: an argument of another dtype, shape or device.
    """
    device, width = units.ptr.device, units.tiles.width
    expect("pi", pi, torch.float32, (nodes.rows, width), device)
    expect("instead", instead, torch.float32, (units.rows, width), device)
    expect("chosen", chosen, torch.bool, (len(units.tiles), width), device)
    if cpu := compiled(pi):
        out = units.empty()
        run_tiles(cpu.unit_scores, units.tiles, units.starts, nodes.starts, pi, instead, chosen, out)
        return out
    unit_node, _ = node_rows(units, entities, nodes)
    return torch.where(chosen[units.tile_of_row], pi[unit_node], instead)
