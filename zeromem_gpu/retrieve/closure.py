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
from zeromem_kernels.shared import shares_entity
from zeromem_kernels.topk import TopK

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
    return _distinct(Closed(torch.cat(rows, 1), torch.cat(rules, 1)))


def _bridged(group: Group, primary: TopK, candidates: TopK, most: int) -> Tensor:
    """The `most` best graph candidates outside M that share an entity with it, −1 elsewhere."""
    stack, axes = group.stack, group.axes
    eligible = shares_entity(
        candidates.rows, primary, stack.graph.weights, stack.is_speaker,
        axes["units"], axes["entities"], axes["nodes"],
    )  # fmt: skip
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


def _distinct(found: Closed) -> Closed:
    """Keep the first of each row and close the gaps, in order."""
    # equal rows lie side by side, the first of them first; −1 stands before all of them
    rows, order = torch.sort(found.rows, dim=1, stable=True)
    fresh = rows >= 0
    fresh[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    kept = torch.zeros_like(fresh).scatter_(1, order, fresh)
    order = torch.argsort((~kept).int(), dim=1, stable=True)
    return Closed(
        torch.where(kept, found.rows, -1).gather(1, order),
        torch.where(kept, found.rules, -1).gather(1, order),
    )
