"""Activation and the reset vector."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels.layout import (
    TILINGS,
    blocks,
    both,
    float64,
    pointer,
    random_csr,
    random_hidden,
    stacked,
    tiles_of,
)
from tests.reference import activation, pagerank
from zeromem_kernels.activation import propagate, sentence_gate
from zeromem_kernels.layout import transpose
from zeromem_kernels.reset import node_rows, reset_vector
from zeromem_kernels.tiles import Tiles

SENTENCES = (9, 0, 60, 1, 240, 2)
ENTITIES = (5, 0, 30, 0, 80, 7)
UNITS = (4, 0, 33, 1, 100, 2)
every_tiling = pytest.mark.parametrize("tiling", TILINGS)


def _transposed(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    row, column = np.nonzero(matrix)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(matrix)))])
    back, rows = transpose(indptr.astype(np.int64), column.astype(np.int32), matrix.shape[1])
    return back, rows, np.ones(len(rows), np.float32)


@every_tiling
@pytest.mark.parametrize("floor", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("masked", [False, True])
def test_sentence_gate(tiling: str, floor: float, masked: bool) -> None:
    rng = np.random.default_rng(1)
    axis = tiles_of(tiling).axis(pointer(SENTENCES))
    cosine = torch.from_numpy(rng.normal(size=(axis.rows, axis.tiles.width)).astype(np.float32))
    hidden = random_hidden(rng, axis)
    for found in both(lambda: sentence_gate(cosine, axis, hidden if masked else None, floor)):
        for block in blocks(axis):
            for c in range(axis.tiles.width):
                shown = ~hidden[block.at, c].numpy() if masked else np.ones(SENTENCES[block.bank], bool)
                expected, _ = activation.sentence_similarity(float64(cosine[block.at, c]), shown, floor)
                np.testing.assert_allclose(found[block.at, c].numpy(), expected, atol=1e-7)


@every_tiling
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("floor", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_propagate_through_few_sentences(
    tiling: str, steps: int, floor: float, exclude_self: bool, masked: bool
) -> None:
    # the compiled form visits only the sentences of the gate: the same sums as over all of them
    rng = np.random.default_rng(4)
    tiles = tiles_of(tiling)
    sentences, entities = tiles.axis(pointer(SENTENCES)), tiles.axis(pointer(ENTITIES))
    incidence, dense = random_csr(rng, SENTENCES, ENTITIES, 0.15)
    incidence = incidence._replace(weights=torch.ones_like(incidence.weights))
    transposed = stacked([_transposed(matrix) for matrix in dense])
    seeds = rng.random((entities.rows, tiles.width)) * (rng.random((entities.rows, tiles.width)) < 0.2)
    if tiles.width > 1:
        seeds[:, 1] = 0.0
    eta = torch.from_numpy(seeds.astype(np.float32))
    similarity = torch.from_numpy(rng.normal(size=(sentences.rows, tiles.width)).astype(np.float32))
    if tiles.width > 2:
        similarity[:, 2] = -1.0
    hidden = random_hidden(rng, sentences) if masked else None
    few, gate = (
        both(
            lambda at=at, least=least: propagate(
                eta, at, hidden if least > 0 else None, incidence, transposed, sentences, entities,
                steps=steps, floor=floor, sentence_floor=least, exclude_self=exclude_self,
            )
        )
        for at, least in (
            (similarity, 0.5), (sentence_gate(similarity, sentences, hidden, 0.5), 0.0),
        )
    )  # fmt: skip
    for found in (few[0], gate[0], gate[1]):
        np.testing.assert_allclose(few[1].numpy(), found.numpy(), rtol=1e-5, atol=1e-6)
    assert torch.equal(few[1], gate[1])


@every_tiling
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("floor", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("exclude_self", [False, True])
def test_propagate(tiling: str, steps: int, floor: float, exclude_self: bool) -> None:
    rng = np.random.default_rng(2)
    tiles = tiles_of(tiling)
    sentences, entities = tiles.axis(pointer(SENTENCES)), tiles.axis(pointer(ENTITIES))
    incidence, dense = random_csr(rng, SENTENCES, ENTITIES, 0.08)
    incidence = incidence._replace(weights=torch.ones_like(incidence.weights))
    tables = [_transposed(matrix) for matrix in dense]
    seeds = rng.random((entities.rows, tiles.width)) * (rng.random((entities.rows, tiles.width)) < 0.2)
    if tiles.width > 1:
        seeds[:, 1] = 0.0
    eta = torch.from_numpy(seeds.astype(np.float32))
    similarity = torch.from_numpy(rng.random((sentences.rows, tiles.width)).astype(np.float32))
    plain, fast = both(
        lambda: propagate(
            eta, similarity, None, incidence, stacked(tables), sentences, entities,
            steps=steps, floor=floor, sentence_floor=0.0, exclude_self=exclude_self,
        )
    )  # fmt: skip
    doubtful = 0
    for z, e in zip(blocks(sentences), blocks(entities), strict=True):
        members = [np.flatnonzero(row).tolist() for row in dense[e.bank]]
        for c in range(tiles.width):
            expected, margin = activation.spread_activation(
                float64(eta[e.at, c]),
                float64(similarity[z.at, c]),
                members,
                steps,
                floor or None,
                exclude_self,
            )
            if margin < 1e-5:  # float32 may decide otherwise
                doubtful += 1
                continue
            for found in (plain, fast):
                np.testing.assert_allclose(found[e.at, c].numpy(), expected, rtol=3e-5, atol=1e-5)
    assert doubtful <= 1


def test_a_gate_that_lets_thousands_of_sentences_pass() -> None:
    rng = np.random.default_rng(5)
    tiles = Tiles(torch.tensor([4]), 32)
    sentences, entities = tiles.axis(pointer(SENTENCES)), tiles.axis(pointer(ENTITIES))
    incidence, dense = random_csr(rng, SENTENCES, ENTITIES, 0.15)
    incidence = incidence._replace(weights=torch.ones_like(incidence.weights))
    transposed = stacked([_transposed(matrix) for matrix in dense])
    similarity = torch.from_numpy(rng.random((sentences.rows, 32)).astype(np.float32))
    eta = torch.from_numpy((rng.random((entities.rows, 32)) < 0.2).astype(np.float32))
    plain, fast = both(
        lambda: propagate(
            eta, similarity, None, incidence, transposed, sentences, entities,
            steps=2, floor=0.05, sentence_floor=0.01, exclude_self=False,
        )
    )  # fmt: skip
    np.testing.assert_allclose(fast.numpy(), plain.numpy(), rtol=1e-5, atol=1e-6)


def test_an_entity_that_met_only_itself_gets_nothing_back() -> None:
    # alone in three sentences, whose similarities add up to other bits than their products
    tiles = tiles_of("single rows")
    shape = [0, 0, 0, 3, 0, 0]
    sentences, entities = tiles.axis(pointer(shape)), tiles.axis(pointer([0, 0, 0, 1, 0, 0]))
    alone = (np.arange(4), np.zeros(3), np.ones(3))
    incidence = stacked([(np.zeros(1), [], [])] * 3 + [alone] + [(np.zeros(1), [], [])] * 2)
    transposed = stacked(
        [(np.zeros(1), [], [])] * 3
        + [(np.array([0, 3]), np.arange(3), np.ones(3))]
        + [(np.zeros(1), [], [])] * 2
    )
    gate = torch.tensor([0.1, 0.2, 0.7] * 2)[:, None] * torch.tensor([1.0, 0.3, 0.77, 0.9, 1e-3])
    eta = torch.full((2, 5), 0.7)
    for found in both(
        lambda: propagate(
            eta,
            gate,
            None,
            incidence,
            transposed,
            sentences,
            entities,
            steps=3,
            floor=0.0,
            sentence_floor=0.0,
            exclude_self=True,
        )
    ):
        assert torch.equal(found, eta)


@every_tiling
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_reset_vector(tiling: str, share: float) -> None:
    rng = np.random.default_rng(3)
    tiles = tiles_of(tiling)
    units, entities = tiles.axis(pointer(UNITS)), tiles.axis(pointer(ENTITIES))
    nodes = tiles.axis(pointer([n + m for n, m in zip(UNITS, ENTITIES, strict=True)]))
    eta = torch.from_numpy(rng.random((entities.rows, tiles.width)).astype(np.float32))
    prior = torch.from_numpy(rng.random((units.rows, tiles.width)).astype(np.float32))
    if tiles.width > 2:
        eta[:, 0], prior[:, 1] = 0.0, 0.0
    if tiles.width > 4:
        eta[:, 2], prior[:, 2] = 0.0, 0.0
    unit_node, entity_node = node_rows(units, entities, nodes)
    assert sorted([*unit_node.tolist(), *entity_node.tolist()]) == list(range(nodes.rows))
    for found in both(lambda: reset_vector(eta, prior, entities, units, nodes, share)):
        for u, e, n in zip(blocks(units), blocks(entities), blocks(nodes), strict=True):
            for c in range(tiles.width):
                shown = np.ones(UNITS[n.bank], bool)
                expected = pagerank.reset_vector(
                    float64(eta[e.at, c]), float64(prior[u.at, c]), shown, share, 1.0
                )
                np.testing.assert_allclose(found[n.at, c].numpy(), expected, rtol=1e-5, atol=1e-7)
