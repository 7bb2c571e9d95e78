"""Large matrices of one batch after the other in the same memory.

Fresh memory costs a page fault every 4 KiB, which takes longer than filling it. Within `reused` large
matrices on the host come from memory that was asked for before, in huge pages where the system has them. A
matrix goes back when nothing refers to its memory any more, neither a tensor nor a view of it. Some of it
is kept from one search to the next, `MOST_KEPT` at most, of the sizes used last; `drop` gives that back to
the system.
"""

from __future__ import annotations

import mmap
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import torch
from torch import Tensor

MOST_KEPT = 1 << 30
# smaller ones come from the allocator's own free lists, without new pages
_LEAST_BYTES = 1 << 22
_HUGE_PAGE = 1 << 21

# by bytes, those used last at the end; a deque's ends may be popped and pushed by many threads at once
_kept: OrderedDict[int, deque[np.ndarray]] = OrderedDict()
_wanted: ContextVar[bool] = ContextVar("wanted", default=False)


@contextmanager
def reused() -> Iterator[None]:
    """Within this block, in this thread or task, large matrices on the host use memory again."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


def drop() -> None:
    """Keep nothing for later."""
    for size in list(_kept):
        _kept.pop(size, None)


def empty(rows: int, width: int, device: torch.device) -> Tensor:
    """An uninitialised float32 matrix [rows, width]."""
    size = 4 * rows * width
    if not _wanted.get() or device.type != "cpu" or size < _LEAST_BYTES:
        return torch.empty((rows, width), device=device)
    memory = _take(-(-size // _HUGE_PAGE) * _HUGE_PAGE)
    lent = memory[: rows * width]
    # the tensor's memory holds `lent`, and so does every view of it
    weakref.finalize(lent, _keep, memory).atexit = False
    return torch.from_numpy(lent).view(rows, width)


def _take(size: int) -> np.ndarray:
    """Kept memory of `size` bytes or a little more, or fresh memory."""
    # keys alone: pairs would be allocated on the way, which may collect a matrix that then goes back here
    for bytes_ in sorted(_kept):
        if size <= bytes_ <= 2 * size:
            try:
                memory = _kept[bytes_].pop()
                _kept.move_to_end(bytes_)
            except (IndexError, KeyError):
                continue
            return memory
    return _pages(size)


def _keep(memory: np.ndarray) -> None:
    """Keep memory for later, in place of sizes that were used before it."""
    mine = memory.nbytes
    if mine > MOST_KEPT:
        return
    spare = MOST_KEPT - mine - sum(bytes_ * len(_kept.get(bytes_, ())) for bytes_ in list(_kept))
    for bytes_ in list(_kept):
        while spare < 0 and bytes_ != mine:
            try:
                _kept[bytes_].pop()
            except (IndexError, KeyError):
                _kept.pop(bytes_, None)
                break
            spare += bytes_
    if spare >= 0:
        _kept.setdefault(mine, deque()).append(memory)
        try:
            _kept.move_to_end(mine)
        except KeyError:  # dropped by another thread meanwhile
            return


def _pages(size: int) -> np.ndarray:
    """Fresh memory of `size` bytes, as float32."""
    private = getattr(mmap, "MAP_PRIVATE", None)
    if private is None:
        return np.empty(size // 4, np.float32)
    try:
        pages = mmap.mmap(-1, size, flags=private | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no {size} bytes for a matrix: {error}") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.float32)
