"""Threads that search while one writes: each search sees one version, whole; engines share nothing.

`python -m benchmarks.durable` runs the same for a minute and measures it.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import HashEncoder, NameExtractor, small_memory
from zeromem_gpu import Memory, SearchResult, Trace

READERS, SECONDS = 8, 3.0
TURNS = 12
STAND_INS: dict[str, Any] = {
    "encoder": HashEncoder(), "extractor": NameExtractor(), "cache_dir": False, "device": "cpu"
}  # fmt: skip


def version(number: int) -> list[Trace]:
    """The whole bank as of a version: every text names it."""
    return [
        Trace(f"t{at}", f"Ada met Bob in Rome, edition number{number}.", "b", f"s{at % 2}", speaker="Ada")
        for at in range(TURNS)
    ]


def editions(result: SearchResult) -> set[str]:
    return {one.text.split()[-1] for one in result}


def test_each_search_sees_one_version() -> None:
    """Eight readers beside a writer that replaces every turn at once, deletes, compacts and adds banks."""
    memory = small_memory()
    memory.add(version(0))
    done, failures, searches = threading.Event(), [], [0] * READERS

    def read(reader: int) -> None:
        last = -1
        while not done.is_set():
            try:
                one, two = memory.search(["Who met Bob?", "Where is Rome?"], bank="b", top_k=TURNS)
                (seen,) = editions(one) | editions(two)
                assert len(one) == len(two) == TURNS
                number = int(seen.removeprefix("number").rstrip("."))
                assert number >= last, "a newer version was seen before"
                last = number
                searches[reader] += 1
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(READERS)]
    for thread in threads:
        thread.start()
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end or number < 5:
        number += 1
        memory.add(version(number))
        memory.add(Trace("x", f"Carl sails, number{number}.", f"other{number % 3}"))
        if number % 4 == 0:
            memory.delete(bank=f"other{number % 3}")
            memory.compact()
    done.set()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert min(searches) > 0
    assert editions(memory.search("Who met Bob?", bank="b")) == {f"number{number}."}


def test_readers_of_a_directory_beside_a_writer_see_whole_versions(tmp_path: Path) -> None:
    """Opening and searching while versions come and go, the mapped one included."""
    writer = small_memory()
    writer.add(version(0))
    writer.save(tmp_path)
    done, failures = threading.Event(), []

    def read() -> None:
        while not done.is_set():
            try:
                opened = Memory.open(
                    tmp_path,
                    encoder=HashEncoder(),
                    extractor=NameExtractor(),
                    cache_dir=False,
                    device="cpu",
                )
                time.sleep(0.01)  # time for the files to go away under it
                found = opened.search("Who met Bob?", bank="b", top_k=TURNS)
                assert len(found) == TURNS
                assert len(editions(found)) == 1
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end or number < 5:
        number += 1
        writer.add(version(number))
        writer.save(tmp_path)
    done.set()
    for thread in threads:
        thread.join(60)
    assert failures == []


@pytest.mark.slow
def test_a_hundred_engines_in_one_process_share_nothing() -> None:
    """Same bank, same ids, other texts; what is done to one is seen in no other."""
    engines = [small_memory() for _ in range(100)]
    for number, engine in enumerate(engines):
        engine.add(
            [
                Trace(f"t{at}", f"Ada met Bob{number} in Rome, edition number{number}.", "b")
                for at in range(3)
            ]
        )
    alone = small_memory()
    alone.add([Trace(f"t{at}", "Ada met Bob7 in Rome, edition number7.", "b") for at in range(3)])
    wanted = alone.search("Who met Bob in Rome?", bank="b", top_k=9)
    for engine in engines[::2]:
        engine.delete("t1", bank="b")
    for number, engine in enumerate(engines):
        found = engine.search("Who met Bob in Rome?", bank="b", top_k=9)
        assert editions(found) == {f"number{number}."}
        assert {one.trace.id for one in found} == {"t0", "t2"} | ({"t1"} if number % 2 else set())
        assert found.profile.entities == wanted.profile.entities
    assert engines[7].search("Who met Bob in Rome?", bank="b", top_k=9).evidence == wanted.evidence
    indexes = [engine._index for engine in engines]
    arenas = [id(arena) for index in indexes if index is not None for arena in index.arenas.values()]
    assert len(set(arenas)) == len(arenas)
