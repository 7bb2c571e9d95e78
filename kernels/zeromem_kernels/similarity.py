"""Cosine similarities of stored vectors with a batch of queries, tile by tile (library products).

Stored vectors and queries are L2-normalised or zero, so a product is a cosine and a zero vector scores 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from zeromem_kernels.tiles import Axis


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
    starts = axis.starts.tolist()
    for t, b in enumerate(axis.tiles.bank.tolist()):
        stored, rows = vectors[b]
        mine = out[starts[t] : starts[t + 1]]
        if rows is None:
            torch.mm(stored, queries[t], out=mine)
        else:
            torch.index_select(torch.mm(stored, queries[t]), 0, rows, out=mine)
    return out


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
