"""The Zero-Mem interface: this engine and a naive one behind the same calls, the encoder left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.compat.naive_engine import KnownEntities, NaiveEngine, TimedEmbedder
from benchmarks.growth import exponent
from zeromem_gpu import Memory
from zeromem_gpu.compat.zero_mem import InMemoryVectorStore, Trace, ZeroMemEngine
from zeromem_gpu.evaluate.datasets import Conversation, Question

# what the public front end took, ../shared/peers.md: turns, seconds of ingest, milliseconds a query
PUBLIC = {5_882: (1.3, 166.0), 23_528: (45.0, 876.0), 58_820: (395.0, 2234.0)}
_CUTOFF = 5


def front_end_traces(conversation: Conversation) -> list[Trace]:
    """A conversation in the front end's shape; what was shared stands behind the text."""
    return [
        Trace(
            one.id, one.session, at, f"{one.text} [shares {one.caption}]" if one.caption else one.text,
            one.time, one.speaker,
        )
        for at, one in enumerate(conversation.traces)
    ]  # fmt: skip


def engine_of(memory: Memory) -> ZeroMemEngine:
    """An engine of the interface with the vectors and entities of `memory`."""
    return ZeroMemEngine(TimedEmbedder(memory), InMemoryVectorStore(), KnownEntities(memory))


def one_conversation(conversation: Conversation, memory: Memory, rounds: int) -> dict[str, Any]:
    """Queries a second in a batch, single calls, naive calls: turn by turn, profiles included."""
    traces = front_end_traces(conversation)
    ours, naive = engine_of(memory), NaiveEngine(memory)
    ours.ingest(traces)
    naive.ingest(traces)
    texts = [one.text for one in conversation.questions]
    vectors = memory.encode(texts)
    ours.retrieve_batch(texts)  # vectors of questions and their names are known from here on
    batch, single, other = [], [], []
    for _ in range(rounds):
        batch.append(_seconds(lambda: ours.retrieve_batch(texts)) / len(texts))
        single += [_seconds(lambda text=text: ours.retrieve(text)) for text in texts]
        other += [
            _seconds(lambda text=text, vector=vector: naive.retrieve(text, vector))
            for text, vector in zip(texts, vectors, strict=True)
        ]
    return {
        "turns": len(traces), "questions": len(texts), "rounds": rounds,
        "batch_ms": 1e3 * float(np.median(batch)), "single": _spread(single), "naive": _spread(other),
        "times": float(np.mean(other) / np.median(batch)),
    }  # fmt: skip


def recall(conversations: Sequence[Conversation], memory: Memory) -> dict[str, Any]:
    """Recall of the first five, ours and naive, over all scored questions."""
    found: dict[str, list[float]] = {"zeromem-gpu": [], "naive": []}
    for conversation in conversations:
        traces = front_end_traces(conversation)
        ours, naive = engine_of(memory), NaiveEngine(memory)
        ours.ingest(traces)
        naive.ingest(traces)
        asked = [one for one in conversation.questions if one.scored]
        vectors = memory.encode([one.text for one in asked])
        for question, (evidence, _), vector in zip(
            asked, ours.retrieve_batch([one.text for one in asked]), vectors, strict=True
        ):
            found["zeromem-gpu"].append(_share(question, [one.trace.id for one in evidence]))
            found["naive"].append(_share(question, naive.retrieve(question.text, vector)))
    scored = len(found["naive"])
    return {"questions": scored, **{name: 100 * float(np.mean(x)) for name, x in found.items()}}


def one_store(
    conversations: Sequence[Conversation], memory: Memory, copies: Sequence[int], batch: int, naive: int
) -> dict[str, Any]:
    """All conversations as one store, copied so often: ingest, batch and single calls, the naive one."""
    traces = [
        replace(one, id=f"{conversation.id}/{one.id}", session_id=f"{conversation.id}/{one.session_id}")
        for conversation in conversations
        for one in front_end_traces(conversation)
    ]
    questions = [one.text for conversation in conversations for one in conversation.questions]
    places = np.random.default_rng(0).permutation(len(questions))[:batch]
    texts = [questions[int(at)] for at in places]
    ours = engine_of(memory)
    rows: list[dict[str, Any]] = []
    spent, at = 0.0, 0
    for count in copies:
        before = ours.embedder.seconds  # type: ignore[attr-defined]
        begin = time.perf_counter()
        while at < count:
            ours.ingest(
                [replace(one, id=f"{at}/{one.id}", session_id=f"{at}/{one.session_id}") for one in traces]
            )
            at += 1
        spent += time.perf_counter() - begin - (ours.embedder.seconds - before)  # type: ignore[attr-defined]
        first = _seconds(lambda: ours.retrieve_batch(texts))
        several = [_seconds(lambda: ours.retrieve_batch(texts)) / len(texts) for _ in range(3)]
        alone = [_seconds(lambda text=text: ours.retrieve(text)) for text in texts[:20]]
        rows.append(
            {
                "turns": len(ours.traces), "ingest_s": spent, "first_search_s": first,
                "batch_ms": 1e3 * float(np.median(several)), "batch": len(texts), "single": _spread(alone),
            }
        )  # fmt: skip
    told = {"rows": rows, "exponent": exponent([(row["turns"], row["ingest_s"]) for row in rows])}
    if naive:
        told |= _naive_store(ours, memory, texts[:naive], rows[-1]["batch_ms"])
    return told


def _naive_store(
    ours: ZeroMemEngine, memory: Memory, texts: Sequence[str], batch_ms: float
) -> dict[str, Any]:
    other = NaiveEngine(memory)
    other.ingest(list(ours.traces.values()))
    vectors = memory.encode(list(texts))
    times = [
        _seconds(lambda text=text, vector=vector: other.retrieve(text, vector))
        for text, vector in zip(texts, vectors, strict=True)
    ]
    return {"naive": _spread(times), "times": 1e3 * float(np.median(times)) / batch_ms}


def _share(question: Question, ids: Sequence[str]) -> float:
    return len(set(question.gold) & set(ids[:_CUTOFF])) / len(set(question.gold))


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    ms = 1e3 * np.array(seconds)
    p50, p99 = np.percentile(ms, [50, 99])
    return {"mean_ms": float(ms.mean()), "p50_ms": float(p50), "p99_ms": float(p99), "calls": len(ms)}
