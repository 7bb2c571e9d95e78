"""Passes over a bank's tables: compiled against plain NumPy, grown against made at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from zeromem_kernels import layout
from zeromem_kernels.tiles import torch_forms

BOUNDS = {
    "none": [0],
    "one": [0, 1],
    "even and odd": [0, 7, 8, 10, 73],
    "one long": [0, 257],
}
every_bank = pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS.keys())


def alike(call: Callable[[], Any]) -> tuple[np.ndarray, ...]:
    """What both forms give, which must be the same."""
    compiled = call()
    with torch_forms():
        plain = call()
    for mine, other in zip(compiled, plain, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    return tuple(compiled)


def pairs(units: int, entities: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([units, entities, seed])
    held = rng.random((units, entities)) < 0.2
    ptr = layout.pointer(held.sum(1))
    return ptr, np.nonzero(held)[1].astype(np.int32), rng.integers(1, 5, ptr[-1]).astype(np.int32)


@pytest.mark.parametrize(("begin", "end"), [([], []), ([3, 0, 5], [3, 4, 2]), ([7], [63])])
def test_ranges(begin: list[int], end: list[int]) -> None:
    edges = np.array(begin, np.int64), np.array(end, np.int64)
    ptr, members = alike(lambda: layout.ranges(*edges))
    expected = [list(range(a, b)) for a, b in zip(begin, end, strict=True)]
    assert [members[a:b].tolist() for a, b in pairwise(ptr.tolist())] == expected


@every_bank
@pytest.mark.parametrize("chain", [0.0, 0.7])
def test_graph_is_symmetric_and_its_rows_add_up(bounds: list[int], chain: float) -> None:
    edges, units, entities = np.array(bounds, np.int64), bounds[-1], 9
    ptr, entity, count = pairs(units, entities)
    with torch_forms():
        plain = layout.entity_graph(ptr, entity, count, edges, entities, chain)
    made = layout.entity_graph(ptr, entity, count, edges, entities, chain)
    for name in ("indptr", "indices", "weights"):
        np.testing.assert_array_equal(getattr(made, name), getattr(plain, name), name)
    np.testing.assert_allclose(made.degree, plain.degree, rtol=1e-12)
    dense = np.zeros((units + entities,) * 2, np.float32)
    row = np.repeat(np.arange(units + entities), np.diff(made.indptr))
    dense[row, made.indices] = made.weights
    np.testing.assert_array_equal(dense, dense.T)
    share = np.zeros((units, entities))
    share[row[row < units][made.indices[: made.indptr[units]] >= units], entity] = count
    share /= np.maximum(share.sum(1, keepdims=True), 1)
    np.testing.assert_allclose(dense[:units, units:], share, rtol=1e-6)
    session = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    beside = np.abs(np.subtract.outer(np.arange(units), np.arange(units))) == 1
    linked = beside & (session[:, None] == session[None, :])
    np.testing.assert_allclose(dense[:units, :units], linked * np.float32(chain))


@pytest.mark.parametrize("chain", [0.0, 1.0])
@pytest.mark.parametrize(
    ("old", "new"),
    [([0, 5], [0, 6]), ([0, 5, 9], [0, 5, 9, 10]), ([0, 4, 9], [0, 4, 12, 15, 16]), ([0, 1], [0, 63])],
    ids=["same session", "new session", "both", "many"],
)
def test_what_grows_is_what_is_made_at_once(old: list[int], new: list[int], chain: float) -> None:
    units, before, entities = new[-1], old[-1], 11
    ptr, entity, count = pairs(units, entities)
    # entities that the old units do not have come in between
    known = np.unique(entity[: ptr[before]])
    place = np.full(entities, -1, np.int32)
    place[known] = np.arange(len(known))
    first = ptr[: before + 1], place[entity[: ptr[before]]], count[: ptr[before]]
    how = layout.Continued(before, known.astype(np.int32))
    older = layout.entity_graph(*first, np.array(old), len(known), chain)
    grown = layout.entity_graph(ptr, entity, count, np.array(new), entities, chain, (older, how))
    made = layout.entity_graph(ptr, entity, count, np.array(new), entities, chain)
    for name in ("indptr", "indices", "weights", "degree"):
        np.testing.assert_array_equal(getattr(grown, name), getattr(made, name), name)
    across = layout.transpose(*first[:2], len(known))
    for mine, other in zip(
        layout.transpose(ptr, entity, entities, (across, how)),
        layout.transpose(ptr, entity, entities), strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize(("units", "entities"), [(0, 3), (7, 0), (63, 20)])
def test_transpose(units: int, entities: int) -> None:
    ptr, entity, _ = pairs(units, entities)
    back, rows = alike(lambda: layout.transpose(ptr, entity, entities))
    held = np.zeros((units, entities), bool)
    held[np.repeat(np.arange(units), np.diff(ptr)), entity] = True
    for column in range(entities):
        assert rows[back[column] : back[column + 1]].tolist() == np.flatnonzero(held[:, column]).tolist()


@every_bank
def test_passes_over_sessions(bounds: list[int]) -> None:
    edges, units = np.array(bounds, np.int64), bounds[-1]
    session = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    ptr, members = alike(lambda: layout.neighbours(edges))
    first, end = alike(lambda: layout.local_spans(edges, 2))
    low, high = alike(lambda: layout.covering(first, end, units))
    colours, sizes = alike(lambda: layout.colour_rows(edges, 3))
    assert sorted(colours.tolist()) == list(range(units + 3))
    parity = np.arange(units) - edges[session] if units else np.empty(0, int)
    assert (parity[colours[sizes[0] :][: sizes[1]]] % 2 == 0).all()
    assert (parity[colours[sizes[0] + sizes[1] :]] % 2 == 1).all()
    for unit in range(units):
        mine = [at for at in range(units) if session[at] == session[unit]]
        assert members[ptr[unit] : ptr[unit + 1]].tolist() == [at for at in mine if abs(at - unit) == 1]
        near = [at for at in mine if abs(at - unit) <= 2]
        assert list(range(first[unit], end[unit])) == near
        assert list(range(low[unit], high[unit])) == near


@pytest.mark.parametrize("seed", range(6))
def test_kept_intervals_hold_the_same_units(seed: int) -> None:
    rng = np.random.default_rng(seed)
    old = rng.permutation(40)[:30]
    kept = old[rng.random(30) < 0.8]
    units = np.insert(kept, rng.integers(0, len(kept) + 1, 4), [100, 101, 102, 103])
    there = np.array([np.flatnonzero(old == unit)[0] if unit in old else -1 for unit in units])
    for anchored in (True, False):
        both = []
        for size in (len(old), len(units)):
            at = np.arange(size)
            # anchored intervals stand around their unit, the others begin with it
            both.append((np.maximum(at - anchored, 0), np.minimum(at + 2, size)))
        (old_first, old_end), (first, end) = both
        (found,) = alike(
            lambda a=first, b=end, c=old_first, d=old_end, e=anchored: (
                layout.kept_intervals(there, a, b, c, d, anchored=e),
            )
        )
        for i, j in enumerate(found.tolist()):
            mine = units[first[i] : end[i]].tolist()
            if j >= 0:
                assert old[old_first[j] : old_end[j]].tolist() == mine
            else:
                same = there[i] >= 0 and old[old_first[there[i]] : old_end[there[i]]].tolist() == mine
                assert not same


@pytest.mark.parametrize("rows", [0, 1, 7, 63, 257])
@pytest.mark.parametrize("sessions", [1, 5])
def test_session_order(rows: int, sessions: int) -> None:
    rng = np.random.default_rng([rows, sessions])
    session, turn = rng.integers(0, sessions, rows).astype(np.int32), rng.integers(0, 9, rows)
    arrival = np.sort(rng.integers(0, rows + 1, rows)) if rows % 2 else rng.permutation(rows)
    order, number = alike(lambda: layout.session_order(session, turn, arrival))
    earliest = [int(arrival[session == session[row]].min()) for row in range(rows)]
    if len(set(zip(earliest, session.tolist(), strict=True))) == len(set(earliest)):
        expected = sorted(range(rows), key=lambda row: (earliest[row], turn[row], arrival[row], row))
        assert order.tolist() == expected
        changes = np.diff(session[order], prepend=-1) != 0
        assert number.tolist() == (np.cumsum(changes) - 1).tolist()
