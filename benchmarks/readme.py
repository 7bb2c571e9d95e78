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
| `python -m benchmarks.append` | what one more turn costs beside a rebuild; one bank beside 10,000 |
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
    parts = [_HEAD, *_peers(results), *_growth(results), *_suite(baselines)]
    return "\n".join(parts)


def _peers(results: Path) -> Iterator[str]:
    for device, run in _runs(results, "peers"):
        yield f"## Beside peers: {device}\n\n{told(run['measured'])}. Medians of {run['rounds']} turns.\n"
        yield f"![Time a query](results/{device}/peers.svg)\n"
        for one in run["comparisons"]:
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
