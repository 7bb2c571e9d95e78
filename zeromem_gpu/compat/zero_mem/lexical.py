"""BM25 over documents of the caller's, on the engine's kernels: weights made once, many queries at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from zeromem_gpu import Analyzer, InvalidInput
from zeromem_gpu.compat.columns import tiles_for
from zeromem_kernels.layout import pointer
from zeromem_kernels.lexical import Ragged, bm25
from zeromem_kernels.tiles import Csr
from zeromem_kernels.topk import ordered_topk
from zeromem_kernels.weights import weigh_collection

# queries whose scores of all documents are held at once
_AT_ONCE = 256


@dataclass(frozen=True)
class _Built:
    """Postings of one state of the collection: `ids` by row, `frequency` documents by term."""

    ids: list[str]
    rows: dict[str, int]
    postings: Csr
    frequency: np.ndarray
    average: float


class BM25Index:
    """Documents by id; adding an id again replaces its text. Words are stemmed, of any script.

    Changes cost what the changed text costs; the first search after them weighs all documents anew, in
    array operations.
    """

    def __init__(self, k1: float = 1.5, b: float = 0.75) -> None:
        if not k1 >= 0 or not 0 <= b <= 1:
            raise InvalidInput("k1, b", f"{k1}, {b}", "k1 from 0, b from 0 to 1")
        self.k1, self.b = k1, b
        self._analyzer = Analyzer("english")
        self._terms: dict[str, int] = {}
        self._documents: dict[str, Counter[int]] = {}
        self._made: _Built | None = None

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self._documents)

    def add(self, doc_id: str, text: str) -> None:
        """Add or replace a document."""
        self._documents[doc_id] = Counter(
            self._terms.setdefault(word, len(self._terms)) for word in self._words(text)
        )
        self._made = None

    def remove(self, doc_id: str) -> None:
        """Forget a document; an id that is not there changes nothing."""
        if self._documents.pop(doc_id, None) is not None:
            self._made = None

    def score(self, query: str, doc_id: str) -> float:
        """BM25 of one document, 0 for an id that is not there."""
        counts = self._documents.get(doc_id)
        if counts is None:
            return 0.0
        built = self._built()
        norm = self.k1 * (1 - self.b + self.b * sum(counts.values()) / built.average)
        total = 0.0
        for term in self._known(query):
            if found := counts.get(term, 0):
                rest = len(self._documents) - float(built.frequency[term]) + 0.5
                idf = math.log1p(rest / (float(built.frequency[term]) + 0.5))
                total += idf * found * (self.k1 + 1) / (found + norm)
        return total

    def search(
        self, query: str, limit: int, candidate_ids: Collection[str] | None = None
    ) -> list[tuple[str, float]]:
        """The best documents that share a word with the query, of the candidates or all; ties as added."""
        return self.search_batch([query], limit, candidate_ids)[0]

    def search_batch(
        self, queries: Sequence[str], limit: int, candidate_ids: Collection[str] | None = None
    ) -> list[list[tuple[str, float]]]:
        """`search` for many queries at once."""
        for name, given in (("queries", queries), ("candidate_ids", candidate_ids)):
            if isinstance(given, str):
                raise InvalidInput(name, repr(given)[:40], "a list, of one where there is one")
        if not self._documents or limit < 1:
            return [[] for _ in queries]
        built = self._built()
        hidden = None
        if candidate_ids is not None:
            hidden = torch.ones(len(built.ids), dtype=torch.bool)
            hidden[[built.rows[one] for one in set(candidate_ids) if one in built.rows]] = False
        found: list[list[tuple[str, float]]] = []
        for first in range(0, len(queries), _AT_ONCE):
            found += self._best(built, queries[first : first + _AT_ONCE], limit, hidden)
        return found

    def _best(
        self, built: _Built, queries: Sequence[str], limit: int, hidden: torch.Tensor | None
    ) -> list[list[tuple[str, float]]]:
        tiles = tiles_for(len(queries))
        axis = tiles.axis(torch.tensor([0, len(built.ids)]))
        known = [self._known(query) for query in queries]
        sizes = [len(terms) for terms in known] + [0] * (len(tiles) * tiles.width - len(queries))
        ptr = torch.tensor([0, *np.cumsum(sizes)], dtype=torch.int64)
        values = torch.tensor([term for terms in known for term in terms], dtype=torch.int32)
        scores = bm25(built.postings, torch.tensor([0, len(built.frequency)]), Ragged(ptr, values), axis)
        scores = scores.masked_fill(scores <= 0, -torch.inf)
        if hidden is not None:
            scores = scores.masked_fill(hidden.repeat(len(tiles))[:, None], -torch.inf)
        top = ordered_topk(scores, axis, min(limit, len(built.ids)))
        best = [part.transpose(1, 2).reshape(-1, part.shape[1]).tolist() for part in (top.rows, top.scores)]
        return [
            [(built.ids[row], score) for row, score in zip(rows, values, strict=True) if row >= 0]
            for rows, values in zip(*best, strict=True)
        ][: len(queries)]

    def _words(self, text: str) -> list[str]:
        return [stem for stem in self._analyzer.stems(self._analyzer.tokens(text)) if stem]

    def _known(self, query: str) -> list[int]:
        return [self._terms[word] for word in self._words(query) if word in self._terms]

    def _built(self) -> _Built:
        if self._made is None:
            self._made = self._build()
        return self._made

    def _build(self) -> _Built:
        """Postings by term, documents in their order inside each."""
        documents = list(self._documents.values())
        lengths = np.array([sum(counts.values()) for counts in documents], np.int64)
        row = np.repeat(np.arange(len(documents)), [len(counts) for counts in documents])
        term = np.array([one for counts in documents for one in counts], np.int64)
        tf = np.array([one for counts in documents for one in counts.values()], np.int64)
        order = np.lexsort((row, term))
        row, term, tf = row[order], term[order], tf[order]
        frequency = np.bincount(term, minlength=len(self._terms))
        postings = weigh_collection(
            torch.from_numpy(pointer(frequency)), torch.from_numpy(row.astype(np.int32)),
            torch.from_numpy(tf.astype(np.int32)), torch.from_numpy(lengths), self.k1, self.b,
        )  # fmt: skip
        ids = list(self._documents)
        average = max(float(lengths.mean()), 1.0)
        return _Built(ids, {name: at for at, name in enumerate(ids)}, postings, frequency, average)
