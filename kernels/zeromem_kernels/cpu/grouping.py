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
def place_of(key, mask):
    """Where to begin to look for a key among `mask` + 1 places."""
    at = (key ^ (key >> 32)) * np.int64(-7046029254386353131)
    return (at ^ (at >> 29)) & mask


@njit(nogil=True, cache=True)
def number_keys(keys, number):
    """Number the keys by first appearance: fills `number`, returns the distinct ones in that order."""
    size = 1024
    slots = np.full(size, -1, np.int64)
    distinct = np.empty(size // 2, np.int64)
    count = 0
    for row in range(len(keys)):
        key = keys[row]
        at = place_of(key, size - 1)
        while slots[at] >= 0 and distinct[slots[at]] != key:
            at = (at + 1) & (size - 1)
        if slots[at] < 0:
            if count == len(distinct):
                size *= 4
                more = np.empty(size // 2, np.int64)
                more[:count] = distinct
                distinct = more
                slots = np.full(size, -1, np.int64)
                for known in range(count):
                    at = place_of(distinct[known], size - 1)
                    while slots[at] >= 0:
                        at = (at + 1) & (size - 1)
                    slots[at] = known
                at = place_of(key, size - 1)
                while slots[at] >= 0:
                    at = (at + 1) & (size - 1)
            slots[at] = count
            distinct[count] = key
            count += 1
        number[row] = slots[at]
    return distinct[:count]
