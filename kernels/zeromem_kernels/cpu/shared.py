"""Entities that units share, looked up from the units alone (see `shared.py`)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def shares_entity(
    first, last, bank, node_ptr, entity_ptr, indptr, indices, weights, barred, starts, candidates, chosen,
    found,
):  # fmt: skip
    """found = whether a candidate outside `chosen` has an entity of a chosen unit; tiles first … last."""
    for t in range(first, last):
        node0, entity0 = node_ptr[bank[t]], entity_ptr[bank[t]]
        units = starts[t + 1] - starts[t]
        # the last column in which a node was met, from a chosen unit or as one
        met = np.full(node_ptr[bank[t] + 1] - node0, -1, np.int64)
        for c in range(found.shape[2]):
            for j in range(chosen.shape[1]):
                i = chosen[t, j, c]
                if i < 0:
                    continue
                met[i] = c
                for p in range(indptr[node0 + i], indptr[node0 + i + 1]):
                    e = indices[p]
                    if e >= units and weights[p] > 0 and not barred[entity0 + e - units]:
                        met[e] = c
            for j in range(found.shape[1]):
                i = candidates[t, j, c]
                found[t, j, c] = False
                if i < 0 or met[i] == c:
                    continue
                for p in range(indptr[node0 + i], indptr[node0 + i + 1]):
                    if indices[p] >= units and weights[p] > 0 and met[indices[p]] == c:
                        found[t, j, c] = True
                        break
