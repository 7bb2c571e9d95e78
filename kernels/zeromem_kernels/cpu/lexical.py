"""Look-ups of 64-bit keys, BM25 postings, phrases and subjects over tiles (see `lexical.py`)."""

from __future__ import annotations

import numpy as np
from numba import njit

from zeromem_kernels.cpu.select import top_of_line

# floats of a block of rows that a second-level cache holds
_NEAR = 1 << 16


@njit(nogil=True, cache=True)
def lookup(banks, keys, ptr, stack_keys, found):
    """Binary search of keys[i] among the sorted keys of bank banks[i]: its local index, or −1."""
    for i in range(len(keys)):
        low, high = ptr[banks[i]], ptr[banks[i] + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if stack_keys[middle] < keys[i]:
                low = middle + 1
            else:
                high = middle
        hit = low < end and stack_keys[low] == keys[i]
        found[i] = low - ptr[banks[i]] if hit else -1


@njit(nogil=True, cache=True)
def bm25_scatter(
    first, last, bank, term_ptr, indptr, documents, weights, query_ptr, terms, shares, starts, out
):
    """Add the weights of each query's terms, times their share, to its column; local terms, −1 unknown.

    Some rows of all columns are filled before the next ones, as far as the documents of a term ascend: they
    stay near. Each sum runs over the query's terms in their order either way.
    """
    width = out.shape[1]
    for t in range(first, last):
        term0 = term_ptr[bank[t]]
        base = starts[t]
        rows, step = starts[t + 1] - base, _NEAR // width
        first_slot = query_ptr[t * width]
        entries = query_ptr[(t + 1) * width] - first_slot
        at, ends = np.empty(entries, np.int64), np.empty(entries, np.int64)
        for q in range(entries):
            term = terms[first_slot + q]
            at[q] = indptr[term0 + term] if term >= 0 else 0
            ends[q] = indptr[term0 + term + 1] if term >= 0 else 0
            for p in range(at[q] + 1, ends[q]):
                if documents[p] < documents[p - 1]:
                    step = max(rows, 1)
                    break
        for begin in range(0, rows, step):
            end = min(begin + step, rows)
            out[base + begin : base + end] = 0.0
            for c in range(width):
                for q in range(
                    query_ptr[t * width + c] - first_slot, query_ptr[t * width + c + 1] - first_slot
                ):
                    p, last_p, share = at[q], ends[q], shares[first_slot + q]
                    while p < last_p and documents[p] < end:
                        out[base + documents[p], c] += share * weights[p]
                        p += 1
                    at[q] = p


@njit(nogil=True, cache=True)
def bm25_topk(
    first, last, bank, term_ptr, indptr, documents, weights, query_ptr, terms, starts, scores, rows
):
    """The k best documents of each query, from one query's scores at a time, which stay near."""
    k, width = scores.shape[1], scores.shape[2]
    best = np.empty(k, np.float32)
    where = np.empty(k, np.int32)
    tallest = 0
    for t in range(first, last):
        tallest = max(tallest, starts[t + 1] - starts[t])
    line = np.empty(tallest, np.float32)
    for t in range(first, last):
        term0 = term_ptr[bank[t]]
        sums = line[: starts[t + 1] - starts[t]]
        for c in range(width):
            slot = t * width + c
            sums[:] = 0.0
            for q in range(query_ptr[slot], query_ptr[slot + 1]):
                if terms[q] >= 0:
                    row = term0 + terms[q]
                    for p in range(indptr[row], indptr[row + 1]):
                        sums[documents[p]] += weights[p]
            top_of_line(sums, best, where)
            for j in range(k):
                scores[t, j, c] = best[j]
                rows[t, j, c] = where[j]


@njit(nogil=True, cache=True)
def phrase_scatter(
    first, last, bank, word_ptr, indptr, positions, stream_ptr, stream, unit_of, row_ptr, row_of,
    query_ptr, phrase_ptr, words, starts, out,
):  # fmt: skip
    """Add the share of a query's phrases that occur word for word in each unit.

    `positions` lists, per word, where it stands in the bank's `stream` of word ids (−1 separates
    parts); `unit_of` is the stored unit of each place, `row_of` where that stands now or −1.
    """
    width = out.shape[1]
    for t in range(first, last):
        b = bank[t]
        base = starts[t]
        s0, s1 = stream_ptr[b], stream_ptr[b + 1]
        for c in range(width):
            slot = t * width + c
            total = query_ptr[slot + 1] - query_ptr[slot]
            for f in range(query_ptr[slot], query_ptr[slot + 1]):
                begin, end = phrase_ptr[f], phrase_ptr[f + 1]
                rare, fewest = -1, 0
                for q in range(begin, end):
                    if words[q] < 0:
                        rare = -1
                        break
                    row = word_ptr[b] + words[q]
                    count = indptr[row + 1] - indptr[row]
                    if rare < 0 or count < fewest:
                        rare, fewest = q, count
                if rare < 0:
                    continue
                word = word_ptr[b] + words[rare]
                previous = -1
                for p in range(indptr[word], indptr[word + 1]):
                    place = s0 + positions[p] - (rare - begin)
                    if place < s0 or place + (end - begin) > s1:
                        continue
                    same = True
                    for j in range(end - begin):
                        if stream[place + j] != words[begin + j]:
                            same = False
                            break
                    if same and unit_of[place] != previous:
                        previous = unit_of[place]
                        row = row_of[row_ptr[b] + previous]
                        if row >= 0:
                            out[base + row, c] += np.float32(1) / np.float32(total)


@njit(nogil=True, cache=True)
def subject_scatter(
    first, last, bank, unit_ptr, speaker, node_ptr, indptr, indices, query_ptr, subjects, starts, out
):
    """1 where a subject speaks, ½ where it is mentioned, per unit; subjects are local entities or −1."""
    width = out.shape[1]
    for t in range(first, last):
        b = bank[t]
        base = starts[t]
        units = starts[t + 1] - base
        out[base : starts[t + 1]] = 0.0
        first_slot = query_ptr[t * width]
        entries = query_ptr[(t + 1) * width] - first_slot
        # by entity, a chain of the places that name it, and their columns
        asked = np.full(node_ptr[b + 1] - node_ptr[b] - units, -1, np.int64)
        before, column = np.empty(entries, np.int64), np.empty(entries, np.int64)
        for c in range(width):
            for q in range(query_ptr[t * width + c], query_ptr[t * width + c + 1]):
                if subjects[q] < 0:
                    continue
                before[q - first_slot], column[q - first_slot] = asked[subjects[q]], c
                asked[subjects[q]] = q - first_slot
                row = node_ptr[b] + units + subjects[q]
                for p in range(indptr[row], indptr[row + 1]):
                    if indices[p] < units:
                        out[base + indices[p], c] = 0.5
        for i in range(units if entries > 0 else 0):
            voice = speaker[unit_ptr[b] + i]
            q = asked[voice] if voice >= 0 else -1
            while q >= 0:
                out[base + i, column[q]] = 1.0
                q = before[q]


@njit(nogil=True, cache=True)
def gather_rows(bank, row, indptr, units, counts, place_ptr, place, end, found, times):
    """Append the live units of each asked row behind `end`, which moves on."""
    for i in range(len(row)):
        if row[i] < 0:
            continue
        at = end[i]
        first = place_ptr[bank[i]]
        for p in range(indptr[row[i]], indptr[row[i] + 1]):
            here = place[first + units[p]]
            if here >= 0:
                found[at] = here
                times[at] = counts[p]
                at += 1
        end[i] = at


@njit(nogil=True, cache=True)
def weigh_terms(
    bank, begin, end, units, counts, unit_ptr, document_ptr, length, low, high, average, k1, b,
    seen, touched, ptr, documents, weights,
):  # fmt: skip
    """Count each term in the documents of its units and weigh it; `seen` is 0 on entry and at the end."""
    for i in range(len(bank)):
        base, unit0 = document_ptr[bank[i]], unit_ptr[bank[i]]
        frequency = 0
        for p in range(begin[i], end[i]):
            unit = unit0 + units[p]
            for document in range(low[unit], high[unit]):
                if seen[document] == 0:
                    touched[frequency] = document
                    frequency += 1
                seen[document] += counts[p]
        total = document_ptr[bank[i] + 1] - base
        idf = np.log1p((total - frequency + 0.5) / (frequency + 0.5))
        mean = average[bank[i]]
        at = ptr[i]
        for j in range(frequency):
            document = touched[j]
            tf = seen[document]
            seen[document] = 0
            documents[at + j] = document
            weights[at + j] = idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length[base + document] / mean))
        ptr[i + 1] = at + frequency
