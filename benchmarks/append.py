"""What one more turn costs: adding it, and making its bank ready to be searched again.

    python -m benchmarks.append    # banks of 1k, 10k, 100k turns; one bank beside 10,000
    python -m benchmarks.append --sizes 1000,3000 --banks 100

Encoder and entity extractor are left out on both sides. A turn is added at the end of the newest session,
at the end of an older one, or opens a session; the rebuild adds all turns of the bank and makes it ready.
The second half of that alone, from facts that are kept, stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from benchmarks.begin import begin
from benchmarks.clock import now
from benchmarks.plot import Bar, log_bars
from benchmarks.results import RESULTS, write
from benchmarks.stand_ins import dialogue
from benchmarks.workloads import hash_memory
from zeromem_gpu import Memory, Trace

KINDS = ("newest session", "older session", "new session")
SLOWEST = 99


def main(
    sizes: Annotated[str, typer.Option(help="Turns of the banks.")] = "1000,10000,100000",
    appends: Annotated[int, typer.Option(help="Turns added, of each kind.")] = 100,
    rebuilds: Annotated[int, typer.Option(help="Rebuilds of the views; the median counts.")] = 3,
    banks: Annotated[int, typer.Option(help="Small banks beside the one that is searched.")] = 10_000,
    threads: Annotated[int, typer.Option(help="0 is all cores.")] = 1,
    results: Annotated[Path, typer.Option(help="Folder of results.")] = RESULTS,
) -> None:
    """Measure, print, write JSON and a plot."""
    _, console, measured = begin(threads)
    _bank(60, 3, 1)  # compiles every kernel
    rows = []
    for turns in map(int, sizes.split(",")):
        rows.append(_bank(turns, appends, rebuilds))
        console.print(rows[-1])
    run = {"measured": measured, "stand_in": True, "banks": rows, "beside": _beside(banks)}
    console.print(table(run))
    console.print(run["beside"])
    path = write("append", run, results)
    path.with_suffix(".svg").write_text(plot(run), encoding="utf-8")
    console.print(f"written: {path} and append.svg")


def _bank(turns: int, appends: int, rebuilds: int) -> dict[str, Any]:
    """One bank of a size."""
    count = len(KINDS) * appends
    invented = dialogue("one", turns + count, 8, 1)
    memory = hash_memory()
    written = _added(memory, invented.traces[:turns])
    _refresh(memory, "one")
    # a bank that was written at once has no room: its first append moves it
    memory.add(replace(invented.traces[0], id="first", turn=None))
    _refresh(memory, "one")
    found: dict[str, Any] = {"turns": turns, "write_s": written, "appends": appends}
    left = invented.traces[turns:]
    for kind in KINDS:
        mine, left = left[:appends], left[appends:]
        spent = [
            _append(memory, _placed(trace, kind, at, invented.traces)) for at, trace in enumerate(mine)
        ]
        for name, times in zip(
            ("add_ms", "refresh_ms", "append_ms"), zip(*spent, strict=True), strict=True
        ):
            found |= {f"{kind}: {name}": _spread(times)}
    found["views_s"] = float(np.median([_views(memory) for _ in range(rebuilds)]))
    found["rebuild_s"] = written + found["views_s"]
    for part in ("rebuild", "views"):
        found[f"{part}_times"] = 1e3 * found[f"{part}_s"] / found[f"{KINDS[0]}: append_ms"]["p50"]
    found["search_ms"] = _search(memory, invented.questions)
    return found


def _placed(trace: Trace, kind: str, at: int, traces: Sequence[Trace]) -> Trace:
    """A turn at the end of a session of a kind."""
    if kind == KINDS[2]:
        return replace(trace, session=f"opened {at}")
    if kind == KINDS[1]:
        return replace(trace, session=traces[(at * 7919 + 1) % (len(traces) // 2)].session)
    return trace


def _append(memory: Memory, trace: Trace) -> tuple[float, float, float]:
    """Milliseconds of adding one turn without its models, of the refresh that follows, of both."""
    added = _added(memory, [trace])
    refreshed = _timed(lambda: _refresh(memory, trace.bank))
    return 1e3 * added, 1e3 * refreshed, 1e3 * (added + refreshed)


def _added(memory: Memory, traces: Sequence[Trace]) -> float:
    """Seconds of adding turns, without encoder and entity extractor."""
    begin = now()
    report = memory.add(traces)
    return now() - begin - report.timings["ner_s"] - report.timings["encode_s"]


def _refresh(memory: Memory, bank: str) -> None:
    """What a search does before it looks at its question."""
    index = memory._index
    if index is not None:
        memory._searcher.refresh(index, [bank], memory.config)


def _views(memory: Memory) -> float:
    """Seconds of making the bank ready with nothing but its facts."""
    index = memory._index
    if index is None:
        return 0.0
    bank = replace(index.banks["one"], _views={}, _past={})
    memory._index = replace(index, banks={**index.banks, "one": bank})
    return _timed(lambda: _refresh(memory, "one"))


def _beside(banks: int) -> dict[str, Any]:
    """One bank of 500 turns alone, and beside many small ones: a search and an append, milliseconds."""
    invented = dialogue("one", 600, 50, 2)
    found: dict[str, Any] = {"banks": banks}
    for name, others in (("alone", 0), ("beside", banks)):
        memory = hash_memory()
        memory.add(invented.traces[:500])
        memory.add([Trace("a", f"Note {at} on Paris.", f"other {at}") for at in range(others)])
        found[f"search_ms, {name}"] = _search(memory, invented.questions)
        spent = [_append(memory, trace)[2] for trace in invented.traces[500:]]
        found[f"append_ms, {name}"] = _spread(spent[5:])
    return found


def _search(memory: Memory, questions: Sequence[str]) -> dict[str, float]:
    """Milliseconds of one question at a time."""
    memory.search(questions[0], bank="one")
    spent = []
    for question in questions:
        begin = now()
        memory.search(question, bank="one")
        spent.append(1e3 * (now() - begin))
    return _spread(spent)


def _timed(call: Callable[[], Any]) -> float:
    begin = now()
    call()
    return now() - begin


def _spread(times: Sequence[float]) -> dict[str, float]:
    """The median and the slowest hundredth."""
    return {"p50": float(np.percentile(times, 50)), "p99": float(np.percentile(times, SLOWEST))}


def table(run: dict[str, Any]) -> Table:
    """Appends of each kind beside the rebuild."""
    made = Table(title="One more turn, ms: add and refresh, p50 (p99)")
    for name in ("turns", *KINDS, "rebuild, s (times)", "views alone, s (times)", "then one question, ms"):
        made.add_column(name, justify="right")
    for row in run["banks"]:
        kinds = (row[f"{kind}: append_ms"] for kind in KINDS)
        made.add_row(
            f"{row['turns']:,}",
            *(f"{one['p50']:.3g} ({one['p99']:.3g})" for one in kinds),
            f"{row['rebuild_s']:.3g} ({row['rebuild_times']:.3g})",
            f"{row['views_s']:.3g} ({row['views_times']:.3g})",
            f"{row['search_ms']['p50']:.3g}",
        )  # fmt: skip
    return made


def plot(run: dict[str, Any]) -> str:
    """Append cost against size, as an SVG."""
    groups = [
        (
            f"{row['turns']:,} turns",
            [
                *(Bar(f"append, {kind}", row[f"{kind}: append_ms"]["p50"], True) for kind in KINDS),
                Bar("rebuild", 1e3 * row["rebuild_s"], False),
            ],
        )
        for row in run["banks"]
    ]
    return log_bars(groups, "Making a bank ready after one more turn", "milliseconds, median")


if __name__ == "__main__":
    typer.run(main)
