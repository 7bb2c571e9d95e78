"""Personalized PageRank over tiles (see `pagerank.py` for the equations)."""

from __future__ import annotations

import numpy as np
from numba import njit

from zeromem_kernels.cpu.gather import fetch, gathered_sum


@njit(nogil=True, cache=True)
def _relax(
    rows, row0, base, column, lanes, indptr, indices, weights, degree, gamma, omega, reset, hidden,
    x, acc, gap,
):  # fmt: skip
    """One in-place pass over `rows` (one colour): y ← y + ω((r̃ + γ W y)/d − y).

    Adds to gap[c] how far the rows were from their equations, Σ |r̃ + γ W y − d y|.
    """
    count, at = len(lanes), base * x.shape[1] + column
    masked = hidden.shape[0] > 0
    for k in range(len(rows)):
        i = rows[k]
        if k + 1 < len(rows):
            following = row0 + rows[k + 1]
            fetch(lanes, x, at, indices, indptr[following], indptr[following + 1])
        d = degree[row0 + i]
        if d == 0:
            continue
        gathered_sum(lanes, x, at, indices, weights, indptr[row0 + i], indptr[row0 + i + 1], acc)
        inverse = np.float32(1) / d
        xi = x[base + i, column:]
        ri = reset[base + i, column:]
        if masked:
            for c in range(count):
                change = ((np.float32(1) - gamma) * ri[c] + gamma * acc[c]) * inverse - xi[c]
                if not hidden[base + i, column + c]:
                    gap[c] += abs(change) * d
                    xi[c] += omega[c] * change
        else:
            for c in range(count):
                change = ((np.float32(1) - gamma) * ri[c] + gamma * acc[c]) * inverse - xi[c]
                gap[c] += abs(change) * d
                xi[c] += omega[c] * change


@njit(nogil=True, cache=True)
def _start(n, row0, base, column, lanes, degree, reset, hidden, gamma, x):
    """Begin at y = r/d; a row without edges is final at (1−γ) r, a hidden one at 0."""
    masked = hidden.shape[0] > 0
    for i in range(n):
        d = degree[row0 + i]
        scale = np.float32(1) / d if d > 0 else np.float32(1) - gamma
        for c in range(column, column + len(lanes)):
            x[base + i, c] = reset[base + i, c] * scale
            if masked and hidden[base + i, c]:
                x[base + i, c] = 0.0


@njit(nogil=True, cache=True)
def _finish(n, row0, base, column, lanes, degree, x):
    """From y back to x = d y, scaled to sum 1 (all zero stays zero)."""
    count = len(lanes)
    # a float32 sum over a bank's nodes would itself be off by more than the tolerance
    total = np.zeros(count, np.float64)
    for i in range(n):
        d = degree[row0 + i]
        xi = x[base + i, column:]
        for c in range(count):
            if d > 0:
                xi[c] *= d
            total[c] += xi[c]
    for c in range(count):
        total[c] = 1.0 / total[c] if total[c] > 0 else 0.0
    for i in range(n):
        xi = x[base + i, column:]
        for c in range(count):
            xi[c] = np.float32(xi[c] * total[c])


@njit(nogil=True, cache=True)
def sor(
    first, last, column, lanes, bank, ptr, indptr, indices, weights, degree, colour_ptr, colour_rows,
    starts, reset, hidden, gamma, omega, tolerance, least, most, x, sweeps, residuals,
):  # fmt: skip
    """Three-colour SOR in place; after `least` sweeps each column stops by its own residual.

    The residual after a sweep is bounded without another pass. A row that was off its equation by g when
    its turn came is off by (1 − ω) g after it, and its step of ω g/d moves the equations of earlier colours
    by at most γ ω |g| together. The first colour has none before it, so
    ‖residual‖₁ ≤ (ω−1) Σ|g| + γ ω Σ_late |g|, late being the second and third colour.
    """
    count = len(lanes)
    acc = np.empty(count, np.float32)
    step = np.empty(count, np.float32)
    early = np.empty(count, np.float32)
    late = np.empty(count, np.float32)
    for t in range(first, last):
        b = bank[t]
        row0, base = ptr[b], starts[t]
        n = starts[t + 1] - base
        _start(n, row0, base, column, lanes, degree, reset, hidden, gamma, x)
        step[:] = omega
        done, running = 0, True
        while running and done < most:
            early[:] = 0.0
            late[:] = 0.0
            for colour in range(3):
                rows = colour_rows[colour_ptr[3 * b + colour] : colour_ptr[3 * b + colour + 1]]
                _relax(
                    rows, row0, base, column, lanes, indptr, indices, weights, degree, gamma, step, reset,
                    hidden, x, acc, late if colour else early,
                )  # fmt: skip
            done += 1
            running = False
            for c in range(count):
                if step[c] > 0:
                    # a neighbour that runs on cannot move a column whose step is 0
                    bound = (omega - np.float32(1)) * (early[c] + late[c]) + gamma * omega * late[c]
                    sweeps[t, column + c] = done
                    residuals[t, column + c] = bound
                    if done >= least and not bound > tolerance * (np.float32(1) - gamma):
                        step[c] = 0.0
                    else:
                        running = True
        _finish(n, row0, base, column, lanes, degree, x)


@njit(nogil=True, cache=True)
def power_iteration(
    first, last, column, lanes, bank, ptr, indptr, indices, weights, degree,
    starts, reset, hidden, gamma, tolerance, most, x, sweeps, residuals,
):  # fmt: skip
    """y ← ((1−γ) r + γ W y)/d until each column's residual passes; a finished column stays as it is."""
    count = len(lanes)
    masked = hidden.shape[0] > 0
    acc = np.empty(count, np.float32)
    total = np.empty(count, np.float32)
    for t in range(first, last):
        b = bank[t]
        row0, base = ptr[b], starts[t]
        n, at = starts[t + 1] - base, base * x.shape[1] + column
        _start(n, row0, base, column, lanes, degree, reset, hidden, gamma, x)
        following = x[base : base + n, column : column + count].copy()
        running = np.ones(count, np.bool_)
        done = 0
        while True:
            total[:] = 0.0
            for i in range(n):
                d = degree[row0 + i]
                d = d if d > 0 else np.float32(1)
                gathered_sum(lanes, x, at, indices, weights, indptr[row0 + i], indptr[row0 + i + 1], acc)
                inverse = np.float32(1) / d
                xi = x[base + i, column:]
                ri = reset[base + i, column:]
                for c in range(count):
                    if not masked or not hidden[base + i, column + c]:
                        new = ((np.float32(1) - gamma) * ri[c] + gamma * acc[c]) * inverse
                        total[c] += abs(new - xi[c]) * d
                        following[i, c] = new
            any_running = False
            for c in range(count):
                if running[c]:
                    sweeps[t, column + c] = done
                    residuals[t, column + c] = total[c]
                    running[c] = total[c] > tolerance * (np.float32(1) - gamma)
                    any_running = any_running or running[c]
            if not any_running or done >= most:
                break
            for i in range(n):
                for c in range(count):
                    if running[c]:
                        x[base + i, column + c] = following[i, c]
            done += 1
        _finish(n, row0, base, column, lanes, degree, x)
