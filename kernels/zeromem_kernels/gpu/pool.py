"""A text's vector out of its tokens in one pass (formula and arguments in `zeromem_kernels/pool.py`)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from zeromem_kernels.gpu.launch import block, launch

_ROWS = 4


@triton.jit(do_not_specialize=["n_rows_most"])
def pool(
    hidden, starts, vectors, n_rows_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """One text: its first `n_rows_most` rows summed in float32 (1 for "cls"), divided, scaled, stored."""
    i_text = tl.program_id(0).to(tl.int64)
    i_first = tl.load(starts + i_text).to(tl.int64)
    n_rows = tl.minimum(tl.load(starts + i_text + 1) - i_first.to(tl.int32), n_rows_most)
    o_w = tl.arange(0, BLOCK)
    b_sum = tl.zeros((ROWS, BLOCK), tl.float32)
    for i_row in range(0, n_rows, ROWS):
        o_row = i_row + tl.arange(0, ROWS)
        m_x = (o_row < n_rows)[:, None] & (o_w < WIDTH)[None, :]
        p_x = hidden + i_first * WIDTH + (o_row[:, None] * WIDTH + o_w[None, :])
        b_sum += tl.load(p_x, mask=m_x, other=0.0).to(tl.float32)
    b_mean = tl.div_rn(tl.sum(b_sum, axis=0), n_rows.to(tl.float32))
    i_square = tl.sum(b_mean * b_mean, axis=0)
    # NaN and infinity fail the comparison, so that such a row is stored as it is
    m_usable = (i_square > 0.0) & (i_square < float("inf"))
    b_unit = b_mean * tl.where(m_usable, 1.0 / tl.sqrt(tl.where(m_usable, i_square, 1.0)), 1.0)
    tl.store(vectors + i_text * WIDTH + o_w, b_unit, mask=o_w < WIDTH)


def pool_texts(hidden: Tensor, starts: Tensor, mean: bool) -> Tensor:
    """float32 [n, D], as `zeromem_kernels.pool.pool_texts` says."""
    texts, width = len(starts) - 1, hidden.shape[1]
    vectors = torch.empty((texts, width), device=hidden.device)
    most = hidden.shape[0] if mean else 1
    launch(
        pool, texts, hidden, starts, vectors, most,
        WIDTH=width, BLOCK=block(width), ROWS=_ROWS if mean else 1, num_warps=4,
    )  # fmt: skip
    return vectors
