"""What several kernels share: the sum over a slice's entries, and sums over rows in a fixed order."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gather_sum(
    columns, weights, i_first, n_cells, x, o_w, m_w,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Σ_k weight · x[column] for each lane of a slice, in stored order → float32 [LANES, BLOCK]."""
    b_sum = tl.zeros((LANES, BLOCK), dtype=tl.float32)
    o_lane = tl.arange(0, LANES)
    for o_cell in range(0, n_cells, UNROLL * LANES):
        for k in tl.static_range(UNROLL):
            o_k = i_first + (o_cell + k * LANES) + o_lane
            b_column = tl.load(columns + o_k)
            b_weight = tl.load(weights + o_k).to(tl.float32)
            p_x = x + b_column[:, None] * WIDTH + o_w[None, :]
            if WIDTH == BLOCK:  # noqa: SIM108, a mask would cost the 128-bit loads
                b_x = tl.load(p_x)
            else:
                b_x = tl.load(p_x, mask=m_w[None, :], other=0.0)
            b_sum += b_weight[:, None] * b_x.to(tl.float32)
    return b_sum


@triton.jit
def _halve(x, HALF: tl.constexpr, BLOCK: tl.constexpr):
    low, high = tl.split(tl.permute(tl.reshape(x, (2, HALF, BLOCK)), (1, 2, 0)))
    return low + high


@triton.jit
def fold(x, BLOCK: tl.constexpr):
    """The sum over 16 rows as one tree that no compiler layout can change: [16, BLOCK] → [BLOCK]."""
    x = _halve(x, 8, BLOCK)
    x = _halve(x, 4, BLOCK)
    x = _halve(x, 2, BLOCK)
    x = _halve(x, 1, BLOCK)
    return tl.reshape(x, (BLOCK,))
