"""Activation propagation over slices (formula and arguments in `zeromem_kernels/activation.py`).

A step is two gathers. The first sums entities into sentences; its epilogue reads sim(q, z), drops what is
hidden or weak, and multiplies. The second sums sentences into entities, takes out e = e' where asked, and
keeps the column's maximum by an integer maximum over float bits, exact in any order. Scaling by that maximum,
the threshold and Σ_t η_t are one pass over the entities, which the maximum has to precede.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zeromem_kernels.gpu.blocks import gather_sum, raise_peaks, row_block, store_segments, sum_segments
from zeromem_kernels.gpu.launch import (
    Wave,
    as_bytes,
    block,
    check_size,
    launch,
    launch_rows,
    most_parts,
    scratch_for,
    warps,
    waves,
)
from zeromem_kernels.slices import LANES, UNROLL, Slices
from zeromem_kernels.tiles import Axis

_ROWS = 64


@triton.jit
def _gate(similarity, hidden, least, o_x, m_x, i_column, o_w, m_w, MASKED: tl.constexpr):
    """S of some sentences: sim, 0 where negative, hidden or below the column's least."""
    b_gate = tl.maximum(tl.load(similarity + o_x, mask=m_x, other=0.0), 0.0)
    b_least = tl.load(least + i_column + o_w, mask=m_w, other=0.0)
    b_gate = tl.where(b_gate >= b_least[None, :], b_gate, 0.0)
    if MASKED:
        b_gate = tl.where(tl.load(hidden + o_x, mask=m_x, other=0) != 0, 0.0, b_gate)
    return b_gate


@triton.jit
def _epilogue(
    b_sum, b_row, m_row, out, similarity, hidden, least, eta, own, peaks, i_column, o_w, rounding,
    WIDTH: tl.constexpr, GATED: tl.constexpr, MASKED: tl.constexpr, EXCLUDE: tl.constexpr,
):  # fmt: skip
    m_w = o_w < WIDTH
    m_x = m_row[:, None] & m_w[None, :]
    o_x = b_row[:, None] * WIDTH + o_w[None, :]
    if GATED:
        b_sum *= _gate(similarity, hidden, least, o_x, m_x, i_column, o_w, m_w, MASKED)
    elif EXCLUDE:
        # what is left of an entity that met only itself is rounding, which scaling would blow up
        b_own = tl.load(eta + o_x, mask=m_x, other=0.0) * tl.load(own + o_x, mask=m_x, other=0.0)
        b_sum -= b_own
        b_sum = tl.where(b_sum > rounding * b_own, b_sum, 0.0)
    tl.store(out + o_x, b_sum, mask=m_x)
    if not GATED:
        raise_peaks(peaks, i_column, b_sum, m_x, o_w, m_w)


@triton.jit(do_not_specialize=["i_first", "n_most"])
def gather_rows(
    tile_bank, starts, source_starts, group_ptr, slice_ptr, lane_row, columns, weights,
    x, out, scratch, scratch_starts, similarity, hidden, least, eta, own, peaks, i_first, n_most, rounding,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
    GATED: tl.constexpr, MASKED: tl.constexpr, EXCLUDE: tl.constexpr,
):  # fmt: skip
    """One slice of one tile: its rows summed and finished, or its segments summed into scratch."""
    i_tile = i_first + tl.program_id(0) // n_most
    i_bank = tl.load(tile_bank + i_tile)
    i_slice = tl.load(group_ptr + i_bank) + tl.program_id(0) % n_most
    if i_slice < tl.load(group_ptr + i_bank + 1):
        o_w = tl.arange(0, BLOCK)
        m_w = o_w < WIDTH
        i_cell = tl.load(slice_ptr + i_slice)
        n_cells = (tl.load(slice_ptr + i_slice + 1) - i_cell).to(tl.int32)
        b_row = tl.load(lane_row + i_slice * LANES + tl.arange(0, LANES))
        b_sum = gather_sum(
            columns, weights, i_cell, n_cells, x + tl.load(source_starts + i_tile) * WIDTH, o_w, m_w,
            WIDTH, BLOCK, LANES, UNROLL,
        )  # fmt: skip
        if tl.load(lane_row + i_slice * LANES) < -1:
            store_segments(b_sum, b_row, scratch, tl.load(scratch_starts + i_tile), o_w, m_w, WIDTH)
        else:
            i_begin = tl.load(starts + i_tile) * WIDTH
            _epilogue(
                b_sum, b_row, b_row >= 0, out + i_begin, similarity + i_begin, hidden + i_begin, least,
                eta + i_begin, own + i_begin, peaks, i_tile * WIDTH, o_w, rounding,
                WIDTH, GATED, MASKED, EXCLUDE,
            )  # fmt: skip


@triton.jit(do_not_specialize=["i_first", "n_most"])
def combine_rows(
    tile_bank, starts, long_group, long_row, long_ptr, long_count,
    out, scratch, scratch_starts, similarity, hidden, least, eta, own, peaks, i_first, n_most, rounding,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    GATED: tl.constexpr, MASKED: tl.constexpr, EXCLUDE: tl.constexpr,
):  # fmt: skip
    """One row that was cut: its segments in a fixed order, then the epilogue."""
    i_tile = i_first + tl.program_id(0) // n_most
    i_bank = tl.load(tile_bank + i_tile)
    i_long = tl.load(long_group + i_bank) + tl.program_id(0) % n_most
    if i_long < tl.load(long_group + i_bank + 1):
        o_w = tl.arange(0, BLOCK)
        i_scratch = tl.load(scratch_starts + i_tile) + tl.load(long_ptr + i_long)
        b_sum = sum_segments(
            scratch, i_scratch, tl.load(long_count + i_long), o_w, o_w < WIDTH, WIDTH, BLOCK
        )
        b_row = tl.load(long_row + i_long + tl.arange(0, 1))
        i_begin = tl.load(starts + i_tile) * WIDTH
        _epilogue(
            b_sum, b_row, b_row >= 0, out + i_begin,
            similarity + i_begin, hidden + i_begin, least, eta + i_begin, own + i_begin, peaks,
            i_tile * WIDTH, o_w, rounding, WIDTH, GATED, MASKED, EXCLUDE,
        )  # fmt: skip


@triton.jit(do_not_specialize=["i_first", "n_most"])
def best_of(
    starts, x, hidden, peaks, i_first, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """peaks[t] = max(0, visible rows), as float bits."""
    i_tile, _row, o_w, o_x, _m, m_x, any_row = row_block(starts, i_first, n_most, WIDTH, BLOCK, ROWS)
    if any_row:
        b_x = tl.load(x + o_x, mask=m_x, other=0.0)
        if MASKED:
            b_x = tl.where(tl.load(hidden + o_x, mask=m_x, other=0) != 0, 0.0, b_x)
        b_peak = tl.max(tl.maximum(b_x, 0.0), axis=0).to(tl.int32, bitcast=True)
        tl.atomic_max(peaks + i_tile * WIDTH + o_w, b_peak, mask=o_w < WIDTH)


@triton.jit(do_not_specialize=["i_first", "n_most"])
def settle(
    starts, found, peaks, eta, total, floor, i_first, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, SEEDS: tl.constexpr,
):  # fmt: skip
    """η = found/max without what lies below `floor`, and its sum over the steps; seeds are not scaled."""
    i_tile, _row, o_w, o_x, _m, m_x, any_row = row_block(starts, i_first, n_most, WIDTH, BLOCK, ROWS)
    if any_row:
        b_peak = tl.load(peaks + i_tile * WIDTH + o_w, mask=o_w < WIDTH, other=0)
        b_peak = b_peak.to(tl.float32, bitcast=True)
        b_eta = tl.load(found + o_x, mask=m_x, other=0.0)
        if not SEEDS:
            b_scale = tl.where(b_peak > 0, 1.0 / tl.where(b_peak > 0, b_peak, 1.0), 0.0)
            b_eta = b_eta * b_scale[None, :]
            b_peak = b_peak * b_scale
        if floor > 0:
            b_eta = tl.where(b_eta >= (b_peak * floor)[None, :], b_eta, 0.0)
        tl.store(eta + o_x, b_eta, mask=m_x)
        if SEEDS:
            tl.store(total + o_x, b_eta, mask=m_x)
        else:
            tl.store(total + o_x, tl.load(total + o_x, mask=m_x, other=0.0) + b_eta, mask=m_x)


class _Pass:
    """One direction of the incidence with its scratch, launched per wave."""

    def __init__(self, slices: Slices, source: Axis, target: Axis, width: int) -> None:
        check_size(target)
        self._slices, self._target = slices, target
        self._banks = target.tiles.host_bank
        self._scratch, self._scratch_starts = scratch_for(slices, target.tiles, width, target.ptr.device)
        self._source_starts = source.starts
        self._columns = {"WIDTH": width, "BLOCK": block(width)}

    def __call__(self, wave: Wave, x: Tensor, out: Tensor, *state: Any, **meta: Any) -> None:
        """`state`: similarity, hidden, least, eta, own, peaks, rounding; what the form does not read may be `out`."""
        slices, target = self._slices, self._target
        *state_tensors, rounding = state
        banks = self._banks[wave.first : wave.first + wave.size]
        size = self._columns["BLOCK"] * LANES
        pieces, cut = most_parts(slices.host_group, banks), most_parts(slices.host_long, banks)
        launch(gather_rows, wave.size * pieces, target.tiles.bank, target.starts, self._source_starts,
               slices.group_ptr, slices.slice_ptr, slices.lane_row, slices.columns, slices.weights,
               x, out, self._scratch, self._scratch_starts, *state_tensors, wave.first, pieces, rounding,
               LANES=LANES, UNROLL=UNROLL, num_warps=warps(size, 4), **self._columns, **meta)  # fmt: skip
        launch(combine_rows, wave.size * cut, target.tiles.bank, target.starts,
               slices.long_group, slices.long_row, slices.long_ptr, slices.long_count,
               out, self._scratch, self._scratch_starts, *state_tensors, wave.first, cut, rounding,
               num_warps=warps(size, 4), **self._columns, **meta)  # fmt: skip


def gather(slices: Slices, x: Tensor, source: Axis, target: Axis) -> Tensor:
    """Σ weight · x[column] of every row, float32 [target rows, width]: one direction by itself."""
    width, device = x.shape[1], x.device
    out = torch.empty((target.rows, width), device=device)
    go = _Pass(slices, source, target, width)
    unread = torch.zeros((len(target.tiles), width), dtype=torch.int32, device=device)
    for wave in waves(target.host_starts + source.host_starts, width * 4, device):
        go(wave, x, out, out, out, out, out, out, unread, 0.0, GATED=False, MASKED=False, EXCLUDE=False)
    return out


def propagate(
    seeds: Tensor, similarity: Tensor, hidden: Tensor | None, forward: Slices, backward: Slices,
    sentences: Axis, entities: Axis, *, steps: int, floor: float, sentence_floor: float,
    gate: Tensor | None, rounding: float,
) -> Tensor:  # fmt: skip
    """Σ_t η_t, float32 [entity rows, width].

    `forward` has sentences as rows, `backward` entities; `gate` is S where e = e' is left out, else None.
    """
    width, device, tiles = seeds.shape[1], seeds.device, len(entities.tiles)
    to_sentences = _Pass(forward, entities, sentences, width)
    to_entities = _Pass(backward, sentences, entities, width)
    eta, total, found = torch.empty_like(seeds), torch.empty_like(seeds), torch.empty_like(seeds)
    spread = torch.empty_like(similarity)
    # of the sentences, of the seeds, of each step, and one that nobody reads
    peaks = torch.zeros((steps + 3, tiles, width), dtype=torch.int32, device=device)
    least = torch.zeros((tiles, width), device=device)
    masked = hidden is not None
    mask = as_bytes(hidden) if hidden is not None else spread
    both = entities.host_starts + sentences.host_starts
    own = seeds if gate is None else torch.empty_like(seeds)

    def settled(wave: Wave, x: Tensor, peak: Tensor, **form: bool) -> None:
        launch_rows(settle, entities, _ROWS, entities.starts, x, peak, eta, total, floor, wave=wave, **form)

    for wave in waves(both, width * 4, device):
        of_wave = slice(wave.first, wave.first + wave.size)
        launch_rows(
            best_of,
            sentences,
            _ROWS,
            sentences.starts,
            similarity,
            mask,
            peaks[0],
            wave=wave,
            MASKED=masked,
        )
        least[of_wave] = peaks[0, of_wave].view(torch.float32) * sentence_floor
        launch_rows(
            best_of, entities, _ROWS, entities.starts, seeds, spread, peaks[1], wave=wave, MASKED=False
        )
        settled(wave, seeds, peaks[1], SEEDS=True)
        if gate is not None:
            to_entities(wave, gate, own, own, own, least, own, own, peaks[-1], rounding,
                        GATED=False, MASKED=False, EXCLUDE=False)  # fmt: skip
        for step in range(2, steps + 2):
            sims = (similarity, mask, least)
            to_sentences(wave, eta, spread, *sims, spread, spread, peaks[step], rounding,
                         GATED=True, MASKED=masked, EXCLUDE=False)  # fmt: skip
            to_entities(wave, spread, found, found, found, least, eta, own, peaks[step], rounding,
                        GATED=False, MASKED=False, EXCLUDE=gate is not None)  # fmt: skip
            settled(wave, found, peaks[step], SEEDS=False)
    return total
