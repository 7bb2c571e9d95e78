"""Tables by row, read in another order of rows; vectors that stay where they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zeromem_kernels.layout import ranges

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

    def since(self, start: int) -> Vectors:
        """The vectors from row `start` on."""
        if self.rows is None:
            return Vectors(self.stored[start:], None)
        return Vectors(self.stored, self.rows[start:])


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
    return ranges(ptr[rows], ptr[rows + 1])
