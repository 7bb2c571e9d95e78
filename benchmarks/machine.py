"""What a figure was measured on: processor, device, versions, load. No figure is printed without it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from importlib import metadata, util
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
# runnable processes beyond ours, a core, above which figures are marked as taken under load
BUSY = 0.3
_VERSIONS = ("torch", "numpy", "numba", "triton", "pytest-benchmark")


def device_facts(threads: int, device: str = "cpu") -> dict[str, Any]:
    """Processor, cores, threads, GPU if that is the device, and the versions that decide the speed."""
    info = _cpu_info()
    facts: dict[str, Any] = {
        "device": device,
        "cpu": info.get("model name", platform.processor() or platform.machine()),
        "cpu_family": f"{info.get('cpu family', '?')}-{info.get('model', '?')}",
        "cores": os.cpu_count() or 1,
        "threads": threads,
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _VERSIONS if _version(name)},
    }
    if device.startswith("cuda"):
        import torch

        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["cuda"] = torch.version.cuda
    return facts


def device_name(facts: dict[str, Any]) -> str:
    """The folder of a device's baselines: processor family and cores, or the GPU's name.

    >>> device_name({"device": "cpu", "cpu": "AMD EPYC", "cpu_family": "25-1", "cores": 2, "threads": 1})
    'amd-epyc-25-1-2c-1t'
    """
    if "gpu" in facts:
        return _slug(str(facts["gpu"]))
    cpu = re.sub(r"\((R|TM)\)|@.*|\bCPU\b|Processor", " ", str(facts["cpu"]))
    return f"{_slug(cpu)}-{facts['cpu_family']}-{facts['cores']}c-{facts['threads']}t"


def load_facts() -> dict[str, Any]:
    """The machine's load just now, and whether that is too much for a final figure."""
    one = os.getloadavg()[0]
    cores = os.cpu_count() or 1
    return {"load_1min": round(one, 2), "cores": cores, "under_load": one > 1.0 + BUSY * cores}


def commit() -> dict[str, Any]:
    """The commit that was measured, and whether the working tree differed from it."""
    try:
        head = _git("rev-parse", "--short=10", "HEAD")
        changed = bool(_git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return {"id": None, "changed": None}
    return {"id": head, "changed": changed}


def floors(seconds: float = 0.4) -> dict[str, float]:
    """What this machine reaches at most, measured now with the threads that torch has.

    Returns:
        `copy_gb_s` (bytes read and written a second), `gather_gb_s` (random rows of 128 bytes out of
        64 MB), `gflops` of a float32 matrix product.
    """
    import torch

    source, target = torch.ones(1 << 25), torch.empty(1 << 25)
    rows = torch.ones((1 << 19, 32))
    places = torch.from_numpy(np.random.default_rng(0).integers(0, 1 << 19, 1 << 19))
    gathered = torch.empty_like(rows)
    square = torch.ones((1024, 1024))
    product = torch.empty_like(square)
    copy = _best(lambda: target.copy_(source), seconds)
    gather = _best(lambda: torch.index_select(rows, 0, places, out=gathered), seconds)
    multiply = _best(lambda: torch.mm(square, square, out=product), seconds)
    return {
        "copy_gb_s": 2 * source.nbytes / copy / 1e9,
        "gather_gb_s": rows.nbytes / gather / 1e9,
        "gflops": 2 * 1024**3 / multiply / 1e9,
    }


def _best(call: Any, seconds: float) -> float:
    """The shortest of as many calls as fit."""
    call()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def _cpu_info() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def installed(module: str) -> bool:
    """Whether a module can be imported, without importing it."""
    return util.find_spec(module) is not None
