"""BM25 on cards, without one: Triton in its interpreter, CUDA C as C++ on the CPU and compiled by NVRTC."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.kernels import nvrtc
from tests.kernels.layout import TILINGS, blocks, float64, interpreted, pointer, stacked, tiles_of
from zeromem_kernels.gpu import bm25_tile
from zeromem_kernels.gpu import lexical as device
from zeromem_kernels.lexical import Ragged, bm25, bm25_topk
from zeromem_kernels.tiles import Axis, Csr, Tiles, torch_forms
from zeromem_kernels.weights import term_peaks

UNITS, WORDS = (7, 0, 63, 1, 120, 30), 12
every_tiling = pytest.mark.parametrize("tiling", TILINGS)
LAUNCHER = """
extern "C" void run(
    const long long* bank, const long long* term_ptr, const long long* indptr, const int* documents,
    const float* weights, const float* peaks, const long long* query_ptr, const int* terms,
    const float* shares, const long long* starts, float* out, int width, int groups, int parts, int blocks)
{
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        bm25_tile(bank, term_ptr, indptr, documents, weights, peaks, query_ptr, terms, shares, starts, out,
                  width, groups, parts);
}
"""
DOCUMENTS = 16


def tables(units: tuple[int, ...] = UNITS, seed: int = 1, scale: float = 1.0) -> tuple[Csr, torch.Tensor]:
    """Random postings of several banks, some terms without any, and the terms of each bank."""
    rng = np.random.default_rng(seed)
    made = []
    for n in units:
        row, column = np.nonzero(rng.random((WORDS, n)) < rng.random((WORDS, 1)) ** 2)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=WORDS))])
        made.append((indptr, column, scale * rng.random(len(row)) * 6))
    return stacked(made), pointer([WORDS] * len(units))


def questions(slots: int, seed: int = 2, most: int = 7) -> Ragged:
    """Words of each query, some unknown and some asked twice."""
    rng = np.random.default_rng(seed)
    asked = [rng.integers(-1, WORDS, size=rng.integers(0, most)) for _ in range(slots)]
    flat = np.concatenate([*asked, np.zeros(0, np.int64)])
    return Ragged(pointer([len(one) for one in asked]), torch.from_numpy(flat.astype(np.int32)))


def shares_of(terms: Ragged) -> torch.Tensor:
    """How much of each term counts: some nothing, some all, some hardly anything."""
    rng = np.random.default_rng(6)
    shares = rng.random(len(terms.values)) ** rng.integers(1, 30, size=len(terms.values))
    shares[rng.random(len(shares)) < 0.2] = 0.0
    shares[rng.random(len(shares)) < 0.2] = 1.0
    return torch.from_numpy(shares.astype(np.float32))


@every_tiling
@pytest.mark.parametrize(("postings_a_step", "shared"), [(4, False), (256, False), (4, True)])
def test_triton_adds_terms_in_their_order(
    tiling: str, postings_a_step: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_POSTINGS", postings_a_step)
    tiles = tiles_of(tiling)
    axis, (postings, term_ptr) = tiles.axis(pointer(UNITS)), tables()
    terms = questions(len(tiles) * tiles.width)
    shares = shares_of(terms) if shared else None
    found = interpreted(lambda: bm25(postings, term_ptr, terms, axis, shares))
    # the compiled form adds in that order too, so that not a bit may differ
    pytest.importorskip("numba")
    assert torch.equal(found, bm25(postings, term_ptr, terms, axis, shares))
    with torch_forms():
        torch.testing.assert_close(found, bm25(postings, term_ptr, terms, axis, shares))
    if shared:
        return
    best = interpreted(lambda: bm25_topk(postings, term_ptr, terms, axis, 5))
    assert torch.equal(best.rows, bm25_topk(postings, term_ptr, terms, axis, 5).rows)


class Simulated:
    """The CUDA C kernel compiled for the CPU, with small blocks of documents."""

    def __init__(self, columns: int, folder: Path) -> None:
        options = (f"-DCOLUMNS={columns}", f"-DDOCUMENTS={DOCUMENTS}")
        self._library = nvrtc.on_cpu(bm25_tile.SOURCE, options, LAUNCHER, folder)
        self._columns = columns

    def __call__(
        self,
        postings: Csr,
        term_ptr: torch.Tensor,
        terms: Ragged,
        axis: Axis,
        shares: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """As `bm25`; what no block writes stays NaN."""
        out = axis.full(float("nan"))
        groups, parts = -(-axis.tiles.width // self._columns), -(-axis.tallest // DOCUMENTS)
        tensors = (
            axis.tiles.bank, term_ptr, postings.indptr, postings.indices, postings.weights,
            term_peaks(postings), terms.ptr, terms.values, shares, axis.starts, out,
        )  # fmt: skip
        addresses = [ctypes.c_void_p(None if one is None else one.data_ptr()) for one in tensors]
        count = len(axis.tiles) * groups * parts
        self._library.run(*addresses, axis.tiles.width, groups, parts, count)
        return out


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Simulated]:
    return {columns: Simulated(columns, tmp_path_factory.mktemp("cuda")) for columns in (1, 2, 4, 8)}


@every_tiling
@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e30], ids=["usual", "tiny", "huge"])
@pytest.mark.parametrize("shared", [False, True], ids=["whole", "shares"])
def test_whole_numbers_hold_every_score(
    tiling: str, scale: float, shared: bool, simulated: dict[int, Simulated]
) -> None:
    tiles = tiles_of(tiling)
    axis, (postings, term_ptr) = tiles.axis(pointer(UNITS)), tables(scale=scale)
    # thirty words: sums come near the highest that the scale was chosen for
    terms = questions(len(tiles) * tiles.width, most=30)
    shares = shares_of(terms) if shared else None
    found = simulated[bm25_tile.columns_of(tiles.width)](postings, term_ptr, terms, axis, shares)
    each = np.ones(len(terms.values)) if shares is None else float64(shares)
    exact = postings._replace(weights=postings.weights.double())
    peaks = float64(term_peaks(postings))
    for block in blocks(axis):
        for c in range(tiles.width):
            slot = block.tile * tiles.width + c
            mine = slice(int(terms.ptr[slot]), int(terms.ptr[slot + 1]))
            asked = terms.values[mine].numpy()
            rows, share = int(term_ptr[block.bank]) + asked[asked >= 0], each[mine][asked >= 0]
            expected = np.zeros(UNITS[block.bank])
            for row, part in zip(rows, share, strict=True):
                at = slice(int(exact.indptr[row]), int(exact.indptr[row + 1]))
                expected[exact.indices[at].numpy()] += part * exact.weights[at].numpy()
            # half a unit a term, a unit being at most 2⁻²⁸ of the highest possible score, or 2⁻¹²⁰
            unit = max((share * peaks[rows]).sum() * 2.0**-28, 2.0**-120)
            # the result itself is float32, and so is a share of a weight
            allowed = (len(rows) * 0.5 + 1) * unit + (1.2e-7 + 6e-8 * shared) * expected
            assert (np.abs(float64(found[block.at, c]) - expected) <= allowed).all()
            # no score where no word is, and none lost where one is
            assert ((expected > 0) >= (found[block.at, c].numpy() > 0)).all()


def test_a_score_has_the_same_bits_beside_any_neighbours(simulated: dict[int, Simulated]) -> None:
    postings, term_ptr = tables()
    wide = Tiles(torch.tensor([4, 2]), 8).axis(pointer(UNITS))
    terms = questions(16, seed=5)
    together = simulated[8](postings, term_ptr, terms, wide)
    for c in range(8):
        part = [terms.values[terms.ptr[s] : terms.ptr[s + 1]] for s in (c, 8 + c)]
        alone = Ragged(pointer([len(one) for one in part]), torch.cat(part))
        narrow = Tiles(wide.tiles.bank, 1).axis(wide.ptr)
        assert torch.equal(simulated[1](postings, term_ptr, alone, narrow)[:, 0], together[:, c])


@pytest.mark.parametrize("target", [89, 90])
@pytest.mark.parametrize("columns", [1, 2, 4, 8])
def test_nvrtc_compiles_it_without_spills(target: int, columns: int) -> None:
    usage = nvrtc.compile_for(bm25_tile.SOURCE, bm25_tile.options(columns), target)
    assert usage.spilled == 0
    # five blocks of 256 threads are what 48 registers allow, and three what the sums leave room for
    assert usage.registers <= 48
    # the least of the cards has 100 KB, of which a block takes 1 itself
    assert usage.shared <= 34 << 10


def test_columns_fill_a_sector_of_the_result() -> None:
    assert [bm25_tile.columns_of(width) for width in (1, 2, 3, 5, 8, 32)] == [1, 2, 4, 8, 8, 8]
