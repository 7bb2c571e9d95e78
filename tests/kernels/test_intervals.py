"""Sums of intervals of vectors: compiled against plain NumPy, and both against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.layout import both
from zeromem_kernels import intervals
from zeromem_kernels.intervals import sum_cosines, sum_norms


def some(count: int, placed: bool) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, np.ndarray]:
    """Vectors, one of them zero, and intervals over them that overlap; the last one is empty."""
    rng = np.random.default_rng(count)
    stored = rng.standard_normal((2 * count + 1, 7)).astype(np.float32)
    rows = rng.permutation(len(stored))[:count] if placed else None
    stored[0 if rows is None else rows[0]] = 0.0
    first = np.arange(count + 1)
    end = np.minimum(first + rng.integers(1, 100, count + 1), count)
    return stored, rows, first, end


@pytest.mark.parametrize("placed", [False, True], ids=["in order", "placed"])
@pytest.mark.parametrize("count", [1, 7, 63, 257])
def test_lengths_and_cosines_of_sums(count: int, placed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "_CHUNK", 50)
    stored, rows, first, end = some(count, placed)
    vectors = (stored if rows is None else stored[rows]).astype(np.float64)
    sums = np.stack([vectors[a:b].sum(0) for a, b in zip(first, end, strict=True)])
    at = np.arange(1, len(first))

    def found() -> tuple[np.ndarray, np.ndarray]:
        norm = sum_norms(stored, rows, first, end)
        return norm, sum_cosines(stored, rows, first, end, norm, at)

    for norm, cosine in both(found):
        np.testing.assert_allclose(norm, np.linalg.norm(sums, axis=1), rtol=1e-12, atol=1e-12)
        assert norm[-1] == 0.0
        assert cosine[-1] == 0.0
        lengths = np.maximum(norm[1:] * norm[:-1], 1e-300)
        np.testing.assert_allclose(cosine, (sums[1:] * sums[:-1]).sum(1) / lengths, atol=1e-12)


def test_an_interval_is_the_same_whatever_is_asked_beside_it() -> None:
    stored, rows, first, end = some(63, placed=True)
    norm, at = sum_norms(stored, rows, first, end), np.arange(1, len(first))
    cosine = sum_cosines(stored, rows, first, end, norm, at)
    for one in (1, 30, 62):
        part = slice(one, one + 1)
        np.testing.assert_array_equal(sum_norms(stored, rows, first[part], end[part]), norm[part])
        alone = sum_cosines(stored, rows, first, end, norm, at[one - 1 : one])
        np.testing.assert_array_equal(alone, cosine[one - 1 : one])


def test_no_intervals_have_no_sums() -> None:
    nothing, none = np.empty(0, np.int64), np.empty((0, 7), np.float32)
    for found in both(lambda: sum_norms(none, None, nothing, nothing)):
        assert found.tolist() == []
    vectors = np.ones((3, 7), np.float32)
    first, end = np.array([0, 1]), np.array([1, 2])
    assert sum_cosines(vectors, None, first, end, np.ones(2), nothing).tolist() == []


def test_sums_that_cancel_have_no_direction() -> None:
    vectors = np.array([[1, 0], [-1, 0], [0, 1]], np.float32)
    first, end = np.array([0, 1]), np.array([2, 3])
    norm = sum_norms(vectors, None, first, end)
    assert norm[0] == 0.0
    assert sum_cosines(vectors, None, first, end, norm, np.array([1])).tolist() == [0.0]
