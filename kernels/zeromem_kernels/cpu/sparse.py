"""Sparse rows times a tile (see `spmm.py`)."""

from __future__ import annotations

from numba import njit

from zeromem_kernels.cpu.gather import fetch, gathered_sum


@njit(nogil=True, cache=True)
def spmm(first, last, column, lanes, bank, indptr, indices, weights, ptr, starts, source_starts, x, y):
    """Y[i] = Σ_j W[i, j] x[j] for the tiles first … last and a run of columns."""
    count = len(lanes)
    for t in range(first, last):
        row0 = ptr[bank[t]]
        at = source_starts[t] * x.shape[1] + column
        rows = starts[t + 1] - starts[t]
        for i in range(rows):
            begin, end = indptr[row0 + i], indptr[row0 + i + 1]
            if i + 1 < rows:
                fetch(lanes, x, at, indices, end, indptr[row0 + i + 2])
            out = y[starts[t] + i, column : column + count]
            gathered_sum(lanes, x, at, indices, weights, begin, end, out)


@njit(nogil=True, cache=True)
def spmax(first, last, bank, indptr, indices, ptr, starts, source_starts, x, y):
    """Y[i] = max_j x[j] over the entries of row i; a row without any stays as it is."""
    width = x.shape[1]
    for t in range(first, last):
        row0 = ptr[bank[t]]
        base = source_starts[t]
        for i in range(starts[t + 1] - starts[t]):
            yi = y[starts[t] + i]
            for p in range(indptr[row0 + i], indptr[row0 + i + 1]):
                xj = x[base + indices[p]]
                if p == indptr[row0 + i]:
                    for c in range(width):
                        yi[c] = xj[c]
                else:
                    for c in range(width):
                        yi[c] = xj[c] if xj[c] > yi[c] else yi[c]
