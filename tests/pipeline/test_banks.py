"""Many banks in one index, and many engines in one process: nothing of one is touched by another."""

from __future__ import annotations

import threading

import numpy as np

from tests.support import small_memory
from zeromem_gpu import Memory, Trace
from zeromem_gpu.build import ordered
from zeromem_gpu.build.grown import Growing, Grown


def note(bank: str, at: int, name: str = "Ann") -> Trace:
    return Trace(f"t{at}", f"{name} counted {at} boats near Bergen.", bank, "s", speaker=name)


def evidence(memory: Memory, bank: str) -> list[tuple[str, float]]:
    return [(one.trace.text, one.score) for one in memory.search("Who counted boats?", bank=bank)]


def test_adding_to_one_bank_rewrites_no_other() -> None:
    memory = small_memory()
    memory.add([note(f"b{bank}", at) for bank in range(50) for at in range(3)])
    expected = evidence(memory, "b7")
    before = memory._index
    assert before is not None
    columns = {name: before.column(before.banks["b7"], "units", name) for name in ("turn", "vector")}
    written = {name: column.copy() for name, column in columns.items()}
    for at in range(3, 40):
        memory.add(note("b6", at))
    after = memory._index
    assert after is not None
    assert all(after.banks[name] is bank for name, bank in before.banks.items() if name != "b6")
    assert before.banks["b6"].spans["units"].length == 3
    for name, column in columns.items():
        np.testing.assert_array_equal(column, written[name])
    assert evidence(memory, "b7") == expected


def test_a_bank_scores_the_same_beside_any_others() -> None:
    alone, beside = small_memory(), small_memory()
    mine = [note("mine", at) for at in range(5)]
    alone.add(mine)
    beside.add([note(f"b{bank}", at, "Bob") for bank in range(40) for at in range(3)])
    beside.add(mine)
    beside.add([note(f"c{bank}", 0, "Cleo") for bank in range(40)])
    assert evidence(beside, "mine") == evidence(alone, "mine")


def test_versions_grow_apart_from_one_ancestor() -> None:
    """Two versions that grew from the same one share its past only."""
    memory = small_memory()
    memory.add([note("b", at) for at in range(4)])
    before = evidence(memory, "b")
    ancestor = memory._index
    grown = []
    for name in ("Bob", "Cleo"):
        memory._index = ancestor
        memory.add(note("b", 9, name))
        grown.append((name, memory._index, evidence(memory, "b")))
    memory._index = ancestor
    assert evidence(memory, "b") == before
    for name, index, found in grown:
        memory._index = index
        assert evidence(memory, "b") == found
        fresh = small_memory()
        fresh.add([*(note("b", at) for at in range(4)), note("b", 9, name)])
        assert found == evidence(fresh, "b")


def test_a_search_beside_an_add_sees_one_version() -> None:
    """Every answer under way is that of some whole version, however the bank grows meanwhile."""
    memory = small_memory()
    memory.add(note("b", 0))
    versions: list[list[tuple[str, float]]] = []
    for count in range(1, 13):
        fresh = small_memory()
        fresh.add([note("b", at) for at in range(count)])
        versions.append(evidence(fresh, "b"))
    seen: list[list[tuple[str, float]]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(evidence(memory, "b"))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for at in range(1, 12):
        memory.add(note("b", at))
    done.set()
    for reader in readers:
        reader.join()
    assert seen
    assert all(found in versions for found in seen)


def test_vectors_out_of_order_are_not_copied(monkeypatch) -> None:
    """Large banks leave vectors where they arrived; products then find them by row."""
    expected = []
    for copied in (ordered._COPIED, 0):
        monkeypatch.setattr(ordered, "_COPIED", copied)
        memory = small_memory()
        memory.add([Trace(f"t{at}", f"Ann saw {at} boats.", "b", f"s{at % 3}") for at in range(30)])
        memory.search("Who saw boats?", bank="b")
        memory.add(Trace("late", "Bob saw the ferry.", "b", "s0"))
        expected.append(
            [(one.trace.id, round(one.score, 5)) for one in memory.search("Who saw the ferry?", bank="b")]
        )
    assert expected[0] == expected[1]


def test_a_grown_mapping_is_the_dictionary_so_changed() -> None:
    rng = np.random.default_rng(1)
    plain: dict[int, int] = {}
    grown: object = plain
    versions = []
    for step in range(60):
        growing = Growing.of(grown)  # type: ignore[arg-type]
        for key in rng.integers(0, 4000, 80 if step % 2 else 3).tolist():
            growing[key] = plain[key] = step
        grown = growing.done()
        versions.append((grown, dict(plain)))
    assert any(isinstance(version, Grown) for version, _ in versions)
    for version, expected in versions:
        assert list(version.items()) == list(expected.items())  # type: ignore[attr-defined]
        assert len(version) == len(expected)  # type: ignore[arg-type]
        assert -1 not in version  # type: ignore[operator]
