"""Small array helpers for ragged rows: ranges, and compressed rows from pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from zeromem_gpu.build.tails import spliced
from zeromem_gpu.errors import InvalidInput
from zeromem_kernels.grouping import stable_order
from zeromem_kernels.layout import pointer, ranges


def checked_int32(values: np.ndarray) -> np.ndarray:
    """`values` as int32; a bank with more rows than that is refused, never wrapped around."""
    if len(values) and int(values.max()) > np.iinfo(np.int32).max:
        got = f"a table with row {int(values.max()):,}"
        raise InvalidInput("bank", got, "at most 2,147,483,647 rows", "Split the bank.")
    return values.astype(np.int32)


_ones = np.ones(0, np.float32)
_counting = np.arange(0, dtype=np.int32)


def counting(count: int) -> np.ndarray:
    """0 … `count` − 1 in int32, in memory that all share: nobody writes through it."""
    global _counting
    if len(_counting) < count:
        _counting = np.arange(2 * count, dtype=np.int32)
    # another thread may have put a shorter array there
    found = _counting
    return found[:count] if len(found) >= count else np.arange(count, dtype=np.int32)


def ones(count: int) -> np.ndarray:
    """`count` times 1 in float32, in memory that all share: nobody writes through it."""
    global _ones
    if len(_ones) < count:
        _ones = np.ones(2 * count, np.float32)
    # another thread may have put a shorter array there
    found = _ones
    return found[:count] if len(found) >= count else np.ones(count, np.float32)


class Rows(NamedTuple):
    """Compressed rows: row i holds `indices[indptr[i]:indptr[i+1]]` with float32 `weights` beside them."""

    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray


def spliced_rows(before: Rows, keep: int, rest: Rows, shift: int) -> Rows:
    """The first `keep` rows of `before`, then `rest` with `shift` added to its indices; weight 1."""
    at = int(before.indptr[keep])
    indices = spliced(before.indices, at, rest.indices + np.int32(shift))
    return Rows(spliced(before.indptr, keep, rest.indptr + at), indices, ones(len(indices)))


def expand(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All numbers of the ranges [begin[i], end[i]) in a row, and the i of each; int64."""
    counts = np.maximum(end - begin, 0)
    which = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    return np.arange(len(which)) - first[which] + begin[which], which


def from_ranges(begin: np.ndarray, end: np.ndarray) -> Rows:
    """Rows whose members are the ranges [begin[i], end[i]), weight 1; no end is above the last one."""
    checked_int32(end[-1:])
    ptr, members = ranges(begin, end)
    return Rows(ptr, members, ones(len(members)))


def from_pairs(row: np.ndarray, column: np.ndarray, rows: int, weights: np.ndarray | None = None) -> Rows:
    """Rows from (row, column) pairs in any order; columns ascend inside a row."""
    if len(row) == 0:
        return Rows(np.zeros(rows + 1, np.int64), np.empty(0, np.int32), ones(0))
    order = np.arange(len(row))
    if (column[1:] < column[:-1]).any():
        order = _ordered(column, order)
    order = _ordered(row, order)
    given = None if weights is None else weights.astype(np.float32)
    return Rows(
        pointer(np.bincount(row, minlength=rows)), checked_int32(column[order]),
        ones(len(row)) if given is None else given[order],
    )  # fmt: skip


def _ordered(keys: np.ndarray, order: np.ndarray) -> np.ndarray:
    """`order`, sorted by the keys of its rows, equal ones as they came."""
    if len(keys) == 0:
        return order
    taken = torch.from_numpy(keys[order].astype(np.int64))
    sorted_order: np.ndarray = order[stable_order(taken, int(taken.max()) + 1).numpy()]
    return sorted_order


def first_from(column: np.ndarray, value: int) -> int:
    """The first row of an ascending column that is at least `value`."""
    # a key of another dtype would convert the whole column
    return int(np.searchsorted(column, np.array(value, column.dtype)))
