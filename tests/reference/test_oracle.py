"""The oracle against hand-computed results and its own laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.reference import scaling, views
from tests.reference.examples import X, Y, random_bank, random_query, unit
from tests.reference.facts import BankFacts, QueryFacts, Sentence, Token
from tests.reference.oracle import Bank, retrieve
from zeromem_gpu.config import Config

# the hand-computed values below rest on these numbers, whatever the defaults become
HAND = Config(
    lexical=1.0,
    phrase=0.2,
    subject=0.3,
    temporal=0.2,
    answer_type=0.1,
    local_share=0.5,
    window_share=0.2,
    episode_share=0.05,
    neighbour_share=0.1,
    graph_lexical=0.6,
    graph_phrase=0.3,
    graph_subject=0.0,
    graph_temporal=0.0,
    graph_type=0.0,
    entity_share=0.3,
    prior_power=4.0,
    sentence_share=0.0,
    sentence_floor=0.5,
    chain_weight=1.0,
    candidates=64,
)


class TestOracle:
    def pair(self) -> BankFacts:
        """One session: "hello oslo" (X) and "bye" (Y), Oslo known from the first."""
        units = [unit("hello oslo", vector=X, mentions=[("oslo", 3)]), unit("bye", vector=Y)]
        return BankFacts(units, [Sentence(0, ["hello", "oslo"], ["oslo"], X)], {"oslo": X})

    def test_graph_view_by_hand(self) -> None:
        # r = (0.7, 0, 0.3): x0 = 0.28 + 0.6 (x1 + xe), x1 = 0.3 x0, xe = 0.12 + 0.3 x0
        result = retrieve(self.pair(), QueryFacts(X, entities=[("oslo", X)]), HAND)
        assert result.eta.tolist() == [3.0]
        assert result.pi.tolist() == pytest.approx([0.55, 0.165, 0.285])
        assert result.graph_scores == {0: pytest.approx(1.0), 1: pytest.approx(0.3)}

    def test_graph_view_adds_words_and_phrases(self) -> None:
        query = QueryFacts(Y, stems=["hello"], phrases=[["oslo"], ["the", "bye"]])
        result = retrieve(self.pair(), query, HAND)
        assert result.aligned == {}
        assert result.graph_scores == {0: pytest.approx(0.6 + 0.15), 1: pytest.approx(1.0)}

    def test_graph_view_adds_subjects(self) -> None:
        query = QueryFacts(0 * X, subjects=["oslo"])
        scores = retrieve(self.pair(), query, HAND.replace(graph_subject=0.8)).graph_scores
        assert scores == {0: pytest.approx(0.4), 1: 0.0}

    def test_graph_view_adds_time_and_type(self) -> None:
        facts = self.pair()
        facts = replace(facts, units=[replace(facts.units[0], time=0.0, type_mask=2), facts.units[1]])
        query = QueryFacts(0 * X, validity=(0.0, 1.0), type_bit=2)
        scores = retrieve(facts, query, HAND.replace(graph_temporal=0.5, graph_type=0.25)).graph_scores
        assert scores == {0: pytest.approx(0.75), 1: 0.0}

    def test_hierarchy_by_hand_across_sessions(self) -> None:
        # every level is the same two rows: s = (1, 0), s'_W = (1.05, 0)
        units = [unit("a", session="one", vector=X), unit("b", session="two", vector=Y, speaker="bob")]
        bank = BankFacts(units, [], {"bob": Y}, ["bob"])
        result = retrieve(bank, QueryFacts(X, subjects=["bob"], type_bit=1), HAND)
        assert result.hierarchy_scores == {
            0: pytest.approx(1 + 0.5 * 1 + 0.2 * 1.05 + 0.05 * 1),
            1: pytest.approx(0.3),
        }
        assert (result.rows, result.scores) == ([0, 1], [1.0, 0.0])

    def test_hierarchy_by_hand_inside_a_session(self) -> None:
        # one window, one episode, two equal spans: mm is 0 there, and sc(BM25) is 1
        result = retrieve(self.pair(), QueryFacts(X, stems=["hello"]), HAND)
        assert result.hierarchy_scores == {
            0: pytest.approx(2 + 0.5 + 0.2 * 1.05 + 0.05),
            1: pytest.approx(0 + 0.5 + 0.2 * 1.05 + 0.05 + 0.1 * 2),
        }

    def test_signals_reach_the_turn(self) -> None:
        facts = self.pair()
        facts.units = [replace(facts.units[0], time=0.0), replace(facts.units[1], type_mask=4)]
        query = QueryFacts(0 * X, phrases=[["bye"]], subjects=["oslo"], type_bit=4, validity=(0.0, 1.0))
        own = [0.3 * 0.5 + 0.2, 0.2 + 0.1]
        assert retrieve(facts, query, HAND).hierarchy_scores == {
            0: pytest.approx(own[0] + 0.1 * own[1]),
            1: pytest.approx(own[1] + 0.1 * own[0]),
        }

    def test_beams_leave_only_turns_of_kept_windows(self) -> None:
        facts = random_bank(2)
        config, query = HAND.replace(window_beam=1, episode_beam=1, views="hierarchy"), random_query(2)
        wide = retrieve(facts, query, config.replace(window_beam=99, episode_beam=99))
        narrow = retrieve(facts, query, config)
        assert len(wide.hierarchy_scores) == 23
        rows = sorted(narrow.hierarchy_scores)
        assert rows == list(range(rows[0], rows[0] + len(rows)))
        assert len(rows) <= 4
        one_episode = retrieve(facts, query, config.replace(window_beam=99))
        rows = sorted(one_episode.hierarchy_scores)
        assert (rows[0], rows[-1]) in Bank(facts, config).episodes.spans
        assert 0 < len(rows) < 23

    @pytest.mark.parametrize("views_", ["both", "graph", "hierarchy"])
    def test_empty_bank(self, views_: str) -> None:
        empty = BankFacts([], [], {})
        result = retrieve(empty, random_query(0), HAND.replace(**{"views": views_}))
        assert (result.rows, result.scores, result.graph_scores) == ([], [], {})

    def test_single_unit(self) -> None:
        for entity in ([], [("oslo", X)]):
            bank = BankFacts([unit("oslo", mentions=[("oslo", 1)])], [], {"oslo": X})
            result = retrieve(bank, QueryFacts(X, entities=entity), HAND)
            assert (result.rows, result.scores) == ([0], [1.0])
            assert result.graph_scores == {0: 1.0 if entity else 0.0}

    def test_no_entities_falls_back_to_the_dense_ranking(self) -> None:
        facts = random_bank(3)
        bare = BankFacts([replace(u, mentions=[], speaker=None) for u in facts.units], [], {})
        query = replace(random_query(3), stems=[], phrases=[])
        config = HAND.replace(views="graph", candidates=100, top_k=100)
        result = retrieve(bare, query, config)
        cosine = scaling.cosines(query.vector, np.array([u.vector for u in facts.units]))
        assert result.rows == sorted(range(23), key=lambda row: (-cosine[row], row))

    def test_equal_units_come_in_row_order(self) -> None:
        units = [unit("same", session=f"s{i}", vector=X) for i in range(8)]
        result = retrieve(BankFacts(units, [], {}), QueryFacts(X + Y, stems=["same"]), HAND)
        assert (result.rows, result.scores) == ([0, 1, 2, 3, 4], [1.0] * 5)

    def test_hidden_units_are_never_returned_and_do_not_set_the_scale(self) -> None:
        facts, config = random_bank(5), HAND.replace(top_k=50)
        hidden = [i % 3 == 0 for i in range(23)]
        result = retrieve(facts, replace(random_query(5), hidden=hidden), config)
        assert sorted(result.rows) == [i for i in range(23) if i % 3]
        assert not result.pi[:23][np.array(hidden)].any()
        assert result.pi.sum() == pytest.approx(1.0)
        nothing = retrieve(facts, replace(random_query(5), hidden=[True] * 23), config)
        assert (nothing.rows, nothing.graph_scores, nothing.hierarchy_scores) == ([], {}, {})

    def test_what_a_boundary_hides_gives_no_dense_score_to_others(self) -> None:
        facts = random_bank(5)
        hidden = [i >= 9 for i in range(23)]  # whole sessions
        query = replace(random_query(5), stems=[], entities=[], hidden=hidden)
        less = replace(facts, units=facts.units[:9], sentences=[z for z in facts.sentences if z.unit < 9])
        alone = retrieve(less, replace(query, hidden=None), HAND)
        among = retrieve(facts, query, HAND)
        assert alone.rows == among.rows
        assert alone.scores == pytest.approx(among.scores)

    def test_hidden_sentences_spread_no_activation(self) -> None:
        units = [unit("a", mentions=[("a", 1), ("b", 1)]), unit("b", mentions=[("b", 1)])]
        facts = BankFacts(units, [Sentence(0, ["a"], ["a", "b"], X)], {"a": X, "b": Y})
        query = QueryFacts(X, entities=[("a", X)])
        assert retrieve(facts, query, HAND).eta.tolist() == [3.0, 2.0]
        assert retrieve(facts, replace(query, hidden=[True, False]), HAND).eta.tolist() == [1.0, 0.0]

    def test_margins_name_the_closest_decision(self) -> None:
        margins = retrieve(self.pair(), QueryFacts(Y, entities=[("c", np.array([0.7, 1.0]))]), HAND).margins
        assert margins["align"] == pytest.approx(0.6 - 0.7 / math.sqrt(1.49))
        assert margins["turn_spread"] == pytest.approx(1.0)
        assert margins["window_beam"] == math.inf

    def test_views_and_route(self) -> None:
        facts, query, wide = random_bank(7), random_query(7), HAND.replace(candidates=4, top_k=4)
        both = retrieve(facts, query, wide)
        assert (len(both.graph_scores), len(both.hierarchy_scores)) == (4, 4)
        mixed = views.fuse(both.graph_scores, both.hierarchy_scores, 0.6)
        assert len(mixed) > 4
        assert both.rows == sorted(mixed, key=lambda row: (-mixed[row], row))[:4]
        longer = retrieve(facts, query, wide.replace(top_k=9))
        assert (len(longer.graph_scores), len(longer.hierarchy_scores), len(longer.rows)) == (9, 9, 9)
        graph = retrieve(facts, query, wide.replace(views="graph"))
        assert graph.rows == list(both.graph_scores)
        assert graph.hierarchy_scores == {}
        hierarchy = retrieve(facts, query, wide.replace(views="hierarchy"))
        assert hierarchy.rows == list(both.hierarchy_scores)
        best = next(iter(both.graph_scores))
        fused = dict(zip(both.rows, both.scores, strict=True))
        local = retrieve(facts, replace(query, route="local"), wide)
        other = dict(zip(local.rows, local.scores, strict=True))
        share = views.view_min_max(both.hierarchy_scores).get(best, 0.0)
        assert fused[best] == pytest.approx(0.6 + 0.4 * share)
        assert other[best] == pytest.approx(0.4 + 0.6 * share)

    @pytest.mark.parametrize(
        "change",
        [
            {"activation": "literal"},
            {"exclude_self": True},
            {"activation_steps": 0},
            {"entity_share": 0.8},
            {"prior_power": 1.0},
            {"gamma": 0.2},
            {"chain_weight": 0.2},
            {"speaker_entities": False},
            {"bm25_b": 0.9},
            {"window_size": 3},
            {"local_radius": 2},
            {"episode_sigma": -0.5},
            {"episode_gap_hours": 0.5},
            {"lexical": 0.1},
            {"episode_share": 1.0},
        ],
        ids=str,
    )
    def test_switches_change_the_scores(self, change: dict[str, object]) -> None:
        facts, query, base = random_bank(8), random_query(8), HAND.replace(top_k=50)
        before, after = retrieve(facts, query, base), retrieve(facts, query, base.replace(**change))
        moved = [
            max(abs(a.get(row, 0.0) - b.get(row, 0.0)) for row in range(23))
            for a, b in (
                (before.graph_scores, after.graph_scores),
                (before.hierarchy_scores, after.hierarchy_scores),
            )
        ]
        assert max(moved) > 1e-4

    def test_solver_does_not_matter_here(self) -> None:
        facts, query = random_bank(8), random_query(8)
        sor, power = (retrieve(facts, query, HAND.replace(**{"solver": s})) for s in ("sor", "power"))
        assert sor.scores == power.scores

    def test_a_bank_answers_as_fresh_facts_do(self) -> None:
        facts = random_bank(9)
        bank = Bank(facts, HAND)
        for seed in range(3):
            kept, fresh = (
                retrieve(bank, random_query(seed), HAND),
                retrieve(facts, random_query(seed), HAND),
            )
            assert (kept.rows, kept.scores) == (fresh.rows, fresh.scores)
        with pytest.raises(ValueError, match="made with other"):
            retrieve(bank, random_query(0), HAND.replace(window_size=5))

    def test_encoded_vectors_are_used_where_given(self) -> None:
        facts, query = random_bank(10), random_query(10)
        config = HAND.replace(window_vectors="encoded")
        with pytest.raises(ValueError, match="needs the vectors"):
            retrieve(facts, query, config)
        bank = Bank(facts, HAND)
        given = replace(
            facts,
            windows=dict(zip(bank.windows.spans, bank.windows.vectors, strict=True)),
            episodes=dict(zip(bank.episodes.spans, bank.episodes.vectors, strict=True)),
        )
        assert (
            retrieve(given, query, config).hierarchy_scores == retrieve(bank, query, HAND).hierarchy_scores
        )
        assert given.episodes is not None
        assert given.windows is not None
        # one turn of all window vectors leaves the cosines between them, and so the episodes, as they were
        turned = replace(given, windows={span: np.roll(v, 1) for span, v in given.windows.items()})
        assert (
            retrieve(turned, query, config).hierarchy_scores
            != retrieve(given, query, config).hierarchy_scores
        )
        turned = replace(given, episodes={span: np.roll(v, 1) for span, v in given.episodes.items()})
        assert (
            retrieve(turned, query, config).hierarchy_scores
            != retrieve(given, query, config).hierarchy_scores
        )

    def test_integer_tokens_do_as_well_as_words(self) -> None:
        facts, query = random_bank(11), random_query(11)
        keys: dict[Token, int] = {}

        def key(token: Token) -> int:
            return keys.setdefault(token, 2**40 + len(keys)) if token else 0

        def part(of: Sequence[tuple[Token, Token]]) -> list[tuple[Token, Token]]:
            return [(key(raw), key(stem)) for raw, stem in of]

        numbered = replace(
            facts,
            units=[replace(u, parts=[part(p) for p in u.parts]) for u in facts.units],
            sentences=[replace(z, tokens=[key(t) for t in z.tokens]) for z in facts.sentences],
            name_token={name: key(token) for name, token in facts.name_token.items()},
        )
        asked = replace(
            query,
            stems=[key(t) for t in query.stems],
            phrases=[[key(t) for t in phrase] for phrase in query.phrases],
        )
        words, numbers = retrieve(facts, query, HAND), retrieve(numbered, asked, HAND)
        assert (words.rows, words.scores) == (numbers.rows, numbers.scores)
