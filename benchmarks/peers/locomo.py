"""Whole retrieval on LoCoMo: recall and latency of the engine, flat rankings, and a naive implementation.

All read the same vectors. Profiles, vectors and the words of texts are made before; what is timed is
ranking, except for the row that says "with profiling".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibration import Calibration
from benchmarks.machine import installed
from benchmarks.peers.naive import NaiveBank, Turn
from benchmarks.peers.rows import OURS, Comparison, Entry, timed
from benchmarks.workloads import prepared
from zeromem_gpu import Config, Memory
from zeromem_gpu.evaluate.datasets import Dataset, Question
from zeromem_gpu.evaluate.flat import FLAT, FlatBank, flat_banks
from zeromem_gpu.retrieve.engine import retrieve
from zeromem_gpu.text.normalize import entity_name
from zeromem_gpu.text.sentences import split_sentences
from zeromem_gpu.text.tokens import Analyzer

CUTOFFS, DEPTH = (5, 10), 10
# of FlatBank: what stands before a question comes
_BEFORE = (
    "questions", "traces", "_texts", "_words", "_vectors", "_session", "documents", "_query_vectors",
    "_trace_vectors", "_asked", "_documents", "_lengths", "_frequencies",
)  # fmt: skip
_FLAT = {
    "bm25": lambda bank: bank.bm25,
    "dense": lambda bank: bank.dense,
    "hybrid": FlatBank.hybrid,
    "strong": FlatBank.strong,
}


def compare_locomo(
    dataset: Dataset, memory: Memory, naive: int, threads: int, rounds: int, calibration: Calibration
) -> Comparison:
    """All systems on all questions; the naive implementation on a seeded sample of `naive` of them."""
    memory.add(dataset.traces)
    memory.prepare()
    questions = dataset.questions
    sample = np.sort(np.random.default_rng(0).permutation(len(questions))[:naive])
    entries = _ours(memory, questions, sample, threads)
    entries += _flat(dataset, memory, questions, sample, threads)
    left_out: dict[str, str] = {}
    if installed("networkx"):
        entries.append(_naive(dataset, memory, questions, sample))
    else:
        left_out["naive networkx"] = "not installed"
    about = {
        "workload": "locomo-10", "stand_in": False, "questions": len(questions),
        "traces": len(dataset.traces),
        "encoder": memory._toolbox.tools().encoder.name, "sample": len(sample),
    }  # fmt: skip
    note = (
        "Recall on the sample is that of the naive row's questions. Its sessions are its episodes, so that "
        "its answers are near ours and not the same."
    )
    return Comparison("LoCoMo, whole retrieval", about, timed(entries, rounds, calibration), left_out, note)


def _ours(memory: Memory, questions: Sequence[Question], sample: np.ndarray, threads: int) -> list[Entry]:
    texts, banks = [one.text for one in questions], [one.bank for one in questions]
    ready = prepared(memory, texts, banks)
    # ten primary units and nothing else: the flat rankings have no closure either
    config = memory.config.replace(top_k=DEPTH, closure=False, calibrate=False)
    found = [[one.trace.id for one in result] for result in memory.search(texts, bank=banks, config=config)]
    more = _recall(questions, found, sample)
    alone = prepared(memory, texts[:1], banks[:1])
    count = len(questions)
    return [
        Entry(
            f"{OURS}, batch",
            lambda: retrieve(ready.stack, ready.bank_of, ready.batch, None, config),
            count, threads, "", more,
        ),
        Entry(
            f"{OURS}, batch, with profiling",
            lambda: memory.search(texts, bank=banks, config=config), count, threads, "", more,
        ),
        Entry(
            f"{OURS}, one question",
            lambda: retrieve(alone.stack, alone.bank_of, alone.batch, None, config), 1, threads, "", more,
        ),
    ]  # fmt: skip


def _flat(
    dataset: Dataset, memory: Memory, questions: Sequence[Question], sample: np.ndarray, threads: int
) -> list[Entry]:
    banks = list(flat_banks(dataset, memory))
    for bank in banks:  # everything that stands before the questions' scores
        bank.strong()
    entries = []
    for name in FLAT:

        def call(name: str = name) -> list[list[str]]:
            rows = []
            for bank in banks:
                for made in set(bank.__dict__) - set(_BEFORE):
                    del bank.__dict__[made]
                rows += bank.rank(_FLAT[name](bank), DEPTH, name)
            return [[one.id for one in row] for row in rows]

        more = _recall(questions, call(), sample)
        entries.append(Entry(f"flat {name}, NumPy, batch", call, len(questions), threads, "", more))
    return entries


def _naive(dataset: Dataset, memory: Memory, questions: Sequence[Question], sample: np.ndarray) -> Entry:
    config, analyzer = memory.config, Analyzer("english")
    banks = {
        one.id: naive_bank(memory, list(one.traces), analyzer, config) for one in dataset.conversations
    }
    asked = [questions[int(at)] for at in sample]
    index = memory._index
    profiles = memory._searcher.profiles(
        index, [one.text for one in asked], [one.bank for one in asked], config
    )
    vectors = memory.encode([one.text for one in asked])
    words = [stems_of(analyzer, one.text) for one in asked]

    def call() -> list[list[str]]:
        return [
            banks[one.bank].search(profile, said, vector, DEPTH)
            for one, profile, said, vector in zip(asked, profiles, words, vectors, strict=True)
        ]

    found = call()
    scored = _recall(asked, found, np.arange(len(asked)))
    more = {f"R@{k} sample": scored[f"R@{k}"] for k in CUTOFFS}
    return Entry("naive: networkx and dictionaries, one query", call, len(asked), 1, "", more)


def naive_bank(memory: Memory, traces: list[Any], analyzer: Analyzer, config: Config) -> NaiveBank:
    """The naive bank of some traces, read by the memory's models."""
    from zeromem_gpu.evaluate.flat_text import flat_text

    bodies = [f"{trace.text} {trace.caption or ''}".strip() for trace in traces]
    extractor = memory._toolbox.tools().extractor
    mentions = extractor.extract(bodies)
    vectors = memory.encode([flat_text(trace) for trace in traces])
    spans = [[body[start:end] for start, end in split_sentences(body)] for body in bodies]
    flat = memory.encode([one for own in spans for one in own])
    turns, at = [], 0
    for trace, body, found, vector, own in zip(traces, bodies, mentions, vectors, spans, strict=True):
        kept = [one for one in found if one.label not in config.drop_labels]
        spoken = [entity_name(trace.speaker)] if trace.speaker else []
        names = Counter([*(one.name for one in kept), *spoken])
        sentences = [
            (flat[at + place], [name for name in names if name in entity_name(text)])
            for place, text in enumerate(own)
        ]
        at += len(own)
        words, said = stems_of(analyzer, body), " ".join(analyzer.tokens(body))
        turns.append(
            Turn(trace.id, trace.session, trace.speaker or "", words, said, vector, names, sentences)
        )
    every = list(dict.fromkeys(name for turn in turns for name in turn.entities))
    return NaiveBank(turns, dict(zip(every, memory.encode(every), strict=True)), config)


def stems_of(analyzer: Analyzer, text: str) -> list[str]:
    """The words of a text that count, stemmed."""
    return [stem for stem in analyzer.stems(analyzer.tokens(text)) if stem]


def _recall(
    questions: Sequence[Question], found: Sequence[Sequence[str]], sample: np.ndarray
) -> dict[str, float]:
    """Recall in percent over the scored questions, and over those of the sample."""
    rows = {k: np.full(len(questions), np.nan) for k in CUTOFFS}
    for at, (question, ids) in enumerate(zip(questions, found, strict=True)):
        if question.scored:
            for k in CUTOFFS:
                rows[k][at] = len(set(question.gold) & set(ids[:k])) / len(set(question.gold))
    whole = {f"R@{k}": round(100 * float(np.nanmean(rows[k])), 1) for k in CUTOFFS}
    return whole | {f"R@{k} sample": round(100 * float(np.nanmean(rows[k][sample])), 1) for k in CUTOFFS}


def open_memory(encoder: str, cache: Path | None) -> Memory:
    """A memory with the named encoder; "hash" needs no model."""
    from benchmarks.workloads import hash_memory

    return hash_memory() if encoder == "hash" else Memory(encoder=encoder, device="cpu", cache_dir=cache)
