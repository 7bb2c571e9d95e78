"""Regions of an arena: where rows are written, and that no version's rows ever change."""

from __future__ import annotations

import numpy as np
import pytest

from zeromem_gpu.build import arena as arenas
from zeromem_gpu.build.arena import Arena, Span

SCHEMA = {"row": (np.int32, ()), "vector": (np.float32, (3,))}


def rows(first: int, count: int) -> dict[str, np.ndarray]:
    number = np.arange(first, first + count, dtype=np.int32)
    return {"row": number, "vector": np.repeat(number, 3).reshape(-1, 3).astype(np.float32)}


def numbers(arena: Arena, span: Span) -> list[int]:
    found = arena.view(span)
    np.testing.assert_array_equal(found["vector"][:, 1], found["row"])
    return [int(one) for one in found["row"]]


def test_the_last_region_is_made_longer_where_it_is() -> None:
    arena = Arena(SCHEMA)
    other = arena.append(Span(), rows(100, 5))
    spans = [arena.append(Span(), rows(0, 4))]
    for at in range(4, 40):
        spans.append(arena.append(spans[-1], rows(at, 1)))
    assert {span.offset for span in spans} == {5}
    for count, span in enumerate(spans, 4):
        assert numbers(arena, span) == list(range(count))
    assert numbers(arena, other) == list(range(100, 105))


def test_a_region_with_another_behind_it_moves() -> None:
    arena = Arena(SCHEMA)
    span, other = arena.append(Span(), rows(0, 4)), arena.append(Span(), rows(100, 5))
    grown = arena.append(span, rows(4, 3))
    assert grown.offset == 9
    assert numbers(arena, grown) == list(range(7))
    assert numbers(arena, span) == list(range(4))
    assert numbers(arena, other) == list(range(100, 105))


def test_of_two_that_grow_from_one_the_second_moves() -> None:
    arena = Arena(SCHEMA)
    span = arena.append(Span(), rows(0, 4))
    first, second = arena.append(span, rows(50, 2)), arena.append(span, rows(60, 9))
    assert (first.offset, second.offset) == (0, 8)
    assert numbers(arena, first) == [0, 1, 2, 3, 50, 51]
    assert numbers(arena, second) == [0, 1, 2, 3, *range(60, 69)]
    third = arena.append(first, rows(70, 9))
    assert numbers(arena, third) == [0, 1, 2, 3, 50, 51, *range(70, 79)]
    assert numbers(arena, second) == [0, 1, 2, 3, *range(60, 69)]


@pytest.mark.parametrize(("size", "moves"), [(63, True), (64, False)], ids=["small", "large"])
def test_only_a_large_first_region_has_room(
    monkeypatch: pytest.MonkeyPatch, size: int, moves: bool
) -> None:
    monkeypatch.setattr(arenas, "_LARGE", 64)
    arena = Arena(SCHEMA)
    span = arena.append(Span(), rows(0, size))
    arena.append(Span(), rows(100, 5))
    grown = arena.append(span, rows(size, 1))
    assert (grown.offset != span.offset) == moves
    assert numbers(arena, grown) == list(range(size + 1))
