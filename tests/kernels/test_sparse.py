"""Sparse products over tiles, cosines, and the layout itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels.layout import SIZES, TILINGS, blocks, both, float64, pointer, random_csr, tiles_of
from tests.reference import scaling
from zeromem_kernels import similarity
from zeromem_kernels.similarity import Placed, best_match, similarities
from zeromem_kernels.spmm import tile_spmax, tile_spmm
from zeromem_kernels.tiles import compiled, torch_forms

OTHER = (5, 0, 40, 3, 90, 0)
every_tiling = pytest.mark.parametrize("tiling", TILINGS)


@every_tiling
def test_spmm_and_spmax(tiling: str) -> None:
    rng = np.random.default_rng(1)
    tiles = tiles_of(tiling)
    target, source = tiles.axis(pointer(SIZES)), tiles.axis(pointer(OTHER))
    csr, dense = random_csr(rng, SIZES, OTHER, 0.2)
    x = torch.from_numpy(rng.normal(size=(source.rows, tiles.width)).astype(np.float32))
    x[::3] = -torch.inf
    finite = torch.where(x.isinf(), 0.5, x)
    summed = both(lambda: tile_spmm(csr, finite, source, target))
    largest = both(lambda: tile_spmax(csr, x, source, target))
    assert torch.equal(*largest)
    for here, there in zip(blocks(target), blocks(source), strict=True):
        matrix = dense[here.bank]
        for found in summed:
            expected = matrix @ float64(finite[there.at])
            np.testing.assert_allclose(found[here.at].numpy(), expected, rtol=1e-5, atol=1e-5)
        for i, row in enumerate(matrix):
            chosen = float64(x[there.at])[row != 0]
            expected = chosen.max(0) if len(chosen) else np.full(tiles.width, -np.inf)
            assert largest[0][here.at][i].tolist() == expected.tolist()


@every_tiling
@pytest.mark.parametrize("block_rows", [10, 2048])
def test_similarities(tiling: str, block_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "_BLOCK_ROWS", block_rows)
    rng = np.random.default_rng(2)
    tiles = tiles_of(tiling)
    axis = tiles.axis(pointer(SIZES))
    stored = [rng.normal(size=(n, 24)).astype(np.float32) for n in SIZES]
    stored = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in stored]
    for x in stored:
        x[3:4] = 0.0
    asked = rng.normal(size=(len(tiles), 24, tiles.width)).astype(np.float32)
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    for found in both(
        lambda: similarities([Placed(torch.from_numpy(x)) for x in stored], torch.from_numpy(asked), axis)
    ):
        for block in blocks(axis):
            for c in range(tiles.width):
                expected = scaling.cosines(
                    asked[block.tile, :, c].astype(float), stored[block.bank].astype(float)
                )
                np.testing.assert_allclose(found[block.at, c].numpy(), expected, atol=1e-6)


def test_vectors_in_another_order() -> None:
    rng = np.random.default_rng(4)
    stored = [torch.from_numpy(rng.integers(-2, 3, size=(n + 2, 8)).astype(np.float32)) for n in SIZES]
    rows = [torch.from_numpy(rng.permutation(n + 2)[:n]) for n in SIZES]
    tiles = tiles_of("many")
    axis = tiles.axis(pointer(SIZES))
    asked = torch.from_numpy(rng.integers(-2, 3, size=(len(tiles), 8, tiles.width)).astype(np.float32))
    placed = [Placed(x, at) for x, at in zip(stored, rows, strict=True)]
    copied = [Placed(x[at]) for x, at in zip(stored, rows, strict=True)]
    assert torch.equal(similarities(placed, asked, axis), similarities(copied, asked, axis))


def test_best_match() -> None:
    rng = np.random.default_rng(3)
    # small whole numbers: products are exact, so equal cosines are equal bits
    stored = [torch.from_numpy(rng.integers(-2, 3, size=(n, 4)).astype(np.float32)) for n in SIZES]
    banks = torch.tensor([0, 0, 1, 2, 2, 2, 4, 4, 5])
    asked = torch.from_numpy(rng.integers(-2, 3, size=(len(banks), 4)).astype(np.float32))
    shuffled = [
        Placed(x[order], torch.argsort(order)) for x in stored for order in [torch.randperm(len(x))]
    ]
    cosine, rows = best_match(shuffled, asked, banks)
    assert torch.equal(rows, best_match([Placed(x) for x in stored], asked, banks)[1])
    for i, bank in enumerate(banks.tolist()):
        products = float64(stored[bank]) @ float64(asked[i])
        if len(products):
            assert (float(cosine[i]), int(rows[i])) == (products.max(), int(products.argmax()))
        else:
            assert (float(cosine[i]), int(rows[i])) == (-np.inf, -1)
    nothing = best_match(shuffled, asked[:0], banks[:0])
    assert [len(part) for part in nothing] == [0, 0]


@every_tiling
def test_axis_rows(tiling: str) -> None:
    axis = tiles_of(tiling).axis(pointer(SIZES))
    begin = np.cumsum([0, *SIZES])
    tile, row = [], []
    for block in blocks(axis):
        tile += [block.tile] * SIZES[block.bank]
        row += range(begin[block.bank], begin[block.bank + 1])
    assert axis.tile_of_row.tolist() == tile
    assert axis.stacked_row.tolist() == row
    assert axis.rows == len(row)


def test_torch_forms_ends_with_its_block() -> None:
    pytest.importorskip("numba")
    x = torch.zeros(1)
    assert compiled(x) is not None
    with torch_forms():
        assert compiled(x) is None

    def fail() -> None:
        with torch_forms():
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert compiled(x) is not None


def test_threads_do_not_change_a_result() -> None:
    rng = np.random.default_rng(4)
    tiles = tiles_of("many")
    target, source = tiles.axis(pointer(SIZES)), tiles.axis(pointer(OTHER))
    csr, _ = random_csr(rng, SIZES, OTHER, 0.3)
    x = torch.from_numpy(rng.normal(size=(source.rows, tiles.width)).astype(np.float32))
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(tile_spmm(csr, x, source, target))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
