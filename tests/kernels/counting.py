"""The bytes that kernels load and store, counted in Triton's interpreter while they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import triton.language as tl
from triton.language.semantic import TritonSemantic


class Counter:
    """What ran inside `counting()`: bytes asked for, and bytes of memory touched for the first time.

    int64 loads are tables of boundaries, which the model leaves out. `writes` and `first_reads` map an
    address to its bytes; a read of what was written before is no first read.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.first_reads: dict[int, int] = {}
        self.writes: dict[int, int] = {}

    @property
    def dram(self) -> int:
        """Distinct bytes read that nobody wrote before, and distinct bytes written."""
        return sum(self.first_reads.values()) + sum(self.writes.values())

    def touch(self, pointer: Any, mask: Any, stored: bool) -> None:
        kind = pointer.type.scalar.element_ty
        if kind == tl.int64:
            return
        size = max(kind.primitive_bitwidth // 8, 1)
        address = np.asarray(pointer.handle.data).reshape(-1)
        if mask is not None:
            shown = np.broadcast_to(mask.handle.data, pointer.handle.data.shape)
            address = address[shown.reshape(-1).astype(bool)]
        self.asked += size * len(address)
        for one in set(address.tolist()):
            if stored:
                self.writes[one] = size
            elif one not in self.writes:
                self.first_reads[one] = size


@contextmanager
def counting() -> Iterator[Counter]:
    """Count every load and store of the kernels that run in this block."""
    counter = Counter()
    load, store = TritonSemantic.load, TritonSemantic.store

    def counted_load(self: Any, ptr: Any, mask: Any, *rest: Any) -> Any:
        counter.touch(ptr, mask, False)
        return load(self, ptr, mask, *rest)

    def counted_store(self: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        counter.touch(ptr, mask, True)
        return store(self, ptr, val, mask, *rest)

    with (
        mock.patch.object(TritonSemantic, "load", counted_load),
        mock.patch.object(TritonSemantic, "store", counted_store),
    ):
        yield counter
