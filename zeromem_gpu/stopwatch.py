"""Seconds by stage."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class Stopwatch:
    """Adds the seconds between laps to `laps`, by name."""

    def __init__(self, laps: dict[str, float] | None = None) -> None:
        self.laps: dict[str, float] = {} if laps is None else laps
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """End a lap and begin the next."""
        now = time.perf_counter()
        self._add(name, now - self._last)
        self._last = now

    def read(self) -> None:
        """Have every lap in `laps`; call it where the device has done what it was given."""

    def _add(self, name: str, seconds: float) -> None:
        self.laps[name] = self.laps.get(name, 0.0) + seconds


class EventStopwatch(Stopwatch):
    """Laps of a CUDA stream, by events in it: the host, which is ahead of it, waits for none of them."""

    def __init__(self, laps: dict[str, float]) -> None:
        super().__init__(laps)
        self._passed = [("", _event())]

    def lap(self, name: str) -> None:
        """End a lap of the device and begin the next."""
        self._passed.append((name, _event()))

    def read(self) -> None:
        """Ask the events, all of which the device must have passed."""
        for (_, begin), (name, end) in zip(self._passed, self._passed[1:], strict=False):
            self._add(name, begin.elapsed_time(end) / 1e3)
        del self._passed[:-1]


def stopwatch(laps: dict[str, float], device: torch.device) -> Stopwatch:
    """What measures work on a device."""
    return EventStopwatch(laps) if device.type == "cuda" else Stopwatch(laps)


def _event() -> torch.cuda.Event:
    import torch

    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
