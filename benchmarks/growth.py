"""How build, append, search and memory grow with the bank and with the batch, and how far the floors are.

    python -m benchmarks.growth    # banks of 1k, 10k, 100k turns; batches 1 … 8,192
    python -m benchmarks.growth --sizes 1000,3000,10000

Banks are invented conversations (`stand_ins.dialogue`), one bank each; vectors are a hash's, so that no
model's time is in any figure. An exponent is the slope of log(time) over log(size). A floor is what the
arithmetic and the bytes of the algorithm would take at the rates that this machine reached in the same
run.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.table import Table

from benchmarks.begin import begin
from benchmarks.machine import floors
from benchmarks.results import RESULTS, write
from benchmarks.stand_ins import WIDTH, Invented, dialogue
from benchmarks.workloads import hash_memory, prepared
from zeromem_gpu import Memory, Trace
from zeromem_gpu.retrieve.engine import Ranked, retrieve
from zeromem_gpu.retrieve.groups import WIDEST
from zeromem_gpu.search import Prepared

BATCH, APPENDED = 32, 20
# a build that takes less is repeated for so many seconds
_BUILDING = 10.0
FIGURES = ("build_s", "prepare_s", "append_s", "search_ms", "single_ms", "bytes")


def main(
    sizes: Annotated[str, typer.Option(help="Turns of the banks.")] = "1000,10000,100000",
    batches: Annotated[str, typer.Option(help="Questions at once.")] = "1,8,32,128,512,2048,8192",
    batch_bank: Annotated[int, typer.Option(help="Turns of the bank on which batches grow.")] = 1000,
    repeats: Annotated[int, typer.Option(help="Of what is repeated; the median counts.")] = 3,
    threads: Annotated[int, typer.Option(help="0 is all cores.")] = 0,
    results: Annotated[Path, typer.Option(help="Folder of results.")] = RESULTS,
) -> None:
    """Measure, print, write JSON."""
    _, console, measured = begin(threads)
    warm_up()
    rates = floors()
    by_size = []
    for turns in map(int, sizes.split(",")):
        by_size.append(_bank(turns, repeats, rates))
        console.print(by_size[-1])
    by_batch = _batches(batch_bank, list(map(int, batches.split(","))), repeats, rates)
    exponents = {name: exponent([(row["turns"], row[name]) for row in by_size]) for name in FIGURES}
    exponents["batch"] = exponent([(row["batch"], row["batch_s"]) for row in by_batch])
    run = {
        "measured": measured, "rates": rates, "stand_in": True, "banks": by_size, "batches": by_batch,
        "exponents": exponents,
    }  # fmt: skip
    for one in tables(run):
        console.print(one)
    console.print(f"written: {write('growth', run, results)}")


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope of log y over log x by least squares; None with fewer than two points.

    >>> round(exponent([(10, 3.0), (100, 30.0), (1000, 300.0)]), 6)
    1.0
    """
    if len(points) < 2:
        return None
    x, y = np.log(np.array(points, np.float64)).T
    return float(np.polyfit(x, y, 1)[0])


def search_floor(ready: Prepared, found: Ranked, queries: int, rates: dict[str, float]) -> dict[str, float]:
    """Seconds below which this algorithm cannot search on this machine, by what they go to.

    `products`: cosines of units and sentences. `vectors`: reading them once a tile. `sweeps`: one row of a
    tile's width gathered for each non-zero of each sweep of PageRank.
    """
    stack = ready.stack
    rows = sum(len(one.stored) for one in (*stack.unit_vectors, *stack.sentence_vectors))
    tiles = -(-queries // WIDEST)
    sweeps = float(found.sweeps.mean()) if len(found.sweeps) else 0.0
    gathered = len(stack.graph.weights.indices) * min(queries, WIDEST) * 4 * tiles * sweeps
    return {
        "products": 2.0 * rows * WIDTH * queries / (1e9 * rates["gflops"]),
        "vectors": 4.0 * rows * WIDTH * tiles / (1e9 * rates["copy_gb_s"]),
        "sweeps": gathered / (1e9 * rates["gather_gb_s"]),
    }


def _bank(turns: int, repeats: int, rates: dict[str, float]) -> dict[str, Any]:
    """Everything about one bank of a size."""
    invented = dialogue("one", turns + repeats * APPENDED, 64, 1)
    memory = hash_memory()
    before = resident()
    builds = [_build(memory, invented.traces[:turns])]
    ready, found, spent, stage_ms = _search(memory, invented, BATCH, repeats)
    _, _, single, _ = _search(memory, invented, 1, max(repeats, 5))
    held = _stack_bytes(ready)
    floor = search_floor(ready, found, BATCH, rates)
    info = memory.info()
    degree = ready.stack.graph.weights.indptr.diff()
    held_resident = max(resident() - before, 0)
    appended = _append(memory, invented, turns, repeats)
    while sum(one["build_s"] for one in builds) < _BUILDING:
        builds.append(_build(hash_memory(), invented.traces[:turns]))
    build_s, prepare_s = (median(one[name] for one in builds) for name in ("build_s", "prepare_s"))
    stages = min(builds, key=lambda one: abs(one["build_s"] - build_s))["stages"]
    return {
        "turns": turns, "sentences": info["sentences"], "entities": info["entities"],
        "nonzeros": len(ready.stack.graph.weights.indices), "largest_degree": int(degree.max()),
        "build_s": build_s, "prepare_s": prepare_s, "builds": len(builds), "build_stages_s": stages,
        "build_floor_s": (info["bytes"] + held) / (1e9 * rates["copy_gb_s"]),
        "append_s": appended, "appended": APPENDED,
        "append_floor_s": (info["bytes"] + held) * APPENDED / turns / (1e9 * rates["copy_gb_s"]),
        "search_ms": 1e3 * spent / BATCH, "batch": BATCH, "search_stages_ms": stage_ms,
        "search_floor_ms": {name: 1e3 * value / BATCH for name, value in floor.items()},
        "single_ms": 1e3 * single, "bytes": info["bytes"] + held,
        "resident_bytes": held_resident,
    }  # fmt: skip


def _build(memory: Memory, traces: Sequence[Trace]) -> dict[str, Any]:
    """Seconds from texts to an index, from there to being ready, and where they went."""
    begin = time.perf_counter()
    report = memory.add(traces)
    built = time.perf_counter()
    stages = dict(report.timings) | memory.prepare()
    ready = time.perf_counter()
    stages["rest_of_add_s"] = built - begin - sum(report.timings.values())
    return {"build_s": built - begin, "prepare_s": ready - built, "stages": stages}


def _batches(
    turns: int, sizes: Sequence[int], repeats: int, rates: dict[str, float]
) -> list[dict[str, Any]]:
    """One bank, ever more questions at once."""
    invented = dialogue("one", turns, 512, 1)
    memory = hash_memory()
    memory.add(invented.traces)
    memory.prepare()
    rows = []
    for size in sizes:
        ready, found, spent, stages = _search(memory, invented, size, repeats)
        floor = search_floor(ready, found, size, rates)
        rows.append(
            {
                "batch": size, "batch_s": spent, "ms": 1e3 * spent / size, "stages_ms": stages,
                "floor_ms": {name: 1e3 * value / size for name, value in floor.items()},
            }
        )  # fmt: skip
    return rows


def _search(
    memory: Memory, invented: Invented, batch: int, repeats: int
) -> tuple[Prepared, Ranked, float, dict[str, float]]:
    """Retrieval of a batch after encoding: median seconds, and milliseconds a question by stage."""
    questions = [invented.questions[at % len(invented.questions)] for at in range(batch)]
    ready = prepared(memory, questions, ["one"] * batch)
    runs = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        found = retrieve(ready.stack, ready.bank_of, ready.batch, None, memory.config)
        runs.append((time.perf_counter() - begin, found))
    timed = sorted(runs[1:], key=lambda run: run[0])
    spent, found = timed[len(timed) // 2]
    return ready, found, spent, {name: 1e3 * value / batch for name, value in found.timings.items()}


def _append(memory: Memory, invented: Invented, turns: int, repeats: int) -> float:
    """Median seconds of adding some turns behind all others and making the bank ready to search again."""
    times = []
    for at in range(repeats):
        start = turns + at * APPENDED
        begin = time.perf_counter()
        memory.add(invented.traces[start : start + APPENDED])
        memory.prepare()
        times.append(time.perf_counter() - begin)
    return median(times)


def _stack_bytes(ready: Prepared) -> int:
    """Bytes of all tensors that retrieval reads, vectors apart, which the arenas count already."""
    seen: dict[int, int] = {}

    def visit(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            seen[value.data_ptr()] = value.nbytes
        elif isinstance(value, (list, tuple)):
            for one in value:
                visit(one)
        elif hasattr(value, "__dataclass_fields__"):
            for one in fields(value):
                if "vectors" not in one.name:
                    visit(getattr(value, one.name))

    visit(ready.stack)
    return sum(seen.values())


def warm_up() -> None:
    """Compile every kernel before anything is timed."""
    invented = dialogue("one", 60, 40, 0)
    memory = hash_memory()
    memory.add(invented.traces)
    memory.search(invented.questions, bank="one")
    memory.search(invented.questions[0], bank="one")


def resident() -> int:
    """Bytes of this process now, where /proc says so; its peak elsewhere."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def tables(run: dict[str, Any]) -> list[Table]:
    """Growth with the bank, with the batch, and the exponents."""
    bank = Table(title="One bank, growing (floors in brackets)")
    columns = (
        "turns", "build, s", "ready, s", f"append {APPENDED}, s", f"search × {BATCH}, ms a question",
        "one question, ms", "MB", "largest stages of a search, ms",
    )  # fmt: skip
    for name in columns:
        bank.add_column(name, justify="right")
    for row in run["banks"]:
        bank.add_row(*bank_cells(row))
    spread = Table(title="One bank of fixed size, growing batch")
    for name in ("batch", "ms a question", "floor, ms", "largest stages, ms"):
        spread.add_column(name, justify="right")
    for row in run["batches"]:
        spread.add_row(*batch_cells(row))
    shown = ", ".join(f"{k} {v:.2f}" for k, v in run["exponents"].items() if v is not None)
    spread.caption = f"exponents: {shown}"
    return [bank, spread]


def bank_cells(row: dict[str, Any]) -> list[str]:
    """One bank as text."""
    floor = sum(row["search_floor_ms"].values())
    return [
        f"{row['turns']:,}",
        f"{row['build_s']:.3g} ({row['build_floor_s']:.2g})",
        f"{row['prepare_s']:.3g}",
        f"{row['append_s']:.3g} ({row['append_floor_s']:.1g})",
        f"{row['search_ms']:.3g} ({floor:.2g})",
        f"{row['single_ms']:.3g}",
        f"{row['bytes'] / 1e6:.3g}",
        _largest(row["search_stages_ms"]),
    ]


def batch_cells(row: dict[str, Any]) -> list[str]:
    """One batch as text."""
    floor = sum(row["floor_ms"].values())
    return [f"{row['batch']:,}", f"{row['ms']:.3g}", f"{floor:.2g}", _largest(row["stages_ms"])]


def _largest(stages: dict[str, float]) -> str:
    best = sorted(stages.items(), key=lambda one: -one[1])[:3]
    return ", ".join(f"{name.removesuffix('_s')} {value:.3g}" for name, value in best)


if __name__ == "__main__":
    typer.run(main)
