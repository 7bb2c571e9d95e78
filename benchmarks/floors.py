"""The least time of every kernel on a card, from the byte model: `python -m benchmarks.floors`.

A kernel takes at least its L2 bytes at the gather rate, its memory bytes at the copy rate, and its
operations at the arithmetic rate; the floor is the largest. Constants and workloads are those of the
kernels' design note; graph-shaped sizes are counted from drawn degrees, so the largest need not be built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks import model
from benchmarks.tallies import Tally, tally_of_degrees
from zeromem_kernels.sweeps import planned_sweeps, total_sweeps

WIDTH, GAMMA, TOLERANCE, CANDIDATES, KEPT = 32, 0.6, 1e-6, 24, 5


class Card(NamedTuple):
    """Bytes a second of memory and of L2 gathers, operations a second, bytes of L2."""

    name: str
    memory: float
    gather: float
    flops: float
    l2: int


# gather rates: RTX 4090 from published SpMM timings, H200 assumed until benchmarks/gpu.py has run there
CARDS = (
    Card("RTX 4090", 1.008e12, 5.0e12, 82.6e12, 72 << 20),
    Card("H200", 4.3e12, 5.5e12, 67e12, 60 << 20),
)


@dataclass(frozen=True)
class Scale:
    """One workload; `nonzeros` are W's in both directions, `mentions` those of the sentence incidence."""

    name: str
    banks: int
    units: int
    entities: int
    sentences: int
    nonzeros: int
    queries: int

    @property
    def tiles(self) -> int:
        """Tiles of the batch."""
        return self.banks * -(-self.queries // (self.banks * WIDTH))


SCALES = (
    Scale("LoCoMo: 10 banks, 21k nodes", 10, 590, 1_510, 1_200, 8_300, 1_540),
    Scale("HotpotQA: 300k nodes", 1, 100_000, 200_000, 400_000, 3_000_000, 4_096),
    Scale("stress: 10M nodes", 1, 3_300_000, 6_700_000, 13_200_000, 100_000_000, 512),
)


def tables(scale: Scale) -> tuple[Tally, Tally, Tally]:
    """W, M (rows sentences) and Mᵀ (rows entities) of one workload."""
    chain = np.full(scale.units, 2)
    pairs = (scale.nonzeros - int(chain.sum())) // 2
    popularity = np.arange(1, scale.entities + 1, dtype=np.float64) ** -0.9
    entity = np.minimum(np.round(pairs * popularity / popularity.sum()), scale.units).astype(np.int64)
    rng = np.random.default_rng(0)
    unit = rng.poisson(pairs / scale.units, scale.units) + chain
    sentence = rng.poisson(pairs / scale.sentences, scale.sentences)

    def of(*degrees: np.ndarray) -> Tally:
        return tally_of_degrees(degrees, WIDTH, scale.tiles, scale.banks)

    return of(entity, unit[::2], unit[1::2]), of(sentence), of(entity)


def costs(scale: Scale, l2: int) -> list[tuple[str, model.Cost]]:
    """Every kernel's cost at one workload; on a card with so much L2."""
    graph, forward, backward = tables(scale)
    units, entities = (np.full(scale.tiles, rows) for rows in (scale.units, scale.entities))

    def pagerank(solver: str, storage: torch.dtype) -> tuple[str, model.Cost]:
        sweeps, in_place = planned_sweeps(GAMMA, TOLERANCE, solver, storage), solver == "sor"
        lost = model.lost_share(model.resident_bytes(graph, storage.itemsize, in_place=in_place), l2)
        cost = model.solve(graph, storage.itemsize, sweeps, in_place=in_place, lost=lost)
        kind = "fp16" if storage == torch.float16 else "fp32"
        return f"PageRank, {solver} {total_sweeps(sweeps)} {kind}", cost

    return [
        ("PageRank sweep, SOR fp16", model.sweep(graph, 2, in_place=True)),
        ("PageRank sweep, SOR fp32", model.sweep(graph, 4, in_place=True)),
        *(pagerank(solver, kind) for solver in ("sor", "power") for kind in (torch.float16, torch.float32)),
        ("PageRank start, fp16", model.start(graph, 2)),
        ("PageRank finish, fp16", model.finish(graph, 2)),
        ("activation, to sentences", model.to_sentences(forward, backward.moved.rows)),
        ("activation, to entities", model.to_entities(backward, forward.moved.rows)),
        ("activation, settle", model.settle(backward.rows, WIDTH, seeds=False)),
        ("activation, 2 steps", model.propagate(forward, backward, 2)),
        ("reset", model.reset(units, entities, WIDTH)),
        (f"top-{CANDIDATES} of one view", model.ordered_topk(units, WIDTH, CANDIDATES)),
        (
            f"fusion of {CANDIDATES} + {CANDIDATES}",
            model.fuse(scale.tiles, WIDTH, *2 * (CANDIDATES,), KEPT),
        ),
    ]


def seconds(cost: model.Cost, card: Card) -> tuple[float, str]:
    """The floor and what sets it."""
    return max(
        (cost.l2 / card.gather, "L2"),
        (cost.dram / card.memory, "memory"),
        (cost.flops / card.flops, "FLOP"),
    )


def main() -> None:
    """Print one table a workload."""
    console = Console(width=120)
    for scale in SCALES:
        title = f"{scale.name}, {scale.nonzeros:,} non-zeros, {scale.queries:,} queries, width {WIDTH}"
        table = Table("kernel", title=title, title_justify="left")
        for name in ("L2 MB", "memory MB", "GFLOP", *(f"{card.name} ms" for card in CARDS), "bound"):
            table.add_column(name, justify="right")
        for rows in zip(*(costs(scale, card.l2) for card in CARDS), strict=True):
            name, cost = rows[0]
            floors = [seconds(one, card) for (_, one), card in zip(rows, CARDS, strict=True)]
            bound = " / ".join(dict.fromkeys(why for _, why in floors))
            memory = " / ".join(dict.fromkeys(f"{one.dram / 1e6:,.1f}" for _, one in rows))
            numbers = (f"{cost.l2 / 1e6:,.1f}", memory, f"{cost.flops / 1e9:,.2f}")
            table.add_row(name, *numbers, *(f"{1e3 * time:,.4f}" for time, _ in floors), bound)
        console.print(table)


if __name__ == "__main__":
    main()
