"""Fit in time and type of answer, and candidates that share an entity with a chosen unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels.layout import SIZES, TILINGS, blocks, both, float64, pointer, stacked, tiles_of
from zeromem_kernels.errors import InvalidTensor
from zeromem_kernels.fit import temporal_fit, type_fit
from zeromem_kernels.shared import shares_entity
from zeromem_kernels.topk import TopK

every_tiling = pytest.mark.parametrize("tiling", TILINGS)
ENTITIES = (3, 0, 9, 2, 30, 5)


@every_tiling
def test_temporal_fit(tiling: str) -> None:
    rng = np.random.default_rng(1)
    axis = tiles_of(tiling).axis(pointer(SIZES))
    time = rng.integers(0, 9, size=sum(SIZES)).astype(np.float64)
    time[rng.random(len(time)) < 0.2] = np.nan
    limits = np.sort(rng.normal(4, 3, size=(len(axis.tiles), axis.tiles.width, 2)), 2)
    limits[:, ::3, 0], limits[:, 1::4, 1] = -np.inf, np.inf
    if axis.tiles.width > 2:
        limits[:, 2] = np.nan
    found = both(lambda: temporal_fit(torch.from_numpy(limits), torch.from_numpy(time), axis, 2.5))
    first = np.cumsum([0, *SIZES])
    for block in blocks(axis):
        at = time[first[block.bank] :][: SIZES[block.bank], None]
        low, high = limits[block.tile, :, 0], limits[block.tile, :, 1]
        expected = np.nan_to_num(np.exp(-np.maximum(np.maximum(low - at, at - high), 0.0) / 2.5))
        for one in found:
            np.testing.assert_allclose(float64(one[block.at]), expected, rtol=1e-6)


@every_tiling
def test_type_fit(tiling: str) -> None:
    rng = np.random.default_rng(2)
    axis = tiles_of(tiling).axis(pointer(SIZES))
    types = rng.integers(0, 8, size=sum(SIZES)).astype(np.int32)
    bits = rng.integers(0, 4, size=(len(axis.tiles), axis.tiles.width)).astype(np.int32)
    found = both(lambda: type_fit(torch.from_numpy(bits), torch.from_numpy(types), axis))
    first = np.cumsum([0, *SIZES])
    for block in blocks(axis):
        held = types[first[block.bank] :][: SIZES[block.bank], None]
        for one in found:
            np.testing.assert_array_equal(one[block.at].numpy(), (held & bits[block.tile]) != 0)


@every_tiling
def test_shares_entity(tiling: str) -> None:
    rng = np.random.default_rng(3)
    tiles = tiles_of(tiling)
    units, entities = tiles.axis(pointer(SIZES)), tiles.axis(pointer(ENTITIES))
    nodes = tiles.axis(pointer([n + m for n, m in zip(SIZES, ENTITIES, strict=True)]))
    mentions = [rng.random((n, m)) < 0.15 for n, m in zip(SIZES, ENTITIES, strict=True)]
    tables = []
    for there in mentions:
        n, m = there.shape
        beside = np.eye(n, k=1) + np.eye(n, k=-1)  # neighbours are linked, but share nothing by that
        matrix = np.block([[beside, there], [there.T, np.zeros((m, m))]])
        row, column = np.nonzero(matrix)
        tables.append(
            (np.append(0, np.cumsum(np.bincount(row, minlength=n + m))), column, np.ones(len(row)))
        )
    barred = rng.random(sum(ENTITIES)) < 0.3
    shape = (len(tiles), tiles.width)
    chosen, candidates = np.full((shape[0], 2, shape[1]), -1), np.full((shape[0], 12, shape[1]), -1)
    for block in blocks(units):
        for c in range(tiles.width):
            order = rng.permutation(SIZES[block.bank])
            chosen[block.tile, : len(order[:2]), c] = order[:2]
            candidates[block.tile, : len(order[1:12]), c] = order[1:12]  # the second one is chosen, too
    if tiles.width > 1:
        chosen[:, :, 1] = -1
    top = TopK(torch.zeros(chosen.shape), torch.from_numpy(chosen).int())
    given = torch.from_numpy(candidates).int()
    first = np.cumsum([0, *ENTITIES])
    for found in both(
        lambda: shares_entity(given, top, stacked(tables), torch.from_numpy(barred), units, entities, nodes)
    ):
        for block in blocks(units):
            counts = mentions[block.bank] & ~barred[first[block.bank] :][: ENTITIES[block.bank]]
            for c in range(tiles.width):
                mine = {int(i) for i in chosen[block.tile, :, c] if i >= 0}
                met = counts[sorted(mine)].any(0)
                expected = [
                    i >= 0 and i not in mine and bool((counts[i] & met).any())
                    for i in candidates[block.tile, :, c]
                ]
                assert found[block.tile, :, c].tolist() == expected


def test_wrong_arguments_are_named() -> None:
    axis = tiles_of("narrow").axis(pointer(SIZES))
    limits, time = torch.zeros((1, 1, 2), dtype=torch.float64), torch.zeros(sum(SIZES)).double()
    types = torch.zeros(sum(SIZES), dtype=torch.int32)
    with pytest.raises(InvalidTensor, match="bits"):
        type_fit(torch.zeros((1, 1), dtype=torch.int64), types, axis)
    with pytest.raises(InvalidTensor, match="decay"):
        temporal_fit(limits, time, axis, 0.0)
    with pytest.raises(InvalidTensor, match="limits"):
        temporal_fit(limits[:, :0], time, axis, 1.0)
