"""Sums of matrices over tiles (see `combine.py`)."""

from __future__ import annotations

from numba import njit

# rows of a block, whose sums stay near while every matrix is added
_BLOCK = 64


@njit(nogil=True, cache=True)
def weighted_sum(first, last, starts, xs, weights, adding, out):
    """out = Σ weights[k, t] · xs[k] (+ out where `adding`); xs beyond the weights are not read."""
    width = out.shape[1]
    for t in range(first, last):
        for begin in range(starts[t], starts[t + 1], _BLOCK):
            end = min(begin + _BLOCK, starts[t + 1])
            for k in range(len(weights)):
                x, w = xs[k], weights[k, t]
                if k == 0 and not adding:
                    for i in range(begin, end):
                        for c in range(width):
                            out[i, c] = w[c] * x[i, c]
                else:
                    for i in range(begin, end):
                        for c in range(width):
                            out[i, c] += w[c] * x[i, c]


@njit(nogil=True, cache=True)
def plus_rows(first, last, starts, x, others, rows, out):
    """out = x + others[rows]."""
    for i in range(starts[first], starts[last]):
        other = others[rows[i]]
        for c in range(out.shape[1]):
            out[i, c] = x[i, c] + other[c]


@njit(nogil=True, cache=True)
def unit_scores(first, last, starts, node_starts, pi, instead, chosen, out):
    """The units' rows of pi in chosen columns."""
    for t in range(first, last):
        shift = node_starts[t] - starts[t]
        for i in range(starts[t], starts[t + 1]):
            for c in range(out.shape[1]):
                out[i, c] = pi[i + shift, c] if chosen[t, c] else instead[i, c]


@njit(nogil=True, cache=True)
def reset_parts(
    first, last, starts, entity_starts, node_starts, eta, prior, eta_scale, prior_scale, reset
):  # fmt: skip
    """Each tile's scaled prior, then its scaled η."""
    for t in range(first, last):
        units = starts[t + 1] - starts[t]
        shift = node_starts[t] - starts[t]
        for i in range(starts[t], starts[t + 1]):
            for c in range(reset.shape[1]):
                reset[i + shift, c] = prior[i, c] * prior_scale[t, c]
        shift = node_starts[t] + units - entity_starts[t]
        for i in range(entity_starts[t], entity_starts[t + 1]):
            for c in range(reset.shape[1]):
                reset[i + shift, c] = eta[i, c] * eta_scale[t, c]
