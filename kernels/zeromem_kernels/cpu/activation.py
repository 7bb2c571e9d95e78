"""Activation over the few sentences that pass the gate (see `activation.py`)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _above(x, begin, end, hidden, least):
    """The entries x[i, c] > 0 with x[i, c] ≥ least[c] that are not hidden, by column, rows ascending.

    Returns the first entry of each column, the rows counted from `begin`, and the values.
    """
    width = x.shape[1]
    masked = hidden.shape[0] > 0
    ptr = np.zeros(width + 1, np.int64)
    count, room = 0, 1024
    rows, columns, values = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.float32)
    for i in range(begin, end):
        xi = x[i]
        # few rows hold one, which a loop without branches finds out eight columns at a time
        some = False
        for c in range(width):
            some |= xi[c] >= least[c]
        if not some:
            continue
        if count + width > room:
            room *= 2
            more_rows, more_columns = np.empty(room, np.int64), np.empty(room, np.int64)
            more_values = np.empty(room, np.float32)
            more_rows[:count], more_columns[:count] = rows[:count], columns[:count]
            more_values[:count] = values[:count]
            rows, columns, values = more_rows, more_columns, more_values
        for c in range(width):
            if xi[c] >= least[c] and xi[c] > 0 and not (masked and hidden[i, c]):
                rows[count], columns[count], values[count] = i - begin, c, xi[c]
                ptr[c + 1] += 1
                count += 1
    for c in range(width):
        ptr[c + 1] += ptr[c]
    at = ptr[:-1].copy()
    by_row, by_value = np.empty(count, np.int64), np.empty(count, np.float32)
    for k in range(count):
        place = at[columns[k]]
        by_row[place], by_value[place] = rows[k], values[k]
        at[columns[k]] += 1
    return ptr, by_row, by_value


@njit(nogil=True, cache=True)
def _tops(x, begin, end, hidden, floor, least):
    """least[c] = floor · the largest visible entry of a column; +inf where none is positive."""
    masked = hidden.shape[0] > 0
    least[:] = 0.0
    for i in range(begin, end):
        for c in range(x.shape[1]):
            shown = not masked or not hidden[i, c]
            least[c] = max(least[c], x[i, c] if shown else np.float32(0))
    for c in range(x.shape[1]):
        least[c] = least[c] * floor if least[c] > 0 else np.float32(np.inf)


@njit(nogil=True, cache=True)
def _keep(names, count, values, floor):
    """Zero what lies below `floor` times the largest of the named values."""
    top = np.float32(0)
    for k in range(count):
        top = max(top, values[names[k]])
    for k in range(count):
        if values[names[k]] < top * floor:
            values[names[k]] = 0.0


@njit(nogil=True, cache=True)
def propagate(
    first, last, bank, indptr, indices, sentence_ptr, sentence_starts, entity_starts, seeds, similarity,
    hidden, steps, floor, sentence_floor, exclude_self, rounding, total,
):  # fmt: skip
    """Σ_t η_t of tiles first … last in `total`, 0 on entry; `sentence_floor` is above 0.

    Sums run over the sentences that pass the gate in their order, as sums over all of them would: the
    others add zeros.
    """
    width = seeds.shape[1]
    nothing_hidden = np.empty((0, 0), np.bool_)
    least = np.empty(width, np.float32)
    for t in range(first, last):
        row0 = sentence_ptr[bank[t]]
        begin, end = entity_starts[t], entity_starts[t + 1]
        _tops(similarity, sentence_starts[t], sentence_starts[t + 1], hidden, sentence_floor, least)
        gate_ptr, gate_rows, gate = _above(
            similarity, sentence_starts[t], sentence_starts[t + 1], hidden, least
        )
        _tops(seeds, begin, end, nothing_hidden, floor, least)
        seed_ptr, seed_rows, seed = _above(seeds, begin, end, nothing_hidden, least)
        count = end - begin
        eta, following, own = (
            np.zeros(count, np.float32),
            np.zeros(count, np.float32),
            np.zeros(count, np.float32),
        )
        # the last column in which an entity was met for its own sum, and the last step that reached it
        met, reached = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        active, others = np.empty(count, np.int64), np.empty(count, np.int64)
        stamp = 0
        for c in range(width):
            count = seed_ptr[c + 1] - seed_ptr[c]
            if count == 0:
                continue
            for k in range(count):
                e = seed_rows[seed_ptr[c] + k]
                active[k], eta[e] = e, seed[seed_ptr[c] + k]
                total[begin + e, c] = eta[e]
            for z in range(gate_ptr[c], gate_ptr[c + 1] if exclude_self and steps > 0 else gate_ptr[c]):
                for p in range(indptr[row0 + gate_rows[z]], indptr[row0 + gate_rows[z] + 1]):
                    e = indices[p]
                    if met[e] != c:
                        met[e], own[e] = c, 0.0
                    own[e] += gate[z]
            for _ in range(steps):
                stamp += 1
                found = 0
                for z in range(gate_ptr[c], gate_ptr[c + 1]):
                    low, high = indptr[row0 + gate_rows[z]], indptr[row0 + gate_rows[z] + 1]
                    inside = np.float32(0)
                    for p in range(low, high):
                        inside += eta[indices[p]]
                    if inside <= 0:
                        continue
                    for p in range(low, high):
                        e = indices[p]
                        if reached[e] != stamp:
                            reached[e], following[e], others[found] = stamp, 0.0, e
                            found += 1
                        following[e] += gate[z] * inside
                top = np.float32(0)
                for k in range(found):
                    e = others[k]
                    if exclude_self:
                        # what is left of an entity that met only itself is rounding, which scaling blows up
                        itself = eta[e] * own[e]
                        following[e] -= itself
                        if not following[e] > rounding * itself:
                            following[e] = 0.0
                    top = max(top, following[e])
                for k in range(count):
                    eta[active[k]] = 0.0
                scale = np.float32(1) / top if top > 0 else np.float32(0)
                for k in range(found):
                    following[others[k]] *= scale
                _keep(others, found, following, floor)
                for k in range(found):
                    e = others[k]
                    eta[e] = following[e]
                    total[begin + e, c] += eta[e]
                active, others, count = others, active, found
            for k in range(count):
                eta[active[k]] = 0.0
