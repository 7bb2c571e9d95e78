"""Activation: the literal form against float64, the pruned one against the torch form, then times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks import gpu_reference as reference
from benchmarks import model
from benchmarks.gpu_bench import Bench, differs
from benchmarks.gpu_locomo import Batch
from benchmarks.gpu_steps.workloads import Workloads
from benchmarks.tallies import tally
from zeromem_kernels.activation import propagate
from zeromem_kernels.tiles import torch_forms

STEPS, QUERIES = 2, 256
LITERAL = {"floor": 0.0, "sentence_floor": 0.0}
PRUNED = {"floor": 0.05, "sentence_floor": 0.8}


def run(bench: Bench, work: Workloads) -> None:
    """Check and time at every size; LoCoMo is left out where its file is not there."""
    if not bench.dry:
        check(bench, work.small)
    batches = [work.locomo, work.hotpotqa_batch(32), work.hotpotqa_batch(QUERIES)]
    for batch in filter(None, batches if not bench.dry else batches[1:2]):
        # the edges of every tile in float64 fit for a few tiles only
        if batch is not batches[-1] or bench.dry:
            check(bench, batch)
        if batch is not batches[1] or bench.dry:
            time(bench, work, batch)


def check(bench: Bench, batch: Batch) -> None:
    """Both forms, with and without e = e'."""
    name = f"activation {batch.work.name} {batch.tiles.width}x{len(batch.tiles)}"
    axes = batch.axis("sentences"), batch.axis("entities")

    def literal(found: Tensor) -> str:
        expected = reference.propagate(
            batch.seeds, batch.similarity, batch.work.incidence, batch.work.transposed, *axes, STEPS
        )
        return differs(found, expected, 1e-4)

    def pruned(found: Tensor, exclude: bool) -> str:
        with torch_forms():
            expected = form(batch, PRUNED, exclude)()
        # a value that lies on a threshold falls to either side of it by rounding alone
        gap = (found - expected).abs()
        worst = torch.zeros((len(axes[1].tiles), found.shape[1]), device=found.device)
        worst.scatter_reduce_(0, axes[1].tile_of_row[:, None].expand_as(gap), gap, "amax")
        wrong = float((~(worst <= 1e-3)).double().mean())
        return "" if wrong <= 0.02 else f"{wrong:.1%} of the columns differ"

    bench.check(f"{name} literal", form(batch, LITERAL, False), literal)
    for exclude in (False, True):
        bench.check(
            f"{name} pruned, exclude_self={exclude}", form(batch, PRUNED, exclude),
            lambda found, exclude=exclude: pruned(found, exclude),
        )  # fmt: skip


def form(batch: Batch, floors: dict[str, float], exclude: bool) -> Callable[[], Any]:
    """Two steps of propagation."""
    return lambda: propagate(
        batch.seeds, batch.similarity, None, batch.work.incidence, batch.work.transposed,
        batch.axis("sentences"), batch.axis("entities"), steps=STEPS, exclude_self=exclude, **floors,
    )  # fmt: skip


def time(bench: Bench, work: Workloads, batch: Batch) -> None:
    """The pruned form as it is launched: it reads host copies, so that no graph can hold it."""
    forward, backward = batch.work.incidence.slices, batch.work.transposed.slices
    if forward is None or backward is None:
        raise ValueError("a workload has slices")
    sentences, entities, width = batch.axis("sentences"), batch.axis("entities"), batch.tiles.width
    cost = model.propagate(tally(forward, sentences), tally(backward, entities), STEPS)
    # a wave fills three quarters of the L2, or is one tile
    reached = max(4 * width * sentences.tallest, work.l2_bytes * 3 // 4)
    bench.time(
        f"activation {batch.work.name} {width}x{len(batch.tiles)} {STEPS} steps",
        *(form(x, PRUNED, False) for x in work.beyond_l2(batch, "seeds", "similarity")),
        cost=cost, row_bytes=4 * width, working=min(4 * width * sentences.rows, reached),
    )  # fmt: skip
