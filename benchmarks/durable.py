"""A memory that lives: bytes, open time, and eight readers beside a writer for a minute.

    python -m benchmarks.durable                  # a bank of 100,000 turns; 60 s of readers and a writer
    python -m benchmarks.durable --turns 10000 --seconds 10

Conversations are invented (`stand_ins.dialogue`), vectors are a hash's, so that no model's time is in any
figure. The readers check every result: one version of the bank, whole; a torn one ends the run.
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from benchmarks.begin import begin
from benchmarks.growth import resident, warm_up
from benchmarks.results import RESULTS, write
from benchmarks.stand_ins import CapitalisedNames, HashEncoder, dialogue
from benchmarks.workloads import hash_memory
from zeromem_gpu import Memory, Trace

OPENED: dict[str, Any] = {
    "encoder": HashEncoder(), "extractor": CapitalisedNames(), "cache_dir": False, "device": "cpu"
}  # fmt: skip


def main(
    turns: Annotated[int, typer.Option(help="Turns of the bank that is saved; 0 leaves it out.")] = 100_000,
    seconds: Annotated[float, typer.Option(help="Of readers beside a writer; 0 leaves it out.")] = 60.0,
    readers: Annotated[int, typer.Option(help="Threads that search.")] = 8,
    bank_turns: Annotated[int, typer.Option(help="Turns of the bank they search.")] = 400,
    repeats: Annotated[int, typer.Option(help="Of opening; the median counts.")] = 5,
    threads: Annotated[int, typer.Option(help="torch's threads.")] = 1,
    results: Annotated[Path, typer.Option(help="Folder of results.")] = RESULTS,
) -> None:
    """Measure, print, write JSON."""
    _, console, measured = begin(threads)
    about = {"measured": measured, "stand_in": True}
    if turns:
        bank = saved_and_opened(turns, repeats)
        console.print(bank)
        console.print(f"written: {write('durable-bank', {**about, **bank}, results)}")
    if seconds:
        crowd = together(seconds, readers, bank_turns)
        console.print(crowd)
        console.print(f"written: {write('durable-readers', {**about, **crowd}, results)}")
        if crowd["errors"]:
            raise typer.Exit(1)


def saved_and_opened(turns: int, repeats: int) -> dict[str, Any]:
    """Bytes on disk and in memory for each thousand turns of one bank; how long saving and opening take.

    `facts` is what the index stores in arrays; `ready` what the process holds more once the bank can be
    searched, without the texts, which the caller had already; `opened` what a fresh process holds more,
    texts included, that opened the files, and `searched` once it answered a question.
    """
    invented = dialogue("one", turns, 4, 1)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        before = resident()
        memory = hash_memory()
        begin = time.perf_counter()
        memory.add(invented.traces)
        built = time.perf_counter() - begin
        memory.prepare()
        ready = resident() - before
        begin = time.perf_counter()
        memory.save(place)
        saved = time.perf_counter() - begin
        facts = memory.info()["bytes"]
        wanted = [one.trace.id for one in memory.search(invented.questions[0], bank="one")]
        del memory
        gc.collect()
        files = {path.name: path.stat().st_size for path in sorted((place / "v0001").iterdir())}
        # in a process of its own: this one's heap has room that opening would fill unseen
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            fresh = pool.submit(_open_fresh, place, invented.questions[0], repeats).result()
    if fresh.pop("found") != wanted:
        raise RuntimeError("an opened memory answers otherwise than the one that was saved")
    each = 1000 / turns
    return {
        "turns": turns, "build_s": built, "save_s": saved, "files": files,
        "disk_bytes_per_1000": sum(files.values()) * each, "facts_bytes_per_1000": facts * each,
        "ready_bytes_per_1000": ready * each, "opened_bytes_per_1000": fresh.pop("opened") * each,
        "searched_bytes_per_1000": fresh.pop("searched") * each, **fresh,
    }  # fmt: skip


def _open_fresh(place: Path, question: str, repeats: int) -> dict[str, Any]:
    """Open an index in this process, which has only imported the library."""
    warm_up()
    before = resident()
    times = []
    for _ in range(repeats):
        opened = None  # one at a time
        begin = time.perf_counter()
        opened = Memory.open(place, **OPENED)
        times.append(time.perf_counter() - begin)
    held = resident() - before
    begin = time.perf_counter()
    found = [one.trace.id for one in opened.search(question, bank="one")] if opened else []
    first = time.perf_counter() - begin
    return {
        "open_s": median(times), "open_all_s": times, "first_search_s": first, "found": found,
        "opened": held, "searched": resident() - before,
    }  # fmt: skip


@dataclass
class _Crowd:
    """What readers count together."""

    searches: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)


def together(seconds: float, readers: int, turns: int) -> dict[str, Any]:
    """Searches a second: of one thread alone, of `readers` alone, and of `readers` beside a writer.

    The writer replaces every turn of a small bank at once and adds to a growing one, so that each
    search must see one edition of the small one; one in ten searches asks for it.
    """
    invented = dialogue("one", turns, 64, 2)
    memory = hash_memory()
    memory.add(invented.traces)
    memory.add(_edition(0))
    memory.search(invented.questions[:2], bank=["one", "edition"])
    alone = _searching(memory, invented.questions, 1, min(seconds / 4, 10.0), write=False)
    crowd = _searching(memory, invented.questions, readers, min(seconds / 4, 10.0), write=False)
    beside = _searching(memory, invented.questions, readers, seconds, write=True)
    return {
        "seconds": seconds, "readers": readers, "turns": turns, "cores": os.cpu_count(),
        "alone_per_s": alone["per_s"], "readers_per_s": crowd["per_s"],
        "beside_writer_per_s": beside["per_s"],
        "searches": beside["searches"], "fewest_of_a_reader": beside["fewest"], "writes": beside["writes"],
        "errors": [*alone["errors"], *crowd["errors"], *beside["errors"]],
    }  # fmt: skip


def _searching(
    memory: Memory, questions: list[str], readers: int, seconds: float, *, write: bool
) -> dict[str, Any]:
    crowd = _Crowd([0] * readers)

    def read(reader: int) -> None:
        last = -1
        while not crowd.done.is_set():
            try:
                at = crowd.searches[reader]
                if at % 10:
                    if not memory.search(questions[(at + reader) % len(questions)], bank="one"):
                        raise RuntimeError("no evidence")
                else:
                    found = memory.search("What does Mirela say?", bank="edition", top_k=20)
                    (edition,) = {int(one.text.rsplit(" ", 1)[-1]) for one in found}
                    if len(found) != _EDITION_TURNS or edition < last:
                        raise RuntimeError(f"torn: {len(found)} turns of edition {edition} after {last}")
                    last = edition
                crowd.searches[reader] += 1
            except Exception as error:
                crowd.errors.append(f"{type(error).__name__}: {error}")
                return

    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(readers)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    writes = 0
    while time.perf_counter() - begin < seconds and not crowd.errors:
        if not write:
            time.sleep(0.05)
            continue
        writes += 1
        memory.add(_edition(writes))
        memory.add(Trace(f"late{writes}", f"Tadeo says number {writes}.", "growing"))
        if writes % 20 == 0:
            memory.compact()
    crowd.done.set()
    for thread in threads:
        thread.join()
    spent = time.perf_counter() - begin
    return {
        "per_s": sum(crowd.searches) / spent, "searches": sum(crowd.searches),
        "fewest": min(crowd.searches), "writes": writes, "errors": crowd.errors,
    }  # fmt: skip


_EDITION_TURNS = 12


def _edition(number: int) -> list[Trace]:
    """The whole small bank as of an edition."""
    return [
        Trace(f"t{at}", f"Mirela says what she said before in edition {number}", "edition", f"s{at % 3}")
        for at in range(_EDITION_TURNS)
    ]


if __name__ == "__main__":
    typer.run(main)
