"""Counting sort and postings in time linear in their input (see `grouping.py`)."""

from __future__ import annotations

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
