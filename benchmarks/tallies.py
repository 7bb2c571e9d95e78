"""What the kernels' work depends on: rows, slices and cells of a table, over tiles and over the stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zeromem_kernels import slices as layout
from zeromem_kernels.slices import LANES, UNROLL, Slices
from zeromem_kernels.tiles import Axis


class Counts(NamedTuple):
    """How much of a table: rows, stored cells (padding included), slices, and what long rows became.

    `row_slices` hold whole rows, the other slices segments; `segments` are scratch rows, `long_rows` the
    rows that were cut.
    """

    rows: int
    cells: int
    slices: int
    row_slices: int
    segments: int
    long_rows: int


@dataclass(frozen=True, eq=False)
class Tally:
    """A table in a tiled batch.

    `rows` int64 [T] are the target rows of each tile; `moved` counts every tile's table, `stored` each
    bank's once, however many tiles it has.
    """

    width: int
    rows: np.ndarray
    moved: Counts
    stored: Counts

    @property
    def tiles(self) -> int:
        """T."""
        return len(self.rows)


def tally(slices: Slices, axis: Axis) -> Tally:
    """Count the table `slices`, whose rows are `axis`."""
    colours = slices.colours
    segmented = (slices.lane_row.view(-1, LANES)[:, 0] < -1).cpu().numpy()
    cells = slices.slice_ptr.diff().cpu().numpy()
    group, long = slices.host_group[::colours], slices.host_long[::colours]

    def per_bank(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        total = np.concatenate([[0], np.cumsum(values)])
        return total[bounds[1:]] - total[bounds[:-1]]

    columns = (
        np.diff(axis.host_ptr), per_bank(cells, group), np.diff(group), per_bank(~segmented, group),
        slices.host_scratch, np.diff(long),
    )  # fmt: skip
    bank = axis.tiles.bank.cpu().numpy()
    moved = Counts(*(int(values[bank].sum()) for values in columns))
    stored = Counts(*(int(values[np.unique(bank)].sum()) for values in columns))
    return Tally(axis.tiles.width, np.diff(axis.host_starts), moved, stored)


def tally_of_degrees(degrees: Sequence[np.ndarray], width: int, tiles: int, banks: int = 1) -> Tally:
    """The tally of `banks` equal tables known only by the degrees of each colour's rows, `tiles` in all.

    The cells of a slice follow from degrees alone: graphs too large to build can be counted.
    """
    one = Counts(*(sum(column) for column in zip(*map(_colour, degrees), strict=True)))
    moved = Counts(*(tiles * value for value in one))
    stored = Counts(*(min(banks, tiles) * value for value in one))
    return Tally(width, np.full(tiles, one.rows), moved, stored)


def _colour(degree: np.ndarray) -> Counts:
    longest = layout.LONGEST
    long = degree[degree > longest]
    parts = -(-long // longest)
    # every segment but a row's last is full
    segments = np.concatenate([np.full(int((parts - 1).sum()), longest), long - (parts - 1) * longest])
    whole = degree[degree <= longest]
    cells = [_cells(lengths) for lengths in (segments, whole)]
    slices = [-(-len(lengths) // LANES) for lengths in (segments, whole)]
    return Counts(len(degree), sum(cells), sum(slices), slices[1], len(segments), len(long))


def _cells(lengths: np.ndarray) -> int:
    tallest = np.sort(lengths)[::-1][::LANES]
    return int((-(-tallest // UNROLL) * UNROLL * LANES).sum())
