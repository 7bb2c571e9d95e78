"""Arrays whose versions share a buffer: what a version has never changes, whatever grows from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import torch

from tests.support import small_memory
from zeromem_gpu import Memory, Trace
from zeromem_gpu.build.stack import Stack, stack_banks
from zeromem_gpu.build.tails import extended, extended_pointer, spliced
from zeromem_gpu.build.views import BankView, bank_view


def test_versions_share_what_they_have_in_common() -> None:
    first = extended(np.arange(100), np.array([7]))
    second = extended(first, np.array([8, 9]))
    assert np.shares_memory(first, second)
    assert first.tolist() == [*range(100), 7]
    assert second.tolist() == [*range(100), 7, 8, 9]


def test_a_second_version_that_grows_from_the_same_one_overwrites_nothing() -> None:
    first = extended(np.arange(100), np.array([7]))
    second, other = extended(first, np.array([8])), extended(first, np.array([9]))
    assert not np.shares_memory(second, other)
    assert (second[-2:].tolist(), other[-2:].tolist()) == ([7, 8], [7, 9])


@pytest.mark.parametrize("part", [slice(0, 50), slice(1, None), slice(0, 0)])
def test_a_part_of_a_version_is_not_grown_in_place(part: slice) -> None:
    whole = extended(np.arange(100), np.array([7]))
    expected = whole.copy()
    grown = extended(whole[part], np.array([1, 2]))
    assert grown.tolist() == [*expected[part].tolist(), 1, 2]
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64, bool])
def test_rows_keep_the_dtype_that_was_there(dtype: type) -> None:
    grown = extended(np.zeros(3, dtype), np.array([1, 0, 1]))
    assert grown.dtype == dtype
    assert grown.tolist() == np.array([0, 0, 0, 1, 0, 1], dtype).tolist()
    assert extended(grown, np.empty(0)) is grown


@pytest.mark.parametrize("size", [0, 1, 7, 63, 1000])
def test_many_steps_give_what_one_gives(size: int) -> None:
    values = np.random.default_rng(size).integers(0, 9, size)
    grown, pointer = np.empty(0, np.int64), np.zeros(1, np.int64)
    for one in values:
        grown, pointer = extended(grown, np.array([one])), extended_pointer(pointer, np.array([one]))
    np.testing.assert_array_equal(grown, values)
    np.testing.assert_array_equal(pointer, np.concatenate([[0], np.cumsum(values)]))


@pytest.mark.parametrize(
    ("keep", "fresh", "shared"),
    [(6, [8], True), (4, [4, 5, 9], True), (4, [5, 6, 7], False), (2, [2, 3], False), (0, [], False)],
    ids=["behind", "over the same", "over others", "shorter", "nothing left"],
)
def test_splicing_shares_only_what_stays(keep: int, fresh: list[int], shared: bool) -> None:
    before = extended(np.arange(4), np.array([4, 5]))
    made = spliced(before, keep, np.array(fresh, np.int64))
    assert made.tolist() == [*range(keep), *fresh]
    assert before.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.shares_memory(made, before) == shared


def told(at: int, session: str = "s9") -> Trace:
    """A turn; every fifth has a name of its own, and an early letter, so that others are renumbered."""
    name = f" with A{at}" if at % 5 == 0 else ""
    return Trace(f"t{at}", f"Ann met Bob{name} on boat {at}?", "b", session, speaker=("Ann", "Bob")[at % 2])


def view_of(memory: Memory) -> BankView:
    assert memory._index is not None
    return bank_view(memory._index, memory._index.banks["b"], memory.config)


def arrays(value: Any, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Every array and tensor in a view or stack, by where it is."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        yield path, np.asarray(value)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from arrays(one, f"{path}.{name}")
    elif is_dataclass(value):
        for field in fields(value):
            yield from arrays(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, (tuple, list)):
        for at, one in enumerate(value):
            yield from arrays(one, f"{path}.{at}")


def test_a_version_under_search_stays_as_it_was_however_the_bank_grows() -> None:
    memory = small_memory()
    memory.add([told(at, f"s{at // 9}") for at in range(40)])
    kept = []
    for at in range(40, 60):
        view = view_of(memory)
        stack = stack_banks([view], torch.device("cpu"))
        kept.append([(one, {name: array.copy() for name, array in arrays(one)}) for one in (view, stack)])
        memory.add(told(at, "s9" if at < 50 else f"new {at // 4}"))
    for held in kept:
        for one, copies in held:
            for name, array in arrays(one):
                np.testing.assert_array_equal(array, copies[name], name)


def test_turns_at_the_end_touch_only_what_is_new() -> None:
    """The path that is taken, and arrays that go on in the memory of the version before."""
    memory = small_memory()
    memory.add([told(at, f"s{at // 9}") for at in range(40)])
    old = view_of(memory)
    for at in (41, 42, 43):
        memory.add(told(at))
        new = view_of(memory)
        assert new.rows.after is old.rows.version
        # the first one moves them to a buffer with room
        if at > 41:
            assert np.shares_memory(new.rows.words_ptr, old.rows.words_ptr)
            assert np.shares_memory(new.rows.unit_rows, old.rows.unit_rows)
        old = new
    memory.add(told(45, "s1"))
    assert view_of(memory).rows.after is None, "a turn in an older session comes before others"


@pytest.mark.parametrize("start", ["in order", "late turns", "after a deletion"])
def test_a_grown_stack_is_the_one_that_is_made_at_once(start: str) -> None:
    memory = small_memory()
    before = [told(at, f"s{at // 9}") for at in range(40)]
    if start == "late turns":
        before.append(told(70, "s1"))
    memory.add(before)
    if start == "after a deletion":
        view_of(memory)
        memory.delete(["t3", "t39"], bank="b")
        before = [one for one in before if one.id not in ("t3", "t39")]
    view_of(memory)
    more = [told(at, "s4" if at < 45 else "s9" if at < 52 else f"new {at // 4}") for at in range(41, 60)]
    for at, one in enumerate(more):
        memory.add(one)
        old, view = view_of(memory), view_of(memory)
        assert view is old
        assert at == 0 or view.rows.after is not None
    fresh = small_memory()
    fresh.add([*before, *more])
    grown, built = (stack_banks([view_of(one)], torch.device("cpu")) for one in (memory, fresh))
    # what is stored by arrival differs where something was deleted
    by_arrival = {"unit_vectors", "sentence_vectors", "entity_vectors", "term_vectors"}
    by_arrival |= {"term_rows", "term_keys", "places", "lexicons"}
    for field in fields(Stack):
        if field.name in by_arrival:
            continue
        for (name, mine), (_, other) in zip(
            arrays(getattr(grown, field.name), field.name), arrays(getattr(built, field.name)), strict=True
        ):
            np.testing.assert_array_equal(mine, other, name)
            assert mine.dtype == other.dtype
