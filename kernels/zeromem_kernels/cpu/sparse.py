"""Sparse rows times a tile (see `spmm.py`)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def spmm(first, last, bank, indptr, indices, weights, ptr, starts, source_starts, x, y):
    """Y[i] = Σ_j W[i, j] x[j] for the tiles first … last."""
    width = x.shape[1]
    acc = np.empty(width, np.float32)
    for t in range(first, last):
        row0 = ptr[bank[t]]
        base = source_starts[t]
        for i in range(starts[t + 1] - starts[t]):
            acc[:] = 0.0
            for p in range(indptr[row0 + i], indptr[row0 + i + 1]):
                w = weights[p]
                xj = x[base + indices[p]]
                for c in range(width):
                    acc[c] += w * xj[c]
            y[starts[t] + i] = acc


@njit(nogil=True, cache=True)
def spmax(first, last, bank, indptr, indices, ptr, starts, source_starts, x, y):
    """Y[i] = max_j x[j] over the entries of row i, −inf without any."""
    width = x.shape[1]
    for t in range(first, last):
        row0 = ptr[bank[t]]
        base = source_starts[t]
        for i in range(starts[t + 1] - starts[t]):
            yi = y[starts[t] + i]
            yi[:] = -np.inf
            for p in range(indptr[row0 + i], indptr[row0 + i + 1]):
                xj = x[base + indices[p]]
                for c in range(width):
                    if xj[c] > yi[c]:
                        yi[c] = xj[c]
