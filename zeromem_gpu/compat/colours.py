"""Three colours for a graph whose edges are given: what lets PageRank relax in place."""

from __future__ import annotations

from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

import numpy as np


def three_colours(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    """A colour for every node, such that no edge joins two of one colour.

    Nodes whose neighbours leave one colour come first, then the neighbours of coloured ones, hubs first. It
    finds the colours of every bipartite graph and, in practice, of entities and chains of passages; a graph
    that needs three may still end in None.

    Args:
        indptr: int64 [n + 1] of a symmetric pattern.
        indices: int32, neighbours. An edge from a node to itself has no colouring.

    Returns:
        int8 [n] in 0, 1, 2, or None where it found none.

    >>> three_colours(np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1])).tolist()
    [1, 0, 1]
    """
    order = np.argsort(-np.diff(indptr), kind="stable")
    colour, done = _search()(indptr, indices, order)
    return colour if done == len(order) else None


@lru_cache(maxsize=1)
def _search() -> Any:
    """The search below, compiled where numba is installed."""
    try:
        from numba import njit
    except ImportError:
        return _colour
    return njit(nogil=True, cache=True)(_colour)


def _colour(indptr: np.ndarray, indices: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, int]:
    """Colours (−1 where not reached) and how many nodes have one."""
    nodes = len(order)
    taken = np.zeros(nodes, np.uint8)  # a bit for each colour among the neighbours
    colour = np.full(nodes, -1, np.int8)
    rank = np.empty(nodes, np.int64)
    for place in range(nodes):
        rank[order[place]] = place
    # a node enters each list once for every bit that it gains
    forced = np.empty(2 * nodes, np.int64)
    waiting = [np.int64(0)]
    waiting.clear()
    height = following = done = 0
    while done < nodes:
        node = -1
        while height > 0 and node < 0:
            height -= 1
            if colour[forced[height]] < 0:
                node = forced[height]
        while len(waiting) > 0 and node < 0:
            best = heappop(waiting)
            if colour[order[best]] < 0:
                node = order[best]
        if node < 0:
            while colour[order[following]] >= 0:
                following += 1
            node = order[following]
        if taken[node] == 7:
            return colour, done
        mine = 0
        while (taken[node] >> mine) & 1:
            mine += 1
        colour[node] = mine
        done += 1
        for at in range(indptr[node], indptr[node + 1]):
            other = indices[at]
            if other == node:
                return colour, done - 1
            bits = taken[other] | (1 << mine)
            if colour[other] >= 0 or bits == taken[other]:
                continue
            taken[other] = bits
            if bits == 1 or bits == 2 or bits == 4:
                heappush(waiting, rank[other])
            else:
                forced[height] = other
                height += 1
    return colour, done
