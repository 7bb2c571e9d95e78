"""The reset vector over tiles (formula and arguments in `zeromem_kernels/reset.py`)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from zeromem_kernels.gpu.blocks import row_block
from zeromem_kernels.gpu.launch import check_size, launch_rows
from zeromem_kernels.gpu.reduce import column_sums
from zeromem_kernels.tiles import Axis

_ROWS = 64


@triton.jit(do_not_specialize=["n_most"])
def _build(
    eta, prior, entity_starts, unit_starts, node_starts, eta_scale, prior_scale, reset, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Some node rows of a tile: units take the scaled prior, the entities after them the scaled η."""
    i_tile, o_row, o_w, o_node, m_row, m_x, any_row = row_block(node_starts, 0, n_most, WIDTH, BLOCK, ROWS)
    if any_row:
        i_unit = tl.load(unit_starts + i_tile)
        n_units = (tl.load(unit_starts + i_tile + 1) - i_unit).to(tl.int32)
        m_w = o_w < WIDTH
        o_x = o_row[:, None] * WIDTH + o_w[None, :]
        m_unit = (o_row < n_units)[:, None] & m_w[None, :]
        m_entity = ((o_row >= n_units) & m_row)[:, None] & m_w[None, :]
        p_eta = eta + (tl.load(entity_starts + i_tile) - n_units) * WIDTH
        b_unit = tl.load(prior + i_unit * WIDTH + o_x, mask=m_unit, other=0.0)
        b_entity = tl.load(p_eta + o_x, mask=m_entity, other=0.0)
        b_unit *= tl.load(prior_scale + i_tile * WIDTH + o_w, mask=m_w, other=0.0)[None, :]
        b_entity *= tl.load(eta_scale + i_tile * WIDTH + o_w, mask=m_w, other=0.0)[None, :]
        tl.store(reset + o_node, tl.where(m_unit, b_unit, b_entity), mask=m_x)


def sums(x: Tensor, axis: Axis) -> Tensor:
    """Σ of each column of each tile, float32 [T, width]."""
    return column_sums(x, axis.starts, axis.tallest).float()


def build(
    eta: Tensor, prior: Tensor, eta_scale: Tensor, prior_scale: Tensor, entities: Axis, units: Axis, nodes: Axis
) -> Tensor:  # fmt: skip
    """r from both parts and their scales, float32 [T, width] each."""
    check_size(nodes)
    reset = torch.empty((nodes.rows, eta.shape[1]), device=eta.device)
    starts = (entities.starts, units.starts, nodes.starts)
    launch_rows(_build, nodes, _ROWS, eta, prior, *starts, eta_scale, prior_scale, reset)
    return reset
