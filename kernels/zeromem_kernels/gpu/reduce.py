"""Column sums and maxima of tiles. Sums are float64, in an order that the tile's rows alone decide."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from zeromem_kernels.gpu.blocks import fold
from zeromem_kernels.gpu.launch import block, launch

CHUNK = 512


@triton.jit(do_not_specialize=["n_most"])
def _chunk_sums(
    x, starts, sums, sum_starts, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One row of sums for CHUNK rows of a tile."""
    i_tile, i_chunk = tl.program_id(0) // n_most, tl.program_id(0) % n_most
    i_out = tl.load(sum_starts + i_tile) + i_chunk
    i_begin = tl.load(starts + i_tile) + i_chunk * CHUNK
    n_rows = tl.minimum(tl.load(starts + i_tile + 1) - i_begin, CHUNK).to(tl.int32)
    if i_out < tl.load(sum_starts + i_tile + 1):
        o_row, o_w = tl.arange(0, 16), tl.arange(0, BLOCK)
        b_sum = tl.zeros((16, BLOCK), dtype=tl.float64)
        for o_begin in range(0, n_rows, 16):
            m_x = ((o_begin + o_row) < n_rows)[:, None] & (o_w < WIDTH)[None, :]
            p_x = x + i_begin * WIDTH + ((o_begin + o_row)[:, None] * WIDTH + o_w[None, :])
            b_sum += tl.load(p_x, mask=m_x, other=0.0).to(tl.float64)
        tl.store(sums + i_out * WIDTH + o_w, fold(b_sum, BLOCK), mask=o_w < WIDTH)


def chunk_starts(starts: Tensor) -> Tensor:
    """The rows that tiles cut into chunks have, at least one a tile, int64 [T + 1]."""
    out = torch.zeros_like(starts)
    torch.cumsum(((starts.diff() + CHUNK - 1) // CHUNK).clamp_(min=1), 0, out=out[1:])
    return out


def column_sums(x: Tensor, starts: Tensor, tallest: int) -> Tensor:
    """Σ over each tile's rows.

    Args:
        x: float [rows, width].
        starts: int64 [T + 1], the rows of each tile.
        tallest: rows of the tallest tile.

    Returns:
        float64 [T, width]; 0 for a tile without rows.
    """
    width, tiles = x.shape[1], len(starts) - 1
    while True:
        most = max(-(-tallest // CHUNK), 1)
        sum_starts = chunk_starts(starts)
        # a bound on its last entry that needs no question to the device; exact where tiles have one chunk
        rows = tiles if most == 1 else x.shape[0] // CHUNK + tiles
        sums = torch.empty((rows, width), dtype=torch.float64, device=x.device)
        launch(_chunk_sums, tiles * most, x, starts, sums, sum_starts, most,
               WIDTH=width, BLOCK=block(width), CHUNK=CHUNK, num_warps=4)  # fmt: skip
        if most == 1:
            return sums
        x, starts, tallest = sums, sum_starts, most
