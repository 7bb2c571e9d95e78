"""Workloads made on the device: entity–context graphs, sentence incidences, reset vectors, by a seed.

The shape follows HotpotQA's paragraphs: contexts in sessions of ten that form chains, entities drawn by
a power law (so that some entities stand in a third of all contexts), four sentences a context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zeromem_kernels.pagerank import Graph, slice_graph
from zeromem_kernels.tiles import Axis, Csr, Tiles, slice_table

_SESSION = 10
_SENTENCES = 4
_POPULARITY = 0.9
_CHAIN_WEIGHT = 1.0


class Size(NamedTuple):
    """How large a bank is: nodes are contexts and entities, `pairs` their distinct links."""

    contexts: int
    entities: int
    pairs: int


# 300,000 nodes and 3.0 million non-zeros in both directions, the chain's 180,000 among them
HOTPOTQA = Size(100_000, 200_000, 1_410_000)
# one entity in nearly all contexts: a row that is cut
TOY = Size(72, 6, 220)


@dataclass(frozen=True, eq=False)
class Workload:
    """Stacked banks on one device: graph and incidence both ways with slices, boundaries by axis name."""

    name: str
    graph: Graph
    incidence: Csr
    transposed: Csr
    ptr: dict[str, Tensor]

    def axis(self, name: str, tiles: Tiles) -> Axis:
        """The axis units, entities, sentences or nodes."""
        return tiles.axis(self.ptr[name])


def synthetic(name: str, size: Size, device: torch.device, seed: int = 0) -> Workload:
    """One bank of about this size."""
    make = torch.Generator(device=device).manual_seed(seed)
    context, entity, count = _links(size, make, device)
    n, m = size.contexts, size.entities
    total = torch.zeros(n, device=device).index_add_(0, context, count)
    share = count / total[context]
    left = torch.arange(n - 1, device=device)
    left = left[left % _SESSION != _SESSION - 1]
    chain = torch.full((2 * len(left),), _CHAIN_WEIGHT, device=device)
    row = torch.cat([context, entity + n, left, left + 1])
    column = torch.cat([entity + n, context, left + 1, left])
    weights = csr(row, column, torch.cat([share, share, chain]), n + m)
    degree = torch.zeros(n + m, device=device).index_add_(0, row, torch.cat([share, share, chain]))
    odd = torch.arange(n, device=device) % _SESSION % 2 == 1
    groups = [
        torch.arange(n, n + m, device=device),
        *(torch.nonzero(odd == k).flatten() for k in (False, True)),
    ]
    bounds = torch.tensor([0, *np.cumsum([len(rows) for rows in groups])], device=device)
    graph = Graph(weights, degree, torch.cat(groups).int(), bounds, sound=True)
    sentence = context * _SENTENCES + torch.randint(
        _SENTENCES, context.shape, generator=make, device=device
    )
    one = torch.ones_like(share)
    incidence = csr(sentence, entity, one, n * _SENTENCES)
    transposed = csr(entity, sentence, one, m)
    sizes = {"units": n, "entities": m, "sentences": n * _SENTENCES, "nodes": n + m}
    ptr = {axis: torch.tensor([0, rows], device=device) for axis, rows in sizes.items()}
    return sliced(Workload(name, graph, incidence, transposed, ptr))


def _links(size: Size, make: torch.Generator, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct (context, entity) with counts 1 to 3, entities by their popularity."""
    chance = torch.arange(1, size.entities + 1, device=device, dtype=torch.float64) ** -_POPULARITY
    bounds = torch.cumsum(chance, 0)
    bounds = bounds / bounds[-1]
    found = torch.empty(0, dtype=torch.int64, device=device)
    # repeated draws of a popular entity are one link: draw until there are enough
    while len(found) < size.pairs:
        more = torch.rand(size.pairs, generator=make, device=device, dtype=torch.float64)
        entity = torch.searchsorted(bounds, more).clamp_(max=size.entities - 1)
        context = torch.randint(size.contexts, (size.pairs,), generator=make, device=device)
        found = torch.unique(torch.cat([found, context * size.entities + entity]))
    kept = torch.randperm(len(found), generator=make, device=device)[: size.pairs]
    found = found[kept.sort().values]
    count = torch.randint(1, 4, found.shape, generator=make, device=device).float()
    return found // size.entities, found % size.entities, count


def csr(row: Tensor, column: Tensor, weights: Tensor, rows: int) -> Csr:
    """Rows in order, columns ascending inside each."""
    order = torch.sort(row * (int(column.max()) + 1) + column).indices
    indptr = torch.zeros(rows + 1, dtype=torch.int64, device=row.device)
    torch.cumsum(torch.bincount(row, minlength=rows), 0, out=indptr[1:])
    return Csr(indptr, column[order].int(), weights[order].contiguous())


def sliced(work: Workload) -> Workload:
    """The same with slices beside every table."""
    ptr, graph = work.ptr, work.graph
    weights = graph.weights._replace(slices=slice_graph(graph, ptr["nodes"]))
    forward = slice_table(work.incidence, ptr["sentences"], ptr["entities"])
    backward = slice_table(work.transposed, ptr["entities"], ptr["sentences"])
    return Workload(
        work.name, graph._replace(weights=weights), work.incidence._replace(slices=forward),
        work.transposed._replace(slices=backward), ptr,
    )  # fmt: skip


def even_tiles(queries: int, width: int, device: torch.device, banks: int = 1) -> Tiles:
    """Tiles of so many queries spread evenly over the banks."""
    each = -(-queries // (banks * width))
    return Tiles(torch.arange(banks, device=device).repeat_interleave(each), width)


def resets(work: Workload, tiles: Tiles, seed: int = 1) -> Tensor:
    """r as retrieval makes it: nine tenths a prior on contexts, the rest on three entities a column."""
    axis, device = work.axis("nodes", tiles), tiles.bank.device
    make = torch.Generator(device=device).manual_seed(seed)
    reset = torch.zeros((axis.rows, tiles.width), device=device)
    units = work.ptr["units"].diff().tolist()
    nodes = work.ptr["nodes"].diff().tolist()
    for at, bank in enumerate(tiles.bank.tolist()):
        part = reset[int(axis.host_starts[at]) : int(axis.host_starts[at + 1])]
        part[: units[bank]].uniform_(generator=make).square_()
        part[: units[bank]] *= 0.9 / part[: units[bank]].sum(0)
        if nodes[bank] > units[bank]:
            picked = torch.randint(
                units[bank], nodes[bank], (3, tiles.width), generator=make, device=device
            )
            part.scatter_add_(0, picked, torch.full(picked.shape, 0.1 / 3, device=device))
    return reset
