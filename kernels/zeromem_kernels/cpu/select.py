"""Column scaling, ordered top-k and fusion over tiles (see `scale.py`, `topk.py`, `fusion.py`)."""

from __future__ import annotations

import numpy as np
from numba import njit

_BLOCK = 64


@njit(nogil=True, cache=True)
def reduce_sum(first, last, starts, x, out):
    """out[t] += Σ rows of tile t, in row order."""
    for t in range(first, last):
        for i in range(starts[t], starts[t + 1]):
            for c in range(x.shape[1]):
                out[t, c] += x[i, c]


@njit(nogil=True, cache=True)
def reduce_amax(first, last, starts, x, out):
    """out[t] = max of out[t] and the rows of tile t."""
    for t in range(first, last):
        for i in range(starts[t], starts[t + 1]):
            for c in range(x.shape[1]):
                out[t, c] = max(out[t, c], x[i, c])


@njit(nogil=True, cache=True)
def reduce_amin(first, last, starts, x, out):
    """out[t] = min of out[t] and the rows of tile t."""
    for t in range(first, last):
        for i in range(starts[t], starts[t + 1]):
            for c in range(x.shape[1]):
                out[t, c] = min(out[t, c], x[i, c])


@njit(nogil=True, cache=True)
def _spread(low, high):
    """The length of a range, 0 where it counts as one value (see `scale.EQUAL`)."""
    spread = high - low
    return spread if spread > np.float32(1e-6) * max(abs(low), abs(high)) else np.float32(0)


@njit(nogil=True, cache=True)
def min_max(first, last, starts, x, visible, y):
    """(x − min)/(max − min) per tile and column over visible rows; an empty mask hides nothing."""
    width = x.shape[1]
    masked = visible.shape[0] > 0
    low = np.empty(width, np.float32)
    high = np.empty(width, np.float32)
    for t in range(first, last):
        low[:] = np.inf
        high[:] = -np.inf
        for i in range(starts[t], starts[t + 1]):
            for c in range(width):
                if not masked or visible[i, c]:
                    low[c] = min(low[c], x[i, c])
                    high[c] = max(high[c], x[i, c])
        for c in range(width):
            high[c] = _spread(low[c], high[c])
        for i in range(starts[t], starts[t + 1]):
            for c in range(width):
                shown = high[c] > 0 and (not masked or visible[i, c])
                y[i, c] = (x[i, c] - low[c]) / high[c] if shown else np.float32(0)


@njit(nogil=True, cache=True)
def scale_to_max(first, last, starts, x, visible, y):
    """x / max per tile and column over visible rows; 0 where the maximum is not positive."""
    width = x.shape[1]
    masked = visible.shape[0] > 0
    high = np.empty(width, np.float32)
    for t in range(first, last):
        high[:] = 0.0
        for i in range(starts[t], starts[t + 1]):
            for c in range(width):
                if not masked or visible[i, c]:
                    high[c] = max(high[c], x[i, c])
        for i in range(starts[t], starts[t + 1]):
            for c in range(width):
                shown = high[c] > 0 and (not masked or visible[i, c])
                y[i, c] = x[i, c] / high[c] if shown else np.float32(0)


@njit(nogil=True, cache=True)
def _sift(scores, rows, size):
    """Restore the heap whose root was replaced: the root is the entry that ranks last."""
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        right = child + 1
        if right < size and (
            scores[right] < scores[child] or (scores[right] == scores[child] and rows[right] > rows[child])
        ):
            child = right
        if scores[i] < scores[child] or (scores[i] == scores[child] and rows[i] > rows[child]):
            return
        scores[i], scores[child] = scores[child], scores[i]
        rows[i], rows[child] = rows[child], rows[i]
        i = child


@njit(nogil=True, cache=True)
def _enter(scores, rows, count, value, row):
    """Put a row among the best so far; returns how many there are.

    Rows come in ascending order, so that a later one enters a full heap only with a strictly larger score,
    which the caller has looked at, and equal scores keep the earlier row.
    """
    k = len(scores)
    if count < k:
        # of equal scores the later row ranks last, so sifting up needs the score alone
        j = count
        scores[j], rows[j] = value, row
        while j > 0 and scores[(j - 1) // 2] >= scores[j]:
            parent = (j - 1) // 2
            scores[j], scores[parent] = scores[parent], scores[j]
            rows[j], rows[parent] = rows[parent], rows[j]
            j = parent
        return count + 1
    scores[0], rows[0] = value, row
    _sift(scores, rows, k)
    return count


@njit(nogil=True, cache=True)
def _best_first(scores, rows, count):
    """Order a heap of `count` entries, the best first, and mark the places after them as empty."""
    for size in range(count - 1, 0, -1):
        scores[0], scores[size] = scores[size], scores[0]
        rows[0], rows[size] = rows[size], rows[0]
        _sift(scores, rows, size)
    scores[count:] = -np.inf
    rows[count:] = -1


@njit(nogil=True, cache=True)
def top_of_line(line, scores, rows):
    """Fill scores and rows (length k) with the best places of a contiguous line, best first."""
    k, n = len(scores), len(line)
    count, floor = 0, np.float32(-np.inf)
    for begin in range(0, n if k > 0 else 0, _BLOCK):
        end = min(begin + _BLOCK, n)
        # most blocks hold nothing better, which a loop without branches finds out eight at a time
        better = False
        for i in range(begin, end):
            better |= line[i] > floor
        if not better:
            continue
        for i in range(begin, end):
            if line[i] > floor:  # not NaN either
                count = _enter(scores, rows, count, line[i], i)
                if count == k:
                    floor = scores[0]
    _best_first(scores, rows, count)


@njit(nogil=True, cache=True)
def ordered_topk(first, last, starts, x, scores, rows):
    """The k best rows of each tile and column: scores [T, k, width], rows local to the tile or −1."""
    k, width = scores.shape[1], x.shape[1]
    best = np.empty((width, k), np.float32)
    where = np.empty((width, k), np.int32)
    count = np.empty(width, np.int64)
    floor = np.empty(width, np.float32)
    for t in range(first, last):
        count[:] = 0
        floor[:] = -np.inf
        # row by row, as the tile lies in memory: a column alone would read all of it
        for i in range(starts[t], starts[t + 1] if k > 0 else starts[t]):
            xi = x[i]
            better = False
            for c in range(width):
                better |= xi[c] > floor[c]
            if not better:
                continue
            for c in range(width):
                if xi[c] > floor[c]:  # not NaN either
                    count[c] = _enter(best[c], where[c], count[c], xi[c], i - starts[t])
                    if count[c] == k:
                        floor[c] = best[c, 0]
        for c in range(width):
            _best_first(best[c], where[c], count[c])
            for j in range(k):
                scores[t, j, c] = best[c, j]
                rows[t, j, c] = where[c, j]


@njit(nogil=True, cache=True)
def fuse(
    first, last, starts, graph_scores, graph_rows, hierarchy_scores, hierarchy_rows, weight, scores, rows
):
    """Min-max both candidate lists, mix them by `weight` [T, width], keep the k best of the union."""
    n_g, n_h = graph_rows.shape[1], hierarchy_rows.shape[1]
    k, width = scores.shape[1], weight.shape[1]
    best = np.empty(k, np.float32)
    where = np.empty(k, np.int32)
    for t in range(first, last):
        size = starts[t + 1] - starts[t]
        mixed = np.empty(size, np.float32)
        for c in range(width):
            mixed[:] = -np.inf
            w = weight[t, c]
            _mix(graph_scores[t], graph_rows[t], n_g, c, w, mixed)
            _mix(hierarchy_scores[t], hierarchy_rows[t], n_h, c, np.float32(1) - w, mixed)
            top_of_line(mixed, best, where)
            for j in range(k):
                scores[t, j, c] = best[j]
                rows[t, j, c] = where[j]


@njit(nogil=True, cache=True)
def _mix(scores, rows, n, c, w, mixed):
    """Add w · Ŝ of one view's candidates (best first, −1 after the last) to the mix."""
    while n > 0 and rows[n - 1, c] < 0:
        n -= 1
    if n == 0:
        return
    low = scores[n - 1, c]
    spread = _spread(low, scores[0, c])
    for j in range(n):
        value = (scores[j, c] - low) / spread if spread > 0 else np.float32(1)
        i = rows[j, c]
        mixed[i] = w * value + (mixed[i] if mixed[i] != -np.inf else np.float32(0))
