"""Growable arenas: columns of rows in which every bank owns one region.

A region is a `Span` (offset, length, capacity). Appending writes behind a region's filled rows, or moves
the region to the arena's end with room to spare. Rows once written never change, so a span that an
older index still holds stays valid, and adding to one bank touches no other bank's rows.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Columns = Mapping[str, np.ndarray]


# rows from which on a first region has room to spare
_LARGE = 4096


def _first_room(rows: int) -> int:
    """Rows for a first region: exact where it is small, for most banks are written once and never grow.

    What lies behind the rows of a large one is memory only when it is written to.
    """
    return rows if rows < _LARGE else rows + rows // 4


class Span(NamedTuple):
    """One bank's rows in an arena."""

    offset: int = 0
    length: int = 0
    capacity: int = 0


class Arena:
    """Columns of equal length; `schema` gives each column's dtype and the shape of one row."""

    def __init__(self, schema: Mapping[str, tuple[Any, tuple[int, ...]]]) -> None:
        """An arena without rows."""
        self.schema = dict(schema)
        self._columns = {name: np.empty((0, *shape), dtype) for name, (dtype, shape) in self.schema.items()}
        # rows that came with `adopt` lie before the arena's own and are never written
        self._adopted: dict[str, np.ndarray] = {}
        self._base = 0
        self._used = 0
        self._filled: dict[int, int] = {}
        self._lock = threading.Lock()

    @classmethod
    def adopt(cls, schema: Mapping[str, tuple[Any, tuple[int, ...]]], columns: Columns) -> Arena:
        """An arena whose first rows are `columns` themselves, without a copy; nobody writes into them.

        Spans over these rows (offsets from 0) have no room to spare: the first append moves their region.
        """
        arena = cls(schema)
        arena._adopted = dict(columns)
        arena._base = len(next(iter(columns.values())))
        return arena

    def append(self, span: Span, rows: Columns) -> Span:
        """Add `rows` (arrays of one length for every column) behind `span`; returns the grown span.

        Two indexes that grew from the same ancestor may append to the same span: the second one finds
        the room taken and moves to a region of its own. The last region of an arena is not moved but made
        longer.
        """
        count = len(next(iter(rows.values())))
        if count == 0:
            return span
        with self._lock:
            length = span.length + count
            free = span.capacity > 0 and self._filled.get(span.offset) == span.length
            last = span.offset + span.capacity == self._base + self._used
            capacity = span.capacity if length <= span.capacity else max(length, 2 * span.length)
            if free and (last or length <= span.capacity):
                self._reserve(capacity - span.capacity)
                grown = Span(span.offset, length, capacity)
            else:
                capacity = _first_room(length) if span.length == 0 else max(length, 2 * span.length)
                grown = Span(self._reserve(capacity), length, capacity)
                self._write(grown.offset, self.view(span))
            self._write(grown.offset + span.length, rows)
            self._filled[grown.offset] = length
        return grown

    def view(self, span: Span) -> dict[str, np.ndarray]:
        """The rows of a span, one array per column, without a copy; nobody writes through it."""
        return {name: self.column(name, span) for name in self.schema}

    def column(self, name: str, span: Span) -> np.ndarray:
        """One column of a span, without a copy; nobody writes through it."""
        if span.offset < self._base:
            return self._adopted[name][span.offset : span.offset + span.length]
        start = span.offset - self._base
        return self._columns[name][start : start + span.length]

    @property
    def nbytes(self) -> int:
        """Bytes reserved by all columns (object columns count their references only)."""
        return sum(column.nbytes for part in (self._adopted, self._columns) for column in part.values())

    def _reserve(self, rows: int) -> int:
        """The offset of `rows` new rows at the end, with the buffers grown as needed."""
        offset = self._used
        self._used += rows
        for name, column in self._columns.items():
            if self._used > len(column):
                # readers keep the old buffer alive through their views
                size = self._used if len(column) == 0 else max(self._used, len(column) * 3 // 2)
                grown = np.empty((size, *column.shape[1:]), column.dtype)
                grown[:offset] = column[:offset]
                self._columns[name] = grown
        return self._base + offset

    def _write(self, offset: int, rows: Columns) -> None:
        offset -= self._base
        for name, column in self._columns.items():
            column[offset : offset + len(rows[name])] = rows[name]
