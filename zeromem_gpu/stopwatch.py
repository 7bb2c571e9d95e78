"""Seconds by stage."""

from __future__ import annotations

import time


class Stopwatch:
    """Adds the seconds between laps to `laps`, by name."""

    def __init__(self, laps: dict[str, float] | None = None) -> None:
        self.laps: dict[str, float] = {} if laps is None else laps
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """End a lap and begin the next."""
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + now - self._last
        self._last = now
