"""A memory as its users meet it: build, append, search in batches and one question at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks.facts import WrongResult, digest, gate
from benchmarks.measure import Lab, Measure
from benchmarks.workloads import Workload, evidence_digest, hash_memory, prepared
from zeromem_gpu import Memory, SearchResult
from zeromem_gpu.retrieve.engine import Ranked, retrieve
from zeromem_gpu.search import Prepared

SHORT = pytest.param("locomo-1", marks=pytest.mark.short)
# of which a memory meets several before it starts anew: what starts anew moves the bank's rows first
APPENDS = 10
COUNTS = ("banks", "traces", "units", "sentences", "entities", "words", "bytes")


@pytest.mark.parametrize("name", [SHORT, "locomo-10", "hotpot-400"])
def test_build(name: str, lab: Lab, measure: Measure) -> None:
    """Texts to a memory that is ready to search, the encoder's share that of a hash."""
    workload = lab.workload(name)

    def build() -> Memory:
        memory = hash_memory(device=lab.device)
        memory.add(workload.traces)
        memory.prepare()
        return memory

    measure(build, facts=_counts(build()), about=workload.about)


@pytest.mark.parametrize("turns", [1, 20])
@pytest.mark.parametrize("name", [SHORT, "locomo-10"])
def test_append(name: str, turns: int, lab: Lab, measure: Measure) -> None:
    """The next turns of the first bank added to a memory that holds the rest, and made ready to search."""
    workload = lab.workload(name)
    bank = workload.banks[0]
    mine = [trace for trace in workload.traces if trace.bank == bank]
    first = len(mine) - turns * APPENDS
    memory = hash_memory(device=lab.device)
    memory.add([trace for trace in workload.traces if trace.bank != bank] + mine[:first])
    memory.prepare()
    base, at = memory._index, first

    def append() -> None:
        nonlocal at
        memory.add(mine[at : at + turns])
        memory.prepare([bank])
        at += turns

    def again() -> None:
        """From the first of them on, when all of them are in."""
        nonlocal at
        if at == len(mine):
            memory._index, at = base, first

    for _ in range(APPENDS):
        append()
    facts, whole = _counts(memory), lab.memory(name).info()
    wrong = [key for key in ("traces", "units", "sentences", "entities") if facts[key] != whole[key]]
    if wrong:
        raise WrongResult(f"append: other {wrong[0]} than a fresh build; not timed")
    about = {**workload.about, "appended": turns, "appends": APPENDS}
    measure(append, facts=facts, about=about, before=again)


@pytest.mark.parametrize("batch", [1, 32, 1540])
@pytest.mark.parametrize("name", [SHORT, "locomo-10", "hotpot-3200"])
def test_retrieve(name: str, batch: int, lab: Lab, measure: Measure) -> None:
    """Arrays of questions to ranked unit rows: everything after encoding, without profiling and texts."""
    memory, workload = lab.memory(name), lab.workload(name).part(name, batch)
    ready = prepared(memory, workload.questions, workload.banks)
    facts = _retrieved(memory, workload, ready)
    measure(
        lambda: retrieve(ready.stack, ready.bank_of, ready.batch, None, memory.config),
        facts=facts,
        about=workload.about,
    )


@pytest.mark.parametrize("batch", [1, 32, 1540])
@pytest.mark.parametrize("name", [SHORT, "locomo-10", "hotpot-400"])
def test_search(name: str, batch: int, lab: Lab, measure: Measure) -> None:
    """The same from texts to texts: profiling, encoding by a hash, retrieval, evidence."""
    memory, workload = lab.memory(name), lab.workload(name).part(name, batch)

    def search() -> list[SearchResult]:
        return memory.search(list(workload.questions), bank=list(workload.banks))

    found = search()
    ids = _ids(found)
    for place in range(0, len(found), max(len(found) // 5, 1)):
        alone = memory.search(workload.questions[place], bank=workload.banks[place])
        if _ids([alone])[0] != ids[place]:
            raise WrongResult(
                f"search: question {place} has other evidence alone than in its batch; not timed"
            )
    facts = {"evidence": evidence_digest(ids), "returned": sum(map(len, ids))}
    measure(search, facts=facts, about=workload.about)


@pytest.mark.parametrize("profiled", [True, False], ids=["search", "retrieve"])
@pytest.mark.parametrize("name", [SHORT, "locomo-10"])
def test_single_question(name: str, profiled: bool, lab: Lab, measure: Measure) -> None:
    """One question at a time, p50 and p99 over questions, with and without profiling and encoding."""
    memory = lab.memory(name)
    workload = lab.workload(name).part(name, 25 if lab.short else 100)
    pairs = list(zip(workload.questions, workload.banks, strict=True))
    calls: Sequence[Callable[[], Any]]
    if profiled:
        calls = [lambda q=question, b=bank: memory.search(q, bank=b) for question, bank in pairs]
        facts = {"evidence": evidence_digest(_ids([call() for call in calls]))}
    else:
        ready = [prepared(memory, [question], [bank]) for question, bank in pairs]
        calls = [
            lambda one=one: retrieve(one.stack, one.bank_of, one.batch, None, memory.config)
            for one in ready
        ]
        rows = [call().rows for call in calls]
        facts = {"evidence": evidence_digest([[str(at) for at in one.ravel()] for one in rows])}
    # the short form asks fewer questions, so its percentiles are of other questions
    about = {**workload.about, "form": "short" if lab.short else "long"}
    measure.each(calls, facts=facts, about=about)


def _counts(memory: Memory) -> dict[str, Any]:
    info = memory.info()
    return {name: info[name] for name in COUNTS}


def _ids(results: Sequence[SearchResult]) -> list[list[str]]:
    return [[f"{one.trace.bank}/{one.trace.id}:{one.start}" for one in result] for result in results]


def _retrieved(memory: Memory, workload: Workload, ready: Prepared) -> dict[str, Any]:
    """Facts of a batch after some of its questions were asked alone."""
    found = retrieve(ready.stack, ready.bank_of, ready.batch, None, memory.config)
    for place in range(0, len(workload.questions), max(len(workload.questions) // 5, 1)):
        one = prepared(memory, [workload.questions[place]], [workload.banks[place]])
        alone = retrieve(one.stack, one.bank_of, one.batch, None, memory.config)
        _same_answer(found, place, alone)
    return {"rows": digest(found.rows), "sweeps": int(found.sweeps.sum()), "bytes": found.rows.nbytes}


def _same_answer(batch: Ranked, place: int, alone: Ranked) -> None:
    kept = int((alone.rows[0] >= 0).sum())
    if kept != int((batch.rows[place] >= 0).sum()):
        raise WrongResult(f"retrieve: question {place} has more or less evidence alone; not timed")
    # scores, not rows: equal scores may change places with a matrix product's last bit
    gate("retrieve", np.sort(batch.scores[place, :kept]), np.sort(alone.scores[0, :kept]))
