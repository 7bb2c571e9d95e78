"""The graph functions: PageRank with igraph's semantics, activation by its formula, one or many at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from zeromem_gpu import InvalidInput
from zeromem_gpu.compat.colours import three_colours
from zeromem_gpu.compat.graph import PageRankGraph, personalized_pagerank, propagate_activation

SIZES = [(1, 0), (7, 6), (63, 100), (257, 2000)]


def by_igraph(nodes, edges, weights, reset, damping, directed):
    igraph = pytest.importorskip("igraph", reason="the test extra brings igraph")
    graph = igraph.Graph(n=nodes, edges=edges.tolist(), directed=directed)
    return np.array(
        graph.personalized_pagerank(
            damping=damping, reset=reset.tolist(), weights=weights.tolist() if len(weights) else None,
            directed=directed, implementation="prpack",
        )
    )  # fmt: skip


def random_graph(nodes, edges, seed):
    """Loops, edges that occur again, weights of zero and nodes without an edge among them."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, max(nodes - nodes // 7, 1), (edges, 2))
    weights = rng.random(edges) * 10.0 ** rng.integers(-2, 3, edges)
    weights[: edges // 10] = 0.0
    reset = rng.random(nodes) * (rng.random(nodes) < 0.3)
    reset[[0, -1]] = 1.0  # the last node has no edge
    return pairs, weights, reset


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("damping", [0.0, 0.5, 0.6, 0.85, 0.9])
@pytest.mark.parametrize(("nodes", "edges"), SIZES)
def test_agrees_with_prpack(nodes, edges, damping, directed) -> None:
    pairs, weights, reset = random_graph(nodes, edges, nodes)
    found = personalized_pagerank(pairs, reset, damping, directed, weights=weights)
    expected = (
        by_igraph(nodes, pairs, weights, reset, damping, directed) if damping else reset / reset.sum()
    )
    assert np.abs(found - expected).sum() <= 1e-6
    assert found.sum() == pytest.approx(1.0, abs=1e-5)


def test_agrees_with_prpack_on_an_entity_graph_in_three_colours() -> None:
    rng = np.random.default_rng(3)
    passages, entities = 200, 60
    mentions = np.stack([rng.integers(0, passages, 600), passages + rng.integers(0, entities, 600)], 1)
    chain = np.stack([np.arange(passages - 1), np.arange(1, passages)], 1)
    edges = np.concatenate([np.unique(mentions, axis=0), chain])
    weights = rng.random(len(edges)) + 0.1
    graph = PageRankGraph(edges, weights, nodes=passages + entities)
    assert graph.solver == "sor"
    resets = rng.random((70, passages + entities)) ** 8
    found = personalized_pagerank(graph, resets, 0.6)
    for reset, one in zip(resets, found, strict=True):
        expected = by_igraph(passages + entities, edges, weights, reset, 0.6, False)
        assert np.abs(one - expected).sum() <= 1e-6


def test_part_that_the_reset_does_not_reach_has_nothing() -> None:
    found = personalized_pagerank([[0, 1], [2, 3]], [1.0, 0, 0, 0, 0], 0.6)
    assert found[2:].tolist() == [0, 0, 0]


def test_forms_of_one_graph_give_one_answer() -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="the test extra brings SciPy")
    pairs, weights, reset = random_graph(63, 150, 5)
    kept = pairs[:, 0] != pairs[:, 1]
    pairs, weights = pairs[kept], weights[kept]
    upper = sparse.coo_array((weights, pairs.T), shape=(63, 63))
    matrix = (upper + upper.T).tocsr()
    expected = personalized_pagerank(pairs, reset, weights=weights)
    for form in (matrix, matrix.tocoo(), sparse.csr_matrix(matrix), PageRankGraph(matrix)):
        assert personalized_pagerank(form, reset) == pytest.approx(expected, abs=1e-7)
    torch_csr = torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr),
        torch.from_numpy(matrix.indices),
        torch.from_numpy(matrix.data),
        (63, 63),
    )
    found = personalized_pagerank(torch_csr, torch.from_numpy(reset))
    assert isinstance(found, torch.Tensor)
    assert found.numpy() == pytest.approx(expected, abs=1e-7)
    two = personalized_pagerank((pairs[:, 0], pairs[:, 1]), reset, weights=weights)
    assert two == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("count", [0, 1, 7, 64, 100])
def test_a_batch_is_its_vectors(count) -> None:
    pairs, weights, _ = random_graph(63, 150, 6)
    graph = PageRankGraph(pairs, weights, nodes=63)
    resets = np.random.default_rng(7).random((count, 63))
    found = personalized_pagerank(graph, resets, 0.6)
    assert found.shape == (count, 63)
    for reset, one in zip(resets, found, strict=True):
        assert one.tolist() == personalized_pagerank(graph, reset, 0.6).tolist()


def test_only_ratios_of_weights_and_masses_count() -> None:
    pairs, weights, reset = random_graph(63, 150, 8)
    small = personalized_pagerank(pairs, 1e-30 * reset, weights=1e-50 * weights)
    assert small == pytest.approx(personalized_pagerank(pairs, reset, weights=weights), abs=1e-7)


@pytest.mark.parametrize(
    ("adjacency", "options", "message"),
    [
        ([[0, 1]], {"reset": [0.0, 0.0]}, "reset: got row 0 without any mass"),
        ([[0, 1]], {"reset": [-1.0, 2.0]}, "reset: got a negative number"),
        ([[0, 1]], {"reset": [np.nan, 2.0]}, "reset: got an infinite or NaN"),
        ([[0, 1]], {"reset": "two"}, "reset: got str"),
        ([[0, 2]], {}, r"edges: got node numbers 0 … 2; allowed: 0 … 1"),
        ([[0, 1]], {"weights": [-1.0]}, "weights: got a negative"),
        ([[0, 1]], {"weights": [1.0, 2.0]}, r"weights: got shape \[2\]"),
        ([[0.5, 1.0]], {}, "dense matrix goes through scipy"),
        ([[0, 1]], {"damping": 1.0}, "damping: got 1.0"),
        ([[0, 1]], {"tolerance": 1e-9}, "tolerance: got 1e-09"),
        (torch.tensor([[0.0, 1.0], [0.0, 0.0]]).to_sparse_csr(), {}, "not symmetric"),
        (torch.ones(2, 3).to_sparse_csr(), {}, r"shape \[2, 3\]"),
        (((0, 1), (1, 0)), {}, "may be edges or sources and targets"),
        ([[0, 0], [0, 1]], {"weights": [1e-40, 1.0]}, "weights: got weights more than 37 powers of ten"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_error(adjacency, options, message) -> None:
    options = {"reset": [1.0, 0.0], **options}
    with pytest.raises(InvalidInput, match=message):
        personalized_pagerank(adjacency, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": -1}, "nodes: got -1"),
        ({"nodes": 2.0}, "nodes: got 2.0"),
        ({"nodes": 2, "device": "tpu"}, "device: got 'tpu'"),
        ({"nodes": 2, "device": "cuda:99"}, "device: got 'cuda:99'"),
    ],
)
def test_graph_that_cannot_be_made_is_one_clear_error(options, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        PageRankGraph([[0, 1]], **options)


def test_directed_matrix_needs_no_symmetry() -> None:
    matrix = torch.tensor([[0.0, 1.0], [0.0, 0.0]]).to_sparse_csr()
    assert personalized_pagerank(matrix, [1.0, 0.0], 0.5, directed=True).tolist() == pytest.approx(
        [2 / 3, 1 / 3]
    )


class TestColours:
    def test_edges_join_different_colours(self) -> None:
        rng = np.random.default_rng(0)
        for nodes in (2, 40, 500):
            graph = np.triu(rng.random((nodes, nodes)) < 1.5 / nodes, 1)
            graph |= graph.T
            colours = three_colours(np.concatenate([[0], np.cumsum(graph.sum(1))]), np.nonzero(graph)[1])
            if colours is not None:
                row, column = np.nonzero(graph)
                assert (colours[row] != colours[column]).all()
                assert set(colours.tolist()) <= {0, 1, 2}

    def test_four_nodes_that_all_meet_have_none(self) -> None:
        indices = np.concatenate([[j for j in range(4) if j != i] for i in range(4)])
        assert three_colours(np.arange(0, 13, 3), indices) is None

    def test_loop_has_none(self) -> None:
        assert three_colours(np.array([0, 1]), np.array([0])) is None


def plain_activation(pairs, similarity, seeds, steps, entity_floor, sentence_floor, exclude_self):
    incidence = np.zeros((len(similarity), len(seeds)))
    incidence[pairs[:, 0], pairs[:, 1]] = 1
    gate = np.maximum(similarity, 0)
    gate = np.where(gate >= sentence_floor * gate.max(), gate, 0)
    eta = np.where(seeds >= entity_floor * seeds.max(), seeds, 0)
    total = eta.copy()
    for _ in range(steps):
        following = incidence.T @ (gate * (incidence @ eta))
        if exclude_self:
            following = following - eta * (incidence.T @ gate)
        following = following / following.max() if following.max() > 1e-9 else 0 * following
        eta = np.where(following >= entity_floor * following.max(), following, 0)
        total = total + eta
    return total


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize(("floor", "steps"), [(0.0, 1), (0.0, 3), (0.3, 2)])
def test_activation_follows_its_formula(floor, steps, exclude_self) -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="the test extra brings SciPy")
    rng = np.random.default_rng(2)
    pairs = np.unique(np.stack([rng.integers(0, 30, 80), rng.integers(0, 12, 80)], 1), axis=0)
    near, seeds = rng.standard_normal((40, 30)), rng.random((40, 12)) * (rng.random((40, 12)) < 0.3)
    seeds[:, 0] = 1.0
    options = {
        "steps": steps, "entity_floor": floor, "sentence_floor": floor, "exclude_self": exclude_self,
    }  # fmt: skip
    found = propagate_activation(pairs, near, seeds, **options)
    matrix = sparse.csr_array((np.ones(len(pairs)), pairs.T), shape=(30, 12))
    assert found.tolist() == propagate_activation(matrix, near, seeds, **options).tolist()
    assert found[3].tolist() == propagate_activation(pairs, near[3], seeds[3], **options).tolist()
    for row in range(40):
        expected = plain_activation(pairs, near[row], seeds[row], steps, floor, floor, exclude_self)
        assert found[row] == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_activation_of_bad_input() -> None:
    with pytest.raises(InvalidInput, match="similarity: got 2 questions"):
        propagate_activation([[0, 0]], [[1.0], [1.0]], [1.0])
    with pytest.raises(InvalidInput, match="seeds: got a negative"):
        propagate_activation([[0, 0]], [1.0], [-1.0])
    with pytest.raises(InvalidInput, match="incidence: got a sentence or entity"):
        propagate_activation([[0, 3]], [1.0], [1.0])
    for name, value in (("steps", -1), ("entity_floor", 2), ("sentence_floor", float("nan"))):
        with pytest.raises(InvalidInput, match=f"{name}: got {value}"):
            propagate_activation([[0, 0]], [1.0], [1.0], **{name: value})


@pytest.mark.parametrize(
    ("questions", "sentences", "entities"), [(0, 3, 2), (2, 0, 2), (2, 3, 0), (0, 0, 0)]
)
def test_activation_of_nothing_is_the_seeds(questions, sentences, entities) -> None:
    seeds = np.ones((questions, entities))
    found = propagate_activation([], np.zeros((questions, sentences)), seeds)
    assert found.shape == seeds.shape
    assert (found == seeds).all()
