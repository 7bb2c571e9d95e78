"""Words near others, and BM25 over weighted terms, against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels.layout import TILINGS, blocks, both, pointer, random_csr, tiles_of
from tests.reference import related
from zeromem_kernels import related as kernel
from zeromem_kernels.lexical import Ragged, bm25
from zeromem_kernels.related import GRID, near, on_grid, rarity

TERMS = 40


def vectors(rng: np.random.Generator, count: int, width: int = 12) -> np.ndarray:
    """Unit vectors on the grid, some of them near to others, one of them zero."""
    rows = rng.normal(size=(count, width)) + 4.0 * np.eye(width)[rng.integers(0, 4, count)]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0] = 0.0
    return on_grid(rows.astype(np.float32))


@pytest.mark.parametrize("floor", [0.0, 0.3, 0.77])
def test_near_terms(floor: float) -> None:
    rng = np.random.default_rng(3)
    stored, words = vectors(rng, TERMS), vectors(rng, 6)
    places = rng.permutation(TERMS)
    own = np.array([-1, 4, -1, 7, 29, -1], np.int32)
    known = {int(at): row / GRID for at, row in zip(places, stored.astype(float), strict=True)}
    found = near(*map(torch.from_numpy, (words, own, stored, places)), floor)
    total = 0
    for at, word in enumerate(words.astype(float)):
        name = int(own[at]) if own[at] >= 0 else "asked"
        expected = related.near({name: word / GRID}, known, floor)[name]
        mine = slice(int(found.indptr[at]), int(found.indptr[at + 1]))
        assert found.indices[mine].tolist() == sorted(expected)
        shares = [share for _, share in sorted(expected.items())]
        np.testing.assert_allclose(found.weights[mine].numpy(), shares, rtol=1e-5)
        total += len(expected)
    assert total


@pytest.mark.parametrize("count", [0, 1, 6])
def test_many_words_are_compared_in_blocks(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No table of cosines grows with the length of a question; what is found does not change."""
    rng = np.random.default_rng(4)
    stored, words = vectors(rng, TERMS), vectors(rng, 6)[:count]
    own = np.array([-1, 4, -1, 7, 29, -1], np.int32)[:count]
    given = [torch.from_numpy(x) for x in (words, own, stored, rng.permutation(TERMS))]
    whole = near(*given, 0.3)
    most = 0
    real = torch.nonzero

    def seen(found: torch.Tensor, **options: bool) -> object:
        nonlocal most
        most = max(most, found.numel())
        return real(found, **options)

    monkeypatch.setattr(kernel, "_BLOCK", 2 * TERMS + 1, raising=False)
    monkeypatch.setattr(torch, "nonzero", seen)
    parts = near(*given, 0.3)
    assert most == min(count, 2) * TERMS
    assert [x.tolist() for x in parts[:3]] == [x.tolist() for x in whole[:3]]


def test_products_on_the_grid_are_exact_in_any_order() -> None:
    rng = np.random.default_rng(0)
    stored, words = vectors(rng, 500, 1024), vectors(rng, 33, 1024)
    stored[1], words[1] = on_grid(np.full(1024, 1 / 32)), on_grid(np.full(1024, 1 / 32))
    stored[2], words[2] = on_grid(np.eye(1024)[0]), on_grid(np.eye(1024)[0])
    exact = words.astype(np.int64) @ stored.astype(np.int64).T
    assert exact.max() < 1 << 24
    order = rng.permutation(1024)
    for product in (words @ stored.T, words[:, order] @ stored[:, order].T, words[:1] @ stored.T):
        np.testing.assert_array_equal(product.astype(np.int64), exact[: len(product)])


def test_rarity_falls_from_one() -> None:
    found = rarity(torch.tensor([1, 2, 10, 100, 0]), torch.full((5,), 100))
    expected = [related.rarity(100, df) ** 2 for df in (1, 2, 10, 100)]
    np.testing.assert_allclose(found[:4].numpy(), expected, rtol=1e-6)
    assert found[0] == 1.0
    assert (found[:4].diff() < 0).all()


@pytest.mark.parametrize("tiling", TILINGS)
def test_weighted_bm25(tiling: str) -> None:
    rng = np.random.default_rng(5)
    units = (7, 0, 63, 1, 120, 30)
    terms = (9, 0, 30, 2, 40, 12)
    postings, dense = random_csr(rng, terms, units, 0.3)
    axis = tiles_of(tiling).axis(pointer(units))
    slots = len(axis.tiles) * axis.tiles.width
    bank = axis.tiles.bank.numpy().repeat(axis.tiles.width)
    rows = [
        rng.integers(0, terms[b], size=rng.integers(0, 6)) if terms[b] else np.empty(0, int) for b in bank
    ]
    shares = [rng.random(len(row)).astype(np.float32) for row in rows]
    asked = Ragged(
        pointer([len(row) for row in rows]),
        torch.from_numpy(np.concatenate([np.empty(0, int), *rows]).astype(np.int32)),
    )
    beside = torch.from_numpy(np.concatenate([np.empty(0, np.float32), *shares]))
    assert len(rows) == slots
    for found in both(lambda: bm25(postings, pointer(terms), asked, axis, beside)):
        for block in blocks(axis):
            for c in range(axis.tiles.width):
                slot = block.tile * axis.tiles.width + c
                expected = shares[slot].astype(float) @ dense[block.bank][rows[slot]]
                np.testing.assert_allclose(found[block.at, c].numpy(), expected, atol=1e-5)
