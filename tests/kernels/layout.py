"""Random tiled stacks, and both forms of an operation run over outputs that start as garbage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

from zeromem_kernels.tiles import Axis, Csr, Tiles, torch_forms, triton_forms

SIZES = (7, 0, 63, 1, 257, 100)
# name -> (the bank of each tile, width)
TILINGS = {
    "many": ((0, 0, 2, 4, 1, 5, 3, 4), 3),
    "none": ((), 4),
    "empty bank": ((1,), 2),
    "wide": ((5, 2), 32),
    "narrow": ((4,), 1),
    "single rows": ((3, 3), 5),
}


@dataclass(frozen=True)
class Block:
    """Rows `at` of tile `tile`, which is of stacked bank `bank`."""

    tile: int
    bank: int
    at: slice


def pointer(sizes: Sequence[int]) -> Tensor:
    """int64 boundaries."""
    return torch.tensor([0, *np.cumsum(sizes)], dtype=torch.int64)


def by_unit(
    unit: np.ndarray, entity: np.ndarray, count: np.ndarray, units: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(pointer, entity, count) of pairs that are sorted by unit and entity."""
    ptr = np.concatenate([[0], np.cumsum(np.bincount(unit, minlength=units))]).astype(np.int64)
    return ptr, entity.astype(np.int32), count.astype(np.int32)


def tiles_of(tiling: str) -> Tiles:
    """The tiles of a tiling by name."""
    banks, width = TILINGS[tiling]
    return Tiles(torch.tensor(banks, dtype=torch.int64), width)


def blocks(axis: Axis) -> Iterator[Block]:
    """The tiles of an axis with their rows."""
    starts = axis.starts.tolist()
    for t, bank in enumerate(axis.tiles.bank.tolist()):
        yield Block(t, bank, slice(starts[t], starts[t + 1]))


def stacked(tables: Sequence[Any]) -> Csr:
    """One Csr from per-bank (indptr, indices, weights)."""
    shift = np.cumsum([0, *(len(table[1]) for table in tables)])
    indptr = [np.asarray(table[0][:-1]) + at for table, at in zip(tables, shift, strict=False)]
    return Csr(
        torch.from_numpy(np.concatenate([*indptr, shift[-1:]]).astype(np.int64)),
        torch.from_numpy(np.concatenate([table[1] for table in tables]).astype(np.int32)),
        torch.from_numpy(np.concatenate([table[2] for table in tables]).astype(np.float32)),
    )


def random_csr(
    rng: np.random.Generator, rows: Sequence[int], columns: Sequence[int], density: float
) -> tuple[Csr, list[np.ndarray]]:
    """A random stacked table, and the dense float64 matrix of each bank; some rows are empty."""
    tables, dense = [], []
    for n, m in zip(rows, columns, strict=True):
        matrix = rng.random((n, m)) * (rng.random((n, m)) < density)
        matrix[::5] = 0.0
        row, column = np.nonzero(matrix)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))]) if n else np.zeros(1)
        weights = matrix[row, column].astype(np.float32)
        matrix[row, column] = weights
        tables.append((indptr, column, weights))
        dense.append(matrix)
    return stacked(tables), dense


def random_hidden(rng: np.random.Generator, axis: Axis) -> Tensor:
    """A boundary per column; the first column of each tile hides nothing, the last one everything."""
    hidden = torch.from_numpy(rng.random((axis.rows, axis.tiles.width)) < 0.4)
    hidden[:, 0] = False
    if axis.tiles.width > 2:
        hidden[:, -1] = True
    return hidden


def _garbage(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def filled(*args: Any, **kwargs: Any) -> Tensor:
        out = make(*args, **kwargs)
        return out.fill_(torch.nan if out.is_floating_point() else out.dtype == torch.bool or -7777)

    return filled


def both(call: Callable[[], Any]) -> tuple[Any, Any]:
    """The results of the torch form and of the compiled form; uninitialised memory is NaN or nonsense."""
    pytest.importorskip("numba")
    with (
        mock.patch.object(torch, "empty", _garbage(torch.empty)),
        mock.patch.object(torch, "empty_like", _garbage(torch.empty_like)),
    ):
        with torch_forms():
            plain = call()
        return plain, call()


def interpreted(call: Callable[[], Any]) -> Any:
    """The result of the Triton form in Triton's interpreter, over outputs that start as garbage."""
    with (
        mock.patch.object(torch, "empty", _garbage(torch.empty)),
        mock.patch.object(torch, "empty_like", _garbage(torch.empty_like)),
        triton_forms(),
    ):
        return call()


def float64(x: Tensor) -> np.ndarray:
    """A copy in float64."""
    return x.double().numpy().copy()
