"""Cosine similarities of stored vectors with a batch of queries, tile by tile (library products).

Stored vectors and queries are L2-normalised or zero, so a product is a cosine and a zero vector scores 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from zeromem_kernels.tiles import Axis, Tiles, compiled

# 3 MB of 384 float32: products of 2,048 rows lose nothing, and two threads keep theirs in a shared cache
_BLOCK_ROWS = 2048


class Placed(NamedTuple):
    """Vectors float32 [n, D] of a bank whose row i is `stored[rows[i]]` (int64), `stored[i]` for None."""

    stored: Tensor
    rows: Tensor | None = None


def similarities(vectors: Sequence[Placed], queries: Tensor, axis: Axis) -> Tensor:
    """cos(row, query) for every tile.

    Args:
        vectors: per stacked bank.
        queries: float32 [T, D, width], one block a tile, unused columns zero.
        axis: the row axis.

    Returns:
        float32 [rows, width].
    """
    out = axis.empty()
    starts, blocked = axis.host_starts.tolist(), compiled(out) is not None
    for bank, first, last in runs(axis.tiles):
        stored, rows = vectors[bank]
        mine = out[starts[first] : starts[last]]
        if rows is None:
            _products(stored, queries[first:last], mine, blocked=blocked)
            continue
        every = torch.empty(((last - first) * len(stored), axis.tiles.width), device=out.device)
        _products(stored, queries[first:last], every, blocked=blocked)
        for t in range(last - first):
            chosen = every[t * len(stored) : (t + 1) * len(stored)]
            torch.index_select(chosen, 0, rows, out=mine[t * len(rows) : (t + 1) * len(rows)])
    return out


def _products(stored: Tensor, queries: Tensor, out: Tensor, *, blocked: bool) -> None:
    """Every vector of a bank with the queries of its tiles, one tile after the other in `out`."""
    count, (rows, dim) = len(queries), stored.shape
    if not blocked:
        # one launch a bank; its tiles lie one after the other, and the vectors are read in place
        scores = out.view(count, rows, out.shape[1])
        torch.bmm(stored.expand(count, rows, dim), queries, out=scores)
        return
    # a block of a large bank serves all of its tiles while it is near, so that a bank is read once
    for row in range(0, rows, _BLOCK_ROWS):
        block = stored[row : row + _BLOCK_ROWS]
        for t in range(count):
            torch.mm(block, queries[t], out=out[t * rows + row : t * rows + row + len(block)])


def runs(tiles: Tiles) -> Iterator[tuple[int, int, int]]:
    """Tiles beside each other that ask one bank: the bank, the first tile and the one after the last."""
    first = 0
    for bank, same in groupby(tiles.host_bank.tolist()):
        last = first + sum(1 for _ in same)
        yield bank, first, last
        first = last


def best_match(vectors: Sequence[Placed], queries: Tensor, banks: Tensor) -> tuple[Tensor, Tensor]:
    """The most similar stored vector of each query inside its own bank; ties go to the earlier row.

    Args:
        vectors: per stacked bank.
        queries: float32 [n, D].
        banks: int64 [n], ascending.

    Returns:
        Cosines float32 [n] (−inf in an empty bank) and local rows int32 [n] (−1 there).
    """
    cosines = torch.full((len(queries),), -torch.inf, device=queries.device)
    rows = torch.full((len(queries),), -1, dtype=torch.int32, device=queries.device)
    present, counts = torch.unique_consecutive(banks, return_counts=True)
    begin = 0
    for b, count in zip(present.tolist(), counts.tolist(), strict=True):
        stored, place = vectors[b]
        if len(stored if place is None else place):
            scores = queries[begin : begin + count] @ stored.T
            scores = scores if place is None else scores[:, place]
            best = scores.amax(1, keepdim=True)
            # argmax promises no order among equals; the first of the maxima is asked for by position
            rows[begin : begin + count] = (scores == best).int().argmax(1).int()
            cosines[begin : begin + count] = best[:, 0]
        begin += count
    return cosines, rows
