"""One question at a time through `zeromem_gpu/retrieve/README.md`, in float64."""

from __future__ import annotations

import math

import numpy as np

from tests.reference import activation, entities, lexical, pagerank, related, spans, views
from tests.reference.facts import Array, BankFacts, Mask, OracleResult, QueryFacts, Span, Token
from tests.reference.scaling import cosines, cut_margin, ordered_top_k, scale, spread
from zeromem_gpu.config import Config


class Level:
    """A level of the hierarchy: its spans, vectors and BM25 weights."""

    def __init__(
        self, of: list[Span], vectors: Array, stems: list[list[Token]], k1: float, b: float
    ) -> None:
        """`stems` are those of the units; documents are their concatenations."""
        self.spans = of
        self.vectors = vectors
        documents = [lexical.concatenated(stems, first, last) for first, last in of]
        self.bm25 = lexical.Bm25(documents, k1, b)


class Bank:
    """What depends on the bank and the index fields of a configuration, computed once.

    `episode_margin` is the distance of the closest window cosine to its break threshold.
    """

    def __init__(self, facts: BankFacts, config: Config) -> None:
        """Lay out spans, BM25, incidence and the graph."""
        self.facts, self.key = facts, bank_key(config)
        units = facts.units
        self.sessions = spans.sessions([unit.session for unit in units])
        width = len(units[0].vector) if units else 0
        vectors = np.array([unit.vector for unit in units], dtype=np.float64).reshape(len(units), width)
        self._levels(vectors, config)
        self._graph(config)
        live = {stem for unit in units for stem in lexical.stems_of(unit)}
        self.terms = {stem: vector for stem, vector in facts.terms.items() if stem in live}
        sentences = facts.sentences
        self.sentence_vectors = np.array([s.vector for s in sentences], dtype=np.float64).reshape(
            len(sentences), width
        )
        self.sentence_units = np.array([s.unit for s in sentences], dtype=np.int64)
        self._inverse: dict[tuple[float, bytes], Array] = {}

    def _levels(self, vectors: Array, config: Config) -> None:
        facts, units = self.facts, self.facts.units
        encoded = config.window_vectors == "encoded"
        if encoded and (facts.windows is None or facts.episodes is None):
            raise ValueError("window_vectors='encoded' needs the vectors of windows and episodes")
        given_windows, given_episodes = (facts.windows, facts.episodes) if encoded else (None, None)
        window_spans: list[Span] = []
        episode_spans: list[Span] = []
        self.parent: list[int] = []
        self.episode_margin = math.inf
        times = [unit.time for unit in units]
        for first, last in self.sessions:
            of_session = [
                (first + s, first + e)
                for s, e in spans.windows(last - first + 1, config.window_size, config.window_stride)
            ]
            groups, margin = spans.episodes(
                of_session,
                spans.span_vectors(vectors, of_session, given_windows),
                times,
                config.episode_sigma,
                config.episode_gap_hours,
            )
            self.episode_margin = min(self.episode_margin, margin)
            window_spans += of_session
            for group in groups:
                self.parent += [len(episode_spans)] * len(group)
                episode_spans.append((of_session[group[0]][0], of_session[group[-1]][1]))
        local = [
            spans.local_span(row, session, config.local_radius)
            for session in self.sessions
            for row in range(session[0], session[1] + 1)
        ]
        turns = [(row, row) for row in range(len(units))]
        stems = [lexical.stems_of(unit) for unit in units]
        k1, b = config.bm25_k1, config.bm25_b
        self.turns = Level(turns, vectors, stems, k1, b)
        self.local = Level(local, spans.span_vectors(vectors, local, None), stems, k1, b)
        self.windows = Level(
            window_spans, spans.span_vectors(vectors, window_spans, given_windows), stems, k1, b
        )
        self.episodes = Level(
            episode_spans, spans.span_vectors(vectors, episode_spans, given_episodes), stems, k1, b
        )

    def _graph(self, config: Config) -> None:
        facts = self.facts
        self.entity_rows = {name: row for row, name in enumerate(facts.entities)}
        self.entity_vectors = np.array(list(facts.entities.values()), dtype=np.float64).reshape(
            len(facts.entities), -1 if facts.entities else 0
        )
        self.counts = [
            entities.entity_counts(unit, facts.speakers, facts.name_token, config.speaker_entities)
            for unit in facts.units
        ]
        self.members = [
            [
                self.entity_rows[name]
                for name in entities.sentence_entities(
                    sentence,
                    facts.units[sentence.unit],
                    facts.speakers,
                    facts.name_token,
                    config.speaker_entities,
                )
            ]
            for sentence in facts.sentences
        ]
        self.weights = pagerank.edge_weights(
            self.counts, self.entity_rows, self.sessions, config.chain_weight
        )
        self.transition = pagerank.transition(self.weights)

    def stationary(self, reset: Array, gamma: float, shown: Mask) -> Array:
        """`pagerank.solve` with the inverse kept for further questions with the same boundary."""
        key = (gamma, shown.tobytes())
        if key not in self._inverse:
            system = np.eye(int(shown.sum())) - gamma * self.transition[np.ix_(shown, shown)]
            self._inverse[key] = np.asarray(np.linalg.inv(system), dtype=np.float64)
        x = np.zeros(len(reset))
        x[shown] = self._inverse[key] @ ((1.0 - gamma) * reset[shown])
        return x


def bank_key(config: Config) -> tuple[object, ...]:
    """The fields on which a `Bank` depends."""
    return (*config.index_fields().values(), config.bm25_k1, config.bm25_b, config.chain_weight)


def retrieve(facts: BankFacts | Bank, query: QueryFacts, config: Config) -> OracleResult:
    """Rows, scores and what led to them for one question against one bank (no closure).

    Pass a `Bank` made with the same index fields to ask many questions. `solver` and `tolerance` do not
    matter here: PageRank is solved directly.
    """
    bank = facts if isinstance(facts, Bank) else Bank(facts, config)
    if bank.key != bank_key(config):
        raise ValueError("the Bank was made with other index, BM25 or chain fields")
    hidden = query.hidden if query.hidden is not None else [False] * len(bank.facts.units)
    visible = ~np.array(hidden, dtype=bool)
    if len(visible) != len(bank.facts.units):
        raise ValueError("hidden must name every unit")
    # a view never returns less than was asked for
    config = config.replace(candidates=max(config.candidates, config.top_k))
    margins = {"episode_break": bank.episode_margin}
    phrase = lexical.phrase_support(query.phrases, bank.facts.units)
    result = OracleResult([], [], {}, {}, np.zeros(0), np.zeros(0), {}, margins)
    graph = _graph_view(bank, query, config, visible, phrase, result)
    hierarchy = _hierarchy_view(bank, query, config, visible, phrase, margins)
    result.graph_scores = graph if config.views != "hierarchy" else {}
    result.hierarchy_scores = hierarchy if config.views != "graph" else {}
    margins["graph_spread"] = spread(np.array(list(graph.values())))
    margins["hierarchy_spread"] = spread(np.array(list(hierarchy.values())))
    weight = views.graph_weight(config.views, query.route, config.rho)
    fused = views.fuse(result.graph_scores, result.hierarchy_scores, weight)
    rows, values = list(fused), np.array(list(fused.values()), dtype=np.float64)
    everything = np.ones(len(rows), dtype=bool)
    places, scores = ordered_top_k(values, everything, min(config.top_k, len(rows)))
    margins["top_k"] = cut_margin(values, everything, config.top_k)
    result.rows, result.scores = [rows[place] for place in places], scores
    return result


def _graph_view(
    bank: Bank, query: QueryFacts, config: Config, visible: Mask, phrase: Array, result: OracleResult
) -> dict[int, float]:
    """Stages 1–6 of the graph view; leaves η, π and the alignment in `result`."""
    margins = result.margins
    pruned = config.activation == "pruned"
    result.aligned, margins["align"] = entities.align(
        query.entities, bank.entity_rows, bank.entity_vectors, config.align_floor
    )
    eta = np.zeros(len(bank.entity_rows))
    for row, value in result.aligned.items():
        eta[row] = value
    similarity, margins["sentence_floor"] = activation.sentence_similarity(
        cosines(query.vector, bank.sentence_vectors),
        visible[bank.sentence_units],
        config.sentence_floor if pruned else None,
    )
    result.eta, margins["activation_floor"] = activation.spread_activation(
        eta,
        similarity,
        bank.members,
        config.activation_steps,
        config.activation_floor if pruned else None,
        config.exclude_self,
    )
    dense = views.dense_prior(
        cosines(query.vector, bank.turns.vectors),
        cosines(query.vector, bank.sentence_vectors),
        bank.sentence_units,
        visible,
        config.sentence_share,
    )
    reset = pagerank.reset_vector(result.eta, dense, visible, config.entity_share, config.prior_power)
    shown = np.concatenate([visible, np.ones(len(eta), dtype=bool)])
    result.pi = pagerank.rescaled(bank.stationary(reset, config.gamma, shown))
    base = scale(result.pi[: len(visible)] if result.aligned else dense, visible)
    scores = views.refine(
        base,
        bank.turns.bm25.scores(query.stems),
        phrase,
        visible,
        config.graph_lexical,
        config.graph_phrase,
    )
    asked = _asked(bank, query, visible)
    near = related.related_scores(query.words, bank.terms, bank.turns.bm25, config.related_floor)
    scores = scores + config.graph_related * scale(near, visible)
    scores = scores + config.graph_learned * _learned(bank, query, visible)
    for i, unit in enumerate(bank.facts.units):
        consistency = views.subject_consistency(query.subjects, unit, bank.counts[i])
        validity = views.temporal_validity(query.validity, unit.time, config.temporal_days)
        scores[i] += config.graph_subject * consistency + config.graph_temporal * validity
        scores[i] += config.graph_reply * asked[i]
        scores[i] += config.graph_type * views.type_support(query.type_bit, unit.type_mask)
    told = views.bridge(
        scale(scores, visible), bank.facts.units, bank.facts.given_words, config.bridge_power
    )
    scores = scores + config.graph_bridge * told
    graph, margins["graph_candidates"] = views.returned(scores, visible, config.candidates)
    return graph


def _asked(bank: Bank, query: QueryFacts, visible: Mask) -> Array:
    turns = bank.turns
    cosine = cosines(query.vector, turns.vectors)
    if query.dated:
        return np.zeros(len(cosine))
    return views.asked(bank.facts.units, cosine, turns.bm25.scores(query.stems), visible)


def _learned(bank: Bank, query: QueryFacts, visible: Mask) -> Array:
    return scale(lexical.learned_scores(query.learned, bank.facts.units), visible)


def _hierarchy_view(
    bank: Bank,
    query: QueryFacts,
    config: Config,
    visible: Mask,
    phrase: Array,
    margins: dict[str, float],
) -> dict[int, float]:
    """Episodes, windows, turns and local spans, coarse to fine."""
    units = bank.facts.units

    def level(name: str, of: Level, shown: Mask) -> Array:
        cosine = cosines(query.vector, of.vectors)
        margins[f"{name}_spread"] = spread(cosine[shown])
        return views.level_score(cosine, of.bm25.scores(query.stems), shown, config.lexical)

    shown_episodes = spans.visible_spans(bank.episodes.spans, visible)
    shown_windows = spans.visible_spans(bank.windows.spans, visible)
    episode = level("episode", bank.episodes, shown_episodes)
    kept_episodes = views.beam(episode, shown_episodes, config.episode_beam)
    margins["episode_beam"] = cut_margin(episode, shown_episodes, config.episode_beam)
    parent = np.array(bank.parent, dtype=np.int64)
    window = level("window", bank.windows, shown_windows) + config.episode_share * episode[parent]
    inside = shown_windows & kept_episodes[parent]
    kept_windows = views.beam(window, inside, config.window_beam)
    margins["window_beam"] = cut_margin(window, inside, config.window_beam)
    offered = config.window_share * window + config.episode_share * episode[parent]
    above = views.best_offer(len(units), bank.windows.spans, offered, kept_windows)
    own = level("turn", bank.turns, visible) + config.phrase * phrase
    own += config.reply * _asked(bank, query, visible)
    own += config.learned * _learned(bank, query, visible)
    for i, unit in enumerate(units):
        own[i] += config.subject * views.subject_consistency(query.subjects, unit, bank.counts[i])
        own[i] += config.temporal * views.temporal_validity(query.validity, unit.time, config.temporal_days)
        own[i] += config.answer_type * views.type_support(query.type_bit, unit.type_mask)
    local = level("local", bank.local, spans.visible_spans(bank.local.spans, visible))
    scores = own + config.local_share * local
    scores += config.neighbour_share * views.neighbour_sum(own, bank.sessions, visible)
    candidate = visible & np.isfinite(above)
    scores[candidate] += above[candidate]
    hierarchy, margins["hierarchy_candidates"] = views.returned(scores, candidate, config.candidates)
    return hierarchy
