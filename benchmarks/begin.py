"""How every measuring command begins: its threads, where it prints, and what it measures on, said first."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from rich.console import Console

from benchmarks.results import measured_on, told


def begin(threads: int) -> tuple[int, Console, dict[str, Any]]:
    """Set torch's threads (0: all cores); returns them, the console, and what is measured on."""
    threads = threads or os.cpu_count() or 1
    torch.set_num_threads(threads)
    console = Console(width=None if sys.stdout.isatty() else 140)
    measured = measured_on(threads)
    console.print(told(measured))
    return threads, console, measured
