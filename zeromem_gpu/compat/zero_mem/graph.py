"""The entity-context graph as an object of its own, for front ends that keep their own engine."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zeromem_gpu import Config, InvalidInput, entity_name
from zeromem_gpu.compat.pagerank import PageRankGraph
from zeromem_gpu.compat.zero_mem.protocols import Embedder, EmbedderEncoder, EntityExtractor, names_in
from zeromem_gpu.compat.zero_mem.records import Trace
from zeromem_gpu.compat.zero_mem.stores import best_places, one_query, query_rows


@dataclass(frozen=True)
class _Built:
    """One state of the graph: nodes are the traces, then the entities; pairs (trace, entity, share)."""

    ids: list[str]
    rows: dict[str, int]
    names: list[str]
    vectors: np.ndarray
    graph: PageRankGraph
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray]


class EntityContextGraph:
    """Traces, the entities they mention, and the traces beside each other in a session.

    A trace that is added again is replaced. Adding costs the entity extraction of its text; names are
    encoded and edges laid at the first search afterwards, all at once.

    Args:
        embedder: encodes the names of entities.
        entity_extractor: finds them.
        gamma: damping of PageRank.
    """

    def __init__(self, embedder: Embedder, entity_extractor: EntityExtractor, gamma: float = 0.6) -> None:
        self.config = Config(gamma=gamma)
        self._embedder, self._extractor = embedder, entity_extractor
        self._traces: dict[str, tuple[Trace, Counter[str]]] = {}
        self._name_vectors: dict[str, np.ndarray] = {}
        self._made: _Built | None = None

    def add_trace(self, trace: Trace, vector: np.ndarray | None = None) -> None:
        """Add or replace a trace; its vector stays with the caller, `dense_priors` bring its similarity."""
        names = Counter(map(entity_name, names_in(self._extractor, trace.text)))
        if trace.speaker:
            names[entity_name(trace.speaker)] += 1
        names.pop("", None)
        self._traces[trace.id] = (trace, names)
        self._made = None

    def matched_entities(
        self, query_vector: np.ndarray, top_n: int = 3, min_score: float = 0.2
    ) -> list[tuple[str, float]]:
        """The entities whose names are nearest to the query, with their cosines."""
        built = self._built()
        (found,) = self._matched(built, one_query(query_vector), top_n, min_score)
        return [(built.names[at], score) for at, score in found]

    def search(
        self, query_vector: np.ndarray, dense_priors: Mapping[str, float], limit: int = 30
    ) -> list[tuple[str, float]]:
        """Traces by PageRank from the matched entities and from traces by their prior, the best first.

        Without any of both, as with traces that are not there, nothing is found.
        """
        return self.search_batch(one_query(query_vector), [dense_priors], limit)[0]

    def search_batch(
        self, query_vectors: np.ndarray, dense_priors: Sequence[Mapping[str, float]], limit: int = 30
    ) -> list[list[tuple[str, float]]]:
        """`search` for vectors [k, D] and as many priors."""
        if len(query_vectors) != len(dense_priors):
            got = f"{len(dense_priors)} for {len(query_vectors)} vectors"
            raise InvalidInput("dense_priors", got, "one a vector")
        built = self._built()
        count, config = len(built.ids), self.config
        reset = np.zeros((len(dense_priors), count + len(built.names)))
        matched = self._matched(built, query_vectors, 3, 0.2)
        for row, (entities, prior) in enumerate(zip(matched, dense_priors, strict=True)):
            for at, score in entities:
                reset[row, count + at] = score
            for name, score in prior.items():
                if name in built.rows and score > 0:
                    reset[row, built.rows[name]] = score**config.prior_power
        parts = (reset[:, :count], 1 - config.entity_share), (reset[:, count:], config.entity_share)
        for part, share in parts:
            total = part.sum(1, keepdims=True)
            part *= share / np.where(total > 0, total, 1.0)
        asked = np.flatnonzero(reset.sum(1) > 0)
        found: list[list[tuple[str, float]]] = [[] for _ in dense_priors]
        if len(asked):
            ranked = built.graph.personalized_pagerank(reset[asked], config.gamma)
            for row, scores in zip(asked.tolist(), ranked[:, :count], strict=True):
                best = best_places(scores, limit)
                found[row] = [(built.ids[at], float(scores[at])) for at in best if scores[at] > 0]
        return found

    def bridge_contexts(self, trace_ids: Sequence[str], limit: int = 3) -> list[str]:
        """Other traces that share entities with these, the most first; speakers do not count."""
        built = self._built()
        trace, entity, share = built.pairs
        given = np.isin(trace, [built.rows[one] for one in trace_ids if one in built.rows])
        speakers = {entity_name(one.speaker) for one, _ in self._traces.values() if one.speaker}
        spoken = np.array([name in speakers for name in built.names], bool)
        shared = np.isin(entity, entity[given & ~spoken[entity]]) & ~np.isin(trace, trace[given])
        scores = np.bincount(trace[shared], share[shared], len(built.ids))
        return [built.ids[at] for at in best_places(scores, limit) if scores[at] > 0]

    def _matched(
        self, built: _Built, queries: np.ndarray, top_n: int, least: float
    ) -> list[list[tuple[int, float]]]:
        if not built.names:
            return [[] for _ in queries]
        return [
            [(at, float(one[at])) for at in best_places(one, top_n) if one[at] >= least]
            for one in query_rows(queries, built.vectors.shape[1]) @ built.vectors.T
        ]

    def _built(self) -> _Built:
        if self._made is None:
            self._made = self._build()
        return self._made

    def _build(self) -> _Built:
        ids = list(self._traces)
        names = list(dict.fromkeys(name for _, counts in self._traces.values() for name in counts))
        number = {name: at for at, name in enumerate(names)}
        fresh = [name for name in names if name not in self._name_vectors]
        if fresh:
            self._name_vectors |= dict(
                zip(fresh, EmbedderEncoder(self._embedder).encode(fresh), strict=True)
            )
        found = [
            (row, number[name], count / counts.total())
            for row, (_, counts) in enumerate(self._traces.values())
            for name, count in counts.items()
        ]
        trace, entity, share = (np.array(part) for part in zip(*found, strict=True)) if found else _NONE
        first, second = self._neighbours()
        edges = np.concatenate([trace, first]), np.concatenate([entity + len(ids), second])
        weights = np.concatenate([share, np.full(len(first), self.config.chain_weight)])
        graph = PageRankGraph(edges, weights, nodes=len(ids) + len(names))
        vectors = np.array([self._name_vectors[name] for name in names], np.float32)
        rows = {name: at for at, name in enumerate(ids)}
        return _Built(ids, rows, names, vectors, graph, (trace, entity, share))

    def _neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of traces that follow each other in a session; what has no turn comes last, as added."""
        sessions: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for row, (trace, _) in enumerate(self._traces.values()):
            turn = math.inf if trace.turn_index is None else trace.turn_index
            sessions[trace.session_id].append((turn, row))
        orders = [[row for _, row in sorted(turns)] for turns in sessions.values()]
        first = [row for order in orders for row in order[:-1]]
        second = [row for order in orders for row in order[1:]]
        return np.array(first, np.int64), np.array(second, np.int64)


_NONE = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
