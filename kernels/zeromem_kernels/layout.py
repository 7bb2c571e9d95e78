"""Passes that put a bank's tables in order: NumPy in, NumPy out, each linear in what it reads.

After every change of a bank all of them run over all of it, so they are what an append costs. Tables are
ragged: row i of a table with pointer `ptr` (int64) holds its entries ptr[i] … ptr[i+1] − 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zeromem_kernels.tiles import compiled_host

Pair = tuple[np.ndarray, np.ndarray]


def pointer(counts: np.ndarray) -> np.ndarray:
    """int64 [rows + 1] offsets from row lengths."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def positions(keys: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    """Where each key stands among ascending ones, int32; −1 for one that is not there."""
    place = np.searchsorted(ascending, keys)
    return np.where(np.append(ascending, 0)[place] == keys, place, -1).astype(np.int32)


def ranges(begin: np.ndarray, end: np.ndarray) -> Pair:
    """A table whose rows are the numbers begin[i] … end[i] − 1; an end before its begin gives none.

    Both are below 2³¹. Returns the pointer and the numbers, int32.
    """
    ptr = pointer(np.maximum(end - begin, 0))
    members = np.empty(ptr[-1], np.int32)
    if cpu := compiled_host():
        cpu.fill_ranges(begin, ptr, members)
    else:
        row = np.repeat(np.arange(len(begin)), np.diff(ptr))
        members[:] = np.arange(len(row)) - ptr[row] + begin[row]
    return ptr, members


class Continued(NamedTuple):
    """How a table goes on from an older one: rows before `rows` are the same, column c is now `moved[c]`.

    `moved` int32 ascends; columns that are not in it are new, and no old row has them.
    """

    rows: int
    moved: np.ndarray


# what goes on from nothing is made anew
_START, _NONE = np.zeros(1, np.int64), np.empty(0, np.int32)
_FROM_NOTHING = Continued(0, _NONE)


class Graph(NamedTuple):
    """W over units, then entities: indices int32 ascending in each row, weights float32.

    `indptr` is int64 [nodes + 1], `degree` float64 the row sums.
    """

    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray
    degree: np.ndarray


def transpose(
    ptr: np.ndarray, column: np.ndarray, columns: int, before: tuple[Pair, Continued] | None = None
) -> Pair:
    """A table by column: its pointer, and the rows in each, int32, ascending.

    Args:
        ptr: int64 [rows + 1].
        column: int32 [entries].
        columns: how many there are.
        before: what this gave for an older table, and how this one goes on from it.
    """
    back = np.zeros(columns + 1, np.int64)
    rows = np.empty(len(column), np.int32)
    if cpu := compiled_host():
        old, how = before or ((_START, _NONE), _FROM_NOTHING)
        cursor = np.empty(columns, np.int64)
        cpu.fill_transpose(*old, how.moved, ptr, column, how.rows, back, cursor, rows)
    else:
        order = np.argsort(column, kind="stable")
        rows[:] = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))[order]
        np.cumsum(np.bincount(column, minlength=columns), out=back[1:])
    return back, rows


def entity_graph(
    ptr: np.ndarray, entity: np.ndarray, count: np.ndarray, bounds: np.ndarray, entities: int, chain: float,
    before: tuple[Graph, Continued] | None = None,
) -> Graph:  # fmt: skip
    """W over units and entities.

    w(d, e) = c(e, d)/Σ_e' c(e', d) both ways, and `chain` between neighbours of a session.

    Args:
        ptr: int64 [units + 1].
        entity: int32, ascending in each row.
        count: int32, above 0.
        bounds: int64 [sessions + 1], the units of each session.
        entities: how many there are.
        chain: weight between neighbours; 0 leaves them apart.
        before: an older graph, and how this one goes on from it; what is new are its last units.
    """
    units = int(bounds[-1])
    inside = 2 * int(np.maximum(np.diff(bounds) - 1, 0).sum()) if chain > 0 else 0
    indptr = np.zeros(units + entities + 1, np.int64)
    indices = np.empty(inside + 2 * len(entity), np.int32)
    weights = np.empty(len(indices), np.float32)
    degree = np.zeros(units + entities)
    made = Graph(indptr, indices, weights, degree)
    if cpu := compiled_host():
        old, how = before or (Graph(_START, _NONE, np.empty(0, np.float32), np.empty(0)), _FROM_NOTHING)
        cursor = np.empty(entities, np.int64)
        cpu.fill_graph(*old, *how, ptr, entity, count, bounds, float(chain), units, *made, cursor)
        return made
    unit = np.repeat(np.arange(units), np.diff(ptr))
    share = count / np.bincount(unit, count, units)[unit]
    left = np.delete(np.arange(units - 1), bounds[1:-1] - 1) if inside else np.empty(0, np.int64)
    row = np.concatenate([unit, entity + units, left, left + 1])
    column = np.concatenate([entity + units, unit, left + 1, left])
    weight = np.concatenate([share, share, np.full(2 * len(left), chain)])
    order = np.lexsort((column, row))
    np.cumsum(np.bincount(row, minlength=units + entities), out=indptr[1:])
    indices[:], weights[:] = column[order], weight[order]
    degree[:] = np.bincount(row[order], weight[order], units + entities)
    return made


def colour_rows(bounds: np.ndarray, entities: int) -> Pair:
    """The nodes of each of three colours and how many they are, int32 [nodes] and int64 [3].

    Entities come first, then units on an even place of their session, then the others.
    """
    units = int(bounds[-1])
    odd_of = np.diff(bounds) // 2
    sizes = np.array([entities, units - odd_of.sum(), odd_of.sum()], np.int64)
    rows = np.empty(units + entities, np.int32)
    rows[:entities] = np.arange(units, units + entities)
    if cpu := compiled_host():
        cpu.fill_colours(bounds, rows[entities : entities + sizes[1]], rows[entities + sizes[1] :])
        return rows, sizes
    odd = (np.arange(units) - np.repeat(bounds[:-1], np.diff(bounds))) % 2 == 1
    rows[entities:] = np.concatenate([np.flatnonzero(~odd), np.flatnonzero(odd)])
    return rows, sizes


def neighbours(bounds: np.ndarray) -> Pair:
    """The units before and behind each unit in its session (`bounds` int64): pointer, int32 members."""
    units = int(bounds[-1])
    ptr = np.zeros(units + 1, np.int64)
    members = np.empty(2 * int(np.maximum(np.diff(bounds) - 1, 0).sum()), np.int32)
    if cpu := compiled_host():
        cpu.fill_neighbours(bounds, ptr, members)
        return ptr, members
    there = np.ones((units, 2), bool)
    # sessions without units have no ends
    full = np.diff(bounds) > 0
    there[bounds[:-1][full], 0] = False
    there[bounds[1:][full] - 1, 1] = False
    unit = np.arange(units)
    return pointer(there.sum(1)), np.stack([unit - 1, unit + 1], 1)[there].astype(np.int32)


def local_spans(bounds: np.ndarray, radius: int) -> Pair:
    """(first, end) of each unit with `radius` neighbours on each side, inside its session, int64."""
    units = int(bounds[-1])
    first, end = np.empty((2, units), np.int64)
    if cpu := compiled_host():
        cpu.fill_spans(bounds, radius, first, end)
        return first, end
    unit, sizes = np.arange(units), np.diff(bounds)
    np.maximum(unit - radius, np.repeat(bounds[:-1], sizes), out=first)
    np.minimum(unit + radius + 1, np.repeat(bounds[1:], sizes), out=end)
    return first, end


def covering(first: np.ndarray, end: np.ndarray, units: int) -> Pair:
    """The intervals [low, high) around each unit, int32 [units]; first and end ascend."""
    low, high = np.empty((2, units), np.int32)
    if cpu := compiled_host():
        cpu.fill_covering(first, end, low, high)
        return low, high
    for edge, out in ((end, low), (first, high)):
        np.cumsum(np.bincount(edge, minlength=units + 1)[:units], out=out)
    return low, high


def kept_intervals(
    unit_there: np.ndarray, first: np.ndarray, end: np.ndarray, old_first: np.ndarray, old_end: np.ndarray,
    *, anchored: bool,
) -> np.ndarray:  # fmt: skip
    """Which intervals of units have exactly the units, in their order, that an old one had.

    Args:
        unit_there: int64 [units], the old row of each unit, −1 for a new one.
        first: int64 [n], the first unit of each interval; none is empty.
        end: int64 [n], the unit behind its last.
        old_first: int64 [m], the same of the old intervals.
        old_end: int64 [m].
        anchored: interval i belongs to unit i, here and there; else no two begin with the same unit.

    Returns:
        int64 [n], the old interval, −1 for none.
    """
    there = np.empty(len(first), np.int64)
    starting = np.full(int(old_end[-1]) + 1 if len(old_end) else 1, -1, np.int64)
    if cpu := compiled_host():
        breaks = np.empty_like(unit_there)
        cpu.fill_kept(unit_there, breaks, first, end, old_first, old_end, starting, anchored, there)
        return there
    begin = unit_there[first]
    starting[old_first] = np.arange(len(old_first))
    # the spare last place is the −1 of new units
    candidate = unit_there[: len(first)] if anchored else starting[begin]
    # breaks[u]: how often, up to unit u, a unit does not stand right behind the one before
    breaks = np.cumsum(np.diff(unit_there, prepend=-2) != 1)
    same = (candidate >= 0) & (begin >= 0)
    same &= breaks[first] == breaks[end - 1]
    if len(old_first):
        same &= (old_first[candidate] == begin) & (old_end[candidate] - old_first[candidate] == end - first)
    return np.where(same, candidate, -1)


def session_order(session: np.ndarray, turn: np.ndarray, arrival: np.ndarray) -> Pair:
    """The order by session, turn and arrival (int64), and the number of the session of each in that order.

    Sessions are numbered from 0 by their first arrival; equal rows stay as they are.

    Args:
        session: int32 or int64 [n], from 0.
        turn: int64 [n].
        arrival: int64 [n], from 0.

    >>> session_order(np.array([7, 3, 7]), np.array([2, 0, 1]), np.array([0, 1, 2]))
    (array([2, 0, 1]), array([0, 0, 1]))
    """
    latest = int(arrival.max(initial=-1)) + 1
    earliest = np.full(int(session.max(initial=-1)) + 1, latest, np.int64)
    order, number = np.empty((2, len(session)), np.int64)
    if cpu := compiled_host():
        starts = np.zeros(latest + 2, np.int64)
        wrong = cpu.order_sessions(session, turn, arrival, earliest, starts, order, number)
    else:
        np.minimum.at(earliest, session, arrival)
        order[:] = np.argsort(earliest[session], kind="stable")
        number[:] = np.cumsum(np.diff(session[order], prepend=-1) != 0) - 1
        wrong = 1
    if wrong:
        # sessions are runs: only those that are not in order are sorted
        turn, arrival = turn[order], arrival[order]
        ahead = (turn[1:] < turn[:-1]) | ((turn[1:] == turn[:-1]) & (arrival[1:] < arrival[:-1]))
        sessions = np.unique(number[1:][ahead & (number[1:] == number[:-1])])
        edges = np.searchsorted(number, sessions), np.searchsorted(number, sessions, "right")
        for begin, end in zip(*(edge.tolist() for edge in edges), strict=True):
            inside = np.lexsort((arrival[begin:end], turn[begin:end]))
            order[begin:end] = order[begin:end][inside]
    return order, number
