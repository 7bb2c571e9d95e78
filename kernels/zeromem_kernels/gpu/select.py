"""Exact ordered top-k, and the fusion of two candidate lists (formulas in `topk.py` and `fusion.py`).

Blocks of rows are reduced to their best element (score down, row up) in one pass over the scores. Then, per query, k
rounds: take the best block's element, and search that block alone for its next. Every round is exact, so ties,
−inf and k beyond the rows need no special care; a returned score is an input value.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from zeromem_kernels.gpu.launch import block, check_size, launch
from zeromem_kernels.tiles import Axis

_ROWS = 64
_MOST_BLOCKS = 2048
_NO_ROW = tl.constexpr(0x7FFFFFFF)


@triton.jit
def _usable(x):
    """−inf for NaN, 0 for −0.0, so that equal scores are equal bits."""
    return tl.where(x == x, x + 0.0, -float("inf"))


@triton.jit(do_not_specialize=["n_most", "n_rows_a_block"])
def _block_best(
    x, starts, best, best_row, n_most, n_rows_a_block,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The best element of one block of rows, per column; −inf where it holds none."""
    i_tile, i_block = tl.program_id(0) // n_most, tl.program_id(0) % n_most
    i_begin = tl.load(starts + i_tile)
    n_rows = (tl.load(starts + i_tile + 1) - i_begin).to(tl.int32)
    o_w = tl.arange(0, BLOCK)
    b_best = tl.full((BLOCK,), -float("inf"), tl.float32)
    b_best_row = tl.full((BLOCK,), _NO_ROW, tl.int32)
    o_end = tl.minimum((i_block + 1) * n_rows_a_block, n_rows)
    for o_first in range(i_block * n_rows_a_block, o_end, ROWS):
        o_row = o_first + tl.arange(0, ROWS)
        m_x = (o_row < o_end)[:, None] & (o_w < WIDTH)[None, :]
        p_x = x + i_begin * WIDTH + (o_row[:, None] * WIDTH + o_w[None, :])
        b_x = _usable(tl.load(p_x, mask=m_x, other=-float("inf")))
        b_top = tl.max(b_x, axis=0)
        b_row = tl.min(tl.where(b_x == b_top[None, :], o_row[:, None], _NO_ROW), axis=0)
        # a later row of the same score comes after
        m_more = b_top > b_best
        b_best_row = tl.where(m_more, b_row, b_best_row)
        b_best = tl.where(m_more, b_top, b_best)
    o_out = tl.program_id(0) * WIDTH + o_w
    tl.store(best + o_out, b_best, mask=o_w < WIDTH)
    tl.store(best_row + o_out, b_best_row, mask=o_w < WIDTH)


@triton.jit(do_not_specialize=["n_most", "n_kept", "n_rows_a_block"])
def _select(
    x, starts, best, best_row, scores, rows, n_most, n_rows_a_block, n_kept,
    WIDTH: tl.constexpr, BLOCKS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The n_kept best elements of one column, in order."""
    i_tile, i_w = tl.program_id(0) // WIDTH, tl.program_id(0) % WIDTH
    i_begin = tl.load(starts + i_tile)
    n_rows = (tl.load(starts + i_tile + 1) - i_begin).to(tl.int32)
    o_block = tl.arange(0, BLOCKS)
    o_best = (i_tile * n_most + o_block) * WIDTH + i_w
    b_best = tl.load(best + o_best, mask=o_block < n_most, other=-float("inf"))
    b_row = tl.load(best_row + o_best, mask=o_block < n_most, other=_NO_ROW)
    for k in range(n_kept):
        i_top = tl.max(b_best, axis=0)
        i_row = tl.min(tl.where(b_best == i_top, b_row, _NO_ROW), axis=0)
        m_found = i_top > -float("inf")
        o_out = (i_tile * n_kept + k) * WIDTH + i_w
        tl.store(scores + o_out, i_top)
        tl.store(rows + o_out, tl.where(m_found, i_row, -1))
        if m_found:
            i_block = i_row // n_rows_a_block
            i_next = -float("inf")
            i_next_row = _NO_ROW
            o_end = tl.minimum((i_block + 1) * n_rows_a_block, n_rows)
            for o_first in range(i_block * n_rows_a_block, o_end, ROWS):
                o_row = o_first + tl.arange(0, ROWS)
                p_x = x + i_begin * WIDTH + (o_row * WIDTH + i_w)
                b_x = _usable(tl.load(p_x, mask=o_row < o_end, other=-float("inf")))
                m_left = (b_x < i_top) | ((b_x == i_top) & (o_row > i_row))
                b_x = tl.where(m_left, b_x, -float("inf"))
                i_chunk = tl.max(b_x, axis=0)
                i_chunk_row = tl.min(tl.where(b_x == i_chunk, o_row, _NO_ROW), axis=0)
                i_next_row = tl.where(i_chunk > i_next, i_chunk_row, i_next_row)
                i_next = tl.maximum(i_chunk, i_next)
            b_row = tl.where(o_block == i_block, i_next_row, b_row)
            b_best = tl.where(o_block == i_block, i_next, b_best)


def ordered_topk(x: Tensor, axis: Axis, k: int) -> tuple[Tensor, Tensor]:
    """Scores float32 and rows int32 [T, k, width], as `zeromem_kernels.topk.ordered_topk` says."""
    check_size(axis)
    width, tiles = x.shape[1], len(axis.tiles)
    scores = torch.empty((tiles, k, width), device=x.device)
    rows = torch.empty((tiles, k, width), dtype=torch.int32, device=x.device)
    a_block = max(_ROWS, triton.next_power_of_2(-(-axis.tallest // _MOST_BLOCKS)))
    most = max(-(-axis.tallest // a_block), 1)
    best = torch.empty((tiles * most, width), device=x.device)
    best_row = torch.empty((tiles * most, width), dtype=torch.int32, device=x.device)
    if k > 0:
        launch(_block_best, tiles * most, x, axis.starts, best, best_row, most, a_block,
               WIDTH=width, BLOCK=block(width), ROWS=_ROWS, num_warps=4)  # fmt: skip
        blocks = triton.next_power_of_2(most)
        launch(_select, tiles * width, x, axis.starts, best, best_row, scores, rows, most, a_block, k,
               WIDTH=width, BLOCKS=blocks, ROWS=_ROWS, num_warps=1 if blocks <= 256 else 4)  # fmt: skip
    return scores, rows


@triton.jit
def _list(scores, rows, i_list, o_list, n, WIDTH: tl.constexpr):
    """A candidate list of one column (score, row, present), and its least score and spread."""
    o_x = i_list + o_list * WIDTH
    b_row = tl.load(rows + o_x, mask=o_list < n, other=-1)
    b_score = tl.load(scores + o_x, mask=o_list < n, other=0.0)
    m_in = b_row >= 0
    b_score = tl.where(m_in, b_score, 0.0)
    i_high = tl.max(tl.where(m_in, b_score, -float("inf")), axis=0)
    i_low = tl.min(tl.where(m_in, b_score, float("inf")), axis=0)
    return b_score, b_row, m_in, i_low, i_high


@triton.jit
def _scaled(b_score, i_low, i_high, equal):
    """Ŝ = (S − min)/(max − min), 1 where all candidates count as equal."""
    i_spread = i_high - i_low
    m_spread = i_spread > equal * tl.maximum(tl.abs(i_low), tl.abs(i_high))
    return tl.where(m_spread, tl.div_rn(b_score - i_low, tl.where(m_spread, i_spread, 1.0)), 1.0)


@triton.jit(do_not_specialize=["n_kept", "n_graph", "n_hierarchy"])
def _fuse(
    graph_scores, graph_rows, hierarchy_scores, hierarchy_rows, weight, scores, rows,
    n_graph, n_hierarchy, n_kept, equal,
    WIDTH: tl.constexpr, GRAPH: tl.constexpr, HIERARCHY: tl.constexpr,
):  # fmt: skip
    """One column: both lists scaled, joined by row, the n_kept best in order. No fused matrix exists."""
    i_tile, i_w = tl.program_id(0) // WIDTH, tl.program_id(0) % WIDTH
    o_g, o_h = tl.arange(0, GRAPH), tl.arange(0, HIERARCHY)
    i_g, i_h = i_tile * n_graph * WIDTH + i_w, i_tile * n_hierarchy * WIDTH + i_w
    b_g, b_g_row, m_g, i_g_low, i_g_high = _list(graph_scores, graph_rows, i_g, o_g, n_graph, WIDTH)
    b_h, b_h_row, m_h, i_h_low, i_h_high = _list(
        hierarchy_scores, hierarchy_rows, i_h, o_h, n_hierarchy, WIDTH
    )
    i_weight = tl.load(weight + i_tile * WIDTH + i_w)
    b_g = i_weight * _scaled(b_g, i_g_low, i_g_high, equal)
    b_h = (1.0 - i_weight) * _scaled(b_h, i_h_low, i_h_high, equal)
    # what the other view adds to each candidate of the graph, and which of its own are thereby counted
    m_same = (b_g_row[:, None] == b_h_row[None, :]) & m_g[:, None] & m_h[None, :]
    b_g += tl.sum(tl.where(m_same, b_h[None, :], 0.0), axis=1)
    m_counted = tl.max(m_same.to(tl.int32), axis=0) > 0
    b_g = tl.where(m_g, b_g, -float("inf"))
    b_h = tl.where(m_h & (m_counted == 0), b_h, -float("inf"))
    for k in range(n_kept):
        i_top = tl.maximum(tl.max(b_g, axis=0), tl.max(b_h, axis=0))
        i_row = tl.minimum(
            tl.min(tl.where(b_g == i_top, b_g_row, _NO_ROW), axis=0),
            tl.min(tl.where(b_h == i_top, b_h_row, _NO_ROW), axis=0),
        )
        m_found = i_top > -float("inf")
        o_out = (i_tile * n_kept + k) * WIDTH + i_w
        tl.store(scores + o_out, i_top)
        tl.store(rows + o_out, tl.where(m_found, i_row, -1))
        b_g = tl.where(b_g_row == i_row, -float("inf"), b_g)
        b_h = tl.where(b_h_row == i_row, -float("inf"), b_h)


def fuse(
    graph: tuple[Tensor, Tensor], hierarchy: tuple[Tensor, Tensor], weight: Tensor, k: int, equal: float
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Scores float32 and rows int32 [T, k, width], as `zeromem_kernels.fusion.fuse` says."""
    tiles, width = weight.shape
    scores = torch.empty((tiles, k, width), device=weight.device)
    rows = torch.empty((tiles, k, width), dtype=torch.int32, device=weight.device)
    n_graph, n_hierarchy = graph[1].shape[1], hierarchy[1].shape[1]
    if k > 0:
        # products and sums are rounded one by one, as the other forms do: equal scores stay equal
        launch(_fuse, tiles * width, *graph, *hierarchy, weight, scores, rows, n_graph, n_hierarchy, k, equal,
               WIDTH=width, GRAPH=block(n_graph), HIERARCHY=block(n_hierarchy),
               num_warps=1 if n_graph * n_hierarchy <= 1024 else 4, enable_fp_fusion=False)  # fmt: skip
    return scores, rows
