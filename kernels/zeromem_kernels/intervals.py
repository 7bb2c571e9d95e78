"""Intervals of vectors as one vector each: how long their sums are and how alike neighbours.

Sums are float64 and added in order. Nothing of the size of all sums is ever held.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zeromem_kernels.tiles import compiled_host

# a sum no longer than this has no direction
_NOTHING = 1e-9
# intervals whose sums are held at once by the plain form
_CHUNK = 4096


def sum_norms(
    stored: np.ndarray, rows: np.ndarray | None, first: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """‖Σ v_i‖ over the vectors first[j] … end[j] − 1 of each interval, 0 where it is at most 1e-9.

    Args:
        stored: float32 [n, D].
        rows: int64, vector i is `stored[rows[i]]`; None: it is `stored[i]`.
        first: int64 [m].
        end: int64 [m]; an interval without vectors has a sum of 0.

    Returns:
        float64 [m].

    >>> sum_norms(np.array([[3, 0], [0, 4]], np.float32), None, np.array([0, 1]), np.array([2, 2]))
    array([5., 4.])
    """
    norm = np.zeros(len(first))
    if cpu := compiled_host():
        cpu.sum_norms(stored, _listed(rows), first, end, np.empty(stored.shape[1]), norm)
    else:
        for part, sums in _chunks(stored, rows, first, end, np.arange(len(first))):
            norm[part] = np.linalg.norm(sums, axis=1)
    norm[norm <= _NOTHING] = 0.0
    return norm


def sum_cosines(
    stored: np.ndarray, rows: np.ndarray | None, first: np.ndarray, end: np.ndarray, norm: np.ndarray,
    at: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """cos(Σ of interval j, Σ of interval j − 1) for each j of `at`, float64; 0 where a sum is 0.

    `norm` float64 [m] are those of `sum_norms`, read where `at` says; `at` int64 ascends from 1.
    """
    cosine = np.zeros(len(at))
    if cpu := compiled_host():
        total, before = np.empty((2, stored.shape[1]))
        cpu.sum_cosines(stored, _listed(rows), first, end, norm, at, total, before, cosine)
        return cosine
    lengths = norm[at] * norm[at - 1]
    dots = np.zeros(len(at))
    for (part, mine), (_, before) in zip(
        _chunks(stored, rows, first, end, at), _chunks(stored, rows, first, end, at - 1), strict=True
    ):
        dots[part] = np.einsum("ij,ij->i", mine, before)
    np.divide(dots, lengths, out=cosine, where=lengths > 0)
    return cosine


def _listed(rows: np.ndarray | None) -> np.ndarray:
    return np.empty(0, np.int64) if rows is None else rows


def _chunks(
    stored: np.ndarray, rows: np.ndarray | None, first: np.ndarray, end: np.ndarray, at: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Places in `at` and the sums of their intervals, some at a time."""
    for begin in range(0, len(at), _CHUNK):
        some = at[begin : begin + _CHUNK]
        total = np.zeros((len(some), stored.shape[1]))
        length = end[some] - first[some]
        for step in range(int(length.max(initial=0))):
            here = np.flatnonzero(step < length)
            vector = first[some[here]] + step
            total[here] += stored[vector if rows is None else rows[vector]]
        yield slice(begin, begin + len(some)), total
