"""Intervals of units that were there before, in a bank that has changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from zeromem_gpu.build.hierarchy import Level


class Reuse(NamedTuple):
    """Interval `here[i]` has the units that `there[i]` of the old `level` had; those of `fresh` are new."""

    level: Level
    here: np.ndarray
    there: np.ndarray
    fresh: np.ndarray


def kept_intervals(
    unit_there: np.ndarray, first: np.ndarray, end: np.ndarray, old: Level, candidate: np.ndarray | None = None
) -> Reuse:  # fmt: skip
    """Which intervals have exactly the units of an old one.

    Args:
        unit_there: int64 [units], the old row of each unit, −1 for a new one.
        first: int64 [n], the first unit of each interval; none is empty.
        end: int64 [n], the unit behind its last.
        old: the old intervals.
        candidate: int64 [n], the old interval that each may be, −1 for none; None finds the one that begins
            with the same unit, where no two begin alike.
    """
    begin = unit_there[first]
    if candidate is None:
        starting = np.full(int(old.end.max(initial=0)) + 1, -1, np.int64)
        starting[old.first] = np.arange(len(old.first))
        # the spare last place is the −1 of new units
        candidate = starting[begin]
    # breaks[u]: how often, up to unit u, a unit does not stand right behind the one before
    breaks = np.cumsum(np.diff(unit_there, prepend=-2) != 1)
    same = (candidate >= 0) & (begin >= 0)
    same &= breaks[first] == breaks[end - 1]
    if len(old.first):
        same &= (old.first[candidate] == begin) & (old.end[candidate] - old.first[candidate] == end - first)
    here = np.flatnonzero(same)
    return Reuse(old, here, candidate[here], np.flatnonzero(~same))
