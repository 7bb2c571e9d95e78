"""The short table that ends a run, in plain text: the device machine need not have rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(rows: Sequence[dict[str, Any]]) -> str:
    """One line a row: median, model bytes, share of the ceiling, ratio to the library, or its facts."""
    width = max((len(row["name"]) for row in rows), default=4)
    title = (
        f"{'':{width}}  {'median us':>11} {'L2 MB':>10} {'mem MB':>10} {'of ceiling':>10} {'x library':>9}"
    )
    return "\n".join([title, *(_line(row, width) for row in rows)])


def _line(row: dict[str, Any], width: int) -> str:
    if "median_us" not in row:
        facts = ", ".join(f"{key} {_short(value)}" for key, value in row.items() if key != "name")
        return f"{row['name']:{width}}  {facts}"
    cells = (
        f"{row['median_us']:11,.1f}",
        f"{row['l2_bytes'] / 1e6:10,.1f}" if "l2_bytes" in row else " " * 10,
        f"{row['memory_bytes'] / 1e6:10,.1f}" if "memory_bytes" in row else " " * 10,
        f"{row['of_ceiling']:10.0%}" if "of_ceiling" in row else " " * 10,
        f"{row['library_ratio']:9.2f}" if "library_ratio" in row else "",
    )
    return f"{row['name']:{width}}  {' '.join(cells)}".rstrip()


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value / 1e9:,.0f} GB/s" if value > 1e9 else f"{value:.3g}"
    return str(value)
