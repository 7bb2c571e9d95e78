"""A whole batch as arrays, made by `prepare_engine`, read by `gpu.py`: banks, questions and the answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.frozen import freeze, thaw
from zeromem_gpu.build.stack import Lexicon, Stack, StackedLevel, sliced
from zeromem_gpu.config import Config
from zeromem_gpu.encoders.lexical import LexicalWeights
from zeromem_gpu.query.batch import Keyed, QueryBatch, Ragged
from zeromem_gpu.retrieve.engine import Ranked, retrieve
from zeromem_kernels.lexical import Stream
from zeromem_kernels.pagerank import Graph
from zeromem_kernels.replay import Replays
from zeromem_kernels.similarity import Placed
from zeromem_kernels.tiles import Csr
from zeromem_kernels.weights import Counts, Documents, Places

# how far two engines' scores of one unit may be apart, and how many questions may get another unit at all:
# where two score within roundings of each other, products on a card may order them otherwise
TOLERANCE, OTHERS = 1e-4, 0.01


@dataclass(frozen=True, eq=False)
class Case:
    """The banks and questions of a batch, and what the CPU engine finds: `rows` and `scores` [Q, k]."""

    name: str
    stack: Stack
    bank_of: np.ndarray
    batch: QueryBatch
    config: Config
    rows: np.ndarray
    scores: np.ndarray

    def found(self, replays: Replays | None = None) -> Ranked:
        """Retrieve the whole batch."""
        return retrieve(self.stack, self.bank_of, self.batch, None, self.config, replays=replays)

    def same(self, rows: np.ndarray) -> np.ndarray:
        """Which questions got the same units, in whatever order, bool [Q]."""
        return np.array((np.sort(rows, axis=1) == np.sort(self.rows, axis=1)).all(axis=1))

    def fault(self, rows: np.ndarray, scores: np.ndarray) -> str:
        """Says where another engine's answer differs by more than roundings; "" where it does not."""
        if rows.shape != self.rows.shape:
            return f"evidence of shape {rows.shape}, not {self.rows.shape}"
        both = (rows[:, :, None] == self.rows[:, None]) & (rows >= 0)[:, :, None]
        gap = np.abs(scores[:, :, None] - self.scores[:, None])[both].max(initial=0.0)
        if not gap <= TOLERANCE:
            return f"scores off by {gap:.3g}, allowed {TOLERANCE:.3g}"
        others = 1 - float(self.same(rows).mean())
        return "" if others <= OTHERS else f"other evidence for {others:.1%} of the questions"


_KINDS = (
    Case, Stack, StackedLevel, Lexicon, Placed, Csr, Graph, Places, Documents, Counts, Stream,
    QueryBatch, Ragged, Keyed, LexicalWeights, Config,
)  # fmt: skip


def write(
    path: Path, name: str, stack: Stack, bank_of: np.ndarray, batch: QueryBatch, config: Config
) -> Case:
    """Answer a batch on this machine and keep it; vectors are rounded to float16, which halves the file."""
    rounded = {
        column: [Placed(one.stored.half().float(), one.rows) for one in getattr(stack, column)]
        for column in ("unit_vectors", "sentence_vectors", "entity_vectors")
    }
    case = Case(
        name, replace(stack, kept={}, **rounded), bank_of, batch, config,
        np.empty((0, 0), np.int32), np.empty((0, 0), np.float32),
    )  # fmt: skip
    ranked = case.found()
    case = replace(case, rows=ranked.rows, scores=ranked.scores)
    freeze(case, path)
    return case


def read(path: Path, device: torch.device) -> Case:
    """What `write` wrote, on a device."""
    case: Case = thaw(path, _KINDS, device)
    return replace(case, stack=sliced(case.stack)) if device.type == "cuda" else case
