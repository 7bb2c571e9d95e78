"""What a comparison with peers consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.calibration import Calibration, interleaved

OURS = "zeromem-gpu"
# milliseconds vary more from turn to turn than seconds do: a short comparison takes more turns
_SECONDS = 15.0


@dataclass(frozen=True)
class Row:
    """One system's figure: median milliseconds a query, and what was checked of its result.

    `threads` is what it uses, `check` how its answer was held against the others' ("L1 3e-07").
    """

    system: str
    ms: float
    threads: int
    check: str
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Whether this is a row of the engine."""
        return self.system.startswith(OURS)


@dataclass(frozen=True)
class Comparison:
    """One task: its rows, sizes, peers that were left out and why, and a note on wins and losses."""

    task: str
    about: Mapping[str, Any]
    rows: Sequence[Row]
    left_out: Mapping[str, str]
    note: str = ""

    @property
    def times(self) -> dict[str, float]:
        """How many times the time of our fastest row each other row takes."""
        ours = min(row.ms for row in self.rows if row.ours)
        return {row.system: row.ms / ours for row in self.rows}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows = [{**asdict(row), "times": self.times[row.system]} for row in self.rows]
        plain = {"task": self.task, "about": dict(self.about), "note": self.note}
        return {**plain, "left_out": dict(self.left_out), "rows": rows}


@dataclass(frozen=True)
class Entry:
    """A system that is ready to run: `call` answers `queries` queries at once."""

    system: str
    call: Callable[[], Any]
    queries: int
    threads: int
    check: str
    more: Mapping[str, Any] = field(default_factory=dict)


def timed(entries: Sequence[Entry], rounds: int, calibration: Calibration) -> list[Row]:
    """Time all entries turn by turn, `rounds` times and more where that is short; medians."""
    found = interleaved({one.system: one.call for one in entries}, rounds, calibration, _SECONDS)
    return [
        Row(
            one.system,
            1e3 * found[one.system]["median_s"] / one.queries,
            one.threads,
            one.check,
            {
                **one.more,
                "least_ms": 1e3 * found[one.system]["least_s"] / one.queries,
                "calibrated": found[one.system]["ratio"] / one.queries,
                "batch": one.queries,
                "rounds": found[one.system]["rounds"],
            },
        )
        for one in entries
    ]
