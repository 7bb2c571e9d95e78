"""LoCoMo held ready in memory: the same questions under many configurations, retrieval alone repeated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zeromem_gpu import Config, Memory
from zeromem_gpu.evaluate.datasets import CATEGORIES, load_locomo
from zeromem_gpu.retrieve.engine import Ranked, retrieve

CUTOFFS = (5, 10, 12)


class Locomo:
    """Some conversations, indexed once; fields of `Config` that shape the index stay as given.

    `scored` bool [Q] are the questions with gold evidence, `category` int [Q], `bank` their conversation.
    """

    def __init__(
        self,
        data: Path,
        conversations: Sequence[str] | None,
        config: Config,
        encoder: str,
        cache: Path | None,
    ) -> None:
        dataset = load_locomo(data, conversations=conversations)
        self.memory = Memory(config, encoder=encoder, device="cpu", cache_dir=cache)
        self.memory.add(dataset.traces)
        self.questions = dataset.questions
        self.bank = np.array([question.bank for question in self.questions])
        self.category = np.array([question.category for question in self.questions])
        self.scored = np.array([question.scored for question in self.questions])
        searcher, index = self.memory._searcher, self.memory._index
        if index is None:
            raise ValueError("the data set holds no traces")
        self._index = index
        names = self.bank.tolist()
        texts = [question.text for question in self.questions]
        self._profiles = searcher.profiles(index, texts, names, config)
        self._ready = searcher.prepare(index, self._profiles, names, config)
        self.seconds = 0.0

    def ranked(self, config: Config) -> Ranked:
        """Rank all questions under `config`, which must not change the index; `seconds` says how long."""
        views = self._ready
        if (config.bm25_k1, config.bm25_b, config.chain_weight) != self._shape(self.memory.config):
            views = self.memory._searcher.prepare(self._index, self._profiles, self.bank.tolist(), config)
        begin = time.perf_counter()
        found = retrieve(views.stack, views.bank_of, self._ready.batch, None, config)
        self.seconds = time.perf_counter() - begin
        return found

    def recall(self, config: Config) -> dict[int, np.ndarray]:
        """Recall at each cutoff, float [Q], NaN for questions that are not scored."""
        found = self.ranked(config.replace(top_k=max(CUTOFFS)))
        ids = {name: self._trace_ids(name) for name in dict.fromkeys(self.bank.tolist())}
        out = {k: np.full(len(self.questions), np.nan) for k in CUTOFFS}
        for row, question in enumerate(self.questions):
            if self.scored[row]:
                best = [ids[question.bank][unit] for unit in found.rows[row] if unit >= 0]
                for k in CUTOFFS:
                    out[k][row] = len(set(question.gold) & set(best[:k])) / len(set(question.gold))
        return out

    def line(self, recall: dict[int, np.ndarray], chosen: np.ndarray | None = None) -> str:
        """Mean recalls of the chosen questions, and recall@5 by category, in one line."""
        mask = self.scored if chosen is None else self.scored & chosen
        means = " ".join(f"R@{k} {recall[k][mask].mean():.4f}" for k in CUTOFFS)
        kinds = " ".join(
            f"{CATEGORIES[kind]} {recall[5][mask & (self.category == kind)].mean():.3f}"
            for kind in sorted(set(self.category[mask].tolist()))
        )
        return f"{means} | R@5 {kinds} | {1000 * self.seconds / len(self.questions):.3f} ms a question"

    def _trace_ids(self, name: str) -> list[str]:
        """The trace id of each unit row of a bank."""
        bank = self._index.banks[name]
        traces = self._index.column(bank, "traces", "trace")
        rows = self._index.column(bank, "units", "trace")[self._ready.views[name].rows.unit_rows]
        return [traces[row].id for row in rows]

    @staticmethod
    def _shape(config: Config) -> tuple[float, float, float]:
        return config.bm25_k1, config.bm25_b, config.chain_weight
