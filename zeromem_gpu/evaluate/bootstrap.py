"""Paired bootstrap over questions: how far a mean, or a mean difference, could lie by chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zeromem_gpu.errors import InvalidInput

RESAMPLES = 10_000
LEVEL = 0.95

_CELLS = 1 << 22  # of the table of counts, 32 MiB


class Interval(NamedTuple):
    """A mean over questions and the percentile interval around it."""

    mean: float
    low: float
    high: float


def interval(
    values: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> Interval:
    """The mean of one value per question, [n], and its interval; see `intervals`.

    >>> interval([1.0, 1.0, 1.0])
    Interval(mean=1.0, low=1.0, high=1.0)
    """
    column = np.asarray(values, np.float64).reshape(-1, 1)
    return intervals(column, resamples=resamples, seed=seed, level=level)[0]


def difference(
    a: ArrayLike, b: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> Interval:
    """Mean of b − a, both [n] over the same questions in the same order, and its paired interval.

    >>> difference([0, 0, 1], [1, 1, 2]).low
    1.0
    """
    left, right = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    if len(left) != len(right):
        raise InvalidInput("b", f"{len(right)} values", f"{len(left)}, one for each value of a")
    return interval(right - left, resamples=resamples, seed=seed, level=level)


def intervals(
    values: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> list[Interval]:
    """Mean and percentile interval of every column of `values`, [n, M]; all NaN where n is 0.

    Each resample draws n questions with replacement, the same ones for every column, from `seed` and n
    alone: a column's interval does not depend on the others. Values that are not finite are `InvalidInput`.
    """
    table = np.asarray(values, np.float64)
    if table.ndim != 2:
        raise InvalidInput("values", f"{table.ndim} dimensions", "questions × columns")
    if resamples < 1 or not 0.0 < level < 1.0:
        raise InvalidInput("bootstrap", f"{resamples} resamples, level {level}", "1 or more, 0 < level < 1")
    if not np.isfinite(table).all():
        raise InvalidInput("values", "NaN or infinity", "finite numbers")
    if not len(table):
        return [Interval(np.nan, np.nan, np.nan)] * table.shape[1]
    means = _resampled(table, resamples, seed)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means, (tail, 1.0 - tail), axis=0)
    centre = table.mean(axis=0)
    return [Interval(*map(float, row)) for row in zip(centre, low, high, strict=True)]


def _resampled(table: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """The column means of every resample, [resamples, M]."""
    generator = np.random.default_rng(seed)
    n = len(table)
    # means are summed around the mean of all, so that equal values give it back exactly
    centre = table.mean(axis=0)
    spread = np.ascontiguousarray(table - centre)
    step = max(1, _CELLS // n)
    parts = []
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        drawn = generator.integers(0, n, size=(rows, n))
        drawn += n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        parts.append(counts.astype(np.float64) @ spread)
    means: NDArray[np.float64] = centre + np.concatenate(parts) / n
    return means
