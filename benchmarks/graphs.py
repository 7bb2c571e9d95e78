"""Seeded entity-context graphs of a given size as arrays, for PageRank without any text."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from zeromem_kernels.pagerank import Graph, slice_graph
from zeromem_kernels.tiles import Axis, Csr, Tiles


@dataclass(frozen=True, eq=False)
class Synthetic:
    """One graph and `queries` reset vectors: `reset` float32 [T·nodes, width], a tile after the other."""

    graph: Graph
    axis: Axis
    reset: Tensor
    contexts: int
    name: str

    @property
    def nodes(self) -> int:
        """Contexts and entities."""
        return len(self.graph.degree)

    def to(self, device: torch.device) -> Synthetic:
        """The same on another device, with the slices that the Triton forms gather from."""
        w = self.graph.weights
        moved = Csr(w.indptr.to(device), w.indices.to(device), w.weights.to(device))
        head = (self.graph.degree, self.graph.colour_rows, self.graph.colour_ptr)
        graph = Graph(moved, *(one.to(device) for one in head), sound=True)
        ptr = self.axis.ptr.to(device)
        graph = graph._replace(weights=moved._replace(slices=slice_graph(graph, ptr)))
        axis = Tiles(self.axis.tiles.bank.to(device), self.axis.tiles.width).axis(ptr)
        return replace(self, graph=graph, axis=axis, reset=self.reset.to(device))

    @property
    def about(self) -> dict[str, object]:
        """What a figure from this graph must say beside itself."""
        return {
            "workload": self.name, "stand_in": True, "nodes": self.nodes,
            "nonzeros": len(self.graph.weights.indices),
            "queries": self.reset.shape[1] * len(self.axis.tiles),
        }  # fmt: skip


def synthetic(
    name: str,
    nodes: int,
    nonzeros: int,
    queries: int,
    *,
    width: int = 32,
    seed: int = 0,
    chain: float = 2.5,
) -> Synthetic:
    """A graph of about that many nodes and non-zeros of W, entities drawn by a Zipf law of exponent 0.9.

    Three of five nodes are contexts; neighbours are chained in sessions of 20, as in a conversation. Every
    reset vector has 64 entries, half of the mass on 8 entities.
    """
    rng = np.random.default_rng([seed, nodes])
    contexts = 3 * nodes // 5
    entities = nodes - contexts
    mentions = max((nonzeros // 2 - contexts), contexts)
    weight = (np.arange(entities) + 2.0) ** -0.9
    up_to = np.cumsum(weight / weight.sum())
    left = rng.integers(0, contexts, mentions)
    # every entity occurs once, as one that nothing mentions would not exist
    right = np.minimum(np.searchsorted(up_to, rng.random(mentions)), entities - 1)
    right[: min(entities, mentions)] = rng.permutation(entities)[:mentions]
    pair = np.unique(left * entities + right)
    left, right = pair // entities, pair % entities + contexts
    first = np.arange(contexts - 1)
    first = first[first % 20 != 19]
    rows = np.concatenate([left, right, first, first + 1])
    columns = np.concatenate([right, left, first + 1, first])
    half = rng.integers(1, 4, len(left)).astype(np.float32)
    chained = np.full(len(first), chain, np.float32)
    values = np.concatenate([half, half, chained, chained])
    order = np.lexsort((columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=nodes))])
    degree = np.bincount(rows, values, nodes).astype(np.float32)
    colours = [np.arange(contexts, nodes), np.arange(0, contexts, 2), np.arange(1, contexts, 2)]
    graph = Graph(
        Csr(
            torch.from_numpy(indptr.astype(np.int64)),
            torch.from_numpy(columns.astype(np.int32)),
            torch.from_numpy(values),
        ),
        torch.from_numpy(degree),
        torch.from_numpy(np.concatenate(colours).astype(np.int32)),
        torch.from_numpy(np.cumsum([0, *map(len, colours)]).astype(np.int64)),
        sound=True,
    )
    axis = Tiles(torch.zeros(-(-queries // width), dtype=torch.int64), width).axis(torch.tensor([0, nodes]))
    return Synthetic(graph, axis, _resets(rng, axis, contexts, nodes), contexts, name)


def _resets(rng: np.random.Generator, axis: Axis, contexts: int, nodes: int) -> Tensor:
    tiles, width = len(axis.tiles), axis.tiles.width
    reset = np.zeros((tiles * nodes, width), np.float32)
    for tile in range(tiles):
        for column in range(width):
            on_entities = rng.choice(nodes - contexts, 8, replace=False) + contexts
            on_contexts = rng.choice(contexts, 56, replace=False)
            reset[tile * nodes + on_entities, column] = 0.5 / 8
            reset[tile * nodes + on_contexts, column] = 0.5 / 56
    return torch.from_numpy(reset)
