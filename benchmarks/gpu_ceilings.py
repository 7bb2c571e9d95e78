"""What the card can do at best: copies, and gathers of random rows in the pattern of the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zeromem_kernels.gpu.launch import block, launch, warps
from zeromem_kernels.slices import LANES, UNROLL

# entries a lane of one program gathers
_DEPTH = 32
_STEP = 4_000_000


@triton.jit
def gather_rows_at_random(
    x, columns, out, n_cells,
    WIDTH: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """The loop of a sweep without weights and epilogue: each lane sums the rows its columns name."""
    o_lane, o_w = tl.arange(0, LANES), tl.arange(0, WIDTH)
    b_sum = tl.zeros((LANES, WIDTH), dtype=tl.float32)
    for o_cell in range(0, n_cells, UNROLL * LANES):
        for k in tl.static_range(UNROLL):
            b_column = tl.load(columns + tl.program_id(0) * n_cells + (o_cell + k * LANES) + o_lane)
            b_sum += tl.load(x + b_column[:, None] * WIDTH + o_w[None, :]).to(tl.float32)
    tl.store(out + tl.program_id(0) * WIDTH + o_w, tl.sum(b_sum, axis=0))


class Gather:
    """`programs` × `LANES` × 32 random rows of `row_bytes` in float16, out of `working` bytes."""

    def __init__(self, device: torch.device, row_bytes: int, working: int, programs: int) -> None:
        self.width = block(row_bytes // 2)
        rows = max(working // (2 * self.width), LANES)
        make = torch.Generator(device=device).manual_seed(7)
        self.x = torch.rand((rows, self.width), generator=make, device=device).half()
        shape = (programs, _DEPTH * LANES)
        self.columns = torch.randint(rows, shape, generator=make, device=device, dtype=torch.int32)
        self.out = torch.empty((programs, self.width), device=device)
        self.bytes = self.columns.numel() * (4 + 2 * self.width) + self.out.numel() * 4

    def __call__(self) -> Tensor:
        """Σ of each program's rows, float32 [programs, width]."""
        launch(gather_rows_at_random, len(self.columns), self.x, self.columns, self.out, _DEPTH * LANES,
               WIDTH=self.width, LANES=LANES, UNROLL=UNROLL,
               num_warps=warps(LANES * self.width, 2))  # fmt: skip
        return self.out

    def expected(self, programs: int) -> Tensor:
        """The first programs' sums in float64."""
        return self.x[self.columns[:programs].long()].double().sum(1)


class Copy:
    """A copy whose two sides together hold `working` bytes."""

    def __init__(self, device: torch.device, working: int) -> None:
        self.source = torch.zeros(working // 8, dtype=torch.int32, device=device)
        self.target = torch.empty_like(self.source)
        self.bytes = 2 * self.source.numel() * 4

    def __call__(self) -> Tensor:
        """Copy."""
        return self.target.copy_(self.source)


class Ceilings:
    """Rates in bytes a second, measured when first asked for and then kept."""

    def __init__(self, device: torch.device, measure: Callable[..., Any]) -> None:
        self._device, self._measure = device, measure
        self._known: dict[tuple[str, int, int], float] = {}
        self._large = device.type == "cuda"

    def copy(self, working: int = 8_000_000_000) -> float:
        """Bytes read and written a second."""
        size = working if self._large else 1 << 16
        return self._rate(("copy", 0, working), lambda: Copy(self._device, size))

    def gather(self, row_bytes: int, working: int) -> float:
        """Bytes of columns and rows a second, rows out of `working` bytes (to the next 4 MB)."""
        size = max(-(-working // _STEP), 1) * _STEP
        key = ("gather", row_bytes, size)
        small = (size, 16_384) if self._large else (1 << 12, 2)
        return self._rate(key, lambda: Gather(self._device, row_bytes, *small))

    def _rate(self, key: tuple[str, int, int], make: Callable[[], Any]) -> float:
        if key not in self._known:
            work = make()
            self._known[key] = work.bytes / self._measure((work,), 0.1).median
        return self._known[key]
