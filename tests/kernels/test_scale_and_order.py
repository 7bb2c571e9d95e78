"""Reductions, scalings, ordered top-k and fusion."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels.layout import SIZES, TILINGS, blocks, both, float64, pointer, random_hidden, tiles_of
from tests.reference import scaling, views
from zeromem_kernels.fusion import fuse, scaled
from zeromem_kernels.scale import min_max, scale_to_max, tile_reduce
from zeromem_kernels.tiles import Axis
from zeromem_kernels.topk import TopK, kept_alone, kept_mask, ordered_topk

every_tiling = pytest.mark.parametrize("tiling", TILINGS)


def axis_of(tiling: str) -> Axis:
    return tiles_of(tiling).axis(pointer(SIZES))


def values(axis: Axis, seed: int) -> torch.Tensor:
    """Random columns; the second has many ties, the third one value in all rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(axis.rows, axis.tiles.width)).astype(np.float32)
    if axis.tiles.width > 2:
        x[:, 1] = rng.integers(-3, 3, size=axis.rows)
        x[:, 2] = 0.7
    return torch.from_numpy(x)


@every_tiling
@pytest.mark.parametrize("how", ["sum", "amax", "amin"])
def test_tile_reduce(tiling: str, how: str) -> None:
    axis = axis_of(tiling)
    x = values(axis, 1)
    start = {"sum": 0.0, "amax": -np.inf, "amin": np.inf}[how]
    plain, fast = both(lambda: tile_reduce(x, axis, how))
    expected = np.full((len(axis.tiles), axis.tiles.width), start)
    for block in blocks(axis):
        rows = float64(x[block.at])
        if len(rows):
            expected[block.tile] = {"sum": rows.sum(0), "amax": rows.max(0), "amin": rows.min(0)}[how]
    for found in (plain, fast):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)
    if how != "sum":
        assert torch.equal(plain, fast)


@every_tiling
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("operation", [min_max, scale_to_max], ids=lambda f: f.__name__)
def test_scalings(tiling: str, masked: bool, operation: object) -> None:
    axis = axis_of(tiling)
    x = values(axis, 2)
    hidden = random_hidden(np.random.default_rng(3), axis)
    visible = ~hidden if masked else None
    plain, fast = both(lambda: operation(x, axis, visible))  # type: ignore[operator]
    reference = scaling.min_max if operation is min_max else scaling.scale
    expected = np.zeros(x.shape)
    for block in blocks(axis):
        shown = np.ones(x[block.at].shape, bool) if visible is None else visible[block.at].numpy()
        for c in range(x.shape[1]):
            expected[block.at, c] = reference(float64(x[block.at, c]), shown[:, c])
    for found in (plain, fast):
        np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


def test_min_max_takes_values_that_differ_by_rounding_as_equal() -> None:
    axis = tiles_of("single rows").axis(pointer([3, 3, 3, 3]))
    x = torch.ones((axis.rows, 5))
    x[1, 0] += 2e-7  # rounding
    x[1, 1] += 3e-6  # a difference
    x[:, 2] = torch.tensor([-4.0, -4.0 + 2e-6, -4.0] * 2)
    x[:, 3] = torch.tensor([0.0, 1e-20, 0.0] * 2)  # small, but not beside what it is compared with
    for found in both(lambda: min_max(x, axis, None)):
        assert found[:3].T.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]]


@every_tiling
@pytest.mark.parametrize("k", [0, 1, 5, 64, 300])
def test_ordered_topk(tiling: str, k: int) -> None:
    axis = axis_of(tiling)
    hidden = random_hidden(np.random.default_rng(4), axis)
    x = values(axis, 5).masked_fill(hidden, -torch.inf)
    plain, fast = both(lambda: ordered_topk(x, axis, k))
    assert plain.rows.shape == (len(axis.tiles), k, x.shape[1])
    for found in (plain, fast):
        mask, alone = kept_mask(found, axis), kept_alone(found, axis)
        assert torch.equal(alone, torch.where(mask, x, -torch.inf))
        for block in blocks(axis):
            for c in range(x.shape[1]):
                scores = float64(x[block.at, c])
                rows, best = scaling.ordered_top_k(scores, np.isfinite(scores), k)
                assert found.rows[block.tile, :, c].tolist() == rows
                assert found.scores[block.tile, :, c].tolist() == best
                assert mask[block.at, c].nonzero().flatten().tolist() == sorted(r for r in rows if r >= 0)


def test_topk_of_adversarial_orders() -> None:
    axis = tiles_of("narrow").axis(pointer(SIZES))
    rising = torch.arange(257.0)[:, None]
    for x in (rising, -rising, torch.zeros(257, 1), (rising % 7), -(rising % 5), -torch.zeros(257, 1)):
        for k in (1, 2, 3, 128, 256, 257, 258):
            expected, _ = scaling.ordered_top_k(float64(x[:, 0]), np.ones(257, bool), k)
            for found in both(lambda x=x, k=k: ordered_topk(x, axis, k)):  # type: ignore[misc]
                assert found.rows[0, :, 0].tolist() == expected


def candidates(axis: Axis, k: int, seed: int, hidden: torch.Tensor) -> TopK:
    return ordered_topk(values(axis, seed).masked_fill(hidden, -torch.inf), axis, k)


@every_tiling
@pytest.mark.parametrize(
    ("graph", "hierarchy", "k"), [(9, 9, 5), (0, 20, 30), (20, 0, 3), (300, 4, 9), (2, 2, 0)]
)
def test_fuse(tiling: str, graph: int, hierarchy: int, k: int) -> None:
    axis = axis_of(tiling)
    hidden = random_hidden(np.random.default_rng(6), axis)
    g, h = candidates(axis, graph, 7, hidden), candidates(axis, hierarchy, 8, hidden)
    weight = torch.from_numpy(
        np.random.default_rng(9).choice([0.0, 0.4, 0.6, 1.0], size=(len(axis.tiles), axis.tiles.width))
    ).float()
    plain, fast = both(lambda: fuse(g, h, weight, axis, k))
    assert torch.equal(plain.rows, fast.rows)
    for block in blocks(axis):
        for c in range(axis.tiles.width):
            given = [
                {
                    r: s
                    for r, s in zip(
                        *(x[block.tile, :, c].tolist() for x in (top.rows, top.scores)), strict=True
                    )
                    if r >= 0
                }
                for top in (g, h)
            ]
            fused = views.fuse(given[0], given[1], float(weight[block.tile, c]))
            best = sorted(fused.values(), reverse=True)[:k]
            best += [-np.inf] * (k - len(best))
            for found in (plain, fast):
                rows = found.rows[block.tile, :, c].tolist()
                np.testing.assert_allclose(found.scores[block.tile, :, c].numpy(), best, atol=1e-6)
                kept = [r for r in rows if r >= 0]
                assert len(set(kept)) == len(kept) == min(k, len(fused))
                np.testing.assert_allclose([fused[r] for r in kept], best[: len(kept)], atol=1e-6)


def test_scaled_is_what_fusion_mixes() -> None:
    axis = axis_of("many")
    hidden = random_hidden(np.random.default_rng(10), axis)
    top = candidates(axis, 6, 11, hidden)
    nothing = TopK(top.scores[:, :0], top.rows[:, :0])
    ones = torch.ones((len(axis.tiles), axis.tiles.width))
    alone = fuse(top, nothing, ones, axis, 6)
    returned = top.rows >= 0
    value = scaled(torch.where(returned, top.scores, torch.nan), top)
    assert value[~returned].eq(0).all()
    np.testing.assert_allclose(value[returned], alone.scores[returned], atol=1e-6)
