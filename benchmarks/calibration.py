"""The yardstick of a noisy machine: a few milliseconds of fixed work, timed between a benchmark's rounds.

It touches none of our code. What the suite compares with a baseline is each round's time over that of
the calibrations before and after it. A neighbour that slows the machine slows both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np

from benchmarks.clock import now

# ratios taken with another version of `Calibration` are not comparable
VERSION = "2"
_TABLE, _GATHERED, _LOOKED_UP, _SIDE = 1 << 21, 1 << 17, 12_000, 192
_MOST_ROUNDS = 25


class Calibration:
    """A gather from 8 MB, a matrix product, a Python loop over a dictionary: what retrieval is made of."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._table = rng.standard_normal(_TABLE, dtype=np.float32)
        self._places = rng.integers(0, _TABLE, _GATHERED, dtype=np.int32)
        self._square = rng.standard_normal((_SIDE, _SIDE), dtype=np.float32)
        self._words = {f"w{at}": at for at in range(_LOOKED_UP)}
        self.seconds: list[float] = []

    @cached_property
    def _tensor(self) -> Any:
        import torch

        return torch.from_numpy(self._square)

    def run(self) -> float:
        """Do the work once; seconds by `clock.now`, kept in `seconds` too."""
        begin = now()
        total = float(self._table[self._places].sum())
        total += float((self._tensor @ self._tensor)[0, 0])
        for word in self._words:
            total += self._words[word]
        spent = now() - begin
        if total != total:
            raise ArithmeticError("the calibration workload gave NaN")
        self.seconds.append(spent)
        return spent


def paired(times: Sequence[float], around: Sequence[float]) -> list[float]:
    """Each time over the mean of the calibrations before and after it, of which there is one more."""
    if len(around) != len(times) + 1:
        raise ValueError(f"{len(times)} times need {len(times) + 1} calibrations, got {len(around)}")
    return [
        2.0 * spent / (before + after)
        for spent, before, after in zip(times, around, around[1:], strict=False)
    ]


def interleaved(
    variants: Mapping[str, Callable[[], Any]], rounds: int, calibration: Calibration, seconds: float = 0.0
) -> dict[str, dict[str, Any]]:
    """Time several variants turn by turn, so that a slow minute of the machine meets all of them.

    Every variant runs once before its first timing. Each round has an order of its own (seeded), so that
    nobody always follows the same other one and meets caches that it left. There are `rounds` rounds, and
    more (`_MOST_ROUNDS` at most) where they would take less than `seconds`.

    Returns:
        Per variant `median_s`, `least_s`, `rounds`, and `ratio`, the median ratio to the calibration.
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    ratios: dict[str, list[float]] = {name: [] for name in variants}
    begin = time.perf_counter()
    for call in variants.values():
        call()
    rounds = max(rounds, min(_MOST_ROUNDS, int(seconds / (time.perf_counter() - begin))))
    calibration.run()
    order = np.random.default_rng(0)
    for _ in range(rounds):
        for name in order.permutation(list(variants)).tolist():
            before = calibration.run()
            begin, counted = time.perf_counter(), now()
            variants[name]()
            times[name].append(time.perf_counter() - begin)
            ratios[name] += paired([now() - counted], [before, calibration.run()])
    return {
        name: {
            "median_s": median(times[name]), "least_s": min(times[name]), "ratio": median(ratios[name]),
            "rounds": rounds,
        }
        for name in variants
    }  # fmt: skip
