"""What several kernels share: the sum over a slice's entries, and sums over rows in a fixed order."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gather_sum(
    columns, weights, i_first, n_cells, x, o_w, m_w,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Σ_k weight · x[column] for each lane of a slice, in stored order → float32 [LANES, BLOCK]."""
    b_sum = tl.zeros((LANES, BLOCK), dtype=tl.float32)
    o_lane = tl.arange(0, LANES)
    for o_cell in range(0, n_cells, UNROLL * LANES):
        for k in tl.static_range(UNROLL):
            o_k = i_first + (o_cell + k * LANES) + o_lane
            b_column = tl.load(columns + o_k)
            b_weight = tl.load(weights + o_k).to(tl.float32)
            p_x = x + b_column[:, None] * WIDTH + o_w[None, :]
            if WIDTH == BLOCK:  # noqa: SIM108, a mask would cost the 128-bit loads
                b_x = tl.load(p_x)
            else:
                b_x = tl.load(p_x, mask=m_w[None, :], other=0.0)
            b_sum += b_weight[:, None] * b_x.to(tl.float32)
    return b_sum


@triton.jit
def _halve(x, HALF: tl.constexpr, BLOCK: tl.constexpr):
    low, high = tl.split(tl.permute(tl.reshape(x, (2, HALF, BLOCK)), (1, 2, 0)))
    return low + high


@triton.jit
def fold(x, BLOCK: tl.constexpr):
    """The sum over 16 rows as one tree that no compiler layout can change: [16, BLOCK] → [BLOCK]."""
    x = _halve(x, 8, BLOCK)
    x = _halve(x, 4, BLOCK)
    x = _halve(x, 2, BLOCK)
    x = _halve(x, 1, BLOCK)
    return tl.reshape(x, (BLOCK,))


@triton.jit
def store_segments(b_sum, b_row, scratch, i_scratch, o_w, m_w, WIDTH: tl.constexpr):
    """Put a slice's segments where their lanes say: lane −2 − i into the tile's scratch row i."""
    o_x = (-2 - b_row)[:, None] * WIDTH + o_w[None, :]
    tl.store(scratch + i_scratch * WIDTH + o_x, b_sum, mask=(b_row < -1)[:, None] & m_w[None, :])


@triton.jit
def sum_segments(scratch, i_scratch, n_parts, o_w, m_w, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of a cut row's segments, rows i_scratch … of scratch, in a fixed order: [1, BLOCK]."""
    o_lane = tl.arange(0, 16)
    b_parts = tl.zeros((16, BLOCK), dtype=tl.float32)
    for o_part in range(0, n_parts, 16):
        m_part = ((o_part + o_lane) < n_parts)[:, None] & m_w[None, :]
        o_x = (o_part + o_lane)[:, None] * WIDTH + o_w[None, :]
        b_parts += tl.load(scratch + i_scratch * WIDTH + o_x, mask=m_part, other=0.0)
    return tl.reshape(fold(b_parts, BLOCK), (1, BLOCK))


@triton.jit
def raise_peaks(peaks, i_column, b_x, m_x, o_w, m_w):
    """peaks = max(peaks, b_x) a column; values that are not negative order as integers by their bits."""
    b_peak = tl.max(tl.where(m_x, b_x, 0.0), axis=0).to(tl.int32, bitcast=True)
    # a stale value only costs an atomic that changes nothing
    b_known = tl.load(peaks + i_column + o_w, mask=m_w, other=0)
    tl.atomic_max(peaks + i_column + o_w, b_peak, mask=m_w & (b_peak > b_known))


@triton.jit
def row_block(starts, i_first, n_most, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """This program's ROWS rows of a tile: (tile, rows, columns, offsets, mask of rows, mask, whether any is there).

    Rows count inside the tile, offsets from the beginning of a matrix.
    """
    i_tile, i_part = i_first + tl.program_id(0) // n_most, tl.program_id(0) % n_most
    i_begin = tl.load(starts + i_tile)
    n_rows = (tl.load(starts + i_tile + 1) - i_begin).to(tl.int32)
    o_w = tl.arange(0, BLOCK)
    o_row = i_part * ROWS + tl.arange(0, ROWS)
    o_x = i_begin * WIDTH + (o_row[:, None] * WIDTH + o_w[None, :])
    m_row = o_row < n_rows
    return i_tile, o_row, o_w, o_x, m_row, m_row[:, None] & (o_w < WIDTH)[None, :], i_part * ROWS < n_rows
