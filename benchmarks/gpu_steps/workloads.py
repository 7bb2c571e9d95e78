"""The workloads of a run, each made when first asked for; in a dry run all of them are toys."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch

from benchmarks.gpu_graphs import HOTPOTQA, TOY, Workload, synthetic
from benchmarks.gpu_locomo import Batch, load, synthetic_batch, toy

GAMMA, TOLERANCE = 0.6, 1e-6


class Workloads:
    """`file` is what `prepare_gpu` wrote, or None: LoCoMo is then left out (in a dry run a toy).

    `engines` are what `prepare_engine` wrote.
    """

    def __init__(
        self, device: torch.device, file: Path | None, dry: bool, engines: Sequence[Path] = ()
    ) -> None:
        self.device, self.dry, self._file, self.engines = device, dry, file, engines

    @cached_property
    def locomo(self) -> Batch | None:
        """LoCoMo's questions."""
        if self._file is not None:
            return load(self._file, self.device)
        return toy(self.device) if self.dry else None

    @cached_property
    def small(self) -> Batch:
        """A bank of some fifty nodes: sizes that are no multiple of anything."""
        return toy(self.device)

    @cached_property
    def hotpotqa(self) -> Workload:
        """One bank of 300,000 nodes."""
        return synthetic("hotpotqa", TOY if self.dry else HOTPOTQA, self.device)

    def hotpotqa_batch(self, queries: int, width: int = 32) -> Batch:
        """Random questions to it."""
        return synthetic_batch(self.hotpotqa, self.queries(queries), self.width(width))

    def hotpotqa_scores(self, queries: int, width: int = 32) -> Batch:
        """The same with the views' scores alone."""
        return synthetic_batch(self.hotpotqa, self.queries(queries), self.width(width), views_only=True)

    @property
    def tolerance(self) -> float:
        """PageRank's L1 error; a dry run, where every program is slow, sweeps less."""
        return 0.1 if self.dry else TOLERANCE

    @cached_property
    def l2_bytes(self) -> int:
        """The device's L2; 0 where there is none to ask."""
        if self.device.type != "cuda":
            return 0
        return int(torch.cuda.get_device_properties(self.device).L2_cache_size)

    def beyond_l2(self, batch: Batch, *names: str) -> list[Batch]:
        """The batch, and as many copies that the matrices named fill the L2 twice: what is read is cold."""
        size = sum(getattr(batch, name).nbytes for name in names)
        count = min(-(-2 * self.l2_bytes // max(size, 1)), 32)
        return [batch, *batch.copies(count - 1)]

    def queries(self, queries: int) -> int:
        """So many questions, a few in a dry run."""
        return 4 if self.dry else queries

    def width(self, width: int) -> int:
        """A tile's width, narrow in a dry run."""
        return min(width, 4) if self.dry else width
