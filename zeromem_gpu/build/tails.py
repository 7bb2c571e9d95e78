"""Arrays whose versions share one buffer: each is its first rows, and only what lies behind is written.

An older version that somebody still reads is the same memory and never changes. Two versions that grow from
the same one both may: the second finds the place behind it taken and moves to a buffer of its own.
"""

from __future__ import annotations

import threading

import numpy as np

from zeromem_kernels.layout import pointer

_lock = threading.Lock()


class _Buffer(np.ndarray):
    """Memory of the versions of one array, whose base it is; `filled` rows are some version's."""

    filled: int = 0


def extended(before: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """`before`, then `fresh` in its dtype; one-dimensional, nobody writes through it.

    The rows that were there are copied only now and then, as those of a list are.

    >>> old = extended(np.arange(2), np.array([5]))
    >>> new = extended(old, np.array([6]))
    >>> new.tolist(), old.tolist(), np.shares_memory(old, new)
    ([0, 1, 5, 6], [0, 1, 5], True)
    """
    if len(fresh) == 0:
        return before
    start, end = len(before), len(before) + len(fresh)
    buffer = before.base
    with _lock:
        room = isinstance(buffer, _Buffer) and buffer.filled == start and end <= len(buffer)
        if not room or not isinstance(buffer, _Buffer):
            buffer = _Buffer(end + end // 4, before.dtype)
        buffer.filled = end
    if not room:
        buffer[:start] = before
    buffer[start:end] = fresh
    return np.ndarray(end, before.dtype, buffer)


def extended_pointer(before: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The pointer int64 of the rows of `before` and of more rows with `counts` entries each."""
    return extended(before, before[-1] + pointer(counts)[1:])


def spliced(before: np.ndarray, keep: int, fresh: np.ndarray) -> np.ndarray:
    """The first `keep` rows of `before`, then `fresh`; in the memory of `before` where that only grows."""
    there = len(before) - keep
    if there <= len(fresh) and np.array_equal(before[keep:], fresh[:there]):
        return extended(before, fresh[there:])
    return np.concatenate([before[:keep], fresh])
