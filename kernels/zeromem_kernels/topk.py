"""Ordered top-k per query: score down, then row up; −inf is "not allowed" and never returned."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zeromem_kernels import buffers
from zeromem_kernels.checks import expect, expect_whole
from zeromem_kernels.tiles import Axis, compiled, on_triton, run_tiles


class TopK(NamedTuple):
    """`scores` float32 [T, k, width], best first, −inf past the last; `rows` int32 in the tile, or −1."""

    scores: Tensor
    rows: Tensor


def ordered_topk(x: Tensor, axis: Axis, k: int) -> TopK:
    """The k best rows of each tile and column.

    Args:
        x: float32 [rows, width]; −inf and NaN mark rows that may not be returned.
        axis: the axis of x.
        k: at least 0; more than a tile's rows is allowed and leaves −1.

    Returns:
        Scores and rows, ties in row order.

    Raises:
        InvalidTensor: an argument of another dtype, shape, device or range.
    """
    expect("x", x, torch.float32, (axis.rows, axis.tiles.width), axis.ptr.device)
    expect_whole("k", k, 0, 1 << 24)
    if on_triton(x):
        from zeromem_kernels.gpu import select

        return TopK(*select.ordered_topk(x, axis, k))
    scores = torch.empty((len(axis.tiles), k, x.shape[1]), device=x.device)
    rows = torch.empty(scores.shape, dtype=torch.int32, device=x.device)
    if cpu := compiled(x):
        run_tiles(cpu.ordered_topk, axis.tiles, axis.starts, x, scores, rows)
        return TopK(scores, rows)
    tallest = int(axis.starts.diff().max()) if len(axis.tiles) else 0
    padded = torch.full((len(axis.tiles), max(tallest, k), x.shape[1]), -torch.inf, device=x.device)
    local = torch.arange(axis.rows, device=x.device) - axis.starts[axis.tile_of_row]
    padded[axis.tile_of_row, local] = torch.where(x.isnan(), -torch.inf, x)
    # a stable descending sort keeps equal scores in row order, which torch.topk does not promise
    values, order = torch.sort(padded, dim=1, descending=True, stable=True)
    scores.copy_(values[:, :k])
    rows.copy_(torch.where(scores > -torch.inf, order[:, :k], -1))
    return TopK(scores, rows)


def places_of(rows: Tensor, axis: Axis) -> Tensor:
    """Where rows in tiles [T, k, width] stand on their axis, which has rows, int64; −1 reads some row."""
    return (rows.long().clamp(min=0) + axis.starts[:-1, None, None]).clamp(max=axis.rows - 1)


def kept_mask(top: TopK, axis: Axis) -> Tensor:
    """The rows of a top-k as a bool matrix [rows, width]."""
    return kept_alone(top._replace(scores=torch.zeros_like(top.scores)), axis) == 0


def kept_alone(top: TopK, axis: Axis) -> Tensor:
    """The scores of a top-k at its rows, −inf at all others, float32 [rows, width], for the next stage."""
    tiles, k, width = top.rows.shape
    scores = buffers.empty(axis.rows + 1, width, top.rows.device).fill_(-torch.inf)
    place = top.rows.long() + axis.starts[:-1, None, None]
    # the spare last row takes the −1 entries
    place = torch.where(top.rows >= 0, place, axis.rows).reshape(tiles * k, width)
    return scores.scatter_(0, place, top.scores.reshape(place.shape))[:-1]
