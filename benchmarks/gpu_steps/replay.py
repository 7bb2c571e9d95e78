"""What a CUDA graph of a search's kernels saves: activation to fusion, launched one by one and replayed.

The engine's own `Replays` captures them. Results of a replay with new values must be those of the launches,
bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import torch
from torch import Tensor

from benchmarks.gpu_bench import Bench
from benchmarks.gpu_locomo import AXES, ENTITY_SHARE, Batch
from benchmarks.gpu_steps.workloads import GAMMA, TOLERANCE, Workloads
from zeromem_kernels.activation import propagate
from zeromem_kernels.fusion import fuse
from zeromem_kernels.pagerank import personalized_pagerank
from zeromem_kernels.replay import CudaCapture, Matrices, Replays
from zeromem_kernels.reset import node_rows, reset_vector
from zeromem_kernels.topk import ordered_topk

_INPUTS = ("seeds", "similarity", "prior", "hierarchy_scores", "share")
CANDIDATES, KEPT, LIVE_MATRICES = 24, 5, 24


def run(bench: Bench, work: Workloads) -> None:
    """A bank of some fifty nodes, where launches are all there is, and LoCoMo."""
    for batch in (work.small, *([work.locomo] if work.locomo and not bench.dry else [])):
        one(bench, batch)


def one(bench: Bench, batch: Batch) -> None:
    """Check and time one batch."""
    chain = searching(batch, bench.plain)
    given = {name: getattr(batch, name) for name in _INPUTS}
    others = given | {"seeds": given["seeds"].flip(0), "prior": given["prior"].flip(0)}
    replays = Replays(capture=CudaCapture() if bench.device.type == "cuda" else called_again)
    rows = sum(batch.axis(name).rows for name in AXES)
    size = rows * batch.tiles.width * 4 * LIVE_MATRICES

    def replayed(inputs: Matrices) -> Matrices:
        # captured at the third call of a shape; while kernels are compiled there is nothing to capture
        return chain(inputs) if bench.mode == "compile" else replays.run(batch, "", size, inputs, chain)

    def both() -> tuple[Tensor, ...]:
        for _ in range(0 if len(replays) or bench.mode == "compile" else 3):
            replayed(given)
        return (*replayed(others).values(), *replayed(given).values())

    def fault(found: tuple[Tensor, ...]) -> str:
        expected = (*chain(others).values(), *chain(given).values())
        same = all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))
        if not same:
            return "a replay differs from its launches"
        return "" if len(replays) == 1 else "nothing was captured"

    title = f"{batch.work.name} {batch.tiles.width}x{len(batch.tiles)}"
    bench.check(f"replay {title}", both, fault)
    # what was captured there also poisons its memory
    replays.drop()
    launched = bench.time(f"launched one by one {title}", partial(chain, given))
    bench.time(f"replayed as one graph {title}", partial(replayed, given), library=launched)


def searching(
    batch: Batch, forms: Callable[[], AbstractContextManager[None]]
) -> Callable[[Matrices], Matrices]:
    """Activation, reset, PageRank, both lists and their fusion; asks the device nothing once it has run."""
    axes, work = {name: batch.axis(name) for name in AXES}, batch.work
    units, entities, sentences, nodes = (axes[name] for name in AXES)
    unit_node = node_rows(units, entities, nodes)[0]

    def chain(given: Matrices) -> Matrices:
        with forms():
            eta = propagate(
                given["seeds"], given["similarity"], None, work.incidence, work.transposed,
                sentences, entities, steps=2, floor=0.05, sentence_floor=0.8, exclude_self=False,
            )  # fmt: skip
            reset = reset_vector(eta, given["prior"], entities, units, nodes, ENTITY_SHARE)
            ranked = personalized_pagerank(
                work.graph, reset, nodes, None, gamma=GAMMA, tolerance=TOLERANCE, storage=torch.float16
            )
            graph = ordered_topk(ranked.pi[unit_node], units, CANDIDATES)
            hierarchy = ordered_topk(given["hierarchy_scores"], units, CANDIDATES)
            top = fuse(graph, hierarchy, given["share"], units, KEPT)
        return {"pi": ranked.pi, "scores": top.scores, "rows": top.rows}

    return chain


def called_again(call: Callable[[], Matrices]) -> tuple[Callable[[], None], Matrices]:
    """What stands in for a graph in a dry run: a replay calls, and fills what was returned before."""
    kept = call()

    def replay() -> None:
        for name, made in call().items():
            kept[name].copy_(made)

    return replay, kept
