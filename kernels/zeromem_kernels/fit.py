"""How well each unit fits the interval of time and the type of answer that a question asks for.

time(u, q) = exp(−d / s), d the seconds between u's time and q's interval, 0 inside it
type(u, q) = 1 where u holds a candidate of one of q's types, else 0
"""

from __future__ import annotations

import torch
from torch import Tensor

from zeromem_kernels.checks import expect, expect_number
from zeromem_kernels.tiles import Axis, compiled, run_tiles


def temporal_fit(limits: Tensor, time: Tensor, axis: Axis, decay: float) -> Tensor:
    """exp(−d / decay) of every unit and question.

    Args:
        limits: float64 [T, width, 2], the interval of each question, ±inf where it is open, NaN for none.
        time: float64 [stacked units], NaN for a unit without a time.
        axis: the unit axis.
        decay: s, in the unit of both, above 0.

    Returns:
        float32 [rows, width]; 0 for a unit without a time and for a question without an interval.

    Raises:
        InvalidTensor: an argument of another dtype, shape, device or range.
    """
    device = axis.ptr.device
    expect("limits", limits, torch.float64, (len(axis.tiles), axis.tiles.width, 2), device)
    expect("time", time, torch.float64, (None,), device)
    expect_number("decay", decay, 1e-9, 1e30)
    if cpu := compiled(time):
        out = axis.empty()
        run_tiles(
            cpu.temporal_fit, axis.tiles, axis.tiles.bank, axis.ptr, axis.starts, limits, time, -decay, out
        )
        return out
    asked = limits[axis.tile_of_row]
    at = time[axis.stacked_row][:, None]
    outside = torch.maximum(asked[..., 0] - at, at - asked[..., 1]).clamp_(min=0.0)
    value = torch.exp(outside / -decay).float()
    return torch.where(value.isnan(), 0.0, value)


def type_fit(bits: Tensor, types: Tensor, axis: Axis) -> Tensor:
    """1 where a unit and a question share a type.

    Args:
        bits: int32 [T, width], the types that each question accepts.
        types: int32 [stacked units], those that each unit holds.
        axis: the unit axis.

    Returns:
        float32 [rows, width].

    Raises:
        InvalidTensor: an argument of another dtype, shape or device.
    """
    device = axis.ptr.device
    expect("bits", bits, torch.int32, (len(axis.tiles), axis.tiles.width), device)
    expect("types", types, torch.int32, (None,), device)
    if cpu := compiled(types):
        out = axis.empty()
        run_tiles(cpu.type_fit, axis.tiles, axis.tiles.bank, axis.ptr, axis.starts, bits, types, out)
        return out
    return ((types[axis.stacked_row][:, None] & bits[axis.tile_of_row]) != 0).float()
