"""Evidence closure (method.md 5): C(q) = Dedup(M ∪ N_g ∪ N_h), bounded, for the whole batch at once.

N_g: further graph-ranked units that share an entity with a primary unit; speakers do not count, because
they join half of a conversation with itself. N_h: the turns beside a primary unit in its session.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zeromem_gpu.config import Config
from zeromem_gpu.retrieve.groups import Group
from zeromem_kernels.reset import node_rows
from zeromem_kernels.spmm import tile_spmm
from zeromem_kernels.tiles import Axis
from zeromem_kernels.topk import TopK, kept_mask

RULES = ("primary", "graph", "neighbour")


class Closed(NamedTuple):
    """Evidence rows, the primary units first: `rows` and `rules` (index into RULES) int32 [T, n, width].

    Row −1 stands behind the last; no row stands twice in a column.
    """

    rows: Tensor
    rules: Tensor


def close(group: Group, primary: TopK, graph_candidates: TopK | None, config: Config) -> Closed:
    """Add what belongs to the primary units; `graph_candidates` None (no graph view) leaves N_g out."""
    rows, rules = [primary.rows], [torch.zeros_like(primary.rows)]
    if graph_candidates is not None and config.closure_graph:
        rows.append(_bridged(group, primary, graph_candidates, config.closure_graph))
        rules.append(torch.full_like(rows[-1], RULES.index("graph")))
    for step in range(1, config.closure_neighbours + 1):
        for shift in (-step, step):
            rows.append(_beside(group, primary.rows, shift))
            rules.append(torch.full_like(rows[-1], RULES.index("neighbour")))
    return _distinct(Closed(torch.cat(rows, 1), torch.cat(rules, 1)), group.axes["units"])


def _bridged(group: Group, primary: TopK, candidates: TopK, most: int) -> Tensor:
    """The `most` best graph candidates outside M that share an entity with it, −1 elsewhere."""
    stack, axes = group.stack, group.axes
    units, entities, nodes = axes["units"], axes["entities"], axes["nodes"]
    unit_node, entity_node = node_rows(units, entities, nodes)
    chosen = kept_mask(primary, units)
    start = nodes.full(0.0)
    start[unit_node] = chosen.float()
    reached = tile_spmm(stack.graph.weights, start, nodes, nodes)
    bridge = nodes.full(0.0)
    bridge[entity_node] = (reached[entity_node] > 0).float() * ~stack.is_speaker[entities.stacked_row][
        :, None
    ]
    shares = (tile_spmm(stack.graph.weights, bridge, nodes, nodes)[unit_node] > 0) & ~chosen
    place = (candidates.rows.long().clamp(min=0) + units.starts[:-1, None, None]).reshape(
        -1, shares.shape[1]
    )
    eligible = shares.gather(0, place.clamp(max=max(units.rows - 1, 0))).reshape(candidates.rows.shape)
    eligible &= candidates.rows >= 0
    kept = eligible & (torch.cumsum(eligible, 1) <= most)
    return torch.where(kept, candidates.rows, -1)


def _beside(group: Group, rows: Tensor, shift: int) -> Tensor:
    """The units `shift` turns away in the same session and visible, else −1."""
    units, session = group.axes["units"], group.stack.session
    size = units.starts.diff()[:, None, None]
    there = rows.long() + shift
    inside = (rows >= 0) & (there >= 0) & (there < size)
    first = units.ptr[group.tiles.bank][:, None, None]
    here = session[(rows.long().clamp(min=0) + first).clamp(max=max(len(session) - 1, 0))]
    beside = session[torch.where(inside, there + first, 0)]
    inside &= here == beside
    if group.hidden is not None:
        place = torch.where(inside, there + units.starts[:-1, None, None], 0)
        inside &= ~group.hidden.gather(0, place.reshape(-1, rows.shape[2])).reshape(rows.shape)
    return torch.where(inside, there, -1).int()


def _distinct(found: Closed, units: Axis) -> Closed:
    """Keep the first of each row and close the gaps, in order."""
    rows = found.rows
    _, length, width = rows.shape
    # the spare last row takes the −1 entries
    place = torch.where(rows >= 0, rows.long() + units.starts[:-1, None, None], units.rows)
    position = torch.arange(length, device=rows.device)[None, :, None].expand_as(place)
    first = torch.full((units.rows + 1, width), length, device=rows.device)
    first.scatter_reduce_(0, place.reshape(-1, width), position.reshape(-1, width), "amin")
    kept = (first.gather(0, place.reshape(-1, width)).reshape(rows.shape) == position) & (rows >= 0)
    order = torch.argsort((~kept).int(), dim=1, stable=True)
    return Closed(
        torch.where(kept, rows, -1).gather(1, order), torch.where(kept, found.rules, -1).gather(1, order)
    )
