"""Checks of arguments, one line each where they are used; all raise `InvalidTensor`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zeromem_kernels.errors import InvalidTensor


def expect(
    name: str, x: object, dtype: torch.dtype, shape: Sequence[int | None], device: torch.device
) -> None:
    """A contiguous tensor of this dtype, shape (None: any length) and device."""
    wanted = f"a contiguous {_short(dtype)} tensor {_shape(shape)} on {device}"
    if not isinstance(x, Tensor):
        raise InvalidTensor(name, type(x).__name__, wanted)
    fits = len(x.shape) == len(shape) and all(
        want is None or want == got for want, got in zip(shape, x.shape, strict=True)
    )
    if x.dtype != dtype or not fits or x.device != device:
        raise InvalidTensor(name, f"{_short(x.dtype)} {_shape(x.shape)} on {x.device}", wanted)
    if not x.is_contiguous():
        raise InvalidTensor(name, f"strides {tuple(x.stride())}", f"{wanted}: call .contiguous()")


def expect_number(name: str, value: object, low: float, high: float, *, open_end: bool = False) -> None:
    """A finite number in [low, high], or [low, high) with `open_end`."""
    allowed = f"a number in [{low:g}, {high:g}{')' if open_end else ']'}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidTensor(name, repr(value), allowed)
    if not low <= value <= high or (open_end and value == high):
        raise InvalidTensor(name, repr(value), allowed)


def expect_whole(name: str, value: object, low: int, high: int) -> None:
    """A whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidTensor(name, repr(value), f"a whole number in [{low}, {high}]")


def expect_one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    """One of a few values."""
    if value not in allowed:
        raise InvalidTensor(name, repr(value), "one of " + ", ".join(map(str, allowed)))


def expect_ids(name: str, indptr: Tensor, indices: Tensor, ptr: Tensor, source_ptr: Tensor) -> None:
    """Ragged rows whose boundaries ascend and whose ids are rows of their own bank; asks the device."""
    counts = indptr.diff()
    if len(indptr) != int(ptr[-1]) + 1 or bool((counts < 0).any()) or int(indptr[-1]) != len(indices):
        raise InvalidTensor(
            name, "indptr that does not ascend over the rows and entries", "int64 [rows + 1], ascending"
        )
    banks = torch.arange(len(ptr) - 1, device=ptr.device)
    row_bank = torch.repeat_interleave(banks, ptr.diff())
    limit = torch.repeat_interleave(source_ptr.diff()[row_bank], counts)
    wrong = torch.nonzero((indices < 0) | (indices >= limit))
    if len(wrong):
        at = int(wrong[0])
        raise InvalidTensor(
            name, f"the id {int(indices[at])} at entry {at}", f"0 to {int(limit[at]) - 1} in its bank"
        )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shape(shape: Sequence[int | None]) -> str:
    return "[" + ", ".join("any" if size is None else str(size) for size in shape) + "]"
