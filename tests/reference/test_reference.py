"""The formulas of the reference against hand-computed values and against each other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.reference import activation, entities, lexical, pagerank, scaling, spans, views
from tests.reference.examples import HOUR, X, Y, random_bank, unit
from tests.reference.facts import Array, Sentence, Token
from tests.reference.oracle import Bank
from zeromem_gpu.config import Config


class TestScaling:
    def test_min_max_and_scale_ignore_hidden_rows(self) -> None:
        x, visible = np.array([9.0, 1.0, 2.0, 3.0, -9.0]), np.array([False, True, True, True, False])
        assert scaling.min_max(x, visible).tolist() == [0, 0, 0.5, 1, 0]
        assert scaling.scale(x, visible).tolist() == [0, 1 / 3, 2 / 3, 1, 0]

    def test_degenerate_columns_are_zero(self) -> None:
        every = np.ones(3, dtype=bool)
        assert scaling.min_max(np.full(3, 0.7), every).tolist() == [0, 0, 0]
        assert scaling.min_max(np.array([0.3, 0.1 + 0.2, 0.3]), every).tolist() == [0, 0, 0]
        assert scaling.scale(np.array([-2.0, -1.0, 0.0]), every).tolist() == [0, 0, 0]
        assert scaling.min_max(np.ones(3), ~every).tolist() == [0, 0, 0]
        assert scaling.min_max(np.zeros(0), every[:0]).size == 0

    def test_tiny_but_real_differences_count(self) -> None:
        assert scaling.min_max(np.array([0.0, 1e-20]), np.ones(2, dtype=bool)).tolist() == [0, 1]
        assert scaling.spread(np.array([-2.0, -2.0 + 2.1e-6])) > 0
        assert scaling.spread(np.array([-2.0, -2.0 + 1.9e-6])) == 0

    def test_cosine(self) -> None:
        assert scaling.cosine(2 * X, 3 * (X + Y)) == pytest.approx(math.sqrt(0.5))
        assert scaling.cosine(X, 0 * X) == 0.0
        rows = np.array([[3.0, 4.0], [0.0, 0.0], [-2.0, 0.0]])
        assert scaling.cosines(5 * X, rows).tolist() == pytest.approx([0.6, 0.0, -1.0])
        assert scaling.cosines(X, np.zeros((0, 0))).size == 0

    def test_top_k_breaks_ties_by_row_and_never_returns_masked_rows(self) -> None:
        scores = np.array([1.0, 5.0, 2.0, 5.0, 9.0])
        allowed = [True, True, True, True, False]
        assert scaling.ordered_top_k(scores, allowed, 3) == ([1, 3, 2], [5.0, 5.0, 2.0])
        assert scaling.ordered_top_k(scores, allowed, 6)[0] == [1, 3, 2, 0, -1, -1]
        assert scaling.ordered_top_k(scores, [False] * 5, 2) == ([-1, -1], [-np.inf, -np.inf])
        assert scaling.ordered_top_k(np.full(4, 0.0), [True] * 4, 4)[0] == [0, 1, 2, 3]


class TestLexical:
    DOCUMENTS = (["a", "b"], ["a", "a", "c"], ["d"])

    def test_bm25_by_hand(self) -> None:
        a = math.log(1.6)  # N = 3, df = 2: ln(1 + 1.5 / 2.5); avglen = 2
        d = math.log(1 + 2.5 / 1.5)
        expected = [a * 2.2 / (1 + 1.2), a * 2 * 2.2 / (2 + 1.2 * 1.15), 0.0]
        assert lexical.bm25_scores(["a"], self.DOCUMENTS, 1.2, 0.3).tolist() == pytest.approx(expected)
        doubled = lexical.bm25_scores(["a", "a", "d", "unknown"], self.DOCUMENTS, 1.2, 0.3)
        assert doubled.tolist() == pytest.approx(
            [2 * expected[0], 2 * expected[1], d * 2.2 / (1 + 1.2 * 0.85)]
        )

    @pytest.mark.parametrize(("k1", "b"), [(1.2, 0.3), (0.0, 1.0), (2.0, 0.0)])
    def test_stored_weights_give_the_same(self, k1: float, b: float) -> None:
        rng = np.random.default_rng(3)
        documents = [[int(t) for t in rng.integers(1, 20, size=n)] for n in rng.integers(0, 30, size=17)]
        query = [1, 5, 5, 19, 77, 0]
        np.testing.assert_allclose(
            lexical.Bm25(documents, k1, b).scores(query), lexical.bm25_scores(query, documents, k1, b)
        )

    def test_average_length_is_at_least_one(self) -> None:
        assert lexical.average_length([["a"], [], []]) == 1.0
        assert lexical.average_length([]) == 1.0
        assert lexical.average_length(self.DOCUMENTS) == 2.0
        assert lexical.bm25_scores(["a"], [], 1.2, 0.3).size == 0

    def test_phrases_stay_inside_a_part_and_count_stop_words(self) -> None:
        units = [unit("the red door", speaker="ann"), unit("red the door")]
        phrases: list[list[Token]] = [["the", "red"], ["ann", "the"], ["door"], []]
        assert lexical.phrase_support(phrases, units).tolist() == pytest.approx([2 / 3, 1 / 3])
        assert lexical.phrase_support([], units).tolist() == [0, 0]
        assert lexical.stems_of(units[0]) == ["ann", "red", "door"]


class TestSpans:
    @pytest.mark.parametrize(
        ("n", "expected"),
        [
            (0, []),
            (1, [(0, 0)]),
            (4, [(0, 3)]),
            (5, [(0, 3), (2, 4)]),
            (6, [(0, 3), (2, 5)]),
            (7, [(0, 3), (2, 5), (4, 6)]),
        ],
    )
    def test_windows(self, n: int, expected: list[tuple[int, int]]) -> None:
        assert spans.windows(n, 4, 2) == expected

    def test_local_spans_stay_in_the_session(self) -> None:
        assert [spans.local_span(i, (3, 5), 1) for i in (3, 4, 5)] == [(3, 4), (3, 5), (4, 5)]

    def test_sessions_must_be_contiguous(self) -> None:
        assert spans.sessions(["a", "a", "b"]) == [(0, 1), (2, 2)]
        with pytest.raises(ValueError, match="comes back"):
            spans.sessions(["a", "b", "a"])

    def test_pooled_is_normalised_and_survives_cancelling(self) -> None:
        vectors = np.array([X, X, Y, -Y])
        assert spans.pooled(vectors, (0, 2)).tolist() == pytest.approx([2 / math.sqrt(5), 1 / math.sqrt(5)])
        assert spans.pooled(vectors, (2, 3)).tolist() == [0, 0]

    def test_episode_breaks_by_meaning_and_by_silence(self) -> None:
        of = [(0, 1), (2, 3), (4, 5), (6, 7)]
        vectors = np.array([X, X, X, Y])  # cosines 1, 1, 0: threshold 2/3 - 0.5 * 0.4714 = 0.4310
        quiet: list[float | None] = [0.0] * 8
        groups, margin = spans.episodes(of, vectors, quiet, 0.5, 6.0)
        assert groups == [[0, 1, 2], [3]]
        assert margin == pytest.approx(2 / 3 - math.sqrt(2) / 6)
        assert spans.episodes(of, vectors, quiet, 2.0, 6.0)[0] == [[0, 1, 2, 3]]
        late: list[float | None] = [0.0, 0.0, 6 * HOUR, None, 12 * HOUR + 1, None, None, None]
        assert spans.episodes(of, vectors, late, 2.0, 6.0)[0] == [[0, 1], [2, 3]]

    def test_equal_cosines_give_no_break(self) -> None:
        rows = np.array([[math.cos(0.1 * k), math.sin(0.1 * k)] for k in range(7)])
        of = [(k, k) for k in range(7)]
        assert len(spans.episodes(of, rows, [None] * 7, 0.0, 6.0)[0]) == 1
        assert spans.episodes([], rows[:0], [], 0.5, 6.0)[0] == []


class TestEntities:
    def test_counts(self) -> None:
        one = unit("bob saw bob and eve", speaker="ann", mentions=[("bob", 1), ("oslo", 2), ("bob", 2)])
        names: dict[str, Token] = {"ann": "ann", "bob": "bob"}
        counts = entities.entity_counts(one, ["ann", "bob", "de la cruz"], names, True)
        assert counts == {"bob": 3, "oslo": 2, "ann": 1}
        assert entities.entity_counts(one, ["bob"], {"bob": "eve"}, False) == {"bob": 3, "oslo": 2}
        assert entities.entity_counts(unit("x"), ["ann"], names, True) == {}
        shown = unit("ann", speaker="ann", caption="ann bob ann")
        assert entities.entity_counts(shown, ["ann", "bob"], names, True) == {"ann": 4, "bob": 1}

    def test_known_names_count_where_the_ner_saw_fewer(self) -> None:
        assert entities.entity_counts(
            unit("bob bob", mentions=[("bob", 1)]), ["bob"], {"bob": "bob"}, True
        ) == {"bob": 2}

    def test_sentences(self) -> None:
        one, z = unit("x", speaker="ann"), Sentence(0, ["bob", "went"], ["oslo", "oslo"], X)
        assert entities.sentence_entities(z, one, ["bob"], {"bob": "bob"}, True) == ["oslo", "bob", "ann"]
        assert entities.sentence_entities(z, one, [], {}, False) == ["oslo"]
        matrix = entities.incidence([["oslo", "bob"], []], {"bob": 0, "oslo": 1, "ann": 2})
        assert matrix.tolist() == [[1, 1, 0], [0, 0, 0]]

    def test_alignment(self) -> None:
        rows, vectors = {"a": 0, "b": 1}, np.array([X, Y])
        slant = np.array([0.8, 0.6])
        assert entities.align([("b", X)], rows, vectors, 0.6)[0] == {1: 1.0}
        aligned, margin = entities.align([("c", slant)], rows, vectors, 0.7)
        assert aligned == {0: pytest.approx(0.8)}
        assert margin == pytest.approx(0.1)
        assert entities.align([("c", slant)], rows, vectors, 0.81)[0] == {}
        assert entities.align([("a", X), ("c", slant)], rows, vectors, 0.6)[0] == {0: 1.0}
        assert entities.align([("c", X + Y)], rows, vectors, 0.6)[0] == {0: pytest.approx(math.sqrt(0.5))}
        assert entities.align([("a", X)], {}, np.zeros((0, 0)), 0.6)[0] == {}


class TestActivation:
    @pytest.mark.parametrize("exclude_self", [False, True])
    def test_the_printed_sum_over_shared_sentences(self, exclude_self: bool) -> None:
        rng = np.random.default_rng(5)
        matrix = (rng.random((19, 6)) < 0.3).astype(np.float64)
        similarity, eta = rng.random(19), rng.random(6)
        members = [[int(e) for e in np.flatnonzero(row)] for row in matrix]
        holds = [{z for z in range(19) if matrix[z, e] > 0} for e in range(6)]
        expected = [
            sum(
                eta[e] * sum(similarity[z] for z in holds[e] & holds[target])
                for e in range(6)
                if e != target or not exclude_self
            )
            for target in range(6)
        ]
        printed = activation.step_printed(eta, similarity, members, exclude_self)
        np.testing.assert_allclose(printed, expected, rtol=1e-13)
        by_matrix = activation.step_matrix(eta, similarity, matrix, exclude_self)
        np.testing.assert_allclose(by_matrix, expected, atol=1e-14)

    def test_an_entity_alone_spreads_nothing_but_to_itself(self) -> None:
        eta, similarity = np.array([0.7, 0.0]), np.array([0.1, 0.2, 0.3])
        alone = [[0], [0], [0]]
        assert activation.step_printed(eta, similarity, alone, True).tolist() == [0, 0]
        assert activation.step_printed(eta, similarity, alone, False).tolist() == pytest.approx([0.42, 0])

    def test_sentence_floor_and_hidden_sentences(self) -> None:
        cosine, visible = np.array([0.9, 0.8, 0.39, 0.4, -0.5]), np.array([False, True, True, True, True])
        literal, _ = activation.sentence_similarity(cosine, visible, None)
        assert literal.tolist() == [0, 0.8, 0.39, 0.4, 0]
        pruned, margin = activation.sentence_similarity(cosine, visible, 0.5)
        assert pruned.tolist() == [0, 0.8, 0, 0.4, 0]
        assert margin == pytest.approx(0.0)
        assert activation.sentence_similarity(-np.ones(2), np.ones(2, dtype=bool), 0.5)[0].tolist() == [
            0,
            0,
        ]

    def test_two_steps_by_hand(self) -> None:
        # a–b share z0 (S = 1), b–c share z1 (S = 1): (1,0,0) → (1,1,0) → (2,3,1)/3
        members, similarity, start = [[0, 1], [1, 2]], np.ones(2), np.array([1.0, 0.0, 0.0])
        literal, _ = activation.spread_activation(start, similarity, members, 2, None, False)
        assert literal.tolist() == pytest.approx([2 + 2 / 3, 2, 1 / 3])
        none, _ = activation.spread_activation(0.8 * start, similarity, members, 0, None, False)
        assert none.tolist() == [0.8, 0, 0]
        other, _ = activation.spread_activation(start, similarity, members, 2, None, True)
        assert other.tolist() == pytest.approx([2, 1, 1])  # (1,0,0) → (0,1,0) → (1,0,1)

    def test_pruning_takes_an_entity_out_of_the_sum_and_of_the_next_step(self) -> None:
        # S of the weak sentence is 0.1: η₁ = (1.1, 1, 0.1)/1.1, whose last entry falls under the floor
        members, similarity = [[0, 1], [0, 2]], np.array([1.0, 0.1])
        start = np.array([1.0, 0.0, 0.0])
        eta, _ = activation.spread_activation(start, similarity, members, 2, 0.2, False)
        # the third entry falls again after the last step: 0.1 / (1.1 + 1 / 1.1)
        second = np.array([1.1 + 1 / 1.1, 1 + 1 / 1.1, 0.0])
        assert eta.tolist() == pytest.approx(
            (start + np.array([1, 1 / 1.1, 0]) + second / second.max()).tolist()
        )
        kept, _ = activation.spread_activation(start, similarity, members, 2, 0.04, False)
        weak = 0.1 * (1 + 0.1 / 1.1)  # what the weak sentence passes on in the second step
        assert kept[2] == pytest.approx(0.1 / 1.1 + weak / (1 + 1 / 1.1 + weak))

    def test_seeds_are_pruned_before_they_enter_the_sum(self) -> None:
        start = np.array([1.0, 0.6, 0.7])
        eta, margin = activation.spread_activation(start, np.zeros(1), [[0]], 0, 0.65, False)
        assert eta.tolist() == [1.0, 0.0, 0.7]
        assert margin == pytest.approx(0.05)

    def test_nothing_similar_ends_in_zero_not_nan(self) -> None:
        eta, _ = activation.spread_activation(np.array([0.7]), np.zeros(1), [[0]], 2, 0.05, False)
        assert eta.tolist() == [0.7]


def star() -> Array:
    """W of unit 0 – entity 2 (weight 1) and unit 0 – unit 1 (chain 1)."""
    return pagerank.edge_weights([{"e": 3}, {}], {"e": 0}, [(0, 1)], 1.0)


class TestPageRank:
    def test_edge_weights(self) -> None:
        weights = pagerank.edge_weights(
            [{"a": 1, "b": 3}, {}, {"b": 2}], {"a": 0, "b": 1}, [(0, 1), (2, 2)], 0.5
        )
        expected = np.zeros((5, 5))
        expected[0, 3], expected[0, 4], expected[0, 1], expected[2, 4] = 0.25, 0.75, 0.5, 1.0
        np.testing.assert_array_equal(weights, expected + expected.T)

    def test_by_hand(self) -> None:
        every = np.ones(3, dtype=bool)
        x = pagerank.solve(np.array([1.0, 0.0, 0.0]), pagerank.transition(star()), 0.6, every)
        assert x.tolist() == pytest.approx([0.625, 0.1875, 0.1875])  # x0 = 0.4 + 0.36 x0

    def test_hidden_units_swallow_mass(self) -> None:
        shown = np.array([True, False, True])
        x = pagerank.solve(np.array([1.0, 0.0, 0.0]), pagerank.transition(star()), 0.6, shown)
        assert x.tolist() == pytest.approx([0.4 / 0.82, 0, 0.12 / 0.82])  # d stays 2: x0 = 0.4 + 0.18 x0
        assert pagerank.rescaled(x).tolist() == pytest.approx([1 / 1.3, 0, 0.3 / 1.3])

    @pytest.mark.parametrize("gamma", [0.0, 0.6, 0.95])
    @pytest.mark.parametrize("hide", [0, 4])
    def test_three_solvers_agree(self, gamma: float, hide: int) -> None:
        bank = Bank(random_bank(1), Config())
        matrix, units, n = bank.transition, 23, len(bank.transition)
        rng = np.random.default_rng(2)
        shown = np.ones(n, dtype=bool)
        shown[rng.choice(units, size=hide, replace=False)] = False
        reset = np.where(shown, rng.random(n), 0.0)
        reset /= reset.sum()
        truth = pagerank.solve(reset, matrix, gamma, shown)
        np.testing.assert_allclose(bank.stationary(reset, gamma, shown), truth, atol=1e-13)
        power, by_power = pagerank.power_iteration(reset, matrix, gamma, shown, 1e-11)
        groups = pagerank.colours(units, n - units)
        swept, by_sor = pagerank.sor(reset, matrix, gamma, shown, groups, 1.1, 1e-11)
        assert float(np.abs(power - truth).sum()) < 1e-10
        assert float(np.abs(swept - truth).sum()) < 1e-10
        assert not swept[~shown].any()
        if gamma == 0.95:
            assert by_sor < by_power

    def test_residual_bounds_the_error(self) -> None:
        matrix, every = pagerank.transition(star()), np.ones(3, dtype=bool)
        reset, x = np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.2, 0.3])
        # (1 − γ) r + γ W D⁻¹ x = (0.4 + 0.6 · 0.5, 0.15, 0.15)
        assert pagerank.l1_residual(x, reset, matrix, 0.6, every) == pytest.approx(0.2 + 0.05 + 0.15)
        truth = pagerank.solve(reset, matrix, 0.6, every)
        assert np.abs(x - truth).sum() <= 0.4 / 0.4
        assert pagerank.l1_residual(truth, reset, matrix, 0.6, every) < 1e-14

    def test_no_two_nodes_of_a_colour_touch(self) -> None:
        bank = Bank(random_bank(4), Config())
        groups = pagerank.colours(23, len(bank.entity_rows))
        assert sorted(node for group in groups for node in group) == list(range(len(bank.weights)))
        for group in groups:
            assert not bank.weights[np.ix_(group, group)].any()

    def test_rescaling_returns_dangling_mass_to_the_reset(self) -> None:
        facts = replace(random_bank(6), speakers=[])
        bank = Bank(facts, Config(chain_weight=0.0, speaker_entities=False))
        matrix = bank.transition
        dangling = matrix.sum(axis=0) == 0
        assert dangling[:23].any()
        assert dangling[23:].any()
        reset = np.random.default_rng(0).random(len(matrix))
        reset /= reset.sum()
        closed = matrix.copy()
        closed[:, dangling] = reset[:, None]
        truth = np.linalg.solve(np.eye(len(matrix)) - 0.6 * closed, 0.4 * reset)
        every = np.ones(len(matrix), dtype=bool)
        x = pagerank.solve(reset, matrix, 0.6, every)
        np.testing.assert_allclose(pagerank.rescaled(x), truth, atol=1e-13)
        np.testing.assert_allclose(x[dangling], 0.4 * reset[dangling], rtol=1e-12)

    def test_reset_vector(self) -> None:
        visible, cosine01 = np.array([True, True, False]), np.array([1.0, 0.5, 0.9])
        eta = np.array([3.0, 1.0])
        assert pagerank.reset_vector(eta, cosine01, visible, 0.3, 2.0).tolist() == pytest.approx(
            [0.7 * 0.8, 0.7 * 0.2, 0, 0.3 * 0.75, 0.3 * 0.25]
        )
        assert pagerank.reset_vector(0 * eta, cosine01, visible, 0.3, 2.0).tolist() == pytest.approx(
            [0.8, 0.2, 0, 0, 0]
        )
        flat = np.zeros(3)
        assert pagerank.reset_vector(eta, flat, visible, 0.3, 2.0).tolist() == [0, 0, 0, 0.75, 0.25]
        assert pagerank.reset_vector(0 * eta, flat, visible, 0.3, 0.0).tolist() == [0.5, 0.5, 0, 0, 0]
        assert pagerank.reset_vector(0 * eta, flat, visible, 0.3, 2.0).tolist() == [0] * 5
        assert pagerank.rescaled(np.zeros(2)).tolist() == [0, 0]


class TestSignalsAndFusion:
    def test_subject(self) -> None:
        one = unit(speaker="ann")
        assert views.subject_consistency(["bob", "ann"], one, {"bob": 1}) == 1.0
        assert views.subject_consistency(["bob"], one, {"bob": 1}) == 0.5
        assert views.subject_consistency(["eve"], one, {"bob": 1}) == 0.0
        assert views.subject_consistency([], unit(), {"bob": 1}) == 0.0

    def test_temporal(self) -> None:
        day = views.DAY
        assert views.temporal_validity((day, 2 * day), 2 * day, 14.0) == 1.0
        assert views.temporal_validity((day, 2 * day), 9 * day, 14.0) == pytest.approx(math.exp(-0.5))
        assert views.temporal_validity((15 * day, None), day, 14.0) == pytest.approx(math.exp(-1))
        assert views.temporal_validity((None, day), -99 * day, 14.0) == 1.0
        assert views.temporal_validity(None, day, 14.0) == 0.0
        assert views.temporal_validity((day, day), None, 14.0) == 0.0

    def test_best_offer_is_that_of_a_kept_window(self) -> None:
        of, offered = [(0, 2), (1, 3), (3, 4)], np.array([0.5, -0.25, 0.75])
        none = -math.inf
        every = np.ones(3, dtype=bool)
        assert views.best_offer(6, of, offered, every).tolist() == [0.5, 0.5, 0.5, 0.75, 0.75, none]
        second = np.array([False, True, False])
        assert views.best_offer(6, of, offered, second).tolist() == [none, *[-0.25] * 3, none, none]

    def test_neighbours(self) -> None:
        own, every = np.array([1.0, 2.0, 4.0, 8.0]), np.ones(4, dtype=bool)
        assert views.neighbour_sum(own, [(0, 2), (3, 3)], every).tolist() == [2, 5, 2, 0]
        shown = np.array([True, True, False, True])
        assert views.neighbour_sum(own, [(0, 2), (3, 3)], shown)[1] == 1.0

    def test_fusion(self) -> None:
        fused = views.fuse({4: 3.0, 1: 1.0, 2: 2.0}, {2: 7.0, 9: 7.0}, 0.6)
        assert fused == {1: 0.0, 2: pytest.approx(0.7), 4: 0.6, 9: 0.4}
        assert list(fused) == [1, 2, 4, 9]
        assert views.fuse({}, {}, 0.6) == {}
        assert views.fuse({3: 0.0}, {}, 0.6) == {3: 0.6}
        assert views.graph_weight("both", "relational", 0.7) == 0.7
        assert views.graph_weight("both", "local", 0.7) == pytest.approx(0.3)
        assert views.graph_weight("graph", "local", 0.7) == 1.0
        assert views.graph_weight("hierarchy", "relational", 0.7) == 0.0
