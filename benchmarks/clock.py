"""Wall-clock time without what this thread spent waiting for a processor that another process had.

Linux counts that wait for each thread (`schedstat`, second number). What is left is what the code itself
takes, its sleeps, locks and reads included: on a machine that other work shares, a benchmark of 5 ms is
either interrupted or not, and its plain wall-clock time has two values. Threads of a pool are not seen
through; the regression suite runs on one.
"""

from __future__ import annotations

import os
import threading
import time

_LOCAL = threading.local()


def now() -> float:
    """Seconds since some moment, less this thread's waits; plain wall-clock time where they are unknown."""
    return time.perf_counter() - waited()


def waited() -> float:
    """Seconds that this thread has waited for a processor so far; 0 where the system does not say."""
    file = getattr(_LOCAL, "file", None)
    if file is None:
        try:
            file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            file = -1
        _LOCAL.file = file
    return 0.0 if file < 0 else int(os.pread(file, 96, 0).split()[1]) / 1e9
