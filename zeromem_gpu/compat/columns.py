"""Vectors of callers as the tiles of the kernels, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from zeromem_gpu import InvalidInput
from zeromem_kernels.tiles import Tiles

# columns of a tile: a gathered row of it is whole cache lines
WIDTH = 32


def read_rows(name: str, values: Any, size: int | None = None) -> tuple[np.ndarray, bool]:
    """Finite numbers float64 [k, n], and whether one vector [n] was given; n is `size` where known."""
    wanted = "n" if size is None else str(size)
    try:
        given = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values
        rows = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(name, type(values).__name__, f"numbers [{wanted}] or [k, {wanted}]") from error
    if rows.ndim not in (1, 2) or (size is not None and rows.shape[-1] != size):
        raise InvalidInput(name, f"shape {list(rows.shape)}", f"[{wanted}] or [k, {wanted}]")
    if not np.isfinite(rows).all():
        raise InvalidInput(name, "an infinite or NaN number", "finite numbers")
    return (rows[None], True) if rows.ndim == 1 else (rows, False)


def not_negative(name: str, values: np.ndarray) -> None:
    """Raise `InvalidInput` where a number is below 0."""
    if (values < 0).any():
        raise InvalidInput(name, "a negative number", "numbers from 0")


def tiles_for(count: int) -> Tiles:
    """The tiles of so many vectors over one bank, on the CPU."""
    width = min(WIDTH, max(count, 1))
    return Tiles(torch.zeros(-(-count // width), dtype=torch.int64), width)


def as_columns(rows: np.ndarray, tiles: Tiles) -> torch.Tensor:
    """Vectors [k, n] side by side: float32 [T·n, width], unused columns zero."""
    count, size = rows.shape
    padded = np.zeros((len(tiles) * tiles.width, size), np.float32)
    padded[:count] = rows
    stood = padded.reshape(len(tiles), tiles.width, size).transpose(0, 2, 1)
    return torch.from_numpy(np.ascontiguousarray(stood)).reshape(-1, tiles.width)


def as_rows(columns: torch.Tensor, tiles: Tiles, count: int, like: Any, single: bool) -> Any:
    """The first `count` columns as rows float32 [count, n], or [n]; a tensor where `like` is one."""
    size = len(columns) // max(len(tiles), 1)
    rows = columns.reshape(len(tiles), size, tiles.width).transpose(1, 2).reshape(-1, size)[:count]
    rows = rows[0] if single else rows
    return rows if isinstance(like, torch.Tensor) else rows.cpu().numpy()
