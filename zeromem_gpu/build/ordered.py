"""Tables by row, read in another order of rows; vectors that stay where they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from zeromem_gpu.build.ragged import pointer
from zeromem_kernels.grouping import ranges, stable_order

# a copy this small takes less time than products with rows that nobody reads
_COPIED = 8 << 20


class Vectors(NamedTuple):
    """Vectors float32 [n, D] in an order: row i is `stored[rows[i]]`, `stored[i]` where `rows` is None."""

    stored: np.ndarray
    rows: np.ndarray | None

    def take(self, at: np.ndarray) -> np.ndarray:
        """The vectors of some rows."""
        taken: np.ndarray = self.stored[at if self.rows is None else self.rows[at]]
        return taken


def ordered_vectors(column: np.ndarray, rows: np.ndarray) -> Vectors:
    """`column[rows]`, copied only where that is small or where most of the column is not asked for."""
    if is_all(rows, len(column)):
        return Vectors(column, None)
    if rows.size * column.itemsize * column.shape[1] <= _COPIED or 2 * len(rows) < len(column):
        return Vectors(column[rows], None)
    return Vectors(column, rows)


def is_all(rows: np.ndarray, size: int) -> bool:
    """Whether `rows`, all distinct, are 0 … size − 1 in order."""
    return len(rows) == size and bool((rows[1:] > rows[:-1]).all())


def take_ranges(ptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | slice]:
    """The pointer of the rows `rows` of a table, and where their entries lie in it."""
    if is_all(rows, len(ptr) - 1):
        return ptr, slice(None)
    new, places = ranges(torch.from_numpy(ptr[rows]), torch.from_numpy(ptr[rows + 1]))
    return new.numpy(), places.numpy()


def repeated(ptr: np.ndarray) -> np.ndarray:
    """The row of each entry of a table, int64."""
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def by_column(ptr: np.ndarray, column: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The transpose of a table: pointer of its columns, and the order of entries that puts them so."""
    if len(column) == 0:
        return np.zeros(columns + 1, np.int64), np.empty(0, np.int64)
    order = stable_order(torch.from_numpy(column.astype(np.int64)), columns).numpy()
    return pointer(np.bincount(column, minlength=columns)), order


def session_order(
    session: np.ndarray, turn: np.ndarray, arrival: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The order by session, turn and arrival, and the session of each in that order.

    Sessions come by their first arrival. All int64 [n]; equal rows stay as they are.

    >>> session_order(np.array([7, 3, 7]), np.array([2, 0, 1]), np.array([0, 1, 2]))
    (array([2, 0, 1]), array([0, 0, 1]))
    """
    earliest = np.full(int(session.max(initial=-1)) + 1, len(session), np.int64)
    np.minimum.at(earliest, session, arrival)
    first = earliest[session]
    if not len(session):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if (np.diff(first) >= 0).all():
        order = np.arange(len(session))
    else:
        order = stable_order(torch.from_numpy(first), int(first.max()) + 1).numpy()
    first, turn, arrival = first[order], turn[order], arrival[order]
    ahead = (turn[1:] < turn[:-1]) | ((turn[1:] == turn[:-1]) & (arrival[1:] < arrival[:-1]))
    wrong = np.unique(first[1:][ahead & (first[1:] == first[:-1])])
    # sessions are runs: only those that are not in order are sorted
    edges = np.searchsorted(first, wrong), np.searchsorted(first, wrong, "right")
    for begin, end in zip(*(edge.tolist() for edge in edges), strict=True):
        order[begin:end] = order[begin:end][np.lexsort((arrival[begin:end], turn[begin:end]))]
    starts = np.diff(first, prepend=-1) != 0
    return order, np.cumsum(starts) - 1
