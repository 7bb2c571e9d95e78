"""A plain front end written to the description of the public one, faults included, and a program on it.

It stands for what people have: `application` uses nothing but names and shapes that the description gives.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from types import ModuleType
from typing import Any

import numpy as np


@dataclass
class Trace:
    id: str
    session_id: str
    turn_index: int
    text: str
    created_at: datetime | None = None
    speaker: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class QueryProfile:
    query: str
    subjects: list[str]
    keywords: list[str]
    answer_type: str
    temporal_cues: list[str]
    session_id: str | None
    route: str


@dataclass
class Evidence:
    trace: Trace
    score: float
    sources: list[str]
    reasons: list[str]


class HashEmbedder:
    def __init__(self, dim: int = 384) -> None:
        self.dim = dim

    def encode(self, texts):
        rows = np.zeros((len(texts), self.dim))
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                rows[row, sum(map(ord, word)) * 7919 % self.dim] += 1
        return rows


class RegexEntityExtractor:
    def extract(self, text: str) -> list[str]:
        return re.findall(r"[A-Z]\w+", text)


class InMemoryVectorStore:
    def __init__(self) -> None:
        self.rows: list[tuple[str, np.ndarray, dict]] = []

    def upsert(self, ids, vectors, payloads) -> None:
        self.rows += zip(ids, vectors, payloads, strict=True)

    def search(self, vector, limit=20, session_id=None):
        scored = [(name, float(np.dot(row, vector)), payload) for name, row, payload in self.rows]
        best = sorted(scored, key=lambda one: -one[1])[:limit]
        return [one for one in best if not session_id or one[2]["session_id"] == session_id]


class ZeroMemEngine:
    def __init__(self, embedder, vector_store, entity_extractor, rho=0.6, gamma=0.6, top_k=5) -> None:
        self.embedder, self.vector_store = embedder, vector_store
        self.entity_extractor = entity_extractor
        self.top_k, self.traces, self.order = top_k, {}, []

    def ingest(self, traces) -> None:
        vectors = self.embedder.encode([one.text for one in traces])
        payloads = [
            {
                "session_id": one.session_id, "turn_index": one.turn_index,
                "created_at": one.created_at and one.created_at.isoformat(), "speaker": one.speaker,
            }
            for one in traces
        ]  # fmt: skip
        self.vector_store.upsert([one.id for one in traces], vectors, payloads)
        for one in traces:
            self.traces[one.id] = one
            self.order.append(one.id)

    def retrieve(self, query, session_id=None):
        (vector,) = self.embedder.encode([query])
        found = self.vector_store.search(vector, self.top_k, session_id)
        ranking = [(name, score) for name, score, _ in found]
        words = Counter(re.findall(r"\w+", query.lower()))
        profile = QueryProfile(
            query, self.entity_extractor.extract(query), list(words), "text", [], session_id, "local"
        )
        ids = [name for name, _ in ranking]
        debug = {
            "profile": profile, "graph_ranking": ranking[:10], "hierarchy_ranking": ranking[:10],
            "main_trace_ids": ids, "closed_trace_ids": ids,
        }  # fmt: skip
        return [Evidence(self.traces[name], score, ["dense"], []) for name, score in ranking], debug


def application(zeromem: ModuleType) -> dict[str, Any]:
    """What a program on the front end does; its answer holds nothing but shapes and facts."""
    engine = zeromem.ZeroMemEngine(
        zeromem.HashEmbedder(dim=64), zeromem.InMemoryVectorStore(), zeromem.RegexEntityExtractor(),
        rho=0.6, gamma=0.6, top_k=2,
    )  # fmt: skip
    said = [
        ("a", "one", 0, "I adopted a terrier called Biscuit.", datetime(2024, 2, 1, 10), "Ines"),
        ("b", "one", 1, "Biscuit eats socks.", datetime(2024, 2, 1, 10, 5), "Owen"),
        ("c", "two", 0, "We meet at the lock at six.", None, None),
    ]
    engine.ingest([zeromem.Trace(*one, {"app": object()}) for one in said])
    evidence, debug = engine.retrieve("What does Biscuit eat? socks?", session_id="one")
    vector = engine.embedder.encode(["socks"])[0]
    stored = engine.vector_store.search(vector, limit=1, session_id="one")
    return {
        "best": evidence[0].trace.id,
        "same_object": evidence[0].trace is engine.traces["b"],
        "evidence_fields": sorted(vars(evidence[0]).keys()),
        "evidence_types": [type(evidence[0].sources).__name__, type(evidence[0].reasons).__name__],
        "at_most": len(evidence) <= 2 + 3,
        "sessions": {one.trace.session_id for one in evidence},
        "debug_keys": sorted(debug),
        "ranking": {(type(name), type(score)) for name, score in debug["graph_ranking"]},
        "listed": all(len(debug[key]) <= 10 for key in ("graph_ranking", "hierarchy_ranking")),
        "main_in_closed": set(debug["main_trace_ids"]) <= set(debug["closed_trace_ids"]),
        "profile": (debug["profile"].query, debug["profile"].session_id),
        "subject": "Biscuit" in debug["profile"].subjects,
        "stored": [(name, sorted(payload)) for name, _, payload in stored],
        "created_at": stored[0][2]["created_at"],
    }  # fmt: skip
