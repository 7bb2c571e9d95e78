"""Weighted sums, the units' part of PageRank, and matrices whose memory is used again."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
import torch

from tests.kernels.layout import SIZES, TILINGS, both, float64, pointer, tiles_of
from zeromem_kernels import buffers
from zeromem_kernels.combine import plus_rows, unit_scores, weighted_sum
from zeromem_kernels.errors import InvalidTensor
from zeromem_kernels.similarity import Placed, similarities
from zeromem_kernels.tiles import Axis, Tiles

every_tiling = pytest.mark.parametrize("tiling", TILINGS)
CPU = torch.device("cpu")


def axis_of(tiling: str) -> Axis:
    return tiles_of(tiling).axis(pointer(SIZES))


@every_tiling
@pytest.mark.parametrize("count", [1, 3, 4, 5, 9])
def test_weighted_sum(tiling: str, count: int) -> None:
    rng = np.random.default_rng(count)
    axis = axis_of(tiling)
    given = [torch.from_numpy(rng.normal(size=(axis.rows, axis.tiles.width))).float() for _ in range(count)]
    weights: list[float | torch.Tensor] = [float(w) for w in rng.normal(size=count)]
    weights[-1] = torch.from_numpy(rng.normal(size=(len(axis.tiles), axis.tiles.width))).float()
    parts = list(zip(weights, given, strict=True))
    plain, fast = both(lambda: weighted_sum(parts, axis))
    last = weights[-1][axis.tile_of_row]
    expected = sum(w * float64(x) for w, x in zip(weights[:-1], given[:-1], strict=True))
    np.testing.assert_allclose(float64(fast), expected + float64(last) * float64(given[-1]), atol=1e-5)
    assert torch.equal(plain, fast)  # rounded one after the other, in both


@every_tiling
def test_plus_rows(tiling: str) -> None:
    rng = np.random.default_rng(2)
    tiles = tiles_of(tiling)
    axis, above = tiles.axis(pointer(SIZES)), tiles.axis(pointer([max(size // 3, 1) for size in SIZES]))
    x = torch.from_numpy(rng.normal(size=(axis.rows, tiles.width))).float()
    others = torch.from_numpy(rng.normal(size=(above.rows, tiles.width))).float()
    others[::3] = -torch.inf
    rows = torch.from_numpy(rng.integers(0, above.rows, axis.rows))
    plain, fast = both(lambda: plus_rows(x, others, rows, axis))
    assert torch.equal(plain, fast)
    np.testing.assert_allclose(float64(fast), float64(x) + float64(others)[rows.numpy()], atol=1e-6)


@pytest.mark.parametrize("name", ["x", "others", "rows"])
def test_plus_rows_names_a_bad_argument(name: str) -> None:
    axis = axis_of("narrow")
    given = {
        "x": axis.full(0.0),
        "others": axis.full(0.0),
        "rows": torch.zeros(axis.rows, dtype=torch.int64),
    }
    given[name] = given[name].int()
    with pytest.raises(InvalidTensor, match=name):
        plus_rows(**given, axis=axis)


@every_tiling
def test_unit_scores(tiling: str) -> None:
    rng = np.random.default_rng(1)
    tiles = tiles_of(tiling)
    units, entities = tiles.axis(pointer(SIZES)), tiles.axis(pointer((3, 0, 9, 2, 30, 5)))
    nodes = tiles.axis(units.ptr + entities.ptr)
    pi = torch.from_numpy(rng.random((nodes.rows, tiles.width))).float()
    dense = torch.from_numpy(rng.random((units.rows, tiles.width))).float()
    chosen = torch.from_numpy(rng.random((len(tiles), tiles.width)) < 0.5)
    plain, fast = both(lambda: unit_scores(pi, dense, chosen, units, entities, nodes))
    assert torch.equal(plain, fast)
    for t in range(len(tiles)):
        n = int(units.starts[t + 1] - units.starts[t])
        mine, first = fast[int(units.starts[t]) :][:n], int(nodes.starts[t])
        assert torch.equal(
            mine, torch.where(chosen[t], pi[first : first + n], dense[int(units.starts[t]) :][:n])
        )


def test_a_weight_of_another_shape_is_named() -> None:
    axis = axis_of("wide")
    with pytest.raises(InvalidTensor, match=r"parts\[1\] weight"):
        weighted_sum([(1.0, axis.full(1.0)), (torch.ones(3), axis.full(1.0))], axis)


@pytest.mark.parametrize("tiles", [1, 2, 3, 9, 20])
@pytest.mark.parametrize("width", [1, 8, 32])
def test_tiles_of_one_bank_share_products(tiles: int, width: int) -> None:
    rng = np.random.default_rng(2)
    rows = 2500  # more than one block
    axis = Tiles(torch.zeros(tiles, dtype=torch.int64), width).axis(pointer([rows]))
    stored = torch.from_numpy(rng.integers(-3, 4, size=(rows, 12))).float()  # products are exact
    queries = torch.from_numpy(rng.integers(-3, 4, size=(tiles, 12, width))).float()
    expected = torch.cat([stored @ queries[t] for t in range(tiles)])
    for found in both(lambda: similarities([Placed(stored)], queries, axis)):
        assert torch.equal(found, expected)


class TestBuffers:
    """Memory goes back once nothing refers to it, and never before."""

    rows = 1 << 16

    @pytest.fixture(autouse=True)
    def _nothing_kept(self) -> None:
        buffers.drop()

    def test_memory_is_used_again(self) -> None:
        with buffers.reused():
            first = buffers.empty(self.rows, 32, CPU)
            place = first.data_ptr()
            assert buffers.empty(self.rows, 32, CPU).data_ptr() != place
            del first
            gc.collect()
            places = {(one := buffers.empty(self.rows, 32, CPU)).data_ptr() for _ in range(2)}
            assert place in places or one.data_ptr() == place

    def test_sizes_used_last_are_kept_and_no_more_than_the_limit(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        size = 4 * self.rows * 32
        monkeypatch.setattr(buffers, "MOST_KEPT", 6 * size)

        def use(times: int, count: int) -> None:
            with buffers.reused():
                held = [buffers.empty(times * self.rows, 32, CPU) for _ in range(count)]
            del held
            gc.collect()

        def kept() -> dict[int, int]:
            return {bytes_ // size: len(waiting) for bytes_, waiting in buffers._kept.items() if waiting}

        use(1, 6)
        assert kept() == {1: 6}
        use(3, 1)
        assert kept() == {1: 3, 3: 1}, "the older size makes room"
        use(1, 1)
        use(5, 1)
        assert kept() == {1: 1, 5: 1}, "the size that was not used since goes first"
        use(7, 1)
        assert kept() == {1: 1, 5: 1}, "what is too large in any case costs nobody a place"

    @pytest.mark.parametrize("view", ["rows", "numpy", "flat"])
    def test_a_view_keeps_its_memory(self, view: str) -> None:
        with buffers.reused():
            first = buffers.empty(self.rows, 32, CPU).fill_(7.0)
            views = {"rows": first[9:11], "numpy": first.numpy()[9:11], "flat": first.view(-1)[300:364]}
            kept = views[view]
            del first, views
            gc.collect()
            others = [buffers.empty(self.rows, 32, CPU).fill_(1.0) for _ in range(3)]
            assert len(others) == 3
            assert (torch.as_tensor(kept) == 7.0).all()

    def test_small_ones_and_others_devices_are_torchs(self) -> None:
        with buffers.reused():
            assert buffers.empty(3, 4, CPU).shape == (3, 4)
            assert buffers.empty(0, 4, CPU).shape == (0, 4)
            assert buffers.empty(self.rows, 64, torch.device("meta")).device.type == "meta"

    def test_no_more_is_kept_than_allowed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(buffers, "MOST_KEPT", self.rows * 32 * 4)
        with buffers.reused():
            some = [buffers.empty(self.rows, 32, CPU) for _ in range(3)]
            del some
            gc.collect()
        assert sum(size * len(waiting) for size, waiting in buffers._kept.items()) <= buffers.MOST_KEPT

    def test_threads_never_share_a_matrix(self) -> None:
        wrong: list[int] = []

        def work(mine: int) -> None:
            with buffers.reused():
                for _ in range(60):
                    one = buffers.empty(self.rows, 17, CPU).fill_(float(mine))
                    if not (one == mine).all():
                        wrong.append(mine)

        threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not wrong
