"""Fusion of the two views (method.md 5): min-max over each view's candidates, mixed, ordered top-k.

S_fuse = w Ŝ_graph + (1−w) Ŝ_hierarchy with Ŝ = (S − min)/(max − min) over the returned candidates, 1 for
all when they are equal, 0 where a view did not return the unit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zeromem_kernels.checks import expect, expect_whole
from zeromem_kernels.scale import EQUAL, has_spread
from zeromem_kernels.tiles import Axis, compiled, on_triton, run_tiles
from zeromem_kernels.topk import TopK, ordered_topk

_MOST_PAIRS = 64 * 64


def fuse(graph: TopK, hierarchy: TopK, weight: Tensor, axis: Axis, k: int) -> TopK:
    """Mix both candidate lists and keep the k best of their union.

    Args:
        graph: the graph view's candidates, each row once.
        hierarchy: the hierarchy view's candidates, each row once.
        weight: w, the graph view's share, float32 [T, width].
        axis: the unit axis that the rows refer to.
        k: how many to keep.

    Returns:
        Fused scores and rows; −1 where the union holds fewer than k.

    Raises:
        InvalidTensor: an argument of another dtype, shape, device or range.
    """
    tiles, width = len(axis.tiles), axis.tiles.width
    expect("weight", weight, torch.float32, (tiles, width), axis.ptr.device)
    for name, view in (("graph", graph), ("hierarchy", hierarchy)):
        expect(f"{name}.rows", view.rows, torch.int32, (tiles, None, width), axis.ptr.device)
        expect(f"{name}.scores", view.scores, torch.float32, view.rows.shape, axis.ptr.device)
    expect_whole("k", k, 0, 1 << 24)
    # a program holds both lists and every pair of their entries
    small = graph.rows.shape[1] * hierarchy.rows.shape[1] <= _MOST_PAIRS
    if small and on_triton(weight):
        from zeromem_kernels.gpu import select

        return TopK(*select.fuse(graph, hierarchy, weight, k, EQUAL))
    if cpu := compiled(weight):
        scores = torch.empty((len(axis.tiles), k, weight.shape[1]))
        rows = torch.empty(scores.shape, dtype=torch.int32)
        run_tiles(cpu.fuse, axis.tiles, axis.starts, *graph, *hierarchy, weight, scores, rows)
        return TopK(scores, rows)
    mixed = axis.full(-torch.inf)
    for top, share in ((graph, weight), (hierarchy, 1.0 - weight)):
        mixed = _add(mixed, top, share, axis)
    return ordered_topk(mixed, axis, k)


def scaled(scores: Tensor, candidates: TopK) -> Tensor:
    """Ŝ of a view's raw scores [T, n, width] (NaN for units it did not return, which become 0)."""
    if candidates.rows.shape[1] == 0:
        return torch.zeros_like(scores)
    high = candidates.scores[:, :1]
    low = torch.where(candidates.rows >= 0, candidates.scores, torch.inf).amin(1, keepdim=True)
    value = torch.where(has_spread(low, high), (scores - low) / (high - low), 1.0)
    return torch.where(scores.isnan(), 0.0, value)


def _add(mixed: Tensor, top: TopK, share: Tensor, axis: Axis) -> Tensor:
    if top.rows.shape[1] == 0:
        return mixed
    returned = top.rows >= 0
    value = scaled(torch.where(returned, top.scores, torch.nan), top) * share[:, None]
    place = torch.where(returned, top.rows.long() + axis.starts[:-1, None, None], axis.rows)
    width = mixed.shape[1]
    part = torch.full((axis.rows + 1, width), torch.nan, device=mixed.device)
    part.scatter_(0, place.reshape(-1, width), value.reshape(-1, width))
    part = part[:-1]
    return torch.where(part.isnan(), mixed, part + torch.where(mixed.isinf(), 0.0, mixed))
