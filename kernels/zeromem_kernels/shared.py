"""Which candidate units share an entity with a chosen unit of the same question, by the graph's links."""

from __future__ import annotations

import torch
from torch import Tensor

from zeromem_kernels.checks import expect
from zeromem_kernels.reset import node_rows
from zeromem_kernels.spmm import tile_spmm
from zeromem_kernels.tiles import Axis, Csr, compiled, run_tiles
from zeromem_kernels.topk import TopK, kept_mask, places_of


def shares_entity(
    candidates: Tensor, chosen: TopK, links: Csr, barred: Tensor, units: Axis, entities: Axis, nodes: Axis
) -> Tensor:
    """Whether a candidate that is not chosen itself shares an entity with a chosen unit.

    Args:
        candidates: int32 [T, n, width], unit rows of the tile, −1 for none.
        chosen: the chosen units.
        links: the graph's W; row i of a bank lists the neighbours of unit i.
        barred: bool [stacked entities] that do not count.
        units: the unit axis.
        entities: the entity axis.
        nodes: the node axis; a bank's nodes are its units, then its entities.

    Returns:
        bool [T, n, width], False for −1.

    Raises:
        InvalidTensor: an argument of another dtype, shape or device.
    """
    device, shape = units.ptr.device, (len(units.tiles), None, units.tiles.width)
    expect("candidates", candidates, torch.int32, shape, device)
    expect("chosen.rows", chosen.rows, torch.int32, shape, device)
    expect("barred", barred, torch.bool, (None,), device)
    if cpu := compiled(candidates):
        found = torch.empty(candidates.shape, dtype=torch.bool)
        run_tiles(cpu.shares_entity, units.tiles, units.tiles.bank, nodes.ptr, entities.ptr,
                  links.indptr, links.indices, links.weights, barred, units.starts, candidates,
                  chosen.rows, found)  # fmt: skip
        return found
    if units.rows == 0:
        return torch.zeros(candidates.shape, dtype=torch.bool, device=device)
    width = units.tiles.width
    unit_node, entity_node = node_rows(units, entities, nodes)
    mask = kept_mask(chosen, units)
    start = nodes.full(0.0)
    start[unit_node] = mask.float()
    reached = tile_spmm(links, start, nodes, nodes)[entity_node] > 0
    bridge = nodes.full(0.0)
    bridge[entity_node] = (reached & ~barred[entities.stacked_row][:, None]).float()
    shares = (tile_spmm(links, bridge, nodes, nodes)[unit_node] > 0) & ~mask
    place = places_of(candidates, units).reshape(-1, width)
    found = shares.gather(0, place).reshape(candidates.shape)
    return found & (candidates >= 0)
