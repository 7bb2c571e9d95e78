"""Column reductions over a tile's rows, and the two scalings the method uses.

`min_max` is (x − min)/(max − min), `scale_to_max` is x/max; both look at visible rows only, and a column
without spread (or without a positive maximum) becomes 0. Values count as equal when they differ by no
more than `EQUAL` of the largest magnitude: a matrix product gives equal rows values that differ in the
last bits, and min-max would blow that difference up to 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zeromem_kernels.tiles import Axis, compiled, mask_of, run_tiles

EQUAL = 1e-6


def tile_reduce(x: Tensor, axis: Axis, reduce: str) -> Tensor:
    """Reduce each tile's rows: x float32 [rows, width] → [T, width]; `reduce` is sum, amax or amin.

    An empty tile gives 0, −inf or +inf. Sums run in row order.
    """
    start = {"sum": 0.0, "amax": -torch.inf, "amin": torch.inf}[reduce]
    out = torch.full((len(axis.tiles), x.shape[1]), start, device=x.device)
    if cpu := compiled(x):
        run_tiles(getattr(cpu, f"reduce_{reduce}"), axis.tiles, axis.starts, x, out)
        return out
    if reduce == "sum":
        return out.index_add_(0, axis.tile_of_row, x)
    index = axis.tile_of_row[:, None].expand_as(x)
    return out.scatter_reduce_(0, index, x, reduce)


def min_max(x: Tensor, axis: Axis, visible: Tensor | None) -> Tensor:
    """Scale each column of each tile to [0, 1] over its visible rows.

    Args:
        x: float32 [rows, width].
        axis: the axis of x.
        visible: bool [rows, width], or None when nothing is hidden.

    Returns:
        float32 [rows, width]; hidden rows are 0, and so is a column whose visible values are all equal.
    """
    if cpu := compiled(x):
        y = axis.empty()
        run_tiles(cpu.min_max, axis.tiles, axis.starts, x, mask_of(visible), y)
        return y
    low = tile_reduce(x if visible is None else x.masked_fill(~visible, torch.inf), axis, "amin")
    high = tile_reduce(x if visible is None else x.masked_fill(~visible, -torch.inf), axis, "amax")
    spread = torch.where(has_spread(low, high), high - low, 0.0)[axis.tile_of_row]
    y = torch.where(spread > 0, (x - low[axis.tile_of_row]) / spread, 0.0)
    return y if visible is None else y.masked_fill(~visible, 0.0)


def has_spread(low: Tensor, high: Tensor) -> Tensor:
    """Whether a range counts as more than one value, bool of the shape of both."""
    return high - low > EQUAL * torch.maximum(low.abs(), high.abs())


def scale_to_max(x: Tensor, axis: Axis, visible: Tensor | None) -> Tensor:
    """Divide each column of each tile by its largest visible value.

    Args:
        x: float32 [rows, width].
        axis: the axis of x.
        visible: bool [rows, width], or None when nothing is hidden.

    Returns:
        float32 [rows, width]; hidden rows are 0, and so is a column whose maximum is not positive.
    """
    if cpu := compiled(x):
        y = axis.empty()
        run_tiles(cpu.scale_to_max, axis.tiles, axis.starts, x, mask_of(visible), y)
        return y
    shown = x if visible is None else x.masked_fill(~visible, -torch.inf)
    top = tile_reduce(shown, axis, "amax")[axis.tile_of_row]
    y = torch.where((top > 0) & torch.isfinite(top), x / top, 0.0)
    return y if visible is None else y.masked_fill(~visible, 0.0)
