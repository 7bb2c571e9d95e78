"""The reset vector r of PageRank: entity activations and the dense context prior in one distribution."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from zeromem_kernels.checks import expect, expect_number
from zeromem_kernels.errors import InvalidTensor
from zeromem_kernels.scale import tile_reduce
from zeromem_kernels.tiles import Axis, compiled, on_triton, run_tiles


def reset_vector(
    eta: Tensor, prior: Tensor, entities: Axis, units: Axis, nodes: Axis, entity_share: float
) -> Tensor:
    """r = β η/Ση on entities + (1 − β) prior/Σprior on units; a part without mass leaves all to the other.

    Args:
        eta: float32 [entity rows, width], not negative.
        prior: float32 [unit rows, width], not negative, 0 on hidden units.
        entities: the entity axis.
        units: the unit axis.
        nodes: the node axis; a bank's nodes are its units, then its entities.
        entity_share: β.

    Returns:
        float32 [node rows, width], columns of sum 1 (0 where both parts are 0).

    Raises:
        InvalidTensor: an argument of another dtype, shape, device or range.
    """
    device, width = nodes.ptr.device, nodes.tiles.width
    expect("eta", eta, torch.float32, (entities.rows, width), device)
    expect("prior", prior, torch.float32, (units.rows, width), device)
    expect_number("entity_share", entity_share, 0.0, 1.0)
    if not np.array_equal(nodes.host_starts, units.host_starts + entities.host_starts):
        raise InvalidTensor(
            "nodes", f"an axis of {nodes.rows} rows", "each tile's units, then its entities"
        )
    gpu = _triton() if on_triton(eta) else None
    if gpu:
        eta_sum, prior_sum = gpu.sums(eta, entities), gpu.sums(prior, units)
    else:
        eta_sum, prior_sum = tile_reduce(eta, entities, "sum"), tile_reduce(prior, units, "sum")
    beta = torch.where(prior_sum > 0, entity_share, 1.0)
    beta = torch.where(eta_sum > 0, beta, 0.0)
    eta_scale = torch.where(eta_sum > 0, beta / eta_sum, 0.0)
    prior_scale = torch.where(prior_sum > 0, (1.0 - beta) / prior_sum, 0.0)
    if gpu:
        built: Tensor = gpu.build(eta, prior, eta_scale, prior_scale, entities, units, nodes)
        return built
    reset = nodes.empty()
    if cpu := compiled(eta):
        starts = (units.starts, entities.starts, nodes.starts)
        run_tiles(cpu.reset_parts, nodes.tiles, *starts, eta, prior, eta_scale, prior_scale, reset)
        return reset
    unit_node, entity_node = node_rows(units, entities, nodes)
    reset[unit_node] = prior * prior_scale[units.tile_of_row]
    reset[entity_node] = eta * eta_scale[entities.tile_of_row]
    return reset


def _triton() -> ModuleType:
    from zeromem_kernels.gpu import reset

    return reset


def node_rows(units: Axis, entities: Axis, nodes: Axis) -> tuple[Tensor, Tensor]:
    """The node row of each unit row and of each entity row."""
    unit_shift = nodes.starts[:-1] - units.starts[:-1]
    entity_shift = nodes.starts[:-1] + units.starts.diff() - entities.starts[:-1]
    device = units.ptr.device
    return (
        torch.arange(units.rows, device=device) + unit_shift[units.tile_of_row],
        torch.arange(entities.rows, device=device) + entity_shift[entities.tile_of_row],
    )
