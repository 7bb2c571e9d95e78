"""Sums of the vectors of intervals, one interval at a time in a buffer that stays in the cache."""

from __future__ import annotations

import math

from numba import njit


@njit(nogil=True, cache=True)
def add_vectors(stored, rows, first, end, total):
    """total = the sum of the vectors `first` … `end` − 1 in order; vector i is row `rows[i]`, i without."""
    total[:] = 0.0
    for i in range(first, end):
        row = rows[i] if len(rows) > 0 else i
        for d in range(len(total)):
            total[d] += stored[row, d]


@njit(nogil=True, cache=True)
def dot(left, right):
    """Σ left · right in order."""
    found = 0.0
    for d in range(len(left)):
        found += left[d] * right[d]
    return found


@njit(nogil=True, cache=True)
def sum_norms(stored, rows, first, end, total, norm):
    """The length of the sum of each interval."""
    for i in range(len(first)):
        add_vectors(stored, rows, first[i], end[i], total)
        norm[i] = math.sqrt(dot(total, total))


@njit(nogil=True, cache=True)
def sum_cosines(stored, rows, first, end, norm, at, total, before, cosine):
    """The cosine of the sum of each interval in `at` with that of the one before; 0 where one is 0."""
    last = -1
    for n in range(len(at)):
        i = at[n]
        if last == i - 1 and n > 0:
            before[:] = total
        else:
            add_vectors(stored, rows, first[i - 1], end[i - 1], before)
        add_vectors(stored, rows, first[i], end[i], total)
        last = i
        lengths = norm[i] * norm[i - 1]
        cosine[n] = dot(total, before) / lengths if lengths > 0.0 else 0.0
