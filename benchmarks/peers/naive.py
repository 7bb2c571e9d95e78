"""The same method written the straightforward way: networkx, dictionaries, one query at a time.

Its formulas are those of `zeromem_gpu/retrieve/README.md`, its weights `Config`'s, its code its own.
Two choices are simpler: a session is an episode, and closure and the order of evidence are left out.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zeromem_gpu import Config, QueryProfile
from zeromem_gpu.text.normalize import entity_name

GONE = float("-inf")


@dataclass(frozen=True)
class Turn:
    """A turn as the method sees it: `words` are stems, `sentences` pairs of vector and entities."""

    id: str
    session: str
    speaker: str
    words: Sequence[str]
    said: str
    vector: np.ndarray
    entities: Counter[str]
    sentences: Sequence[tuple[np.ndarray, Sequence[str]]]


class NaiveBank:
    """One conversation: a networkx graph, BM25 by dictionary at three levels, windows of four turns."""

    def __init__(self, turns: Sequence[Turn], names: Mapping[str, np.ndarray], config: Config) -> None:
        import networkx

        self._turns, self._names, self._config = turns, names, config
        self._graph = networkx.Graph()
        self._sentences_of: dict[str, list[tuple[np.ndarray, Sequence[str]]]] = defaultdict(list)
        sessions: dict[str, list[int]] = defaultdict(list)
        for at, turn in enumerate(turns):
            self._graph.add_node(at)
            total = sum(turn.entities.values())
            for name, count in turn.entities.items():
                self._graph.add_edge(at, name, weight=count / total)
            if at and turns[at - 1].session == turn.session:
                self._graph.add_edge(at - 1, at, weight=config.chain_weight)
            for sentence in turn.sentences:
                for name in sentence[1]:
                    self._sentences_of[name].append(sentence)
            sessions[turn.session].append(at)
        spans = [range(max(at - 1, 0), min(at + 2, len(turns))) for at in range(len(turns))]
        self._local = _Level(
            turns, [[i for i in s if turns[i].session == turns[s[0]].session] for s in spans]
        )
        self._windows = _Level(
            turns,
            [own[at : at + 4] for own in sessions.values() for at in range(0, max(len(own) - 2, 1), 2)],
        )
        self._episodes = _Level(turns, list(sessions.values()))
        self._own = _Level(turns, [[at] for at in range(len(turns))])

    def search(
        self, profile: QueryProfile, words: Sequence[str], vector: np.ndarray, depth: int
    ) -> list[str]:
        """The ids of the best turns."""
        config = self._config
        graph = _best(self._graph_scores(profile, words, vector), config.candidates)
        local = _best(self._hierarchy_scores(profile, words, vector), config.candidates)
        share = config.rho if profile.route == "relational" else 1 - config.rho
        mixed: dict[int, float] = defaultdict(float)
        for view, weight in ((graph, share), (local, 1 - share)):
            low, high = min(view.values()), max(view.values())
            for at, score in view.items():
                mixed[at] += weight * ((score - low) / (high - low) if high > low else 1.0)
        return [self._turns[at].id for at in _best(mixed, depth)]

    def _graph_scores(
        self, profile: QueryProfile, words: Sequence[str], vector: np.ndarray
    ) -> dict[int, float]:
        import networkx

        config = self._config
        dense = _min_max(self._own.cosines(vector))
        active = self._spread(self._aligned(profile), vector)
        reset: dict[Any, float] = {}
        prior = {at: score**config.prior_power for at, score in enumerate(dense)}
        share = config.entity_share if active else 0.0
        for part, mass in ((active, share), (prior, 1 - share)):
            total = sum(part.values()) or 1.0
            reset |= {node: mass * value / total for node, value in part.items() if value > 0}
        base = dict(enumerate(dense))
        if active:
            tolerance = config.tolerance / len(self._graph)
            base = networkx.pagerank(self._graph, alpha=config.gamma, personalization=reset, tol=tolerance)
        top = max(base[at] for at in range(len(self._turns))) or 1.0
        lexical = _to_max(self._own.bm25(words, config))
        return {
            at: base[at] / top
            + config.graph_lexical * lexical[at]
            + config.graph_phrase * _phrases(profile, turn)
            + config.graph_subject * _subject(profile, turn)
            for at, turn in enumerate(self._turns)
        }

    def _aligned(self, profile: QueryProfile) -> dict[str, float]:
        """The entity of the same name, else the nearest one above the floor."""
        found: dict[str, float] = {}
        for name in profile.entities:
            key = entity_name(name)
            if key in self._graph:
                found[key] = 1.0
            elif key in self._names:
                near = max(
                    ((float(self._names[key] @ self._names[other]), other) for other in self._sentences_of),
                    default=(0.0, ""),
                )
                if near[0] >= self._config.align_floor:
                    found[near[1]] = max(found.get(near[1], 0.0), near[0])
        return found

    def _spread(self, seeds: dict[str, float], vector: np.ndarray) -> dict[str, float]:
        """Σ η over two steps: from an entity through its best sentences to the entities in them."""
        total, eta, config = dict(seeds), seeds, self._config
        for _ in range(config.activation_steps if seeds else 0):
            following: dict[str, float] = defaultdict(float)
            for name, value in eta.items():
                for sentence, others in self._sentences_of[name]:
                    gate = max(float(sentence @ vector), 0.0)
                    for other in others:
                        following[other] += value * gate
            top = max(following.values(), default=0.0) or 1.0
            eta = {k: v / top for k, v in following.items() if v / top >= config.activation_floor}
            for name, value in eta.items():
                total[name] = total.get(name, 0.0) + value
        return total

    def _hierarchy_scores(
        self, profile: QueryProfile, words: Sequence[str], vector: np.ndarray
    ) -> dict[int, float]:
        config = self._config
        episodes = self._episodes.score(words, vector, config)
        windows = self._windows.score(words, vector, config)
        own = self._own.score(words, vector, config)
        local = self._local.score(words, vector, config)
        above: dict[int, float] = {}
        episode_of = {at: n for n, members in enumerate(self._episodes.members) for at in members}
        for number, members in enumerate(self._windows.members):
            inherited = config.episode_share * episodes[episode_of[members[0]]]
            offered = config.window_share * (windows[number] + inherited) + inherited
            for at in members:
                above[at] = max(above.get(at, GONE), offered)
        return {
            at: own[at]
            + config.phrase * _phrases(profile, turn)
            + config.subject * _subject(profile, turn)
            + config.local_share * local[at]
            + above.get(at, GONE)
            for at, turn in enumerate(self._turns)
        }


class _Level:
    """Documents made of turns, with BM25 and a mean vector each."""

    def __init__(self, turns: Sequence[Turn], members: Sequence[Sequence[int]]) -> None:
        self.members = members
        self._counts = [Counter(word for at in own for word in turns[at].words) for own in members]
        self._lengths = [sum(one.values()) for one in self._counts]
        self._found = Counter(word for one in self._counts for word in one)
        self._vectors = []
        for own in members:
            mean = np.sum([turns[at].vector for at in own], axis=0)
            self._vectors.append(mean / (np.linalg.norm(mean) or 1.0))

    def cosines(self, vector: np.ndarray) -> list[float]:
        return [float(one @ vector) for one in self._vectors]

    def bm25(self, words: Sequence[str], config: Config) -> list[float]:
        average = sum(self._lengths) / len(self._lengths)
        scores = []
        for counts, length in zip(self._counts, self._lengths, strict=True):
            norm = config.bm25_k1 * (1 - config.bm25_b + config.bm25_b * length / average)
            score = 0.0
            for word in words:
                if tf := counts.get(word, 0):
                    rest = len(self._counts) - self._found[word] + 0.5
                    idf = math.log1p(rest / (self._found[word] + 0.5))
                    score += idf * tf * (config.bm25_k1 + 1) / (tf + norm)
            scores.append(score)
        return scores

    def score(self, words: Sequence[str], vector: np.ndarray, config: Config) -> list[float]:
        lexical = _to_max(self.bm25(words, config))
        dense = _min_max(self.cosines(vector))
        return [one + config.lexical * other for one, other in zip(dense, lexical, strict=True)]


def _phrases(profile: QueryProfile, turn: Turn) -> float:
    hits = [f" {phrase.casefold()} " in f" {turn.said} " for phrase in profile.phrases]
    return sum(hits) / len(hits) if hits else 0.0


def _subject(profile: QueryProfile, turn: Turn) -> float:
    best = 0.0
    for name in profile.subjects:
        key = entity_name(name)
        best = max(best, 1.0 if key == turn.speaker.casefold() else 0.5 if key in turn.entities else 0.0)
    return best


def _min_max(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(one - low) / (high - low) if high > low else 0.0 for one in values]


def _to_max(values: Sequence[float]) -> list[float]:
    top = max(values)
    return [one / top if top > 0 else 0.0 for one in values]


def _best(scores: Mapping[int, float], count: int) -> dict[int, float]:
    kept = sorted((-score, at) for at, score in scores.items() if score > GONE)[:count]
    return {at: -score for score, at in kept}
