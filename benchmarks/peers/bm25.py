"""BM25, the ten best of every query, from words that were read before, in a batch where a system takes one.

k1 = 1.2, b = 0.75 for all, since tantivy's are fixed. Scores are held against a float64 sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.calibration import Calibration
from benchmarks.facts import WrongResult
from benchmarks.machine import installed
from benchmarks.peers.rows import OURS, Comparison, Entry, timed
from benchmarks.workloads import Workload
from zeromem_gpu.build.lexical import build_segment
from zeromem_gpu.text.tokens import Analyzer
from zeromem_kernels.lexical import Ragged, bm25_topk, lookup, slot_banks
from zeromem_kernels.tiles import Tiles
from zeromem_kernels.topk import TopK
from zeromem_kernels.weights import weigh_collection

K1, B, KEPT, WIDTH = 1.2, 0.75, 10, 32
# what these do in Python a query, batch or not
_FEW = 40
_NOTE = (
    "Ours is bm25_topk, which keeps one query's scores at a time, as peers do. The views need every "
    "document's score and call bm25, which writes 32 queries side by side."
)
# documents up to which rank-bm25 is timed: it looks at all of them for every word
_RANK_BM25 = 50_000


@dataclass(frozen=True)
class Corpus:
    """Documents and queries as numbers of words, int64, from 1."""

    name: str
    documents: Sequence[np.ndarray]
    queries: Sequence[np.ndarray]
    about: dict[str, Any]


def locomo_corpus(workload: Workload) -> Corpus:
    """All turns as one collection, stemmed as the engine does, and all questions."""
    analyzer = Analyzer("english")
    number: dict[str, int] = {}

    def read(text: str) -> np.ndarray:
        stems = filter(None, analyzer.stems(analyzer.tokens(text)))
        return np.array([number.setdefault(stem, len(number) + 1) for stem in stems], np.int64)

    documents = [read(trace.text) for trace in workload.traces]
    return Corpus(workload.name, documents, [read(text) for text in workload.questions], workload.about)


def zipf_corpus(documents: int, queries: int, seed: int = 3) -> Corpus:
    """Documents of 8 to 24 words drawn by a Zipf law of exponent 1 from 200,000 words."""
    rng = np.random.default_rng([seed, documents])
    up_to = np.cumsum(1.0 / (np.arange(200_000) + 8.0))
    up_to /= up_to[-1]

    def draw(count: int, low: int, high: int) -> list[np.ndarray]:
        sizes = rng.integers(low, high, count)
        words = np.searchsorted(up_to, rng.random(int(sizes.sum()))) + 1
        return np.split(words.astype(np.int64), np.cumsum(sizes)[:-1])

    name = f"zipf-{documents // 1000}k"
    found, asked = draw(documents, 8, 25), draw(queries, 3, 8)
    return Corpus(name, found, asked, {"workload": name, "stand_in": True})


class Ours:
    """The engine's kernels on one bank: look up, sum eager weights, keep the ten best."""

    def __init__(self, corpus: Corpus) -> None:
        count = len(corpus.documents)
        lengths = [len(one) for one in corpus.documents]
        unit = np.repeat(np.arange(count), lengths)
        words = np.concatenate(corpus.documents)
        segment = build_segment(words, words, unit, 0, count)
        self._postings = weigh_collection(
            torch.from_numpy(segment.indptr), torch.from_numpy(segment.units),
            torch.from_numpy(segment.counts), torch.tensor(lengths), K1, B,
        )  # fmt: skip
        self._terms = torch.from_numpy(segment.terms)
        self._term_ptr = torch.tensor([0, len(segment.terms)])
        self._ptr = torch.tensor([0, count])

    def top(self, queries: Sequence[np.ndarray]) -> TopK:
        """The ten best of each query: [T, 10, width], a query a column."""
        tiles = Tiles(torch.zeros(-(-len(queries) // WIDTH), dtype=torch.int64), WIDTH)
        lengths = np.zeros(len(tiles) * WIDTH, np.int64)
        lengths[: len(queries)] = [len(one) for one in queries]
        ptr = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
        keys = torch.from_numpy(np.concatenate(queries))
        terms = Ragged(ptr, lookup(slot_banks(ptr, tiles), keys, self._term_ptr, self._terms))
        axis = tiles.axis(self._ptr)
        return bm25_topk(self._postings, self._term_ptr, terms, axis, KEPT)

    def scores(self, queries: Sequence[np.ndarray]) -> np.ndarray:
        """The ten best scores of each query [Q, 10], 0 where nothing matches."""
        found = self.top(queries).scores.permute(0, 2, 1).reshape(-1, KEPT)[: len(queries)].numpy()
        return np.where(np.isfinite(found), found, 0.0)


def compare_bm25(corpus: Corpus, threads: int, rounds: int, calibration: Calibration) -> Comparison:
    """All systems on one collection."""
    ours = Ours(corpus)
    # large collections go in slices of the batch, so that the dense scores stay small
    step = max(WIDTH, min(len(corpus.queries), (1 << 26) // max(len(corpus.documents), 1) // WIDTH * WIDTH))
    parts = [corpus.queries[at : at + step] for at in range(0, len(corpus.queries), step)]
    few = corpus.queries[:_FEW]
    expected = _exact(corpus, few)
    check = _agreement("our BM25", ours.scores(few), expected)
    entries = [
        Entry(
            f"{OURS}, batch",
            lambda: [ours.top(part) for part in parts],
            len(corpus.queries),
            threads,
            check,
        )
    ]
    left_out: dict[str, str] = {}
    if installed("bm25s"):
        entries += _bm25s(corpus, expected, threads)
    else:
        left_out["bm25s"] = "not installed"
    if installed("tantivy"):
        entries.append(_tantivy(corpus, expected, threads))
    else:
        left_out["tantivy"] = "not installed"
    if not installed("rank_bm25"):
        left_out["rank-bm25"] = "not installed"
    elif len(corpus.documents) > _RANK_BM25:
        left_out["rank-bm25"] = f"only up to {_RANK_BM25:,} documents"
    else:
        entries.append(_rank_bm25(corpus))
    about = {**corpus.about, "documents": len(corpus.documents), "queries": len(corpus.queries)}
    return Comparison(f"BM25 {corpus.name}", about, timed(entries, rounds, calibration), left_out, _NOTE)


def _bm25s(corpus: Corpus, expected: np.ndarray, threads: int) -> list[Entry]:
    import bm25s

    words = [[str(word) for word in one] for one in corpus.documents]
    asked = [[str(word) for word in one] for one in corpus.queries]
    entries = []
    for backend in ("numba", "numpy"):
        if backend == "numpy" and len(words) > _RANK_BM25:
            continue
        model = bm25s.BM25(k1=K1, b=B, method="lucene", backend=backend)
        model.index(words, show_progress=False)
        several = asked if backend == "numba" else asked[:_FEW]

        def call(model: Any = model, several: Any = several, backend: str = backend) -> Any:
            workers = threads if backend == "numba" else 0
            return model.retrieve(several, k=KEPT, show_progress=False, n_threads=workers)

        scores = np.asarray(call().scores[:_FEW]) * (K1 + 1)
        check = _agreement(f"bm25s {backend}", scores, expected)
        used = threads if backend == "numba" else 1
        entries.append(Entry(f"bm25s, {backend}, batch", call, len(several), used, check))
    return entries


def _tantivy(corpus: Corpus, expected: np.ndarray, threads: int) -> Entry:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name="whitespace", index_option="freq")
    schema = builder.build()
    index = tantivy.Index(schema)
    writer = index.writer(200_000_000, 1)
    for one in corpus.documents:
        writer.add_document(tantivy.Document(text=" ".join(map(str, one))))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    should = tantivy.Occur.Should
    parsed = [
        tantivy.Query.boolean_query(
            [(should, tantivy.Query.term_query(schema, "text", str(word), "freq")) for word in one]
        )
        for one in corpus.queries
    ]
    pool = ThreadPoolExecutor(threads)

    def run(some: Sequence[Any]) -> list[Any]:
        return [searcher.search(query, limit=KEPT, count=False).hits for query in some]

    def call() -> list[Any]:
        return list(pool.map(run, [parsed[at::threads] for at in range(threads)]))

    # its field lengths are rounded to a byte, so that its scores are only near
    near = [[hit[0] for hit in hits] for hits in run(parsed[:_FEW])]
    first = np.array([scores[0] if scores else 0.0 for scores in near])
    off = float(np.median(np.abs(first / np.maximum(expected[:, 0], 1e-9) - 1)))
    if off > 0.15:
        raise WrongResult(f"tantivy: its best scores are {100 * off:.0f} % off, so that it does other work")
    return Entry(
        "tantivy, parsed before", call, len(parsed), threads, f"best score within {100 * off:.1f} %"
    )


def _rank_bm25(corpus: Corpus) -> Entry:
    from rank_bm25 import BM25Okapi

    model = BM25Okapi([[str(word) for word in one] for one in corpus.documents], k1=K1, b=B)
    asked = [[str(word) for word in one] for one in corpus.queries[:_FEW]]

    def call() -> list[Any]:
        return [np.argpartition(-model.get_scores(one), KEPT)[:KEPT] for one in asked]

    return Entry("rank-bm25", call, len(asked), 1, "another idf")


def _exact(corpus: Corpus, queries: Sequence[np.ndarray]) -> np.ndarray:
    """The ten best scores of some queries in float64, [Q, 10]."""
    lengths = np.array([len(one) for one in corpus.documents], np.float64)
    norm = K1 * (1 - B + B * lengths / lengths.mean())
    words = np.concatenate(corpus.documents)
    unit = np.repeat(np.arange(len(lengths)), lengths.astype(np.int64))
    order = np.argsort(words, kind="stable")
    words, unit = words[order], unit[order]
    best = np.zeros((len(queries), KEPT))
    for row, query in enumerate(queries):
        scores = np.zeros(len(lengths))
        for word in query:
            low, high = np.searchsorted(words, [word, word + 1])
            tf = np.bincount(unit[low:high], minlength=len(lengths))
            found = int((tf > 0).sum())
            idf = np.log1p((len(lengths) - found + 0.5) / (found + 0.5))
            scores += idf * tf * (K1 + 1) / (tf + norm)
        best[row] = np.sort(scores)[::-1][:KEPT]
    return best


def _agreement(name: str, scores: np.ndarray, expected: np.ndarray) -> str:
    off = float(np.abs(scores - expected).max() / max(expected.max(), 1e-9))
    if off > 1e-4:
        raise WrongResult(f"{name}: scores differ by {off:.2g} of the largest; not timed")
    return f"scores within {max(off, 1e-9):.0e}"
