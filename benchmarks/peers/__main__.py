"""Table, JSON and plot of the engine beside its peers.

    python -m benchmarks.peers --cache ~/.cache/zeromem-gpu
    python -m benchmarks.peers --tasks bm25,dense --rounds 3

Everything is timed turn by turn in one run, medians are shown. A peer that is not installed is left out and
named (`pip install 'zeromem-gpu[peers]'` brings all of them).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.begin import begin
from benchmarks.calibration import Calibration
from benchmarks.peers.bm25 import compare_bm25, locomo_corpus, zipf_corpus
from benchmarks.peers.dense import compare_dense
from benchmarks.peers.locomo import compare_locomo, open_memory
from benchmarks.peers.pagerank import SIZES, compare_pagerank
from benchmarks.peers.rows import Comparison
from benchmarks.plot import Bar, log_bars
from benchmarks.results import RESULTS, write
from benchmarks.workloads import data_dir, load
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate.datasets import load_locomo

TASKS = ("pagerank", "bm25", "dense", "locomo")


def main(
    tasks: Annotated[str, typer.Option(help="Of pagerank, bm25, dense, locomo.")] = ",".join(TASKS),
    sizes: Annotated[str, typer.Option(help="Graphs for PageRank: 5k, 100k, 1m.")] = "5k,100k",
    documents: Annotated[int, typer.Option(help="Of the large BM25 collection; 0 leaves it out.")] = 0,
    rounds: Annotated[int, typer.Option(help="Turns of every system at least; the median counts.")] = 7,
    threads: Annotated[int, typer.Option(help="For whoever can use them; 0 is all cores.")] = 0,
    naive: Annotated[int, typer.Option(help="Questions of the per-query implementation.")] = 60,
    encoder: Annotated[
        str, typer.Option(help="For LoCoMo: minilm, or hash, which needs no model.")
    ] = "minilm",
    cache: Annotated[Path | None, typer.Option(help="Encoder and NER cache.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of results.")] = RESULTS,
) -> None:
    """Compare, print tables, write JSON and SVG."""
    chosen, graphs = tasks.split(","), sizes.split(",")
    for name, given, allowed in (("tasks", chosen, TASKS), ("sizes", graphs, tuple(SIZES))):
        if unknown := [one for one in given if one not in allowed]:
            raise InvalidInput(name, ", ".join(unknown), ", ".join(allowed))
    threads, console, measured = begin(threads)
    yardstick = Calibration()
    done: list[Comparison] = []
    for one in _comparisons(
        chosen, graphs, documents, rounds, threads, naive, encoder, cache, yardstick, console
    ):
        done.append(one)
        console.print(table(one))
    if not done:
        raise typer.Exit(1)
    run = {"measured": measured, "rounds": rounds, "comparisons": [one.to_dict() for one in done]}
    path = write("peers", run, results)
    path.with_suffix(".svg").write_text(plot(done), encoding="utf-8")
    console.print(f"written: {path} and peers.svg")


def _comparisons(
    chosen: list[str], graphs: list[str], documents: int, rounds: int, threads: int, naive: int,
    encoder: str, cache: Path | None, yardstick: Calibration, console: Console,
) -> Iterator[Comparison]:  # fmt: skip
    if "pagerank" in chosen:
        for size in graphs:
            yield compare_pagerank(size, threads, rounds, yardstick)
    if "bm25" in chosen:
        yield compare_bm25(locomo_corpus(load("locomo-10", data_dir())), threads, rounds, yardstick)
        if documents:
            yield compare_bm25(zipf_corpus(documents, 512), threads, rounds, yardstick)
    if "dense" in chosen:
        yield compare_dense(5_882, 1540, threads, rounds, yardstick)
        yield compare_dense(100_000, 256, threads, rounds, yardstick)
    if "locomo" in chosen:
        data = data_dir()
        if data is None or not (data / "locomo").is_dir():
            console.print(
                "LoCoMo left out: recall needs its data, and ZEROMEM_DATA names no folder with it"
            )
        else:
            memory = open_memory(encoder, cache)
            yield compare_locomo(load_locomo(data), memory, naive, threads, rounds, yardstick)


def table(one: Comparison) -> Table:
    """A comparison, fastest first."""
    about = ", ".join(
        f"{key} {value}" for key, value in one.about.items() if key not in ("workload", "input")
    )
    out = [f"left out: {name} ({why})" for name, why in one.left_out.items()]
    shown = Table(title=one.task, caption="\n".join([about, *out, *([one.note] if one.note else [])]))
    recalls = sorted({key for row in one.rows for key in row.more if key.startswith("R@")})
    shown.add_column("system")
    for name in ("ms a query", "times ours", "threads", *recalls, "checked"):
        shown.add_column(name, justify="right")
    for row in sorted(one.rows, key=lambda row: row.ms):
        values = [f"{row.ms:.4g}", f"{one.times[row.system]:.3g}", str(row.threads)]
        values += [str(row.more.get(key, "")) for key in recalls]
        shown.add_row(row.system, *values, row.check, style="bold" if row.ours else None)
    return shown


def plot(done: list[Comparison]) -> str:
    """All comparisons as bars of milliseconds a query."""
    groups = [
        (one.task, [Bar(row.system, row.ms, row.ours) for row in sorted(one.rows, key=lambda row: row.ms)])
        for one in done
    ]
    return log_bars(groups, "Time a query beside peers", "milliseconds a query, median")


if __name__ == "__main__":
    typer.run(main)
