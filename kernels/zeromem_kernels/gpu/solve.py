"""The driver of PageRank's kernels: storage, waves of tiles, sweeps, stopping."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from zeromem_kernels.gpu import pagerank as kernels
from zeromem_kernels.gpu.launch import (
    Wave,
    as_bytes,
    block,
    boundaries,
    check_size,
    launch,
    launch_rows,
    most_parts,
    scratch_for,
    warps,
    waves,
)
from zeromem_kernels.gpu.reduce import CHUNK, chunk_starts, column_sums
from zeromem_kernels.slices import LANES, UNROLL, Slices
from zeromem_kernels.sweeps import power_of_two, total_sweeps
from zeromem_kernels.tiles import Axis

_ROWS = 32


class Sweeper:
    """The state of one solve: y and b in storage, and the launches that move them.

    What it needs to know of `axis` and `slices` it reads when made. Its methods only launch (`residual`
    returns a tensor that nobody has looked at), so all of them can be captured in a CUDA graph: `restart`, so
    many sweeps, `finish`.
    """

    def __init__(
        self, slices: Slices, degree: Tensor, reset: Tensor, axis: Axis, hidden: Tensor | None, gamma: float,
        storage: torch.dtype, in_place: bool,
    ) -> None:  # fmt: skip
        check_size(axis)
        self._slices, self._degree, self._axis, self._gamma = slices, degree, axis, gamma
        self._width = reset.shape[1]
        self._columns = {"WIDTH": self._width, "BLOCK": block(self._width)}
        self._head = (axis.tiles.bank, axis.ptr, axis.starts)
        self._size_buffers(reset.device)
        # y is gathered, b streams past once a sweep: both should stay
        self.waves = list(waves(axis.host_starts, self._width * (storage.itemsize + 4), reset.device))
        self.y = torch.empty(reset.shape, dtype=storage, device=reset.device)
        self.in_place = in_place
        self._next = torch.empty_like(self.y[:0] if in_place else self.y)
        self._bias = torch.empty(reset.shape, device=reset.device)
        self.error = torch.empty_like(self.y[:0])
        self._error_scale = torch.ones((len(axis.tiles), self._width), device=reset.device)
        self.restart(reset, hidden)

    def _size_buffers(self, device: torch.device) -> None:
        """Scratch rows for segments, and one row of residuals for each slice and each row that was cut."""
        slices = self._slices
        self._banks = self._axis.tiles.host_bank
        bounds = slices.host_group[:: slices.colours], slices.host_long[:: slices.colours]
        gaps = sum(bound[self._banks + 1] - bound[self._banks] for bound in bounds)
        self._most_gaps, self._gap_rows = int(gaps.max(initial=0)), int(gaps.sum())
        tiles, owner = self._axis.tiles, slices.host_group
        self._gap_starts = tiles.kept(
            ("gaps", id(owner)), owner, lambda: boundaries(torch.from_numpy(gaps), device)
        )
        self._scratch, self._scratch_starts = scratch_for(slices, tiles, self._width, device)

    def restart(self, reset: Tensor, hidden: Tensor | None) -> None:
        """Set b and the first y for a reset of the same shape; float16 under the largest power of two that fits."""
        self._refined = False
        masked = {"MASKED": hidden is not None}
        given = (self._degree, reset, None if hidden is None else as_bytes(hidden))
        self._scale = None
        if self.y.dtype == torch.float16:
            peaks = torch.zeros((len(self._axis.tiles), self._width), device=reset.device)
            self._by_rows(kernels.peak, *given, peaks.view(torch.int32), self._gamma, **masked)
            self._scale = power_of_two(peaks)
        scaled = {"SCALED": self._scale is not None}
        self._by_rows(
            kernels.start, *given, self._scale, self._bias, self.y, self._gamma, **masked, **scaled
        )

    def _by_rows(self, kernel: Any, *args: Any, **meta: Any) -> None:
        launch_rows(kernel, self._axis, _ROWS, *self._head, *args, **meta)

    def sweep(self, wave: Wave, step: Tensor, x: Tensor, count: int) -> None:
        """`count` sweeps of x, which is `y` or `error`; `step` is ω, float32 [T, width], 0 for a stopped column."""
        for turn in range(count):
            if self.in_place:
                for colour in range(self._slices.colours):
                    self._sweep(wave, step, colour, 1, (x, x))
            else:
                self.iterate(wave, step, x, turn)
        if not self.in_place:
            self.settle(wave, x, count)

    def iterate(
        self, wave: Wave, step: Tensor, x: Tensor, turn: int, *, measured: bool = False
    ) -> Tensor | None:
        """Power iteration number `turn` of a wave; with `measured` the residual before it, as from `residual`."""
        buffers = (x, self._next) if turn % 2 == 0 else (self._next, x)
        gaps = self._new_gaps() if measured else None
        self._sweep(wave, step, 0, self._slices.colours, buffers, gaps, RESIDUAL=measured)
        return None if gaps is None else self._total(wave, gaps)

    def settle(self, wave: Wave, x: Tensor, turns: int) -> None:
        """Bring x home after `turns` power iterations."""
        if turns % 2:
            starts = self._axis.host_starts
            rows = slice(int(starts[wave.first]), int(starts[wave.first + wave.size]))
            x[rows] = self._next[rows]

    def refine(self, wave: Wave, step: Tensor) -> None:
        """Make b the residual of y, scaled anew, and `error` the first guess at its solution."""
        if not self._refined:
            # waves that are not refined add nothing
            self.error = torch.zeros_like(self.y) if not len(self.error) else self.error.zero_()
            self._refined = True
        tiles = slice(wave.first, wave.first + wave.size)
        peaks = torch.zeros_like(self._error_scale)
        bits = peaks.view(torch.int32)
        self._sweep(wave, step, 0, self._slices.colours, (self.y, self.y), bits, UPDATE=False, REFINE=True)
        # max |error| ≤ max |residual|/(1 − γ)
        self._error_scale[tiles] = power_of_two(peaks[tiles] / (1.0 - self._gamma))
        given = (self._axis.starts, self._bias, self._error_scale, self.error)
        launch_rows(kernels.begin_correction, self._axis, _ROWS, *given, wave=wave)

    def residual(self, wave: Wave, step: Tensor) -> Tensor:
        """‖(1−γ) r + γ Pᵀ x − x‖₁ of each column of the wave's tiles, float64 [tiles, width]."""
        gaps = self._new_gaps()
        self._sweep(
            wave, step, 0, self._slices.colours, (self.y, self.y), gaps, UPDATE=False, RESIDUAL=True
        )
        return self._total(wave, gaps)

    def _new_gaps(self) -> Tensor:
        return torch.empty((self._gap_rows, self._width), device=self.y.device)

    def _total(self, wave: Wave, gaps: Tensor) -> Tensor:
        tiles = slice(wave.first, wave.first + wave.size)
        total = column_sums(gaps, self._gap_starts[tiles.start : tiles.stop + 1], self._most_gaps)
        return total if self._scale is None else total / self._scale[tiles]

    def _sweep(
        self, wave: Wave, step: Tensor, colour: int, count: int, buffers: tuple[Tensor, Tensor],
        gaps: Tensor | None = None, **form: bool,
    ) -> None:  # fmt: skip
        """Launch `count` colours of a wave: slices, then the rows that were cut."""
        slices = self._slices
        group = self._banks[wave.first : wave.first + wave.size] * slices.colours + colour
        scratch = (self._scratch, self._scratch_starts)
        state = (self._degree, self._bias, *buffers, step, *scratch, gaps, self._gap_starts)
        meta = {"UPDATE": True, "RESIDUAL": False, "REFINE": False, **form, **self._columns}
        meta["COLOURS"] = slices.colours
        pieces, cut = (
            most_parts(slices.host_group, group, count),
            most_parts(slices.host_long, group, count),
        )
        launch(kernels.sweep, wave.size * pieces, *self._head, slices.group_ptr, slices.slice_ptr, slices.lane_row,
               slices.columns, slices.weights, *state, wave.first, pieces, colour, count, self._gamma,
               **meta, LANES=LANES, UNROLL=UNROLL,
               num_warps=warps(LANES * self._columns["BLOCK"], self.y.element_size()))  # fmt: skip
        launch(kernels.combine, wave.size * cut, *self._head, slices.group_ptr, slices.long_group,
               slices.long_row, slices.long_ptr, slices.long_count, *state,
               wave.first, cut, colour, count, self._gamma, **meta,
               num_warps=warps(LANES * self._columns["BLOCK"], 4))  # fmt: skip

    def finish(self) -> Tensor:
        """π = d y scaled to sum 1, float32 [rows, width]."""
        starts, tallest = self._axis.starts, self._axis.tallest
        sums, chunks = chunk_starts(starts), max(-(-tallest // CHUNK), 1)
        tiles = len(starts) - 1
        masses = torch.empty(
            (len(self.y) // CHUNK + tiles, self._width), dtype=torch.float64, device=self.y.device
        )
        refined = self._refined
        kept = (self.y, self.error, 1.0 / self._error_scale)
        launch(kernels.masses, tiles * chunks, *self._head, self._degree, *kept, masses, sums, chunks,
               **self._columns, CHUNK=CHUNK, REFINED=refined, num_warps=4)  # fmt: skip
        mass = masses if chunks == 1 else column_sums(masses, sums, chunks)
        pi = torch.empty(self.y.shape, device=self.y.device)
        self._by_rows(kernels.finish, self._degree, *kept, mass, pi, REFINED=refined)
        return pi


def solve(
    state: Sweeper, step: Tensor, *, tolerance: float, sweeps: tuple[int, int] | None, unchecked: int, most: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Sweep every wave to its end: a fixed number of times, or until each column's residual passes `tolerance`.

    Args:
        state: a fresh `Sweeper`.
        step: ω of each column, float32 [T, width]; columns that end are set to 0.
        tolerance: the residual allowed.
        sweeps: sweeps of y and of its correction (0: none), which ask the device nothing; or None.
        unchecked: SOR's sweeps before the first residual.
        most: sweeps at the most.

    Returns:
        Sweeps int32 and residuals float32, both [T, width]; residuals are NaN for a fixed number of sweeps.
    """
    done = torch.full(step.shape, total_sweeps(sweeps), dtype=torch.int32, device=step.device)
    residuals = torch.full_like(step, torch.nan)
    for wave in state.waves:
        tiles = slice(wave.first, wave.first + wave.size)
        if sweeps is None:
            until = _relax_until if state.in_place else _iterate_until
            until(
                state, wave, step, tolerance, unchecked, most, (step[tiles], done[tiles], residuals[tiles])
            )
            continue
        state.sweep(wave, step, state.y, sweeps[0])
        if sweeps[1]:
            state.refine(wave, step)
            state.sweep(wave, step, state.error, sweeps[1])
    return done, residuals


_Told = tuple[Tensor, Tensor, Tensor]


def _relax_until(
    state: Sweeper, wave: Wave, step: Tensor, tolerance: float, unchecked: int, most: int, told: _Told
) -> None:  # fmt: skip
    for count in range(most + 1):
        if count >= unchecked and not _record(state.residual(wave, step), tolerance, count, told):
            return
        if count < most:
            state.sweep(wave, step, state.y, 1)


def _iterate_until(
    state: Sweeper, wave: Wave, step: Tensor, tolerance: float, unchecked: int, most: int, told: _Told
) -> None:  # fmt: skip
    turn = 0
    while turn < most:
        total = state.iterate(wave, step, state.y, turn, measured=True)
        turn += 1
        if total is not None and not _record(total, tolerance, turn, told):
            break
    state.settle(wave, state.y, turn)


def _record(total: Tensor, tolerance: float, count: int, told: _Told) -> bool:
    """Note the columns that still run and stop those that pass; whether any goes on."""
    step, done, residuals = told
    running = step > 0
    done.masked_fill_(running, count)
    residuals.copy_(torch.where(running, total.float(), residuals))
    step.masked_fill_(~(total > tolerance), 0.0)
    return bool((step > 0).any())
