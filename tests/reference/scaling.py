"""Cosines, the two scalings and the ranking that every stage shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.reference.facts import Array, Mask

# Values this close (relative to the largest magnitude) count as equal, as the engine's float32 needs it.
EQUAL = 1e-6


def spread(values: Array) -> float:
    """max − min, and 0 where the values count as equal; 0 for no values."""
    if values.size == 0:
        return 0.0
    low, high = float(values.min()), float(values.max())
    return high - low if high - low > EQUAL * max(abs(low), abs(high)) else 0.0


def min_max(x: Array, visible: Mask) -> Array:
    """mm(x) = (x − min)/(max − min) over visible rows, 0 for all when max = min; hidden rows are 0."""
    result = np.zeros(len(x))
    width = spread(x[visible])
    if width > 0:
        result[visible] = (x[visible] - x[visible].min()) / width
    return result


def scale(x: Array, visible: Mask) -> Array:
    """sc(x) = x/max over visible rows, 0 for all when max ≤ 0; hidden rows are 0."""
    result = np.zeros(len(x))
    if visible.any() and x[visible].max() > 0:
        result[visible] = x[visible] / x[visible].max()
    return result


def cosine(a: Array, b: Array) -> float:
    """cos(a, b) = a·b / (|a| |b|), 0 for a zero vector."""
    norms = float(np.sqrt((a * a).sum()) * np.sqrt((b * b).sum()))
    return float((a * b).sum()) / norms if norms > 0 else 0.0


def cosines(query: Array, rows: Array) -> Array:
    """cos(q, row) for each row of [n, D]; equal rows give equal bits (no blocked matrix product)."""
    result = np.zeros(len(rows))
    if len(rows) > 0:
        norms = np.sqrt((rows * rows).sum(axis=1)) * np.sqrt((query * query).sum())
        np.divide((rows * query[None, :]).sum(axis=1), norms, out=result, where=norms > 0)
    return result


def ordered_top_k(scores: Array, allowed: Sequence[bool] | Mask, k: int) -> tuple[list[int], list[float]]:
    """The k best allowed rows: score down, then row up; short lists end in row −1 with score −inf."""
    rows = [row for row in range(len(scores)) if allowed[row]]
    rows.sort(key=lambda row: (-scores[row], row))
    rows = rows[:k]
    values = [float(scores[row]) for row in rows]
    missing = k - len(rows)
    return rows + [-1] * missing, values + [-np.inf] * missing


def cut_margin(scores: Array, allowed: Mask, k: int) -> float:
    """Score of the k-th best allowed row minus that of the next; inf when nothing is cut off."""
    ordered = np.sort(scores[allowed])[::-1]
    return float(ordered[k - 1] - ordered[k]) if len(ordered) > k else np.inf
