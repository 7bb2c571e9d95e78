"""Personalized PageRank over tiles (see `pagerank.py` for the equations)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _relax(rows, row0, base, indptr, indices, weights, degree, gamma, omega, reset, hidden, x, acc):
    """One in-place pass over `rows` (one colour): y ← y + ω((r̃ + γ W y)/d − y)."""
    width = x.shape[1]
    masked = hidden.shape[0] > 0
    for i in rows:
        d = degree[row0 + i]
        if d == 0:
            continue
        acc[:] = 0.0
        for p in range(indptr[row0 + i], indptr[row0 + i + 1]):
            w = weights[p]
            xj = x[base + indices[p]]
            for c in range(width):
                acc[c] += w * xj[c]
        inverse = np.float32(1) / d
        xi = x[base + i]
        ri = reset[base + i]
        for c in range(width):
            new = ((np.float32(1) - gamma) * ri[c] + gamma * acc[c]) * inverse
            if not masked or not hidden[base + i, c]:
                xi[c] += omega[c] * (new - xi[c])


@njit(nogil=True, cache=True)
def _residual(n, row0, base, indptr, indices, weights, degree, gamma, reset, hidden, x, acc, total):
    """total[c] = ‖(1−γ) r + γ W y − d y‖₁, the L1 residual in the scale of π."""
    width = x.shape[1]
    masked = hidden.shape[0] > 0
    total[:] = 0.0
    for i in range(n):
        d = degree[row0 + i]
        if d == 0:
            continue
        acc[:] = 0.0
        for p in range(indptr[row0 + i], indptr[row0 + i + 1]):
            w = weights[p]
            xj = x[base + indices[p]]
            for c in range(width):
                acc[c] += w * xj[c]
        for c in range(width):
            if not masked or not hidden[base + i, c]:
                gap = (np.float32(1) - gamma) * reset[base + i, c] + gamma * acc[c] - d * x[base + i, c]
                total[c] += abs(gap)


@njit(nogil=True, cache=True)
def _start(n, row0, base, degree, reset, hidden, gamma, x):
    """Begin at y = r/d; a row without edges is final at (1−γ) r, a hidden one at 0."""
    width = x.shape[1]
    masked = hidden.shape[0] > 0
    for i in range(n):
        d = degree[row0 + i]
        scale = np.float32(1) / d if d > 0 else np.float32(1) - gamma
        for c in range(width):
            x[base + i, c] = reset[base + i, c] * scale
            if masked and hidden[base + i, c]:
                x[base + i, c] = 0.0


@njit(nogil=True, cache=True)
def _finish(n, row0, base, degree, x):
    """From y back to x = d y, scaled to sum 1 (all zero stays zero)."""
    width = x.shape[1]
    # a float32 sum over a bank's nodes would itself be off by more than the tolerance
    total = np.zeros(width, np.float64)
    for i in range(n):
        d = degree[row0 + i]
        for c in range(width):
            if d > 0:
                x[base + i, c] *= d
            total[c] += x[base + i, c]
    for c in range(width):
        total[c] = 1.0 / total[c] if total[c] > 0 else 0.0
    for i in range(n):
        for c in range(width):
            x[base + i, c] = np.float32(x[base + i, c] * total[c])


@njit(nogil=True, cache=True)
def sor(
    first, last, bank, ptr, indptr, indices, weights, degree, colour_ptr, colour_rows,
    starts, reset, hidden, gamma, omega, tolerance, unchecked, most, x, sweeps, residuals,
):  # fmt: skip
    """Three-colour SOR in place; each column stops by its own residual, so neighbours cannot move it."""
    width = x.shape[1]
    acc = np.empty(width, np.float32)
    total = np.empty(width, np.float32)
    step = np.empty(width, np.float32)
    for t in range(first, last):
        b = bank[t]
        row0, base = ptr[b], starts[t]
        n = starts[t + 1] - base
        _start(n, row0, base, degree, reset, hidden, gamma, x)
        step[:] = omega
        done = 0
        while True:
            if done >= unchecked:
                _residual(
                    n, row0, base, indptr, indices, weights, degree, gamma, reset, hidden, x, acc, total
                )
                running = False
                for c in range(width):
                    if step[c] > 0:
                        sweeps[t, c] = done
                        residuals[t, c] = total[c]
                        if not total[c] > tolerance * (np.float32(1) - gamma):
                            step[c] = 0.0
                        else:
                            running = True
                if not running or done >= most:
                    break
            for colour in range(3):
                rows = colour_rows[colour_ptr[3 * b + colour] : colour_ptr[3 * b + colour + 1]]
                _relax(
                    rows, row0, base, indptr, indices, weights, degree, gamma, step, reset, hidden, x, acc
                )
            done += 1
        _finish(n, row0, base, degree, x)


@njit(nogil=True, cache=True)
def power_iteration(
    first, last, bank, ptr, indptr, indices, weights, degree,
    starts, reset, hidden, gamma, tolerance, most, x, sweeps, residuals,
):  # fmt: skip
    """y ← ((1−γ) r + γ W y)/d until each column's residual passes; a finished column stays as it is."""
    width = x.shape[1]
    masked = hidden.shape[0] > 0
    acc = np.empty(width, np.float32)
    total = np.empty(width, np.float32)
    for t in range(first, last):
        b = bank[t]
        row0, base = ptr[b], starts[t]
        n = starts[t + 1] - base
        _start(n, row0, base, degree, reset, hidden, gamma, x)
        following = x[base : base + n].copy()
        running = np.ones(width, np.bool_)
        done = 0
        while True:
            total[:] = 0.0
            for i in range(n):
                d = degree[row0 + i]
                d = d if d > 0 else np.float32(1)
                acc[:] = 0.0
                for p in range(indptr[row0 + i], indptr[row0 + i + 1]):
                    w = weights[p]
                    xj = x[base + indices[p]]
                    for c in range(width):
                        acc[c] += w * xj[c]
                inverse = np.float32(1) / d
                for c in range(width):
                    if not masked or not hidden[base + i, c]:
                        new = ((np.float32(1) - gamma) * reset[base + i, c] + gamma * acc[c]) * inverse
                        total[c] += abs(new - x[base + i, c]) * d
                        following[i, c] = new
            any_running = False
            for c in range(width):
                if running[c]:
                    sweeps[t, c] = done
                    residuals[t, c] = total[c]
                    running[c] = total[c] > tolerance * (np.float32(1) - gamma)
                    any_running = any_running or running[c]
            if not any_running or done >= most:
                break
            for i in range(n):
                for c in range(width):
                    if running[c]:
                        x[base + i, c] = following[i, c]
            done += 1
        _finish(n, row0, base, degree, x)
