"""Tables and JSON of the engine behind other front ends' calls.

    python -m benchmarks.compat --cache ~/.cache/zeromem-gpu
    python -m benchmarks.compat --tasks pagerank --sizes 5k

`conversation`, `recall` and `store` need LoCoMo in the folder that ZEROMEM_DATA names and the offline
extra, `pagerank` the extra `peers`. A task that is left out keeps its figures of the run before.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks.begin import begin
from benchmarks.calibration import Calibration
from benchmarks.compat.pagerank import SIZES, compare
from benchmarks.compat.zero_mem import PUBLIC, one_conversation, one_store, recall
from benchmarks.machine import device_name
from benchmarks.peers.__main__ import table
from benchmarks.results import RESULTS, write
from benchmarks.workloads import data_dir
from zeromem_gpu import InvalidInput, Memory
from zeromem_gpu.evaluate.datasets import load_locomo

TASKS = ("conversation", "recall", "store", "pagerank")


def main(
    tasks: Annotated[str, typer.Option(help=f"Of {', '.join(TASKS)}.")] = ",".join(TASKS),
    sizes: Annotated[str, typer.Option(help="Graphs for PageRank: 5k, 100k.")] = ",".join(SIZES),
    copies: Annotated[str, typer.Option(help="Copies of LoCoMo in one store.")] = "1,4,10",
    rounds: Annotated[int, typer.Option(help="Turns of every system.")] = 3,
    batch: Annotated[int, typer.Option(help="Questions at once of the store.")] = 256,
    naive: Annotated[int, typer.Option(help="Naive questions at the largest store; 0 leaves it out.")] = 3,
    threads: Annotated[int, typer.Option(help="0 is all cores.")] = 0,
    cache: Annotated[Path | None, typer.Option(help="Encoder and NER cache.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of results.")] = RESULTS,
) -> None:
    """Measure, print tables, write JSON."""
    chosen = tasks.split(",")
    if unknown := [one for one in chosen if one not in TASKS]:
        raise InvalidInput("tasks", ", ".join(unknown), ", ".join(TASKS))
    threads, console, measured = begin(threads)
    done: dict[str, Any] = {}
    if "pagerank" in chosen:
        found = [compare(size, threads, rounds, Calibration()) for size in sizes.split(",")]
        for one in found:
            console.print(table(one))
        done["pagerank"] = [one.to_dict() for one in found]
    if data := data_dir() if set(chosen) - {"pagerank"} else None:
        conversations = load_locomo(data).conversations
        memory = Memory(encoder="minilm", device="cpu", cache_dir=cache)
        if "conversation" in chosen:
            done["conversation"] = one_conversation(conversations[0], memory, rounds)
        if "recall" in chosen:
            done["recall"] = recall(conversations, memory)
        if "store" in chosen:
            done["store"] = one_store(conversations, memory, [*map(int, copies.split(","))], batch, naive)
    path = results / device_name(measured["device"]) / "compat.json"
    before = json.loads(path.read_text(encoding="utf-8"))["tasks"] if path.is_file() else {}
    kept = before | {name: {"measured": measured, "found": found} for name, found in done.items()}
    write("compat", {"measured": measured, "tasks": kept}, results)
    for shown in tables(done):
        console.print(shown)
    console.print(f"written: {path}")


def tables(done: dict[str, Any]) -> list[Table]:
    """The Zero-Mem interface: one conversation, and one growing store."""
    shown = []
    if one := done.get("conversation"):
        rows = Table(title=f"Zero-Mem interface, {one['turns']} turns, encoder left out, profiles included")
        for name in ("calls", "ms a question", "p50", "p99", "times ours"):
            rows.add_column(name, justify="right" if name != "calls" else "left")
        many = f"retrieve_batch, {one['questions']} questions"
        rows.add_row(many, f"{one['batch_ms']:.3g}", "", "", "1", style="bold")
        for name, key in (("retrieve, one question", "single"), ("naive: networkx, one question", "naive")):
            ms = one[key]
            cells = [f"{ms[part]:.3g}" for part in ("mean_ms", "p50_ms", "p99_ms")]
            rows.add_row(name, *cells, f"{ms['mean_ms'] / one['batch_ms']:.3g}")
        shown.append(rows)
    if found := done.get("recall"):
        title = f"Zero-Mem interface, {found['questions']} LoCoMo questions"
        rows = Table("system", "recall@5", title=title)
        for name in ("zeromem-gpu", "naive"):
            rows.add_row(name, f"{found[name]:.1f}")
        shown.append(rows)
    if store := done.get("store"):
        rows = Table(title=f"One store; ingest grows with exponent {store['exponent'] or float('nan'):.2f}")
        for name in (
            "turns", "ingest, s", "public front end", "first search, s", "batch, ms a question",
            "public front end", "single p50 / p99, ms",
        ):  # fmt: skip
            rows.add_column(name, justify="right")
        for row in store["rows"]:
            public = PUBLIC.get(row["turns"], (float("nan"), float("nan")))
            single = f"{row['single']['p50_ms']:.3g} / {row['single']['p99_ms']:.3g}"
            figures = (row["ingest_s"], public[0], row["first_search_s"], row["batch_ms"], public[1])
            rows.add_row(f"{row['turns']:,}", *(f"{value:.3g}" for value in figures), single)
        if "naive" in store:
            ms, times = store["naive"]["p50_ms"], store["times"]
            rows.caption = f"naive at the largest: {ms:,.0f} ms a question, {times:,.0f} times ours"
        shown.append(rows)
    return shown


if __name__ == "__main__":
    typer.run(main)
