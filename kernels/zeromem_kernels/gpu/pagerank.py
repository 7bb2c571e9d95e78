"""Batched Personalized PageRank over slices (formulas and arguments in `zeromem_kernels/pagerank.py`).

In y = D⁻¹π a row is y ← b + (γ/d) Σ W y with b = (1−γ) r/d, made once. The sweep's epilogue holds that, the
relaxation ω, boundaries (b = −∞ marks a hidden row, which costs no byte) and the L1 residual. y is kept in
float32, or in float16 under a power of two a column: y ≤ max r/d always, which therefore becomes 2¹³ … 2¹⁴.
For float16 a refining pass turns b into the residual, whose solution corrects what the rounding of y cost.
"""

from __future__ import annotations

import triton
import triton.language as tl

from zeromem_kernels.gpu.blocks import (
    fold,
    gather_sum,
    raise_peaks,
    row_block,
    store_segments,
    sum_segments,
)


@triton.jit
def _start_value(reset, degree, hidden, o_row, m_row, o_x, m_x, gamma, MASKED: tl.constexpr):
    """(r/d, b) of some rows; a row without edges is final at (1−γ) r and so counts d = 1."""
    b_degree = tl.load(degree + o_row, mask=m_row, other=1.0)
    b_reset = tl.load(reset + o_x, mask=m_x, other=0.0)
    b_inverse = 1.0 / tl.where(b_degree > 0, b_degree, 1.0)
    b_bias = (1.0 - gamma) * b_reset * b_inverse[:, None]
    b_y = tl.where((b_degree > 0)[:, None], b_reset * b_inverse[:, None], b_bias)
    if MASKED:
        m_hidden = tl.load(hidden + o_x, mask=m_x, other=0) != 0
        b_y = tl.where(m_hidden, 0.0, b_y)
        b_bias = tl.where(m_hidden, -float("inf"), b_bias)
    return b_y, b_bias


@triton.jit(do_not_specialize=["n_most"])
def peak(
    tile_bank, node_ptr, starts, degree, reset, hidden, peaks, gamma, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """peaks[t] = max of the start values; they are not negative, so their bits order as integers."""
    i_tile, o_row, o_w, o_x, m_row, m_x, any_row = row_block(starts, 0, n_most, WIDTH, BLOCK, ROWS)
    if any_row:
        p_degree = degree + tl.load(node_ptr + tl.load(tile_bank + i_tile))
        b_y, _b = _start_value(reset, p_degree, hidden, o_row, m_row, o_x, m_x, gamma, MASKED)
        b_peak = tl.max(tl.where(m_x, b_y, 0.0), axis=0).to(tl.int32, bitcast=True)
        tl.atomic_max(peaks + i_tile * WIDTH + o_w, b_peak, mask=o_w < WIDTH)


@triton.jit(do_not_specialize=["n_most"])
def start(
    tile_bank, node_ptr, starts, degree, reset, hidden, scale, bias, x, gamma, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, MASKED: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """b and the first y in storage."""
    i_tile, o_row, o_w, o_x, m_row, m_x, any_row = row_block(starts, 0, n_most, WIDTH, BLOCK, ROWS)
    if any_row:
        p_degree = degree + tl.load(node_ptr + tl.load(tile_bank + i_tile))
        b_y, b_bias = _start_value(reset, p_degree, hidden, o_row, m_row, o_x, m_x, gamma, MASKED)
        if SCALED:
            b_scale = tl.load(scale + i_tile * WIDTH + o_w, mask=o_w < WIDTH, other=1.0)[None, :]
            b_y = b_y * b_scale
            b_bias = b_bias * b_scale
        tl.store(x + o_x, b_y, mask=m_x)
        tl.store(bias + o_x, b_bias, mask=m_x)


@triton.jit
def _relax(
    b_sum, b_row, m_row, degree, bias, x, out, b_step, gaps, i_column, gamma, o_w,
    WIDTH: tl.constexpr, UPDATE: tl.constexpr, REFINE: tl.constexpr,
):  # fmt: skip
    """The epilogue of some rows of a tile, with the gap g = b + (γ/d) Σ − y: y + ω g is stored; |g| d returned.

    REFINE stores g in place of b instead, and the largest |g| of each column as float bits in `gaps`.
    """
    m_x = m_row[:, None] & (o_w < WIDTH)[None, :]
    o_x = b_row[:, None] * WIDTH + o_w[None, :]
    b_degree = tl.load(degree + b_row, mask=m_row, other=1.0)
    # a row without weights of its own passes nothing on, but takes what directed edges bring
    b_degree = tl.where(b_degree > 0, b_degree, 1.0)
    b_gain = gamma / b_degree
    b_bias = tl.load(bias + o_x, mask=m_x, other=-float("inf"))
    m_free = b_bias != -float("inf")
    b_x = tl.load(x + o_x, mask=m_x, other=0.0).to(tl.float32)
    b_gap = tl.where(m_free, b_bias + b_gain[:, None] * b_sum - b_x, 0.0)
    if UPDATE:
        tl.store(out + o_x, b_x + b_step[None, :] * b_gap, mask=m_x)
    if REFINE:
        tl.store(bias + o_x, tl.where(m_free, b_gap, -float("inf")), mask=m_x)
        raise_peaks(gaps, i_column, tl.abs(b_gap), m_x, o_w, o_w < WIDTH)
    return tl.where(m_x, tl.abs(b_gap) * b_degree[:, None], 0.0)


@triton.jit(do_not_specialize=["i_first", "n_most", "i_colour", "n_colours"])
def sweep(
    tile_bank, node_ptr, starts, group_ptr, slice_ptr, lane_row, columns, weights,
    degree, bias, x, out, step, scratch, scratch_starts, gaps, gap_starts,
    i_first, n_most, i_colour, n_colours, gamma,
    COLOURS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr,
    UNROLL: tl.constexpr, UPDATE: tl.constexpr, RESIDUAL: tl.constexpr, REFINE: tl.constexpr,
):  # fmt: skip
    """One slice of one tile: its rows relaxed, or its segments summed into scratch."""
    i_tile = i_first + tl.program_id(0) // n_most
    i_bank = tl.load(tile_bank + i_tile)
    i_group = i_bank * COLOURS + i_colour
    i_slice = tl.load(group_ptr + i_group) + tl.program_id(0) % n_most
    if i_slice < tl.load(group_ptr + i_group + n_colours):
        o_w = tl.arange(0, BLOCK)
        m_w = o_w < WIDTH
        i_begin = tl.load(starts + i_tile) * WIDTH
        i_cell = tl.load(slice_ptr + i_slice)
        n_cells = (tl.load(slice_ptr + i_slice + 1) - i_cell).to(tl.int32)
        b_row = tl.load(lane_row + i_slice * LANES + tl.arange(0, LANES))
        b_sum = gather_sum(
            columns, weights, i_cell, n_cells, x + i_begin, o_w, m_w, WIDTH, BLOCK, LANES, UNROLL
        )
        i_gap = tl.load(gap_starts + i_tile) + i_slice - tl.load(group_ptr + i_bank * COLOURS)
        if tl.load(lane_row + i_slice * LANES) < -1:
            store_segments(b_sum, b_row, scratch, tl.load(scratch_starts + i_tile), o_w, m_w, WIDTH)
            if RESIDUAL:
                tl.store(gaps + i_gap * WIDTH + o_w, tl.zeros((BLOCK,), tl.float32), mask=m_w)
        else:
            b_step = tl.load(step + i_tile * WIDTH + o_w, mask=m_w, other=0.0)
            b_gap = _relax(
                b_sum, b_row, b_row >= 0, degree + tl.load(node_ptr + i_bank), bias + i_begin, x + i_begin,
                out + i_begin, b_step, gaps, i_tile * WIDTH, gamma, o_w, WIDTH, UPDATE, REFINE,
            )  # fmt: skip
            if RESIDUAL:
                tl.store(gaps + i_gap * WIDTH + o_w, fold(b_gap, BLOCK), mask=m_w)


@triton.jit(do_not_specialize=["i_first", "n_most", "i_colour", "n_colours"])
def combine(
    tile_bank, node_ptr, starts, group_ptr, long_group, long_row, long_ptr, long_count,
    degree, bias, x, out, step, scratch, scratch_starts, gaps, gap_starts,
    i_first, n_most, i_colour, n_colours, gamma,
    COLOURS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    UPDATE: tl.constexpr, RESIDUAL: tl.constexpr, REFINE: tl.constexpr,
):  # fmt: skip
    """One row that was cut: its segments summed in a fixed order, then relaxed like any other."""
    i_tile = i_first + tl.program_id(0) // n_most
    i_bank = tl.load(tile_bank + i_tile)
    i_group = i_bank * COLOURS + i_colour
    i_long = tl.load(long_group + i_group) + tl.program_id(0) % n_most
    if i_long < tl.load(long_group + i_group + n_colours):
        o_w = tl.arange(0, BLOCK)
        m_w = o_w < WIDTH
        i_begin = tl.load(starts + i_tile) * WIDTH
        i_scratch = tl.load(scratch_starts + i_tile) + tl.load(long_ptr + i_long)
        b_sum = sum_segments(scratch, i_scratch, tl.load(long_count + i_long), o_w, m_w, WIDTH, BLOCK)
        b_row = tl.load(long_row + i_long + tl.arange(0, 1))
        b_step = tl.load(step + i_tile * WIDTH + o_w, mask=m_w, other=0.0)
        b_gap = _relax(
            b_sum, b_row, b_row >= 0, degree + tl.load(node_ptr + i_bank), bias + i_begin, x + i_begin,
            out + i_begin, b_step, gaps, i_tile * WIDTH, gamma, o_w, WIDTH, UPDATE, REFINE,
        )  # fmt: skip
        if RESIDUAL:
            n_slices = tl.load(group_ptr + (i_bank + 1) * COLOURS) - tl.load(group_ptr + i_bank * COLOURS)
            i_gap = (
                tl.load(gap_starts + i_tile) + n_slices + i_long - tl.load(long_group + i_bank * COLOURS)
            )
            tl.store(gaps + i_gap * WIDTH + o_w, tl.reshape(b_gap, (BLOCK,)), mask=m_w)


@triton.jit(do_not_specialize=["i_first", "n_most"])
def begin_correction(
    starts, bias, scale, x, i_first, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Begin on the residual that REFINE left in b: both b and the first y are it, scaled."""
    i_tile, _row, o_w, o_x, _m, m_x, any_row = row_block(starts, i_first, n_most, WIDTH, BLOCK, ROWS)
    if any_row:
        b_scale = tl.load(scale + i_tile * WIDTH + o_w, mask=o_w < WIDTH, other=1.0)
        b_bias = tl.load(bias + o_x, mask=m_x, other=0.0) * b_scale[None, :]
        tl.store(bias + o_x, b_bias, mask=m_x)
        tl.store(x + o_x, tl.where(b_bias == -float("inf"), 0.0, b_bias), mask=m_x)


@triton.jit
def _refined(x, error, inverse, o_x, m_x, i_column, o_w, WIDTH: tl.constexpr, REFINED: tl.constexpr):
    """y, with the correction that refining found."""
    b_x = tl.load(x + o_x, mask=m_x, other=0.0).to(tl.float32)
    if REFINED:
        b_inverse = tl.load(inverse + i_column + o_w, mask=o_w < WIDTH, other=0.0)
        b_x += tl.load(error + o_x, mask=m_x, other=0.0).to(tl.float32) * b_inverse[None, :]
    return b_x


@triton.jit(do_not_specialize=["n_most"])
def masses(
    tile_bank, node_ptr, starts, degree, x, error, inverse, masses, mass_starts, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr, REFINED: tl.constexpr,
):  # fmt: skip
    """Σ d y over CHUNK rows of a tile, float64."""
    i_tile, i_chunk = tl.program_id(0) // n_most, tl.program_id(0) % n_most
    i_out = tl.load(mass_starts + i_tile) + i_chunk
    i_begin = tl.load(starts + i_tile)
    n_rows = (tl.load(starts + i_tile + 1) - i_begin).to(tl.int32)
    p_degree = degree + tl.load(node_ptr + tl.load(tile_bank + i_tile))
    if i_out < tl.load(mass_starts + i_tile + 1):
        o_lane, o_w = tl.arange(0, 16), tl.arange(0, BLOCK)
        b_sum = tl.zeros((16, BLOCK), dtype=tl.float64)
        for o_begin in range(i_chunk * CHUNK, tl.minimum(i_chunk * CHUNK + CHUNK, n_rows), 16):
            o_row = o_begin + o_lane
            m_x = (o_row < n_rows)[:, None] & (o_w < WIDTH)[None, :]
            b_degree = tl.load(p_degree + o_row, mask=o_row < n_rows, other=0.0)
            b_degree = tl.where(b_degree > 0, b_degree, 1.0)
            o_x = i_begin * WIDTH + (o_row[:, None] * WIDTH + o_w[None, :])
            b_x = _refined(x, error, inverse, o_x, m_x, i_tile * WIDTH, o_w, WIDTH, REFINED)
            b_sum += b_x.to(tl.float64) * b_degree[:, None]
        tl.store(masses + i_out * WIDTH + o_w, fold(b_sum, BLOCK), mask=o_w < WIDTH)


@triton.jit(do_not_specialize=["n_most"])
def finish(
    tile_bank, node_ptr, starts, degree, x, error, inverse, mass, pi, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, REFINED: tl.constexpr,
):  # fmt: skip
    """π = d y/Σ d y; the storage's scale cancels. A column without mass stays 0."""
    i_tile, o_row, o_w, o_x, m_row, m_x, any_row = row_block(starts, 0, n_most, WIDTH, BLOCK, ROWS)
    if any_row:
        p_degree = degree + tl.load(node_ptr + tl.load(tile_bank + i_tile))
        b_degree = tl.load(p_degree + o_row, mask=m_row, other=1.0)
        b_degree = tl.where(b_degree > 0, b_degree, 1.0)
        b_mass = tl.load(mass + i_tile * WIDTH + o_w, mask=o_w < WIDTH, other=0.0)
        b_inverse = tl.where(b_mass == 0, 0.0, 1.0 / tl.where(b_mass == 0, 1.0, b_mass)).to(tl.float32)
        b_x = _refined(x, error, inverse, o_x, m_x, i_tile * WIDTH, o_w, WIDTH, REFINED)
        tl.store(pi + o_x, b_x * b_degree[:, None] * b_inverse[None, :], mask=m_x)
