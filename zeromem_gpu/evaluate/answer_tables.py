"""Tables of a run alone: answers under every protocol, what each ablation costs, which stage lost gold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from zeromem_gpu.evaluate.losses import STAGES

# in the order of the papers' tables
_KINDS = ("single-hop", "multi-hop", "temporal", "open-domain")
_TOTALS = ("average", "reporting", "tuning")
_SCORES = {"f1": "F1", "bleu1": "BLEU-1", "em": "EM", "f1_yes_no": "F1 yes/no"}
_COMPARED = ("recall@5", "recall@10", "set recall")


def protocol_table(summary: Mapping[str, Any]) -> Table | None:
    """Answers under every protocol by category, calibrated and as the reader gave them; None without.

    Below them stand those from the evidence of flat baselines, where the reader was given it.
    """
    if not summary.get("answers"):
        return None
    first = next(iter(summary["answers"].values()))
    kinds = [name for name in first if name not in _TOTALS]
    parts = [name for name in _KINDS if name in kinds] + [name for name in kinds if name not in _KINDS]
    parts += [name for name in _TOTALS if name in first]
    grid = _grid(f"answers of {summary['reader']['name']}, percent", "protocol", parts)
    flat = {
        f"  flat {name}": block["answers"]
        for name, block in (summary.get("baselines") or {}).items()
        if block.get("answers")
    }
    for protocol, block in summary["answers"].items():
        for score in (name for name in _SCORES if name in block["average"]):
            label = f"{protocol.replace('_', ', ')} {_SCORES[score]}"
            rows = {label: block, "  as read": summary["answers_reader"][protocol]}
            rows |= {name: answers[protocol] for name, answers in flat.items()}
            for row, found in rows.items():
                cells = [_percent(found.get(part, {}).get(score)) for part in parts]
                grid.add_row(row, *cells, style="bold" if row == label else None)
        grid.add_section()
    return grid


def loss_table(summary: Mapping[str, Any]) -> Table | None:
    """What each ablation changes against the whole method, with paired intervals, if there are any."""
    ablations: Mapping[str, Any] = summary.get("ablations") or {}
    if not ablations:
        return None
    known = next(iter(ablations.values()))["difference"]
    shown = [name for name in known if name in _COMPARED or name.endswith(" f1")]
    grid = _grid("ablation − full, points and 95 % interval", "left out", shown)
    for name, block in ablations.items():
        grid.add_row(name, *(_gain(block["difference"][metric]) for metric in shown))
    return grid


def stage_table(summary: Mapping[str, Any]) -> Table | None:
    """How many gold traces each stage lost, by part; None where losses were not asked for."""
    parts, rows = stage_rows(summary)
    if not rows:
        return None
    grid = _grid(f"gold past rank {summary['k']}, by the stage that lost it", "stage", parts)
    for stage, *cells in rows:
        grid.add_row(stage, *cells, style=None if stage in STAGES else "bold", end_section=stage == "lost")
    return grid


def stage_rows(summary: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The parts, and under them counts: gold traces, lost ones, and those that each stage lost."""
    block: Mapping[str, Any] = summary.get("losses") or {}
    if not block:
        return [], []
    sides = {side: block[side] for side in ("reporting", "tuning") if block[side]["conversations"]}
    parts = {"all": block, **block["by_category"], **(sides if len(sides) > 1 else {})}
    rows = {name: [one[name] for one in parts.values()] for name in ("gold", "lost")}
    rows |= {stage: [one["stages"][stage] for one in parts.values()] for stage in STAGES}
    return list(parts), [[name, *(f"{count:,}" for count in row)] for name, row in rows.items()]


def _grid(title: str, first: str, labels: list[str]) -> Table:
    grid = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    grid.add_column(first, no_wrap=True)
    for label in labels:
        grid.add_column(label, justify="right", min_width=5)
    return grid


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _gain(interval: Mapping[str, float]) -> str:
    mean, low, high = (100 * interval[name] for name in ("mean", "low", "high"))
    return f"{mean:+.1f} ({low:+.1f} … {high:+.1f})"
