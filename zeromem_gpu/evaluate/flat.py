"""Flat rankings as opponents: BM25, dense, their min-max hybrid, and a strong one with five signals.

None of them knows the graph or the hierarchy. They read the very texts that the engine's encoder reads, so
vectors are the same and come from the memory's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zeromem_gpu import Trace
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate.flat_text import Words, flat_text
from zeromem_gpu.evaluate.runner import Ranked

if TYPE_CHECKING:
    from zeromem_gpu import Memory
    from zeromem_gpu.evaluate.datasets import Dataset, Question

FLAT = ("bm25", "dense", "hybrid", "strong")
K1 = 1.2
B_TURNS, B_DOCUMENTS = 0.3, 0.5

Scores = NDArray[np.float64]


class StrongWeights(NamedTuple):
    """Weights of the strong flat ranking beside the dense signal, whose weight is 1."""

    words: float
    near_words: float
    near_vectors: float
    speaker: float
    spread: float


# python -m benchmarks.quality.fit_flat --data ../shared/data/locomo --draws 120 --seed 1
STRONG = StrongWeights(words=0.815, near_words=1.488, near_vectors=0.726, speaker=0.534, spread=0.015)


class FlatBank:
    """The signals of one bank: its questions × its traces, each computed at the first use.

    `traces` are the columns, in session order; scores are float64 [Q, N], unscaled.
    """

    def __init__(
        self, questions: Sequence[Question], traces: Sequence[Trace], words: Words, vectors: _Vectors
    ) -> None:
        self.questions = list(questions)
        self.traces = _in_session_order(traces)
        self._texts = [flat_text(trace) for trace in self.traces]
        self._words, self._vectors = words, vectors
        numbers: dict[str, int] = {}
        self._session = np.array([numbers.setdefault(one.session, len(numbers)) for one in self.traces])
        # a bank in which nothing follows anything holds documents
        self.documents = len(numbers) == len(self.traces)

    def rank(self, scores: Scores, depth: int, rule: str) -> list[list[Ranked]]:
        """The `depth` best traces of every question; equal scores keep the order of the session."""
        best = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
        return [
            [Ranked(self.traces[at].id, float(row[at]), None, None, rule) for at in order]
            for row, order in zip(scores, best, strict=True)
        ]

    @cached_property
    def dense(self) -> Scores:
        """Cosine of question and trace; 0 where either has no vector."""
        return self._query_vectors @ self._trace_vectors.T

    @cached_property
    def near_vectors(self) -> Scores:
        """Cosine of the question and the mean vector of traces i−2 … i+2 of the session."""
        return self._query_vectors @ _unit_rows(self._around(self._trace_vectors.T, 2).T).T

    @cached_property
    def bm25(self) -> Scores:
        """BM25 of each trace."""
        return self._bm25(self._frequencies, self._lengths)

    @cached_property
    def near_bm25(self) -> Scores:
        """BM25 where the document of trace i is the text of i−1 … i+1 of the session."""
        return self._bm25(self._around(self._frequencies, 1), self._around(self._lengths[None], 1)[0])

    @cached_property
    def speaker(self) -> Scores:
        """1 where the question names the trace's speaker, else 0."""
        names = list(dict.fromkeys(one.speaker or "" for one in self.traces))
        spoken = np.array([names.index(one.speaker or "") for one in self.traces], np.int64)
        padded = [f" {' '.join(self._words.plain(name))} " for name in names]
        asked = [f" {' '.join(self._words.plain(one.text))} " for one in self.questions]
        named = [[bool(name.strip()) and name in text for name in padded] for text in asked]
        return np.array(named, np.float64).reshape(len(asked), len(names))[:, spoken]

    def hybrid(self) -> Scores:
        """Half dense and half BM25, each min-max scaled per question."""
        return 0.5 * (_min_max(self.dense) + _min_max(self.bm25))

    def strong(self, weights: StrongWeights = STRONG) -> Scores:
        """Five signals, then a share of both neighbours' scores."""
        score = (
            self._scaled_dense
            + weights.words * self._scaled_bm25
            + weights.near_words * self._scaled_near_bm25
            + weights.near_vectors * self._scaled_near_vectors
            + weights.speaker * self.speaker
        )
        return score + weights.spread * (self._around(score, 1) - score)

    @cached_property
    def _scaled_dense(self) -> Scores:
        return _min_max(self.dense)

    @cached_property
    def _scaled_bm25(self) -> Scores:
        return _min_max(self.bm25)

    @cached_property
    def _scaled_near_bm25(self) -> Scores:
        return _min_max(self.near_bm25)

    @cached_property
    def _scaled_near_vectors(self) -> Scores:
        return _min_max(self.near_vectors)

    @cached_property
    def _query_vectors(self) -> Scores:
        return self._vectors([question.text for question in self.questions])

    @cached_property
    def _trace_vectors(self) -> Scores:
        return self._vectors(self._texts)

    @cached_property
    def _asked(self) -> tuple[NDArray[np.int64], Scores]:
        """The distinct stems of the questions, and how often each question has each: [T], [Q, T]."""
        stems = [self._words.stems(question.text) for question in self.questions]
        terms = np.unique(np.concatenate([np.zeros(0, np.int64), *stems]))
        counts = np.zeros((len(stems), len(terms)))
        for row, ids in enumerate(stems):
            np.add.at(counts[row], np.searchsorted(terms, ids), 1)
        return terms, counts

    @cached_property
    def _documents(self) -> list[NDArray[np.int64]]:
        return [self._words.stems(text) for text in self._texts]

    @cached_property
    def _lengths(self) -> Scores:
        return np.array([len(stems) for stems in self._documents], np.float64)

    @cached_property
    def _frequencies(self) -> Scores:
        """How often each asked stem occurs in each trace, [T, N]."""
        terms, _ = self._asked
        count = len(self._documents)
        if not len(terms):
            return np.zeros((0, count))
        stems = np.concatenate([np.zeros(0, np.int64), *self._documents])
        rows = np.repeat(np.arange(count), self._lengths.astype(np.int64))
        place = np.minimum(np.searchsorted(terms, stems), len(terms) - 1)
        known = terms[place] == stems
        cells = place[known] * count + rows[known]
        return (
            np.bincount(cells, minlength=len(terms) * count).reshape(len(terms), count).astype(np.float64)
        )

    def _bm25(self, frequencies: Scores, lengths: Scores) -> Scores:
        _, counts = self._asked
        total = len(self.traces)
        b = B_DOCUMENTS if self.documents else B_TURNS
        found = (frequencies > 0).sum(axis=1)
        idf = np.log1p((total - found + 0.5) / (found + 0.5))
        norm = K1 * (1 - b + b * lengths / max(float(lengths.mean()), 1.0))
        weights: Scores = idf[:, None] * frequencies * (K1 + 1) / (frequencies + norm)
        return counts @ weights

    def _around(self, values: Scores, radius: int) -> Scores:
        """The sum of columns i−radius … i+radius that are in the session of column i."""
        total = values.copy()
        for step in range(1, min(radius, len(self._session) - 1) + 1):
            same = self._session[step:] == self._session[:-step]
            total[:, :-step] += np.where(same, values[:, step:], 0.0)
            total[:, step:] += np.where(same, values[:, :-step], 0.0)
        return total


_SCORERS: Mapping[str, Callable[[FlatBank], Scores]] = {
    "bm25": lambda bank: bank.bm25,
    "dense": lambda bank: bank.dense,
    "hybrid": FlatBank.hybrid,
    "strong": FlatBank.strong,
}


def flat_banks(dataset: Dataset, memory: Memory) -> Iterator[FlatBank]:
    """The banks of a data set one after another, in its order; shared texts are read and encoded once."""
    words, vectors = Words(), _Vectors(memory)
    for conversation in dataset.conversations:
        if conversation.questions and len(conversation.traces):
            yield FlatBank(conversation.questions, conversation.traces, words, vectors)


def rank_flat_all(
    names: Sequence[str], dataset: Dataset, memory: Memory, depth: int
) -> dict[str, list[list[Ranked]]]:
    """Every named ranking over one pass of the banks; see `rank_flat`."""
    unknown = [name for name in names if name not in _SCORERS]
    if unknown:
        raise InvalidInput("baseline", ", ".join(unknown), ", ".join(FLAT))
    if depth < 1:
        raise InvalidInput("depth", depth, "1 or more")
    ranked: dict[str, dict[str, list[Ranked]]] = {name: {} for name in names}
    for bank in flat_banks(dataset, memory):
        for name in names:
            lists = bank.rank(_SCORERS[name](bank), depth, name)
            ranked[name] |= {one.id: row for one, row in zip(bank.questions, lists, strict=True)}
    return {name: [rows.get(one.id, []) for one in dataset.questions] for name, rows in ranked.items()}


def rank_flat(name: str, dataset: Dataset, memory: Memory, depth: int) -> list[list[Ranked]]:
    """Rank the traces of each question's bank with one flat method.

    Args:
        name: one of `FLAT`; any other is `InvalidInput`.
        dataset: banks and their questions; nothing of it needs to be in `memory`.
        memory: lends its encoder.
        depth: most traces for each question, 1 or more; fewer where the bank holds fewer.

    Returns:
        A list of `Ranked` for each of `dataset.questions`, best first; empty for a bank without traces.
    """
    return rank_flat_all([name], dataset, memory, depth)[name]


class _Vectors:
    """Unit vectors float64 [n, D] of texts, each distinct text encoded once; zero for blank or bad ones."""

    def __init__(self, memory: Memory) -> None:
        self._encode = memory.encode
        self._known: dict[str, Scores] = {}

    def __call__(self, texts: Sequence[str]) -> Scores:
        new = [text for text in dict.fromkeys(texts) if text not in self._known and text.strip()]
        if new:
            self._known.update(zip(new, _unit_rows(self._encode(new).astype(np.float64)), strict=True))
        width = next(iter(self._known.values())).shape[0] if self._known else 1
        zero = np.zeros(width)
        return np.array([self._known.get(text, zero) for text in texts]).reshape(len(texts), width)


def _in_session_order(traces: Sequence[Trace]) -> list[Trace]:
    """Sessions by first arrival, then turn, then arrival."""
    numbers: dict[str, int] = {}
    keys = [(numbers.setdefault(one.session, len(numbers)), one.turn or 0) for one in traces]
    return [traces[at] for at in sorted(range(len(keys)), key=lambda at: keys[at])]


def _unit_rows(rows: Scores) -> Scores:
    """Rows at length 1; rows that are zero or not finite become zero."""
    safe = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    norms = np.linalg.norm(safe, axis=1, keepdims=True)
    unit: Scores = safe / np.where(norms > 0, norms, 1.0)
    return unit


def _min_max(scores: Scores) -> Scores:
    """Each row scaled to 0 … 1; 0 where all are equal."""
    low = scores.min(axis=1, keepdims=True)
    span = scores.max(axis=1, keepdims=True) - low
    scaled: Scores = np.where(span > 0, (scores - low) / np.where(span > 0, span, 1.0), 0.0)
    return scaled
