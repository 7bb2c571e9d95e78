"""Write `benchmarks/README.md` from the stored results; nobody types a figure by hand.

python -m benchmarks.readme            # write it
python -m benchmarks.readme --check    # exit code 1 where it is not what the results say
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.gate import BASELINES, newest
from benchmarks.growth import APPENDED, BATCH, bank_cells, batch_cells
from benchmarks.machine import ROOT
from benchmarks.results import RESULTS, told

README = ROOT / "benchmarks" / "README.md"
_HEAD = """\
# Measurements

Written by `python -m benchmarks.readme` from the JSON files beside it: change those by measuring, not
this text.

| command | what it does |
| --- | --- |
| `make bench` | runs the regression suite against this device's baseline, fails beyond 1.25 times |
| `make bench ARGS=--short` | CI's form (also where `CI` is set): small workloads, fails beyond 1.6 times |
| `make bench ARGS=--store` | makes this run the device's baseline, `baseline/<device>/NNNN_<commit>.json` |
| `python -m benchmarks.peers` | the engine beside its peers (`pip install 'zeromem-gpu[peers]'`) |
| `python -m benchmarks.growth` | how time and memory grow with the bank and the batch |
| `python -m benchmarks.compat` | the engine behind other front ends' calls |
| `python -m benchmarks.encoding` | encoding and NER beside their plain forms, LoCoMo from nothing |
| `python -m benchmarks.durable` | bytes, open time, and readers beside a writer for a minute |
| `python -m benchmarks.append` | one more turn against a rebuild, and a bank beside 10,000 others |
| `python -m benchmarks.readme` | this file |

How `make bench` decides. Each benchmark first checks its result against another form of the same
computation and is not timed where they differ. Between its rounds a fixed calibration workload is timed,
both by a clock that leaves out waits for a processor which another process has; what is compared with the
baseline is the median ratio of a round to the calibrations around it, so that a slow minute slows both;
for single questions also the ratio at the 99th percentile over questions. What is slower is measured
twice again before it counts. What must not move is stored beside the times: a digest of evidence ids,
sweeps, bytes, projections of float results; a change fails at any speed. Other input, other threads and
another machine are named and never compared silently. One thread is used unless `--threads` says
otherwise, as that repeats best, and the C allocator's thresholds are fixed.

Workloads: `locomo-1` and `locomo-10` (LoCoMo's first and all ten conversations), `hotpot-400` and
`hotpot-3200` (banks of so many HotpotQA paragraphs), read from `ZEROMEM_DATA`; where that is absent,
invented text of the same shape, and the figure says "stand-in". `synthetic-300k` is a graph of 300,000
nodes and 3 million non-zeros. Vectors are a hash's of 384 dimensions, so that no model is needed and no
model's time is in a figure.
"""


def main(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 where it is stale.")
    ] = False,
) -> None:
    """Write the file, or check it."""
    text = render(RESULTS, BASELINES)
    if not check:
        README.write_text(text, encoding="utf-8")
    elif not README.is_file() or README.read_text(encoding="utf-8") != text:
        typer.echo("benchmarks/README.md is not what the results say: run python -m benchmarks.readme")
        raise typer.Exit(1)


def render(results: Path, baselines: Path) -> str:
    """The whole file."""
    parts = [
        _HEAD,
        *_peers(results),
        *_compat(results),
        *_growth(results),
        *_encoding(results),
        *_append(results),
        *_durable(results),
        *_suite(baselines),
    ]
    return "\n".join(parts)


def _peers(results: Path) -> Iterator[str]:
    for device, run in _runs(results, "peers"):
        yield f"## Beside peers: {device}\n"
        yield f"{told(run['measured'])}. Medians of {run['rounds']} turns or more.\n"
        yield f"![Time a query](results/{device}/peers.svg)\n"
        for one in run["comparisons"]:
            yield from _comparison(one)


def _comparison(one: dict[str, Any]) -> Iterator[str]:
    yield f"### {one['task']}\n"
    recalls = sorted({key for row in one["rows"] for key in row["more"] if key.startswith("R@")})
    head = ["system", "ms a query", "times ours", "threads", *recalls, "checked"]
    rows = []
    for row in sorted(one["rows"], key=lambda row: row["ms"]):
        name = f"**{row['system']}**" if row["system"].startswith("zeromem-gpu") else row["system"]
        values = [f"{row['ms']:.3g}", f"{row['times']:.3g}", str(row["threads"])]
        values += [str(row["more"].get(key, "")) for key in recalls]
        rows.append([name, *values, row["check"]])
    yield _table(head, rows)
    yield _about(one["about"]) + _losses(one)
    if one["note"]:
        yield one["note"] + "\n"


def _compat(results: Path) -> Iterator[str]:
    for device, run in _runs(results, "compat"):
        yield f"## Behind other front ends' calls: {device}\n"
        tasks = run["tasks"]
        for measured in dict.fromkeys(told(tasks[name]["measured"]) for name in sorted(tasks)):
            yield f"{measured}.\n"
        yield from _zero_mem({name: one["found"] for name, one in tasks.items()})
        for one in tasks.get("pagerank", {"found": []})["found"]:
            yield from _comparison(one)


def _zero_mem(found: dict[str, Any]) -> Iterator[str]:
    """The Zero-Mem interface: one conversation, recall, one growing store."""
    if one := found.get("conversation"):
        yield f"### Zero-Mem interface, {one['turns']} turns, encoder left out, profiles included\n"
        rows = [
            [f"**`retrieve_batch`, {one['questions']} questions**", f"{one['batch_ms']:.3g}", "", "", "1"]
        ]
        for name, key in (("**`retrieve`, one question**", "single"), ("naive: networkx, one", "naive")):
            ms = [one[key][part] for part in ("mean_ms", "p50_ms", "p99_ms")]
            rows.append([name, *(f"{value:.3g}" for value in ms), f"{ms[0] / one['batch_ms']:.3g}"])
        yield _table(["call", "ms a question", "p50, ms", "p99, ms", "times ours"], rows)
    if one := found.get("recall"):
        shares = f"{one['zeromem-gpu']:.1f} %, naive {one['naive']:.1f} %"
        yield f"Recall@5 over {one['questions']} LoCoMo questions: {shares}.\n"
    if one := found.get("store"):
        yield "### Zero-Mem interface, one store: LoCoMo's turns and copies of them\n"
        head = ["turns", "ingest, s", "first search, s", "batch, ms a question", "one: p50, ms", "p99, ms"]
        rows = []
        for row in one["rows"]:
            ms = row["single"]
            figures = (row["ingest_s"], row["first_search_s"], row["batch_ms"], ms["p50_ms"], ms["p99_ms"])
            rows.append([f"{row['turns']:,}", *(f"{value:.3g}" for value in figures)])
        yield _table(head, rows)
        yield f"Ingest grows with exponent {one['exponent']:.2f}.\n" if one["exponent"] else ""
        if naive := one.get("naive"):
            yield f"Naive at the largest: {naive['p50_ms']:,.0f} ms, {one['times']:,.0f} times the batch.\n"


def _losses(one: dict[str, Any]) -> str:
    """Who is faster than the engine, and who was left out: said without being asked."""
    faster = [f"{row['system']} ({1 / row['times']:.2g} times)" for row in one["rows"] if row["times"] < 1]
    lines = f"Faster than ours: {', '.join(faster)}.\n" if faster else ""
    out = [f"{name} ({why})" for name, why in one["left_out"].items()]
    return lines + (f"Left out: {', '.join(out)}.\n" if out else "")


def _growth(results: Path) -> Iterator[str]:
    for device, run in _runs(results, "growth"):
        rates = run["rates"]
        yield f"## Growth: {device}\n\n{told(run['measured'])}.\n"
        yield (
            f"Rates of this run: copy {rates['copy_gb_s']:.3g} GB/s, gather of 128-byte rows "
            f"{rates['gather_gb_s']:.3g} GB/s, products {rates['gflops']:.3g} GFLOP/s. Floors at these "
            "rates stand in brackets. One invented conversation (stand-in), a hash for an encoder.\n"
        )
        head = [
            "turns", "build, s", "ready, s", f"append {APPENDED}, s", f"batch of {BATCH}, ms a question",
            "one question, ms", "MB", "largest stages of the batch, ms a question",
        ]  # fmt: skip
        yield _table(head, [bank_cells(row) for row in run["banks"]])
        head = ["batch", "ms a question", "floor, ms", "largest stages, ms a question"]
        yield _table(head, [batch_cells(row) for row in run["batches"]])
        shown = [f"{name} {value:.2f}" for name, value in run["exponents"].items() if value is not None]
        yield f"Exponents (slope of the logarithms): {', '.join(shown)}.\n"


def _encoding(results: Path) -> Iterator[str]:
    for device, run in _runs(results, "encoding"):
        yield f"## Text to arrays: {device}\n"
        rows = []
        for name, what in (("encode", "MiniLM, turns and sentences"), ("ner", "spaCy's entities, turns")):
            if one := run.get(name):
                speeds = ", ".join(f"{form} {speed:.0f}" for form, speed in one["texts_s"].items())
                rows.append([what, speeds, f"{one['ratio']:.2f}", f"{one['cpu_ratio']:.2f}"])
        yield _table(["task", "texts a second", "times", "times, processor time"], rows)
        if one := run.get("encode"):
            yield (
                f"Encoding: {one['texts']:,} of {one['of']:,} texts, {one['distinct']:,} of them distinct, "
                f"{one['mean_tokens']:.1f} tokens on average; least cosine {one['least_cosine']:.7f}; "
                f"padding {one['padding_share']:.1%}, of the plain form {one['plain_padding_share']:.1%}.\n"
            )
        if one := run.get("index"):
            stages = ", ".join(
                f"{name.removesuffix('_s')} {s:.1f} s" for name, s in one["stages_s"].items()
            )
            yield f"{one['traces']:,} traces from nothing in {one['total_s']:.0f} s: {stages}.\n"
        for name in ("encode", "ner", "index"):
            if name in run:
                yield f"- {name}: {run[name]['measured']}"
        yield ""


def _append(results: Path) -> Iterator[str]:
    for device, run in _runs(results, "append"):
        yield f"## One more turn: {device}\n\n{told(run['measured'])}.\n"
        yield "Adding it and making its bank ready again, p50 (p99) ms, without encoder and entities.\n"
        kinds = ("newest session", "older session", "new session")
        rows = []
        for one in run["banks"]:
            spent = [one[f"{kind}: append_ms"] for kind in kinds]
            cells = [f"{ms['p50']:.3g} ({ms['p99']:.3g})" for ms in spent]
            rebuilt = [
                f"{one[f'{part}_s']:.3g} ({one[f'{part}_times']:.3g})" for part in ("rebuild", "views")
            ]
            rows.append([f"{one['turns']:,}", *cells, *rebuilt])
        yield _table(["turns", *kinds, "rebuild, s (times)", "its views alone, s (times)"], rows)
        yield f"Plotted in `results/{device}/append.svg`.\n"


def _durable(results: Path) -> Iterator[str]:
    for device, run in _runs(results, "durable-bank"):
        yield f"## On disk and in memory: {device}\n\n{told(run['measured'])}.\n"
        yield f"One invented conversation of {run['turns']:,} turns, vectors of a hash, 384 wide.\n"
        rows = [
            ["on disk", f"{run['disk_bytes_per_1000'] / 1e6:.3g}"],
            ["arrays of the index", f"{run['facts_bytes_per_1000'] / 1e6:.3g}"],
            ["process that built it, ready to search", f"{run['ready_bytes_per_1000'] / 1e6:.3g}"],
            ["process that opened it", f"{run['opened_bytes_per_1000'] / 1e6:.3g}"],
            ["process that opened and searched it", f"{run['searched_bytes_per_1000'] / 1e6:.3g}"],
        ]
        yield _table(["what", "MB per 1,000 turns"], rows)
        yield (
            f"Saving {run['save_s']:.2f} s, opening {run['open_s']:.2f} s (median of "
            f"{len(run['open_all_s'])}), first search after it {run['first_search_s']:.2f} s.\n"
        )
    for device, run in _runs(results, "durable-readers"):
        yield f"## Readers beside a writer: {device}\n\n{told(run['measured'])}.\n"
        yield (
            f"{run['readers']} threads search beside a writer for {run['seconds']:g} s: "
            f"{run['searches']:,} searches, {run['writes']:,} writes, {len(run['errors'])} errors or torn "
            f"results. Searches a second: {run['alone_per_s']:.1f} of one thread alone, "
            f"{run['readers_per_s']:.1f} of all without the writer, "
            f"{run['beside_writer_per_s']:.1f} beside it.\n"
        )


def _suite(baselines: Path) -> Iterator[str]:
    for folder in sorted(one for one in baselines.glob("*") if newest(one)):
        path = newest(folder)
        if path is None:
            continue
        run = json.loads(path.read_text(encoding="utf-8"))
        facts = run["machine_info"]["zeromem"]
        measured = {**facts, "day": run["datetime"][:10]}
        yield f"## Regression baseline: {folder.name}\n\n{told(measured)}, {facts['form']} form.\n"
        rows = []
        for one in sorted(run["benchmarks"], key=lambda one: one["name"]):
            info, stats = one["extra_info"], one["stats"]
            tail = f"{1e3 * info['p99_s']:.3g}" if "p99_s" in info else ""
            half = info.get("p50_s", stats["median"])
            about = info["about"]
            stand_in = "yes" if about.get("stand_in") else ""
            name = one["name"].removeprefix("test_")
            rows.append([f"`{name}`", f"{1e3 * half:.3g}", tail, f"{info['ratio']:.3g}", stand_in])
        yield _table(["benchmark", "p50, ms", "p99, ms", "times the calibration", "stand-in"], rows)


def _runs(results: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(results.glob(f"*/{name}.json")):
        yield path.parent.name, json.loads(path.read_text(encoding="utf-8"))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _about(about: dict[str, Any]) -> str:
    """What was asked of what, in words."""
    shown = [f"{key.replace('_', ' ')} {value}" for key, value in about.items() if key != "input"]
    return ", ".join(shown) + ".\n"


if __name__ == "__main__":
    typer.run(main)
