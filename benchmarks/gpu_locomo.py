"""A LoCoMo index and its questions as plain arrays, made by `prepare_gpu` and read by `gpu.py`.

All questions stand in tiles of one width. Similarities and view scores are float16: these are
inputs of kernels, not results to be compared with anything outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu_graphs import TOY, Workload, even_tiles, resets, sliced, synthetic
from zeromem_kernels.activation import propagate
from zeromem_kernels.pagerank import Graph
from zeromem_kernels.reset import reset_vector
from zeromem_kernels.tiles import Axis, Csr, Tiles, torch_forms

AXES = ("units", "entities", "sentences", "nodes")
TABLES = ("graph", "incidence", "transposed")
ENTITY_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Batch:
    """A workload with the questions asked of it, float32 matrices on the axis named.

    `seeds` entities, `similarity` sentences, `prior` units, `graph_scores` and `hierarchy_scores` units
    (−inf: not allowed), `share` [T, width] the graph view's weight; `taken` bool [T, width] are the slots
    that hold a question.
    """

    work: Workload
    tiles: Tiles
    taken: Tensor
    seeds: Tensor
    similarity: Tensor
    prior: Tensor
    graph_scores: Tensor
    hierarchy_scores: Tensor
    share: Tensor

    def axis(self, name: str) -> Axis:
        """An axis of the tiles."""
        return self.work.axis(name, self.tiles)

    def copies(self, count: int) -> list[Batch]:
        """So many batches of the same values, each in memory of its own; the tables are shared."""
        names = ("seeds", "similarity", "prior", "graph_scores", "hierarchy_scores", "share")
        return [
            replace(self, **{name: getattr(self, name).clone() for name in names}) for _ in range(count)
        ]

    def reset(self) -> Tensor:
        """r of every question, by the torch forms."""
        with torch_forms():
            eta = propagate(
                self.seeds, self.similarity, None, self.work.incidence, self.work.transposed,
                self.axis("sentences"), self.axis("entities"),
                steps=2, floor=0.05, sentence_floor=0.8, exclude_self=False,
            )  # fmt: skip
            axes = (self.axis(name) for name in ("entities", "units", "nodes"))
            return reset_vector(eta, self.prior, *axes, ENTITY_SHARE)


def load(path: Path, device: torch.device) -> Batch:
    """Read what `prepare_gpu` wrote."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name]).to(device) for name in file.files}

    def table(name: str) -> Csr:
        indices = arrays[f"{name}_indices"]
        weights = arrays.get(f"{name}_weights", torch.ones(len(indices), device=device))
        return Csr(arrays[f"{name}_indptr"], indices, weights)

    graph = Graph(table("graph"), arrays["degree"], arrays["colour_rows"], arrays["colour_ptr"], sound=True)
    ptr = {name: arrays[f"ptr_{name}"] for name in AXES}
    work = sliced(Workload("locomo", graph, table("incidence"), table("transposed"), ptr))
    width = int(arrays["share"].shape[1])
    tiles = Tiles(arrays["tile_bank"], width)
    seeds = torch.zeros((tiles.axis(ptr["entities"]).rows, width), device=device)
    seeds.view(-1)[arrays["seed_at"]] = arrays["seed"].float()
    names = ("similarity", "prior", "graph_scores", "hierarchy_scores", "share")
    dense = (arrays[name].float() for name in names)
    return Batch(work, tiles, arrays["taken"], seeds, *dense)


def toy(device: torch.device, width: int = 6) -> Batch:
    """A batch of the same kinds of arrays at toy size, from one synthetic bank."""
    return synthetic_batch(synthetic("toy", TOY, device), 2 * width, width)


def synthetic_batch(work: Workload, queries: int, width: int, *, views_only: bool = False) -> Batch:
    """Random questions to a synthetic bank: three seeds each, view scores with a tenth not allowed.

    `views_only` leaves the matrices that the views' scores come from empty: they would not fit.
    """
    device = work.graph.degree.device
    tiles = even_tiles(queries, width, device)
    rows = {name: work.axis(name, tiles).rows for name in AXES}
    make = torch.Generator(device=device).manual_seed(11)

    def uniform(axis: str) -> Tensor:
        return torch.rand((rows[axis], width), generator=make, device=device)

    def view() -> Tensor:
        scores = uniform("units")
        return scores.masked_fill_(scores < 0.1, -torch.inf)

    share = torch.where(torch.rand((len(tiles), width), generator=make, device=device) < 0.5, 0.6, 0.4)
    taken = torch.ones((len(tiles), width), dtype=torch.bool, device=device)
    if views_only:
        nothing = torch.empty((0, width), device=device)
        return Batch(work, tiles, taken, nothing, nothing, nothing, view(), view(), share)
    # the entity rows of r are its seeds, scaled
    units, nodes = int(work.ptr["units"][-1]), int(work.ptr["nodes"][-1])
    parts = resets(work, tiles).view(len(tiles), nodes, width)[:, units:]
    seeds = parts.reshape(-1, width) * (3 / ENTITY_SHARE)
    return Batch(
        work, tiles, taken, seeds, uniform("sentences").sub_(0.2), uniform("units").square_(),
        view(), view(), share,
    )  # fmt: skip
