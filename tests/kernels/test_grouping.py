"""Counting sort and postings: the compiled form against the torch form and against plain counting."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.kernels.layout import both
from zeromem_kernels.grouping import distinct_keys, stable_order, term_counts


@pytest.mark.parametrize(("rows", "bins"), [(0, 1), (1, 1), (100, 7), (63, 1000), (257, 1)])
def test_stable_order_is_a_stable_sort(rows: int, bins: int) -> None:
    keys = np.random.default_rng(rows).integers(0, bins, rows)
    for found in both(lambda: stable_order(torch.from_numpy(keys), bins)):
        assert found.tolist() == np.argsort(keys, kind="stable").tolist()


@pytest.mark.parametrize("tokens", [0, 1, 300])
def test_term_counts_are_plain_counts(tokens: int) -> None:
    rng = np.random.default_rng(tokens)
    terms = rng.integers(0, 20, tokens)
    unit_ptr = np.array([0, *np.sort(rng.integers(0, tokens + 1, 9)), tokens])
    # runs that overlap, an empty one, one of everything, one out of order
    first, end = np.array([0, 2, 4, 4, 9, 1]), np.array([3, 5, 4, 10, 10, 2])
    given = [torch.from_numpy(array) for array in (terms, unit_ptr, first, end)]
    counted = [Counter(terms[unit_ptr[a] : unit_ptr[b]].tolist()) for a, b in zip(first, end, strict=True)]
    expected = [[(d, count[t]) for d, count in enumerate(counted) if count[t]] for t in range(22)]
    for found in both(lambda: term_counts(*given, 22)):
        ptr = found.ptr.tolist()
        pairs = list(zip(found.documents.tolist(), found.counts.tolist(), strict=True))
        assert [pairs[a:b] for a, b in pairwise(ptr)] == expected


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 5000])
@pytest.mark.parametrize("most", [1, 100, 2**62])
def test_distinct_keys_are_those_of_a_sort(size: int, most: int) -> None:
    keys = np.random.default_rng(size).integers(-most, most, size)
    expected = np.unique(keys, return_inverse=True)
    for found in both(lambda: distinct_keys(keys)):
        for mine, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, other)
            assert mine.dtype == np.int64


def test_keys_that_meet_in_one_place_stay_apart() -> None:
    """Keys whose low and high halves cancel: a bad hash would still have to tell them apart."""
    low = np.arange(2000, dtype=np.int64)
    keys = np.concatenate([low << 32 | low, low, low[::-1]])
    found, place = distinct_keys(keys)
    np.testing.assert_array_equal(found[place], keys)
    assert (found[1:] > found[:-1]).all()
