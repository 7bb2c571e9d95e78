"""Counting sort and postings: the compiled form against the torch form and against plain counting."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.kernels.layout import both
from zeromem_kernels.grouping import stable_order, term_counts


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
