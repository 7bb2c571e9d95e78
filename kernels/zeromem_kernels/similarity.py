"""Cosine similarities of stored vectors with a batch of queries, tile by tile (library products).

Stored vectors and queries are L2-normalised or zero, so a product is a cosine and a zero vector scores 0.

Vectors stored in float16 take half of the memory and of the reading. Queries are rounded alike, sums stay
float32: both roundings together are off by at most 2⁻¹⁰ of Σ |a_i b_i| ≤ 1, so that a cosine is within
`HALF_ERROR` of the exact one. Rankings may then differ where scores are nearer than that, not only where
they are nearer than float32's 1e-5: a caller's choice, never the default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from zeromem_kernels import brute_force, buffers
from zeromem_kernels.tiles import Axis, Tiles, compiled

# what float16 storage may cost a cosine of up to 4,096 dimensions
HALF_ERROR = 1e-3
# 3 MB of 384 float32: products of 2,048 rows lose nothing, and two threads keep theirs in a shared cache
_BLOCK_ROWS = 2048
# up to so many questions a product is twice as fast when each lies in one piece
_NARROW = 8
# questions of one product: with 32 it reaches half of the speed that it has from 128 on
_BLOCK_COLUMNS = 256


class Placed(NamedTuple):
    """Vectors float32 or float16 [n, D] of a bank; row i is `stored[rows[i]]` (int64), or `stored[i]`."""

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
        every = buffers.empty((last - first) * len(stored), axis.tiles.width, out.device)
        _products(stored, queries[first:last], every, blocked=blocked)
        for t in range(last - first):
            chosen = every[t * len(stored) : (t + 1) * len(stored)]
            torch.index_select(chosen, 0, rows, out=mine[t * len(rows) : (t + 1) * len(rows)])
    return out


def _products(stored: Tensor, queries: Tensor, out: Tensor, *, blocked: bool) -> None:
    """Every vector of a bank with the queries of its tiles, one tile after the other in `out`."""
    count, (rows, dim), width = len(queries), stored.shape, out.shape[1]
    half, queries = stored.dtype == torch.float16, queries.to(stored.dtype)
    scores = out.view(count, rows, width)
    if stored.is_cuda or not (blocked or half):
        # one launch a bank; its tiles lie one after the other, and the vectors are read in place
        every = stored.expand(count, rows, dim)
        if half:
            torch.bmm(every, queries, out_dtype=torch.float32, out=scores)
        else:
            torch.bmm(every, queries, out=scores)
        return
    queries = queries.float()
    beside = max(_BLOCK_COLUMNS // width, 1)
    # a block of a large bank serves many of its tiles while it is near
    for first in range(0, count, beside):
        some = queries[first : first + beside]
        if len(some) == 1:
            asked = some[0].T.contiguous().T if width <= _NARROW else some[0]
            for row in range(0, rows, _BLOCK_ROWS):
                block = stored[row : row + _BLOCK_ROWS].float()
                torch.mm(block, asked, out=scores[first, row : row + len(block)])
            continue
        wide = some.transpose(0, 1).reshape(dim, len(some) * width)
        product = torch.empty((min(rows, _BLOCK_ROWS), wide.shape[1]))
        for row in range(0, rows, _BLOCK_ROWS):
            block = stored[row : row + _BLOCK_ROWS].float()
            torch.mm(block, wide, out=product[: len(block)])
            by_tile = product[: len(block)].view(len(block), len(some), width).transpose(0, 1)
            scores[first : first + len(some), row : row + len(block)] = by_tile


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
            mine = slice(begin, begin + count)
            search = by_cuvs if brute_force.serves(stored) else by_products
            cosines[mine], rows[mine] = search(vectors[b], queries[mine])
        begin += count
    return cosines, rows


def by_products(vectors: Placed, queries: Tensor) -> tuple[Tensor, Tensor]:
    """`best_match` in one bank that has rows, from all products at once."""
    stored, place = vectors
    scores = _cosines(stored, queries)
    scores = scores if place is None else scores[:, place]
    best = scores.amax(1, keepdim=True)
    # argmax promises no order among equals; the first of the maxima is asked for by position
    return best[:, 0], (scores == best).int().argmax(1).int()


def _cosines(stored: Tensor, queries: Tensor) -> Tensor:
    """float32 [q, n] of queries [q, D]."""
    queries = queries.to(stored.dtype)
    if stored.dtype == torch.float32:
        return queries @ stored.T
    if stored.is_cuda:
        return torch.mm(queries, stored.T, out_dtype=torch.float32)
    return queries.float() @ stored.float().T


def by_cuvs(vectors: Placed, queries: Tensor) -> tuple[Tensor, Tensor]:
    """The same by cuVS; who may have more equals than it gave back is asked again."""
    cosines, rows, unsure = brute_force.nearest(*vectors, queries)
    again = torch.nonzero(unsure)[:, 0]
    if len(again):
        cosines[again], rows[again] = by_products(vectors, queries[again])
    return cosines, rows
