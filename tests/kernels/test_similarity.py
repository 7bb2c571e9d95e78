"""float16 vectors, and cuVS for one large bank, behind the functions that products serve."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.kernels import cuvs_contract
from tests.kernels.layout import TILINGS, blocks, both, float64, interpreted, pointer, tiles_of
from zeromem_kernels import brute_force, similarity
from zeromem_kernels.similarity import HALF_ERROR, Placed, best_match, similarities

SIZES = (7, 0, 63, 1, 257, 100)
DIM = 48


@pytest.fixture(autouse=True)
def forget_the_library() -> Iterator[None]:
    yield
    brute_force.library.cache_clear()


def unit_rows(rng: np.random.Generator, count: int, dim: int = DIM) -> torch.Tensor:
    """Unit vectors of very unequal components, one of them zero and two equal."""
    rows = rng.normal(size=(count, dim)) * np.exp(3 * rng.normal(size=(count, dim)))
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    if count > 5:
        rows[1], rows[4] = 0.0, rows[2]
    return torch.from_numpy(rows.astype(np.float32))


@pytest.mark.parametrize("tiling", TILINGS)
@pytest.mark.parametrize("block_rows", [2048, 16])
@pytest.mark.parametrize("placed", [False, True])
def test_float16_cosines_stay_within_the_stated_error(
    tiling: str, block_rows: int, placed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similarity, "_BLOCK_ROWS", block_rows)
    rng = np.random.default_rng(3)
    tiles = tiles_of(tiling)
    axis = tiles.axis(pointer(SIZES))
    stored = [unit_rows(rng, n) for n in SIZES]
    order = [torch.from_numpy(rng.permutation(n)) for n in SIZES]
    asked = torch.stack([unit_rows(rng, tiles.width).T for _ in range(len(tiles))] or [torch.ones(DIM, 4)])
    asked = asked[: len(tiles)].contiguous()
    halves = [Placed(x.half(), rows if placed else None) for x, rows in zip(stored, order, strict=True)]
    forms = [
        *both(lambda: similarities(halves, asked, axis)),
        interpreted(lambda: similarities(halves, asked, axis)),
    ]
    assert torch.equal(forms[0], forms[1])
    for block in blocks(axis):
        rows = stored[block.bank][order[block.bank]] if placed else stored[block.bank]
        exact = float64(rows) @ float64(asked[block.tile])
        for found in forms:
            assert found.dtype == torch.float32
            assert np.abs(float64(found[block.at]) - exact).max(initial=0) <= HALF_ERROR
            # sums are float32's: nothing is lost but by the roundings
            rounded = float64(rows.half()) @ float64(asked[block.tile].half())
            np.testing.assert_allclose(found[block.at].numpy(), rounded, atol=3e-7)


@pytest.mark.parametrize("dim", [2, 384, 1024])
def test_the_stated_error_holds_where_every_rounding_is_the_worst(dim: int) -> None:
    """All components half way between two halves: the largest relative error, always to the same side."""
    worst = torch.full((1, dim), 1.0 + 2.0**-11, dtype=torch.float64)
    scale = 2.0 ** -round(np.log2(dim) / 2)
    vector = (worst * scale).float()
    length = float(vector.double().norm())
    axis = tiles_of("narrow").axis(pointer((0, 0, 0, 0, 1)))
    found = similarities(
        [Placed(vector[:0])] * 4 + [Placed(vector.half())], vector.T[None].contiguous(), axis
    )
    error = abs(float(found[0, 0]) - length**2) / length**2
    assert 0.9 * 2.0**-10 <= error <= HALF_ERROR


class Operations(TorchDispatchMode):
    """The operations that ran, and what they took."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[tuple[str, tuple[Any, ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ran.append((str(func), args))
        return func(*args, **(kwargs or {}))


def test_on_cuda_halves_are_multiplied_as_they_are_into_float32() -> None:
    """Without a card: fake CUDA tensors go through torch's own checks of types and shapes."""
    with FakeTensorMode(), Operations() as operations:
        stored = torch.empty((5, 8), dtype=torch.float16, device="cuda")
        asked, out = torch.empty((2, 8, 3), device="cuda"), torch.empty((10, 3), device="cuda")
        similarity._products(stored, asked, out, blocked=False)
        assert similarity._cosines(stored, torch.empty((4, 8), device="cuda")).dtype == torch.float32
    products = [(name, args) for name, args in operations.ran if "mm" in name]
    assert [name for name, _ in products] == ["aten.bmm.dtype_out", "aten.mm.dtype"]
    for _, args in products:
        assert (args[0].dtype, args[1].dtype, args[2]) == (torch.float16, torch.float16, torch.float32)


def test_best_match_of_halves() -> None:
    rng = np.random.default_rng(5)
    stored = [unit_rows(rng, n) for n in SIZES]
    banks = torch.tensor([0, 2, 2, 3, 4, 5])
    asked = unit_rows(rng, len(banks))
    cosine, rows = best_match([Placed(x.half()) for x in stored], asked, banks)
    for at, bank in enumerate(banks.tolist()):
        exact = float64(stored[bank]) @ float64(asked[at])
        assert abs(float(cosine[at]) - exact.max()) <= HALF_ERROR
        assert exact.max() - exact[int(rows[at])] <= 2 * HALF_ERROR


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("placed", ["all", "some", "few"])
def test_cuvs_finds_what_products_find(
    dtype: torch.dtype, placed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the documented interface alone: bitsets of the rows that are there, on torch's stream."""
    rng = np.random.default_rng(6)
    stored = [unit_rows(rng, n).to(dtype) for n in SIZES]
    # more equals than are asked for, the first one not the first vector
    stored[4][20:40] = stored[4][20].clone()
    kept = {
        "all": lambda n: None,
        "some": lambda n: rng.permutation(n)[: n - n // 3],
        "few": lambda n: rng.permutation(n)[:3],
    }
    vectors = []
    for x in stored:
        rows = kept[placed](len(x))
        vectors.append(Placed(x, rows if rows is None else torch.from_numpy(rows)))
    banks = torch.tensor([0, 0, 1, 2, 2, 3, 4, 4, 4, 5])
    asked = unit_rows(rng, len(banks))
    asked[7], asked[8] = stored[4][20].float(), 0.0
    expected = best_match(vectors, asked, banks)
    cuvs_contract.install(monkeypatch)
    searched: list[int] = []
    real = brute_force.nearest

    def seen(*given: Any) -> Any:
        searched.append(len(given[0]))
        return real(*given)

    monkeypatch.setattr(brute_force, "nearest", seen)
    monkeypatch.setattr(brute_force, "serves", lambda x: len(x) > 60)
    with mock.patch.object(torch, "empty", lambda *a, real=torch.empty, **k: real(*a, **k).fill_(-7777)):
        found = best_match(vectors, asked, banks)
    assert searched == [63, 257, 100]
    assert torch.equal(found[1], expected[1])
    torch.testing.assert_close(found[0], expected[0], atol=3e-7, rtol=0)


def test_bits_name_the_rows_that_are_there() -> None:
    bits = brute_force._bits(torch.tensor([63, 0, 31, 33]), 70)
    assert bits.dtype == torch.uint32
    assert bits.tolist() == [1 | 1 << 31, 2 | 1 << 31, 0]


class OnCard:
    """As much of a CUDA tensor as the choice looks at."""

    def __init__(self, rows: int, cuda: bool = True) -> None:
        self.is_cuda, self._rows = cuda, rows

    def __len__(self) -> int:
        return self._rows


def test_the_size_and_the_device_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    cuvs_contract.install(monkeypatch)
    large = brute_force.CUVS_ROWS
    asked = [OnCard(large), OnCard(large - 1), OnCard(large, cuda=False)]
    assert [brute_force.serves(one) for one in asked] == [True, False, False]  # type: ignore[arg-type]


def test_without_cuvs_products_serve(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cuvs", None)
    brute_force.library.cache_clear()
    assert not brute_force.serves(OnCard(brute_force.CUVS_ROWS))  # type: ignore[arg-type]
    # a search says so where it chooses its device
    assert caplog.text == ""


def test_a_cuvs_that_does_not_work_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "cuvs").mkdir()
    (tmp_path / "cuvs" / "__init__.py").write_text("raise ImportError('libcuvs_c.so: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    brute_force.library.cache_clear()
    for _ in range(2):
        assert not brute_force.serves(OnCard(brute_force.CUVS_ROWS))  # type: ignore[arg-type]
    assert caplog.text.count("cuvs is installed but does not import (libcuvs_c.so: cannot open)") == 1
    assert "pip install 'zeromem-gpu[cuda]'" in caplog.text


def test_the_stand_in_takes_what_cuvs_takes() -> None:
    """Held against the source that cuVS's wheel carries; importing it needs its 1.5 GB of libraries."""
    spec = importlib.util.find_spec("cuvs")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("no cuvs: pip install --no-deps cuvs-cu13")
    folder = Path(next(iter(spec.submodule_search_locations))) / "neighbors"
    source = (folder / "brute_force" / "brute_force.pyx").read_text()
    source += (folder / "filters" / "filters.pyx").read_text()
    for name in ("build", "search", "from_bitset"):
        told = re.search(rf"def {name}\((.*?)\):", source, re.DOTALL)
        assert told, name
        theirs = [part.split("=")[0].split()[-1] for part in told[1].split(",")]
        assert theirs == list(inspect.signature(getattr(cuvs_contract, name)).parameters)
