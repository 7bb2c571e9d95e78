"""How kernels are launched: over (tile, part) pairs, a wave of tiles at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from torch import Tensor

from zeromem_kernels.errors import InvalidTensor, NoDevice
from zeromem_kernels.slices import Slices
from zeromem_kernels.tiles import Axis, Tiles
from zeromem_kernels.transfer import to_device

# share of the L2 that a wave's gathered matrix may fill; the rest holds what streams past it
_L2_SHARE = 0.75
# where there is no device to ask (the interpreter): that of an RTX 4090
_L2_BYTES = 72 << 20
_MOST_ELEMENTS = 1 << 31


class Wave(NamedTuple):
    """Tiles `first … first + size` that are computed together."""

    first: int
    size: int


def waves(starts: np.ndarray, bytes_a_row: int, device: torch.device) -> Iterator[Wave]:
    """Cut tiles with rows `starts[t] … starts[t+1]` into waves that fit the L2; one that alone does not is a wave.

    A sweep gathers rows at random, so a wave that stays in the L2 is worth several times the bandwidth of
    the memory behind it. Which tiles run together changes no result.
    """
    room = int(_L2_SHARE * _l2_bytes(device)) // max(bytes_a_row, 1)
    first = 0
    while first < len(starts) - 1:
        last = max(int(np.searchsorted(starts, starts[first] + room, "right")) - 1, first + 1)
        yield Wave(first, last - first)
        first = last


def _l2_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return _L2_BYTES
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


def launch(kernel: Any, programs: int, *args: Any, **meta: Any) -> None:
    """Launch a kernel over `programs` programs; none are no launch.

    Raises `NoDevice` where neither a GPU driver nor the interpreter is there to run it.
    """
    if programs <= 0:
        return
    where = next((arg.device for arg in args if isinstance(arg, Tensor)), torch.device("cpu"))
    try:
        # Triton launches on the current device, whatever its tensors are on
        with torch.cuda.device(where) if where.type == "cuda" else nullcontext():
            kernel[(programs,)](*args, **meta)
    except RuntimeError as error:
        if "active drivers" not in str(error):
            raise
        raise NoDevice("Triton found no GPU driver: the Triton forms run on CUDA tensors only") from error


def launch_rows(
    kernel: Any, axis: Axis, rows: int, *args: Any, wave: Wave | None = None, **meta: Any
) -> None:
    """Launch a kernel over blocks of `rows` rows of every tile, or of a wave's; it takes the blocks a tile last.

    With a wave it takes the wave's first tile before them.
    """
    first, size = wave or (0, len(axis.tiles))
    blocks, width = -(-axis.tallest // rows), axis.tiles.width
    head = (blocks,) if wave is None else (first, blocks)
    launch(
        kernel, size * blocks, *args, *head, WIDTH=width, BLOCK=block(width), ROWS=rows, num_warps=4, **meta
    )


def block(width: int) -> int:
    """The power of two that holds `width` columns."""
    return int(triton.next_power_of_2(max(width, 1)))


def warps(elements: int, size: int) -> int:
    """Warps for a block so that a thread moves 16 bytes at once: 1 to 8."""
    return int(min(max(triton.next_power_of_2(max(elements * size // 512, 1)), 1), 8))


def check_size(axis: Axis) -> None:
    """A tile's offsets are 32-bit: more than 2³¹ elements in one is an `InvalidTensor`."""
    if axis.tallest * axis.tiles.width >= _MOST_ELEMENTS:
        raise InvalidTensor(
            "axis", f"a tile of {axis.tallest} rows and {axis.tiles.width} columns",
            "fewer than 2^31 elements in a tile: choose narrower tiles",
        )  # fmt: skip


def boundaries(sizes: Tensor, device: torch.device) -> Tensor:
    """int64 [n + 1] boundaries from int64 sizes on the host."""
    starts = torch.zeros(len(sizes) + 1, dtype=torch.int64)
    torch.cumsum(sizes, 0, out=starts[1:])
    return to_device(starts.numpy(), device)


def scratch_for(slices: Slices, tiles: Tiles, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Room for the segments of tiles, float32 [rows, width], and its rows a tile, int64 [T + 1]."""
    rows = torch.from_numpy(slices.host_scratch[tiles.host_bank])
    key = ("scratch", id(slices.host_scratch))
    starts = tiles.kept(key, slices.host_scratch, lambda: boundaries(rows, device))
    return torch.empty((int(rows.sum()), width), device=device), starts


def most_parts(bounds: np.ndarray, groups: np.ndarray, count: int = 1) -> int:
    """The most parts that `count` groups from one of `groups` on have, by their bounds."""
    return int((bounds[groups + count] - bounds[groups]).max(initial=0))


@contextmanager
def room(what: str, device: torch.device) -> Iterator[None]:
    """Within this block, memory that runs out is a `NoDevice` that says for what, and what to do."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        free = (
            f"{torch.cuda.mem_get_info(device)[0] / 2**30:.1f} GiB free"
            if device.type == "cuda"
            else "none free"
        )
        raise NoDevice(
            f"{device} is too full for {what} ({free}): end what else uses it, or search in smaller batches"
        ) from error


def as_bytes(mask: Tensor) -> Tensor:
    """A bool matrix as the bytes that a kernel loads."""
    return mask.view(torch.uint8)
