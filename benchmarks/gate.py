"""Run the suite, compare it with this device's baseline, fail on a regression or on another answer.

    python -m benchmarks.gate                # long form, fails beyond 1.25 times the baseline's ratio
    python -m benchmarks.gate --short        # CI's form, fails beyond 1.6 times
    python -m benchmarks.gate --store        # make this run the baseline

Baselines lie in `benchmarks/baseline/<device>/NNNN_<commit>.json`, in pytest-benchmark's own format; the
newest counts. What is slower is measured again before it counts. A device without a baseline is said, and
nothing is compared; `--against` names another device's baseline and only shows how it compares.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.compare import (
    LONG_LIMIT,
    SHORT_LIMIT,
    Verdict,
    best_of,
    compare,
    other_versions,
    same_machine,
)
from benchmarks.machine import ROOT, device_name

BASELINES = ROOT / "benchmarks" / "baseline"
SUITE = ROOT / "benchmarks" / "suite"
# what pytest-benchmark notes of a processor beside what we do, and of no use in git
_DROPPED = ("cpu", "node")

# glibc moves these with what was freed before, so that a benchmark alone would meet other page faults
_STEADY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}


class SuiteFailed(Exception):
    """The suite itself failed: a wrong result, an error, nothing to run."""


def main(
    short: Annotated[
        bool, typer.Option("--short", help="CI's form: small workloads, wider limit.")
    ] = False,
    store: Annotated[bool, typer.Option("--store", help="Make this run the device's baseline.")] = False,
    against: Annotated[
        str, typer.Option(help="Show another device's baseline beside; fails nothing.")
    ] = "",
    limit: Annotated[float, typer.Option(help="Overrides 1.25, or 1.6 with --short.")] = 0.0,
    reruns: Annotated[int, typer.Option(help="How often a slower benchmark is measured again.")] = 2,
    threads: Annotated[int, typer.Option(help="Of torch; a baseline has its own.")] = 1,
    only: Annotated[str, typer.Option("-k", help="As pytest's -k.")] = "",
    suite: Annotated[Path, typer.Option(help="Folder or file of benchmarks.")] = SUITE,
    baselines: Annotated[Path, typer.Option(help="Folder of baselines.")] = BASELINES,
) -> None:
    """Measure, compare, say what happened; exit code 1 on a regression, 2 where the suite fails."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    form = ["--threads", str(threads), *(["--short"] if short else []), *(["-k", only] if only else [])]
    try:
        now = run_suite(suite, form)
        device = device_name(now["machine_info"]["zeromem"]["device"])
        _say_load(console, now, device)
        if store:
            console.print(f"stored as {store_run(now, baselines / device).relative_to(baselines.parent)}")
            return
        found = newest(baselines / (against or device))
        if found is None:
            there = ", ".join(sorted(one.name for one in baselines.glob("*") if newest(one))) or "none"
            console.print(f"[bold]no baseline of {device}[/] (there are: {there}): NOTHING WAS COMPARED.")
            console.print(
                "Every answer passed its correctness gate. `--store` makes this run the baseline."
            )
            return
        baseline = json.loads(found.read_text(encoding="utf-8"))
        bound = limit or (SHORT_LIMIT if short else LONG_LIMIT)
        verdicts = compare(baseline, now, bound, short=short or bool(only))
        foreign = same_machine(baseline, now)
        for turn in range(reruns):
            slower = [one.name for one in verdicts if one.kind == "slower"]
            if not slower or foreign:
                break
            console.print(f"{len(slower)} slower than the limit: measured again ({turn + 1} of {reruns})")
            again = run_suite(suite, form, slower)
            verdicts = best_of(verdicts, compare(baseline, again, bound, short=True))
    except SuiteFailed as error:
        console.print(f"[bold red]{error}[/]")
        raise typer.Exit(2) from None
    console.print(table(verdicts, f"against {found.parent.name}/{found.name}, limit {bound:g}×"))
    for line in other_versions(baseline, now):
        console.print(f"another version than the baseline's: {line}")
    if foreign:
        console.print(
            f"[bold]ANOTHER MACHINE than the baseline's[/] ({'; '.join(foreign)}): shown, not judged."
        )
        return
    failed = [one for one in verdicts if one.failed]
    compared = sum(one.times is not None for one in verdicts)
    console.print(f"{compared} of {len(verdicts)} compared, {len(failed)} failed")
    if failed or not compared:
        raise typer.Exit(1)


def run_suite(suite: Path, form: Sequence[str], names: Sequence[str] = ()) -> dict[str, Any]:
    """One run of the suite (of the benchmarks `names` alone, where given) as pytest-benchmark's JSON."""
    chosen = [str(suite)]
    if names:
        files = [suite] if suite.is_file() else sorted(suite.glob("test_*.py"))
        # a node id that its file does not have is an error, so each is asked of the file that defines it
        chosen = [
            f"{file}::{name}"
            for name in names
            for file in files
            if f"def {name.split('[')[0]}(" in file.read_text(encoding="utf-8")
        ]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.json"
        # doctests of `benchmarks` are the test suite's business
        command = [sys.executable, "-m", "pytest", "-p", "benchmarks.measure", "-q", *chosen, *form]
        command += [
            "--benchmark-only", "--benchmark-disable-gc", "--benchmark-columns=median,min,rounds",
            f"--benchmark-json={out}", f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml"),
        ]  # fmt: skip
        paths = [str(ROOT), str(ROOT / "kernels"), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | _STEADY | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if ended.returncode != 0 or not out.is_file():
            raise SuiteFailed(
                f"{ended.stdout[-6000:]}\n{ended.stderr[-2000:]}\nthe suite failed, see above"
            )
        run: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return run


def newest(folder: Path) -> Path | None:
    """The baseline of a device that counts."""
    return max(folder.glob("[0-9][0-9][0-9][0-9]_*.json"), default=None)


def store_run(run: dict[str, Any], folder: Path) -> Path:
    """Write a run as the device's newest baseline; its path."""
    last = newest(folder)
    number = int(last.name[:4]) + 1 if last else 1
    folder.mkdir(parents=True, exist_ok=True)
    measured = run["machine_info"]["zeromem"]["commit"]
    name = f"{measured['id'] or 'unknown'}{'-changed' if measured['changed'] else ''}"
    kept = {key: value for key, value in run["machine_info"].items() if key not in _DROPPED}
    for one in run["benchmarks"]:  # single rounds would fill git and are never compared
        one["stats"].pop("data", None)
    path = folder / f"{number:04d}_{name}.json"
    path.write_text(json.dumps(run | {"machine_info": kept}, indent=1) + "\n", encoding="utf-8")
    return path


def table(verdicts: Sequence[Verdict], title: str) -> Table:
    """The verdicts, failures last, where they are seen."""
    shown = Table(title=title)
    for name in ("benchmark", "before, ms", "now, ms", "× calibrated", ""):
        shown.add_column(name, justify="left" if name in ("benchmark", "") else "right", overflow="fold")
    for one in sorted(verdicts, key=lambda one: one.failed):
        style = "red" if one.failed else "green" if one.kind == "faster" else None
        note = "; ".join((one.kind, *one.notes)) if one.kind != "ok" else ""
        times = "" if one.times is None else f"{one.times:.2f}"
        # a name in brackets is no markup
        shown.add_row(escape(one.name), _ms(one.before_s), _ms(one.now_s), times, note, style=style)
    return shown


def _say_load(console: Console, run: dict[str, Any], device: str) -> None:
    facts = run["machine_info"]["zeromem"]
    busy = ", TAKEN UNDER LOAD" if facts["load"]["under_load"] else ""
    threads = facts["device"]["threads"]
    console.print(
        f"{device}: {facts['device']['cpu']}, {threads} thread(s), load {facts['load']['load_1min']}{busy}"
    )


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3g}"


if __name__ == "__main__":
    typer.run(main)
