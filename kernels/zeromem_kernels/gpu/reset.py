"""The reset vector over tiles (formula and arguments in `zeromem_kernels/reset.py`)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from zeromem_kernels.gpu.launch import block, check_size, launch
from zeromem_kernels.gpu.reduce import column_sums
from zeromem_kernels.tiles import Axis

_ROWS = 64


@triton.jit(do_not_specialize=["n_most"])
def _build(
    eta, prior, entity_starts, unit_starts, node_starts, eta_scale, prior_scale, reset, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Some node rows of a tile: units take the scaled prior, the entities after them the scaled η."""
    i_tile, i_part = tl.program_id(0) // n_most, tl.program_id(0) % n_most
    i_begin = tl.load(node_starts + i_tile)
    n_rows = (tl.load(node_starts + i_tile + 1) - i_begin).to(tl.int32)
    if i_part * ROWS < n_rows:
        i_unit = tl.load(unit_starts + i_tile)
        n_units = (tl.load(unit_starts + i_tile + 1) - i_unit).to(tl.int32)
        o_w = tl.arange(0, BLOCK)
        m_w = o_w < WIDTH
        o_row = i_part * ROWS + tl.arange(0, ROWS)
        o_x = o_row[:, None] * WIDTH + o_w[None, :]
        m_unit = (o_row < n_units)[:, None] & m_w[None, :]
        m_entity = ((o_row >= n_units) & (o_row < n_rows))[:, None] & m_w[None, :]
        p_eta = eta + (tl.load(entity_starts + i_tile) - n_units) * WIDTH
        b_unit = tl.load(prior + i_unit * WIDTH + o_x, mask=m_unit, other=0.0)
        b_entity = tl.load(p_eta + o_x, mask=m_entity, other=0.0)
        b_unit *= tl.load(prior_scale + i_tile * WIDTH + o_w, mask=m_w, other=0.0)[None, :]
        b_entity *= tl.load(eta_scale + i_tile * WIDTH + o_w, mask=m_w, other=0.0)[None, :]
        tl.store(reset + i_begin * WIDTH + o_x, tl.where(m_unit, b_unit, b_entity), mask=m_unit | m_entity)


def sums(x: Tensor, axis: Axis) -> Tensor:
    """Σ of each column of each tile, float32 [T, width]."""
    return column_sums(x, axis.starts, axis.tallest).float()


def build(
    eta: Tensor, prior: Tensor, eta_scale: Tensor, prior_scale: Tensor, entities: Axis, units: Axis, nodes: Axis
) -> Tensor:  # fmt: skip
    """r from both parts and their scales, float32 [T, width] each."""
    check_size(nodes)
    reset = torch.empty((nodes.rows, eta.shape[1]), device=eta.device)
    most = -(-nodes.tallest // _ROWS)
    launch(_build, len(nodes.tiles) * most, eta, prior, entities.starts, units.starts, nodes.starts,
           eta_scale, prior_scale, reset, most,
           WIDTH=eta.shape[1], BLOCK=block(eta.shape[1]), ROWS=_ROWS, num_warps=4)  # fmt: skip
    return reset
