"""BM25 over weighted terms (see `related.py`)."""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def weighted_scatter(
    first, last, bank, term_ptr, indptr, documents, weights, query_ptr, terms, shares, starts, out
):
    """Add the eager weights of each slot's terms, times their share, to its column."""
    width = out.shape[1]
    for t in range(first, last):
        term0 = term_ptr[bank[t]]
        base = starts[t]
        out[base : starts[t + 1]] = 0.0
        for c in range(width):
            slot = t * width + c
            for q in range(query_ptr[slot], query_ptr[slot + 1]):
                row = term0 + terms[q]
                for p in range(indptr[row], indptr[row + 1]):
                    out[base + documents[p], c] += shares[q] * weights[p]
