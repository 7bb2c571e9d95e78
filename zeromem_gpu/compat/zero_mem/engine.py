"""ZeroMemEngine: the front end's engine, one `Memory` underneath."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from zeromem_gpu import Boundary, Config, InvalidInput, Memory, SearchResult
from zeromem_gpu.compat.zero_mem.calibrator import EvidenceCalibrator
from zeromem_gpu.compat.zero_mem.extractors import SpacyEntityExtractor
from zeromem_gpu.compat.zero_mem.graph import EntityContextGraph
from zeromem_gpu.compat.zero_mem.lexical import BM25Index
from zeromem_gpu.compat.zero_mem.protocols import (
    Embedder,
    EmbedderEncoder,
    EntityExtractor,
    ExtractorMentions,
    VectorStore,
)
from zeromem_gpu.compat.zero_mem.records import (
    Evidence,
    QueryProfile,
    Trace,
    check_session,
    native_trace,
    told_profile,
)

_BANK = "default"
# what closure may add to the primary traces
_SUPPORT = 3


class ZeroMemEngine:
    """Ingests traces and retrieves evidence for one question or thousands.

    Args:
        embedder: encodes texts, names and questions.
        vector_store: every ingested trace is written through to it; searches read the engine's own index.
        entity_extractor: finds the entities of texts.
        rho: weight of the view that the question's route puts first.
        gamma: damping of PageRank.
        top_k: primary units of a question, as many traces where these are short; closure adds up to three.
        device: where to search, as for `Memory`.

    Questions are read with spaCy's small English pipeline (`pip install 'zeromem-gpu[offline]'`).
    Threads may retrieve while one ingests; ingests wait for each other.
    """

    def __init__(
        self, embedder: Embedder, vector_store: VectorStore, entity_extractor: EntityExtractor,
        rho: float = 0.6, gamma: float = 0.6, top_k: int = 5, *, device: str | None = None,
    ) -> None:  # fmt: skip
        self.embedder, self.vector_store, self.entity_extractor = embedder, vector_store, entity_extractor
        self.config = Config(rho=rho, gamma=gamma, top_k=top_k)
        self._memory = Memory(
            self.config, encoder=EmbedderEncoder(embedder), device=device, cache_dir=False,
            extractor=_native_extractor(entity_extractor),
        )  # fmt: skip
        self.traces: dict[str, Trace] = {}
        self._writing = threading.RLock()
        self.calibrator = EvidenceCalibrator()
        self.router, self.hierarchy = Router(self), HierarchyView(self)
        self._graph: EntityContextGraph | None = None
        self._lexical: BM25Index | None = None

    def ingest(self, traces: Sequence[Trace]) -> None:
        """Add traces, or replace those whose id is there; the same again changes nothing.

        All are checked before the first is stored. The store is written last: where it fails, ingesting the
        same traces again repairs it.
        """
        if isinstance(traces, Trace):
            raise InvalidInput("traces", "one Trace", "a list of them")
        given = list(traces)
        if not given:
            return
        native = [native_trace(trace, place) for place, trace in enumerate(given)]
        latest = {trace.id: trace for trace in given}
        kept = list(latest.values())
        with self._writing:
            self._memory.add(native)
            self.traces |= latest
            vectors = self._memory.vectors(list(latest), bank=_BANK)
            for trace, vector in zip(kept, vectors, strict=True):
                if self._graph is not None:
                    self._graph.add_trace(trace, vector)
                if self._lexical is not None:
                    self._lexical.add(trace.id, trace.text)
            self.vector_store.upsert(list(latest), vectors, [_payload(trace) for trace in kept])

    def retrieve(self, query: str, session_id: str | None = None) -> tuple[list[Evidence], dict[str, Any]]:
        """Evidence for a question, the best first, at most `top_k` + 3, and how it came about.

        Args:
            query: the question; a blank one is an `InvalidInput`.
            session_id: only this session, filtered before anything is ranked; None searches all. A session
                that is not there has no evidence, and "" is an `InvalidInput`.

        Returns:
            Evidence and a dictionary: `profile`, `graph_ranking` and `hierarchy_ranking` (at most ten
            (trace id, score) each), `main_trace_ids` and `closed_trace_ids`.
        """
        return self.retrieve_batch([query], [session_id])[0]

    def retrieve_batch(
        self, queries: Sequence[str], session_ids: str | Sequence[str | None] | None = None
    ) -> list[tuple[list[Evidence], dict[str, Any]]]:
        """`retrieve` for many questions in one batch, with one session for all or one for each."""
        if isinstance(queries, str):
            raise InvalidInput("queries", repr(queries)[:40], "a sequence of questions")
        if session_ids is None or isinstance(session_ids, str):
            sessions: list[str | None] = [session_ids] * len(queries)
        else:
            sessions = list(session_ids)
        return [
            self._told(result, session)
            for result, session in zip(self.search(queries, sessions), sessions, strict=True)
        ]

    def search(
        self, queries: Sequence[str], sessions: Sequence[str | None], **options: Any
    ) -> list[SearchResult]:
        """The engine's own results, each question in its session; `options` are `Memory.search`'s."""
        if len(sessions) != len(queries):
            raise InvalidInput("session_ids", f"{len(sessions)}", f"{len(queries)}, one a question")
        for session in sessions:
            check_session(session)
        bounds = [None if one is None else Boundary(sessions=(one,)) for one in sessions]
        return self._memory.search(list(queries), bank=_BANK, boundary=bounds, explain=True, **options)

    @property
    def graph(self) -> EntityContextGraph:
        """The graph alone, kept up with the engine from its first use on."""
        with self._writing:
            if self._graph is None:
                made = EntityContextGraph(self.embedder, self.entity_extractor, self.config.gamma)
                for trace in self.traces.values():
                    made.add_trace(trace)
                self._graph = made
            return self._graph

    @property
    def lexical(self) -> BM25Index:
        """The lexical index alone, kept up with the engine from its first use on."""
        with self._writing:
            if self._lexical is None:
                made = BM25Index()
                for trace in self.traces.values():
                    made.add(trace.id, trace.text)
                self._lexical = made
            return self._lexical

    def _trace(self, name: str) -> Trace:
        if name not in self.traces:
            with self._writing:  # the index has it already; its ingest is about to tell
                pass
        return self.traces[name]

    def _told(self, result: SearchResult, session: str | None) -> tuple[list[Evidence], dict[str, Any]]:
        evidence: dict[str, Evidence] = {}
        main: dict[str, float] = {}
        for one in result:
            name = one.trace.id
            views = [view for view, score in (("graph", one.graph_score), ("hierarchy",
                     one.hierarchy_score)) if score is not None]  # fmt: skip
            evidence.setdefault(
                name, Evidence(self._trace(name), one.score, views or ["closure"], [one.rule])
            )
            if one.rule == "primary":
                main.setdefault(name, one.score)
        rankings = result.rankings or {}
        debug = {
            "profile": told_profile(result.profile, session),
            "graph_ranking": list(rankings.get("graph", ())),
            "hierarchy_ranking": list(rankings.get("hierarchy", ())),
            "main_trace_ids": sorted(main, key=lambda name: -main[name]),
            "closed_trace_ids": list(evidence),
        }
        return list(evidence.values())[: self.config.top_k + _SUPPORT], debug


class Router:
    """Reads a question alone."""

    def __init__(self, engine: ZeroMemEngine) -> None:
        self._engine = engine

    def profile(self, query: str, session_id: str | None = None) -> QueryProfile:
        """What a question is about, what it asks for and which view leads."""
        (result,) = self._engine.search([query], [session_id], top_k=1, limit=1)
        return told_profile(result.profile, session_id)


class HierarchyView:
    """The hierarchy's ranking alone."""

    def __init__(self, engine: ZeroMemEngine) -> None:
        self._engine = engine

    def search(self, query: str, limit: int = 30, session_id: str | None = None) -> list[tuple[str, float]]:
        """(trace id, score) by windows, episodes and turns, the best first."""
        config = self._engine.config.replace(
            views="hierarchy", closure=False, calibrate=False, top_k=limit,
            candidates=max(limit, self._engine.config.candidates),
        )  # fmt: skip
        (result,) = self._engine.search([query], [session_id], config=config)
        best: dict[str, float] = {}
        for one in result:
            best.setdefault(one.trace.id, float(one.hierarchy_score or 0.0))
        return list(best.items())


def _native_extractor(extractor: EntityExtractor) -> Any:
    """The engine's own reading for the spaCy extractor as it is here; what overrides `extract` is asked."""
    if (
        isinstance(extractor, SpacyEntityExtractor)
        and type(extractor).extract is SpacyEntityExtractor.extract
    ):
        return extractor.native
    return ExtractorMentions(extractor)


def _payload(trace: Trace) -> dict[str, Any]:
    when = trace.created_at
    return {
        "session_id": trace.session_id,
        "turn_index": trace.turn_index,
        "created_at": when.isoformat() if isinstance(when, datetime) else when,
        "speaker": trace.speaker,
    }
