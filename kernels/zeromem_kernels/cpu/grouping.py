"""Counting sort and postings in time linear in their input (see `grouping.py`)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def stable_order(keys, starts, order):
    """Fill `order`; `starts` is zero [bins + 1] on entry."""
    for key in keys:
        starts[key + 1] += 1
    for bin_ in range(1, len(starts)):
        starts[bin_] += starts[bin_ - 1]
    for row in range(len(keys)):
        key = keys[row]
        order[starts[key]] = row
        starts[key] += 1


@njit(nogil=True, cache=True)
def document_frequency(terms, unit_ptr, first, end, seen, frequency):
    """frequency[t + 1] = in how many documents term t stands; `seen` is −1 on entry, `frequency` 0."""
    for document in range(len(first)):
        for token in range(unit_ptr[first[document]], unit_ptr[end[document]]):
            term = terms[token]
            if seen[term] != document:
                seen[term] = document
                frequency[term + 1] += 1


@njit(nogil=True, cache=True)
def fill_postings(terms, unit_ptr, first, end, seen, cursor, documents, counts):
    """Write each term's documents and counts from `cursor` on, which ends behind them."""
    for document in range(len(first)):
        for token in range(unit_ptr[first[document]], unit_ptr[end[document]]):
            term = terms[token]
            if seen[term] != document:
                seen[term] = document
                documents[cursor[term]] = document
                counts[cursor[term]] = 1
                cursor[term] += 1
            else:
                counts[cursor[term] - 1] += 1


@njit(nogil=True, cache=True)
def slot_of(slots, distinct, key):
    """Where a key stands in an open table of places in `distinct`, or the empty slot (−1) it may take."""
    mask = len(slots) - 1
    at = (key ^ (key >> 32)) * np.int64(-7046029254386353131)
    at = (at ^ (at >> 29)) & mask
    while slots[at] >= 0 and distinct[slots[at]] != key:
        at = (at + 1) & mask
    return at


@njit(nogil=True, cache=True)
def number_keys(keys, number):
    """Number the keys by first appearance: fills `number`, returns the distinct ones in that order."""
    slots = np.full(1024, -1, np.int64)
    distinct = np.empty(len(slots) // 2, np.int64)
    count = 0
    for row in range(len(keys)):
        key = keys[row]
        at = slot_of(slots, distinct, key)
        if slots[at] < 0:
            if count == len(distinct):
                slots = np.full(4 * len(slots), -1, np.int64)
                more = np.empty(len(slots) // 2, np.int64)
                more[:count] = distinct
                distinct = more
                for known in range(count):
                    slots[slot_of(slots, distinct, distinct[known])] = known
                at = slot_of(slots, distinct, key)
            slots[at] = count
            distinct[count] = key
            count += 1
        number[row] = slots[at]
    return distinct[:count]
