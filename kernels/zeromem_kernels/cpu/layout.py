"""Passes over a bank's tables in time linear in them (see `layout.py`)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def fill_ranges(begin, ptr, members):
    """members[ptr[i] + j] = begin[i] + j."""
    for row in range(len(begin)):
        first = begin[row]
        for j in range(ptr[row + 1] - ptr[row]):
            members[ptr[row] + j] = first + j


@njit(nogil=True, cache=True)
def fill_colours(bounds, even, odd):
    """Units by the parity of their place in the session."""
    at_even, at_odd = 0, 0
    for s in range(len(bounds) - 1):
        for unit in range(bounds[s], bounds[s + 1]):
            if (unit - bounds[s]) % 2 == 0:
                even[at_even] = unit
                at_even += 1
            else:
                odd[at_odd] = unit
                at_odd += 1


@njit(nogil=True, cache=True)
def fill_neighbours(bounds, ptr, members):
    """The units before and behind each unit in its session."""
    at = 0
    for s in range(len(bounds) - 1):
        for unit in range(bounds[s], bounds[s + 1]):
            for other in (unit - 1, unit + 1):
                if bounds[s] <= other < bounds[s + 1]:
                    members[at] = other
                    at += 1
            ptr[unit + 1] = at


@njit(nogil=True, cache=True)
def fill_spans(bounds, radius, first, end):
    """Each unit with its neighbours."""
    for s in range(len(bounds) - 1):
        for unit in range(bounds[s], bounds[s + 1]):
            first[unit] = max(unit - radius, bounds[s])
            end[unit] = min(unit + radius + 1, bounds[s + 1])


@njit(nogil=True, cache=True)
def fill_kept(unit_there, breaks, first, end, old_first, old_end, starting, anchored, there):
    """there[i] = the old interval with the units of interval i, or −1; `starting` is −1 on entry."""
    run = 0
    for unit in range(len(unit_there)):
        run += unit == 0 or unit_there[unit] != unit_there[unit - 1] + 1
        breaks[unit] = run
    for i in range(len(old_first)):
        starting[old_first[i]] = i
    for i in range(len(first)):
        there[i] = -1
        begin = unit_there[first[i]]
        if begin < 0 or breaks[first[i]] != breaks[end[i] - 1]:
            continue
        candidate = unit_there[i] if anchored else starting[begin]
        if (
            candidate >= 0
            and old_first[candidate] == begin
            and old_end[candidate] - old_first[candidate] == end[i] - first[i]
        ):
            there[i] = candidate


@njit(nogil=True, cache=True)
def fill_covering(first, end, low, high):
    """How many intervals end before, and begin up to, each unit; both ends ascend."""
    opened, closed = 0, 0
    for unit in range(len(low)):
        while opened < len(first) and first[opened] <= unit:
            opened += 1
        while closed < len(end) and end[closed] <= unit:
            closed += 1
        low[unit] = closed
        high[unit] = opened


@njit(nogil=True, cache=True)
def order_sessions(session, turn, arrival, earliest, starts, order, number):
    """A stable order by session; sessions by first arrival. Returns how many are not in order inside.

    `earliest` [sessions] is above every arrival on entry, `starts` 0 [arrivals + 1]; `number` is filled
    with the number of each session in that order.
    """
    for row in range(len(session)):
        earliest[session[row]] = min(earliest[session[row]], arrival[row])
    for row in range(len(session)):
        starts[earliest[session[row]] + 1] += 1
    for at in range(1, len(starts)):
        starts[at] += starts[at - 1]
    for row in range(len(session)):
        at = starts[earliest[session[row]]]
        order[at] = row
        starts[earliest[session[row]]] = at + 1
    wrong, current = 0, -1
    bad = False
    for at in range(len(order)):
        row = order[at]
        if at == 0 or session[row] != session[order[at - 1]]:
            current += 1
            bad = False
        elif not bad:
            before = order[at - 1]
            bad = turn[row] < turn[before] or (turn[row] == turn[before] and arrival[row] < arrival[before])
            wrong += bad
        number[at] = current
    return wrong


@njit(nogil=True, cache=True)
def copy_rows(old_ptr, old_first, moved, ptr, first, cursor, old_indices, indices, old_weights, weights):
    """Copy the entries of old row c to the beginning of row `moved[c]`; `cursor` of a row is behind them.

    Rows of a table begin at `first`, those of the old one at `old_first`. Neighbours that still lie side by
    side are copied at once. Without weights, `weights` is empty.
    """
    c = 0
    while c < len(moved):
        begin = old_ptr[old_first + c]
        shift = ptr[first + moved[c]] - begin
        while c < len(moved) and ptr[first + moved[c]] - old_ptr[old_first + c] == shift:
            c += 1
            cursor[moved[c - 1]] = old_ptr[old_first + c] + shift
        end = old_ptr[old_first + c]
        for at in range(begin, end):
            indices[at + shift] = old_indices[at]
        if len(weights) > 0:
            for at in range(begin, end):
                weights[at + shift] = old_weights[at]


@njit(nogil=True, cache=True)
def fill_transpose(old_back, old_rows, moved, ptr, column, first, back, cursor, rows):
    """Rows by column, where those before `first` were there and old column c is now `moved[c]`.

    `back` is 0 on entry and the pointer at the end.
    """
    for c in range(len(moved)):
        back[moved[c] + 1] = old_back[c + 1] - old_back[c]
    for at in range(ptr[first], len(column)):
        back[column[at] + 1] += 1
    for c in range(1, len(back)):
        back[c] += back[c - 1]
    for c in range(len(cursor)):
        cursor[c] = back[c]
    none = np.empty(0, np.float32)
    copy_rows(old_back, 0, moved, back, 0, cursor, old_rows, rows, none, none)
    for row in range(first, len(ptr) - 1):
        for at in range(ptr[row], ptr[row + 1]):
            rows[cursor[column[at]]] = row
            cursor[column[at]] += 1


@njit(nogil=True, cache=True)
def fill_graph(
    old_indptr, old_indices, old_weights, old_degree, old_units, moved,
    ptr, entity, count, bounds, chain, units, indptr, indices, weights, degree, cursor,
):  # fmt: skip
    """Rows of units, then of entities, where the units before `old_units` were there.

    Old entity e is now `moved[e]`; `indptr` and `degree` are 0 on entry.
    """
    # the last old unit may have got a neighbour
    kept = max(old_units - 1, 0)
    for unit in range(kept):
        indptr[unit] = old_indptr[unit]
        degree[unit] = old_degree[unit]
    at = old_indptr[kept]
    stays = len(moved) == len(cursor)
    for p in range(at):
        weights[p] = old_weights[p]
    if stays:
        shift = units - old_units
        for p in range(at):
            other = old_indices[p]
            indices[p] = other + (shift if other >= old_units else 0)
    else:
        for p in range(at):
            other = old_indices[p]
            indices[p] = other if other < old_units else units + moved[other - old_units]
    s = len(bounds) - 2
    while s > 0 and bounds[s] > kept:
        s -= 1
    for session in range(s, len(bounds) - 1):
        for unit in range(max(kept, bounds[session]), bounds[session + 1]):
            indptr[unit] = at
            if chain > 0:
                for other in (unit - 1, unit + 1):
                    if bounds[session] <= other < bounds[session + 1]:
                        indices[at] = other
                        weights[at] = chain
                        degree[unit] += chain
                        at += 1
            total = 0
            for p in range(ptr[unit], ptr[unit + 1]):
                total += count[p]
            for p in range(ptr[unit], ptr[unit + 1]):
                share = count[p] / total
                indices[at] = units + entity[p]
                weights[at] = share
                degree[unit] += share
                at += 1
    indptr[units] = at
    for e in range(len(moved)):
        node = old_units + e
        indptr[units + moved[e] + 1] = old_indptr[node + 1] - old_indptr[node]
        degree[units + moved[e]] = old_degree[node]
    for p in range(ptr[old_units], len(entity)):
        indptr[units + entity[p] + 1] += 1
    for node in range(units + 1, len(indptr)):
        indptr[node] += indptr[node - 1]
    for e in range(len(cursor)):
        cursor[e] = indptr[units + e]
    copy_rows(
        old_indptr, old_units, moved, indptr, units, cursor, old_indices, indices, old_weights, weights
    )
    for unit in range(old_units, units):
        total = 0
        for p in range(ptr[unit], ptr[unit + 1]):
            total += count[p]
        for p in range(ptr[unit], ptr[unit + 1]):
            share = count[p] / total
            at = cursor[entity[p]]
            indices[at] = unit
            weights[at] = share
            degree[units + entity[p]] += share
            cursor[entity[p]] = at + 1
