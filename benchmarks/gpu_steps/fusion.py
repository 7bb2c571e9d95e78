"""Ordered top-k of both views and their fusion, held to the torch forms, against min-max + torch.topk."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import model
from benchmarks.gpu_bench import Bench
from benchmarks.gpu_locomo import Batch
from benchmarks.gpu_steps.workloads import Workloads
from zeromem_kernels.fusion import fuse
from zeromem_kernels.tiles import torch_forms
from zeromem_kernels.topk import TopK, ordered_topk

CANDIDATES, KEPT, QUERIES, CHECKED = 24, 5, 4096, 128
# each round of a column is many operations of the interpreter
DRY_CANDIDATES = 3


def run(bench: Bench, work: Workloads) -> None:
    """Check at every size, then time both parts and the whole against the library's route."""
    if bench.dry:
        few = work.hotpotqa_scores(4)
        check(bench, few, DRY_CANDIDATES)
        time(bench, work, few, DRY_CANDIDATES)
        return
    check(bench, work.small, CANDIDATES)
    if work.locomo:
        check(bench, work.locomo, CANDIDATES)
        time(bench, work, work.locomo, CANDIDATES)
    # a stable sort of all rows, which is what the torch form does, is too large for all tiles
    check(bench, work.hotpotqa_scores(CHECKED), CANDIDATES)
    time(bench, work, work.hotpotqa_scores(QUERIES), CANDIDATES)


def lists(batch: Batch, n: int) -> tuple[TopK, TopK]:
    """The n best candidates of both views."""
    units = batch.axis("units")
    return ordered_topk(batch.graph_scores, units, n), ordered_topk(batch.hierarchy_scores, units, n)


def whole(batch: Batch, n: int) -> TopK:
    """Candidates and their fusion."""
    return fuse(*lists(batch, n), batch.share, batch.axis("units"), KEPT)


def check(bench: Bench, batch: Batch, n: int) -> None:
    """Rows are equal, candidates' scores too; fused scores are rounded alike."""

    def fault(found: tuple[Any, ...]) -> str:
        with torch_forms():
            expected = lists(batch, n), whole(batch, n)
        for ours, theirs in zip(found[0], expected[0], strict=True):
            if not torch.equal(ours.rows, theirs.rows) or not torch.equal(ours.scores, theirs.scores):
                return "candidates differ from the torch form's"
        same = found[1].rows == expected[1].rows
        close = (found[1].scores - expected[1].scores).abs() <= 1e-6
        # sums that differ in the last bit may change the order of near-equal scores
        wrong = float((~(same | close)).double().mean())
        return "" if wrong == 0 else f"{wrong:.2%} of the fused rows differ"

    bench.check(f"fusion {batch.work.name}", lambda: (lists(batch, n), whole(batch, n)), fault)


def time(bench: Bench, work: Workloads, batch: Batch, n: int) -> None:
    """Top-k of one view, fusion of two lists, all of it, and the library's way to the same answer."""
    units, width, tiles = batch.axis("units"), batch.tiles.width, len(batch.tiles)
    rows = np.diff(units.host_starts)
    title = f"{batch.work.name} {width}x{tiles}"
    cold = work.beyond_l2(batch, "graph_scores", "hierarchy_scores")
    one = model.ordered_topk(rows, width, n)
    joined = model.fuse(tiles, width, n, n, KEPT)
    bench.time(
        f"top-{n} {title}", *(partial(ordered_topk, x.graph_scores, units, n) for x in cold),
        cost=one, graph=True,
    )  # fmt: skip
    with bench.triton():
        candidates = lists(batch, n)
    bench.time(
        f"fusion of lists {title}", lambda: fuse(*candidates, batch.share, units, KEPT),
        cost=joined, graph=True,
    )  # fmt: skip
    best = bench.library(f"min-max + torch.topk {title}", *map(library, cold))
    bench.time(
        f"top-{n} twice + fusion {title}", *(partial(whole, x, n) for x in cold),
        cost=2 * one + joined, graph=True, library=best,
    )  # fmt: skip


def library(batch: Batch) -> Any:
    """Min-max of both matrices, their mix, torch.topk; rows of queries, as torch.topk likes them.

    Every tile counts as many rows as the tallest: what is missing is −inf.
    """
    units = batch.axis("units")
    tiles, width = len(batch.tiles), batch.tiles.width
    local = torch.arange(units.rows, device=batch.share.device) - units.starts[units.tile_of_row]

    def by_query(scores: Tensor) -> Tensor:
        padded = torch.full((tiles, units.tallest, width), -torch.inf, device=scores.device)
        padded[units.tile_of_row, local] = scores
        return padded.transpose(1, 2).reshape(tiles * width, units.tallest)

    views = by_query(batch.graph_scores), by_query(batch.hierarchy_scores)
    share = batch.share.reshape(-1, 1)

    def scaled(x: Tensor) -> Tensor:
        low = torch.where(x > -torch.inf, x, torch.inf).amin(1, keepdim=True)
        return (x - low) / (x.amax(1, keepdim=True) - low)

    def route() -> Tensor:
        mixed = share * scaled(views[0]) + (1.0 - share) * scaled(views[1])
        return torch.topk(mixed, min(KEPT, mixed.shape[1]), dim=1).indices

    return route
