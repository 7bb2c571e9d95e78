"""The comparison behind `make bench`: plain data in, verdicts out, nothing is measured here.

A benchmark is held against the baseline by its ratio to the calibration, at p50 and (for single questions)
at p99, and by its facts. What cannot be compared is named: other input, other threads, another calibration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.facts import differences

# how much slower than the baseline fails
LONG_LIMIT, SHORT_LIMIT = 1.25, 1.6
FAILING = ("slower", "changed", "gone")


@dataclass(frozen=True)
class Verdict:
    """What became of one benchmark.

    `kind` is "ok", "faster", "slower", "changed" (another answer), "new", "gone" or "other" (cannot be
    compared); `times` is its ratio over the baseline's, the worse of p50 and p99, None where nothing was.
    `before_s` and `now_s` are the raw medians beside it.
    """

    name: str
    kind: str
    times: float | None = None
    before_s: float | None = None
    now_s: float | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def failed(self) -> bool:
        """Whether `make bench` fails because of it."""
        return self.kind in FAILING


def by_name(run: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The benchmarks of a pytest-benchmark JSON by name."""
    return {one["name"]: one for one in run["benchmarks"]}


def compare(
    baseline: Mapping[str, Any], now: Mapping[str, Any], limit: float, *, short: bool = False
) -> list[Verdict]:
    """Every benchmark of either run, in the order of this one, then those that are gone.

    Args:
        baseline: pytest-benchmark's JSON of the stored run.
        now: the same of this run.
        limit: how many times the baseline's ratio is still no regression.
        short: this run left out what is not marked short, so that it is not gone.
    """
    old, new = by_name(baseline), by_name(now)
    found = [_verdict(name, old.get(name), one, limit) for name, one in new.items()]
    for name, one in old.items():
        if name not in new and (one["extra_info"].get("short") or not short):
            found.append(Verdict(name, "gone", notes=("in the baseline, not in this run",)))
    return found


def best_of(verdicts: Sequence[Verdict], again: Iterable[Verdict]) -> list[Verdict]:
    """After a repetition: whoever was slower once and is not the second time was only unlucky.

    A changed answer stays changed, in whichever run it was seen.
    """
    second = {one.name: one for one in again}
    merged = []
    for first in verdicts:
        other = second.get(first.name)
        if other is None or first.kind != "slower":
            merged.append(first)
        elif other.kind == "slower":
            merged.append(min(first, other, key=lambda one: one.times or 0.0))
        else:
            merged.append(other)
    return merged


def same_machine(baseline: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """How the machines differ (processor, cores, device, threads); empty for one and the same."""
    old, new = (run["machine_info"]["zeromem"]["device"] for run in (baseline, now))
    keys = ("device", "gpu", "cpu", "cpu_family", "cores", "threads")
    return [f"{key}: {old.get(key)} → {new.get(key)}" for key in keys if old.get(key) != new.get(key)]


def other_versions(baseline: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Libraries whose versions differ: a cause of a difference that is none of ours."""
    old, new = (run["machine_info"]["zeromem"]["device"] for run in (baseline, now))
    before = {**old["versions"], "python": old["python"]}
    after = {**new["versions"], "python": new["python"]}
    names = sorted({*before, *after})
    return [
        f"{name} {before.get(name)} → {after.get(name)}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def _verdict(name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any], limit: float) -> Verdict:
    now_s = new["stats"]["median"]
    if old is None:
        return Verdict(name, "new", now_s=now_s, notes=("not in the baseline",))
    before_s = old["stats"]["median"]
    one, other = old["extra_info"], new["extra_info"]
    foreign = [
        f"{key}: {one.get(key)} → {other.get(key)}"
        for key in ("calibration", "threads", "about")
        if one.get(key) != other.get(key)
    ]
    if foreign:
        return Verdict(name, "other", None, before_s, now_s, tuple(foreign))
    changed = differences(one["facts"], other["facts"])
    times = max(other[key] / one[key] for key in ("ratio", "ratio_p99") if key in one and key in other)
    if changed:
        return Verdict(name, "changed", times, before_s, now_s, tuple(changed))
    kind = "slower" if times > limit else "faster" if times < 1 / limit else "ok"
    return Verdict(name, kind, times, before_s, now_s)
