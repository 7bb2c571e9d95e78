"""The driver of PageRank's kernels: storage, waves of tiles, sweeps, stopping."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from zeromem_kernels.gpu import pagerank as kernels
from zeromem_kernels.gpu.launch import Wave, as_bytes, block, boundaries, check_size, launch, warps, waves
from zeromem_kernels.gpu.reduce import CHUNK, chunk_starts, column_sums
from zeromem_kernels.pagerank import power_of_two
from zeromem_kernels.slices import LANES, UNROLL, Slices
from zeromem_kernels.tiles import Axis

_ROWS = 64


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
        self.waves = list(waves(axis.host_starts, self._width * storage.itemsize, reset.device))
        self.y = torch.empty(reset.shape, dtype=storage, device=reset.device)
        self._next = torch.empty_like(self.y if not in_place else self.y[:0])
        self._bias = torch.empty_like(self.y)
        self.restart(reset, hidden)

    def _size_buffers(self, device: torch.device) -> None:
        """Scratch rows for segments, and one row of residuals for each slice and each row that was cut."""
        slices = self._slices
        self._banks = self._axis.tiles.bank.cpu().numpy()
        bounds = slices.host_group[:: slices.colours], slices.host_long[:: slices.colours]
        gaps = sum(bound[self._banks + 1] - bound[self._banks] for bound in bounds)
        self._most_gaps, self._gap_rows = int(gaps.max(initial=0)), int(gaps.sum())
        self._gap_starts = boundaries(torch.from_numpy(gaps), device)
        scratch = torch.from_numpy(slices.host_scratch[self._banks])
        self._scratch_starts = boundaries(scratch, device)
        self._scratch = torch.empty((int(scratch.sum()), self._width), device=device)

    def restart(self, reset: Tensor, hidden: Tensor | None) -> None:
        """b and the first y of another r; for float16 under the largest power of two that its range holds."""
        masked = {"MASKED": hidden is not None}
        given = (self._degree, reset, None if hidden is None else as_bytes(hidden))
        self._scale = None
        if self.y.dtype == torch.float16:
            peaks = torch.zeros((len(self._axis.tiles), self._width), device=reset.device)
            self._by_rows(kernels.peak, *given, peaks.view(torch.int32), **masked)
            self._scale = power_of_two(peaks)
        scaled = {"SCALED": self._scale is not None}
        self._by_rows(kernels.start, *given, self._scale, self._bias, self.y, **masked, **scaled)

    def _by_rows(self, kernel: Any, *args: Any, **meta: Any) -> None:
        most = -(-self._axis.tallest // _ROWS)
        programs = len(self._axis.tiles) * most
        launch(kernel, programs, *self._head, *args, most, self._gamma,
               **self._columns, **meta, ROWS=_ROWS, num_warps=4)  # fmt: skip

    def relax(self, wave: Wave, step: Tensor) -> None:
        """One SOR sweep in place, colour after colour; `step` is ω, float32 [T, width], 0 for a stopped column."""
        for colour in range(self._slices.colours):
            self._sweep(wave, step, colour, 1, (self.y, self.y))

    def iterate(self, wave: Wave, step: Tensor, turn: int, *, measured: bool = False) -> Tensor | None:
        """Power iteration number `turn` of a wave; with `measured` the residual before it, as from `residual`."""
        buffers = (self.y, self._next) if turn % 2 == 0 else (self._next, self.y)
        gaps = self._new_gaps() if measured else None
        self._sweep(wave, step, 0, self._slices.colours, buffers, gaps)
        return None if gaps is None else self._total(wave, gaps)

    def settle(self, wave: Wave, turns: int) -> None:
        """Bring a wave's y home after `turns` power iterations."""
        if turns % 2:
            starts = self._axis.host_starts
            rows = slice(int(starts[wave.first]), int(starts[wave.first + wave.size]))
            self.y[rows] = self._next[rows]

    def residual(self, wave: Wave, step: Tensor) -> Tensor:
        """‖(1−γ) r + γ Pᵀ x − x‖₁ of each column of the wave's tiles, float64 [tiles, width]."""
        gaps = self._new_gaps()
        self._sweep(wave, step, 0, self._slices.colours, (self.y, self.y), gaps, update=False)
        return self._total(wave, gaps)

    def _new_gaps(self) -> Tensor:
        return torch.empty((self._gap_rows, self._width), device=self.y.device)

    def _total(self, wave: Wave, gaps: Tensor) -> Tensor:
        tiles = slice(wave.first, wave.first + wave.size)
        total = column_sums(gaps, self._gap_starts[tiles.start : tiles.stop + 1], self._most_gaps)
        return total if self._scale is None else total / self._scale[tiles]

    def _sweep(
        self, wave: Wave, step: Tensor, colour: int, count: int, buffers: tuple[Tensor, Tensor],
        gaps: Tensor | None = None, update: bool = True,
    ) -> None:  # fmt: skip
        """Launch `count` colours of a wave: slices, then the rows that were cut."""
        slices = self._slices
        group = self._banks[wave.first : wave.first + wave.size] * slices.colours + colour
        state = (
            self._degree,
            self._bias,
            *buffers,
            step,
            self._scratch,
            self._scratch_starts,
            gaps,
            self._gap_starts,
        )
        meta = {"COLOURS": slices.colours, "UPDATE": update, "RESIDUAL": gaps is not None} | self._columns
        most = int((slices.host_group[group + count] - slices.host_group[group]).max(initial=0))
        launch(kernels.sweep, wave.size * most, *self._head, slices.group_ptr, slices.slice_ptr, slices.lane_row,
               slices.columns, slices.weights, *state, wave.first, most, colour, count, self._gamma,
               **meta, LANES=LANES, UNROLL=UNROLL,
               num_warps=warps(LANES * self._columns["BLOCK"], self.y.element_size()))  # fmt: skip
        most = int((slices.host_long[group + count] - slices.host_long[group]).max(initial=0))
        launch(kernels.combine, wave.size * most, *self._head, slices.group_ptr, slices.long_group,
               slices.long_row, slices.long_ptr, slices.long_count, *state,
               wave.first, most, colour, count, self._gamma, **meta,
               num_warps=warps(LANES * self._columns["BLOCK"], 4))  # fmt: skip

    def finish(self) -> Tensor:
        """π = d y scaled to sum 1, float32 [rows, width]."""
        starts, tallest = self._axis.starts, self._axis.tallest
        sums, most = chunk_starts(starts), max(-(-tallest // CHUNK), 1)
        tiles = len(starts) - 1
        masses = torch.empty(
            (len(self.y) // CHUNK + tiles, self._width), dtype=torch.float64, device=self.y.device
        )
        launch(kernels.masses, tiles * most, *self._head, self._degree, self.y, masses, sums, most,
               **self._columns, CHUNK=CHUNK, num_warps=4)  # fmt: skip
        mass = masses if most == 1 else column_sums(masses, sums, most)
        pi = torch.empty(self.y.shape, device=self.y.device)
        self._by_rows(kernels.finish, self._degree, self.y, mass, pi)
        return pi


def solve(
    state: Sweeper, step: Tensor, *, in_place: bool, tolerance: float, sweeps: int | None, unchecked: int, most: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Sweep every wave to its end: `sweeps` times, or until each column's residual passes `tolerance`.

    Args:
        state: a fresh `Sweeper`.
        step: ω of each column, float32 [T, width]; columns that end are set to 0.
        in_place: SOR, else power iteration.
        tolerance: the residual allowed.
        sweeps: a fixed number that asks the device nothing, or None.
        unchecked: SOR's sweeps before the first residual.
        most: sweeps at the most.

    Returns:
        Sweeps int32 and residuals float32, both [T, width]; residuals are NaN for a fixed number of sweeps.
    """
    done = torch.full(step.shape, sweeps or 0, dtype=torch.int32, device=step.device)
    residuals = torch.full_like(step, torch.nan)
    for wave in state.waves:
        tiles = slice(wave.first, wave.first + wave.size)
        told = step[tiles], done[tiles], residuals[tiles]
        if sweeps is not None:
            for turn in range(sweeps):
                state.relax(wave, step) if in_place else state.iterate(wave, step, turn)
            state.settle(wave, 0 if in_place else sweeps)
        elif in_place:
            _relax_until(state, wave, step, tolerance, unchecked, most, told)
        else:
            _iterate_until(state, wave, step, tolerance, most, told)
    return done, residuals


_Told = tuple[Tensor, Tensor, Tensor]


def _relax_until(
    state: Sweeper, wave: Wave, step: Tensor, tolerance: float, unchecked: int, most: int, told: _Told
) -> None:  # fmt: skip
    for count in range(most + 1):
        if count >= unchecked and not _record(state.residual(wave, step), tolerance, count, told):
            return
        if count < most:
            state.relax(wave, step)


def _iterate_until(
    state: Sweeper, wave: Wave, step: Tensor, tolerance: float, most: int, told: _Told
) -> None:  # fmt: skip
    turn = 0
    while turn < most:
        total = state.iterate(wave, step, turn, measured=True)
        turn += 1
        if total is not None and not _record(total, tolerance, turn, told):
            break
    state.settle(wave, turn)


def _record(total: Tensor, tolerance: float, count: int, told: _Told) -> bool:
    """Note the columns that still run and stop those that pass; whether any goes on."""
    step, done, residuals = told
    running = step > 0
    done.masked_fill_(running, count)
    residuals.copy_(torch.where(running, total.float(), residuals))
    step.masked_fill_(total <= tolerance, 0.0)
    return bool((step > 0).any())
