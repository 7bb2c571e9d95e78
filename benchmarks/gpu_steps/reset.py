"""The reset vector: against float64, then times."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks import gpu_reference as reference
from benchmarks import model
from benchmarks.gpu_bench import Bench, differs
from benchmarks.gpu_locomo import ENTITY_SHARE, Batch
from benchmarks.gpu_steps.workloads import Workloads
from zeromem_kernels.reset import node_rows, reset_vector

QUERIES = 1024


def run(bench: Bench, work: Workloads) -> None:
    """Check at every size, then time."""
    if not bench.dry:
        check(bench, work.small)
    for batch in filter(None, (work.locomo, work.hotpotqa_batch(QUERIES))):
        check(bench, batch)
        rows = [np.diff(batch.axis(name).host_starts) for name in ("units", "entities")]
        bench.time(
            f"reset {batch.work.name} {batch.tiles.width}x{len(batch.tiles)}",
            *(partial(build, one) for one in work.beyond_l2(batch, "seeds", "prior")),
            cost=model.reset(*rows, batch.tiles.width), graph=True,
        )  # fmt: skip


def build(batch: Batch) -> Tensor:
    """r from the seeds and the prior."""
    axes = (batch.axis(name) for name in ("entities", "units", "nodes"))
    return reset_vector(batch.seeds, batch.prior, *axes, ENTITY_SHARE)


def check(bench: Bench, batch: Batch) -> None:
    """Each part by its float64 sum."""
    units, entities, nodes = (batch.axis(name) for name in ("units", "entities", "nodes"))

    def fault(found: Tensor) -> str:
        place = node_rows(units, entities, nodes)
        shares = (1.0 - ENTITY_SHARE, ENTITY_SHARE)
        sums = [reference.tile_sums(x, axis) for x, axis in ((batch.prior, units), (batch.seeds, entities))]
        worst = 0.0
        for at, (x, axis) in enumerate(((batch.prior, units), (batch.seeds, entities))):
            # a part without mass leaves all to the other
            share = torch.where(sums[1 - at] > 0, shares[at], 1.0)
            scale = torch.where(sums[at] > 0, share / sums[at], 0.0)
            gap = (found[place[at]].double() - x * scale[axis.tile_of_row]).abs()
            worst = max(worst, float((gap / scale[axis.tile_of_row].clamp(min=1e-300)).max()))
        # float32 products of numbers up to 1, before they are scaled down
        return differs(torch.tensor(worst), torch.tensor(0.0), 1e-5)

    bench.check(f"reset {batch.work.name}", lambda: build(batch), fault)
