"""Every kernel on a CUDA device: checked, then timed against the card's ceilings and against libraries.

    python benchmarks/gpu.py [--only pagerank] [--locomo benchmarks/gpu_locomo.npz] [--out DIR]
    TRITON_INTERPRET=1 python benchmarks/gpu.py --dry-run

Needs torch, triton and numpy alone (CuPy and cuVS for what needs them) and at most 22 GiB of memory, an RTX
4090's. LoCoMo is measured where `python -m benchmarks.prepare_gpu` has written its file, whole retrieval
where `python -m benchmarks.prepare_engine` has. A wrong result ends its step and is not timed. The dry run
goes through every step at toy size without a device; its times mean nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]

import torch

from benchmarks.gpu_bench import Bench, WrongResult
from benchmarks.gpu_report import table
from benchmarks.gpu_steps import (
    activation,
    baselines,
    ceilings,
    encoding,
    engine,
    fusion,
    lexical,
    pagerank,
    phrases,
    replay,
    reset,
    similarity,
)
from benchmarks.gpu_steps.workloads import Workloads
from benchmarks.gpu_timing import compiling

STEPS: dict[str, Callable[[Bench, Workloads], None]] = {
    "ceilings": ceilings.run,
    "pagerank": pagerank.run,
    "baselines": baselines.run,
    "activation": activation.run,
    "reset": reset.run,
    "fusion": fusion.run,
    "lexical": lexical.run,
    "phrases": phrases.run,
    "similarity": similarity.run,
    "replay": replay.run,
    "encoding": encoding.run,
    "engine": engine.run,
}
MEMORY_GIB = 22


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps asked for; 0 when all results were right, 1 when one was wrong, 2 without a device."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", choices=STEPS, action="append", help="a step; may be given more than once"
    )
    parser.add_argument("--locomo", type=Path, default=ROOT / "benchmarks" / "gpu_locomo.npz")
    parser.add_argument(
        "--engine",
        type=Path,
        action="append",
        help="a file of prepare_engine; default: all here",
    )
    parser.add_argument("--out", type=Path, help="folder of gpu.json; default benchmarks/baseline/<gpu>")
    parser.add_argument(
        "--dry-run", action="store_true", help="toy sizes in Triton's interpreter, no device"
    )
    options = parser.parse_args(argv)
    if not options.dry_run and not torch.cuda.is_available():
        print("no CUDA device: run this where there is one, or with TRITON_INTERPRET=1 and --dry-run")
        return 2
    # torch's remarks on its CSR matrices, which a baseline multiplies with
    warnings.filterwarnings("ignore", message="Sparse")
    device = torch.device("cpu" if options.dry_run else "cuda:0")
    file = options.locomo if options.locomo.is_file() and not options.dry_run else None
    if not options.dry_run:
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(MEMORY_GIB * 2**30 / total, 1.0), device)
    chosen = options.only or list(STEPS)
    beside = [] if options.dry_run else sorted((ROOT / "benchmarks").glob("gpu_engine_*.npz"))
    work = Workloads(device, file, options.dry_run, options.engine or beside)
    seconds: dict[str, float] = {}
    if not options.dry_run:
        begin = time.perf_counter()
        with compiling() as met:
            _each(chosen, Bench(device, "compile"), work, {})
        seconds["compile"] = time.perf_counter() - begin
        print(f"compiled {len(met)} kernels in {seconds['compile']:.0f} s", flush=True)
    bench = Bench(device, "dry" if options.dry_run else "time")
    if not options.dry_run:
        # 8 GB, which would not fit beside what the steps hold
        bench.ceilings.copy()
        torch.cuda.empty_cache()
    failed = _each(chosen, bench, work, seconds)
    report = facts(device, options.dry_run) | {"seconds": seconds, "failed": failed, "rows": bench.rows}
    out = options.out or ROOT / "benchmarks" / "baseline" / report["gpu"].lower().replace(" ", "-")
    if options.out or not options.dry_run:
        out.mkdir(parents=True, exist_ok=True)
        (out / "gpu.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(table(bench.rows))
    if options.dry_run:
        print("dry run: these times are the interpreter's and mean nothing")
    for name, why in failed.items():
        print(f"FAILED {name}: {why}")
    return 1 if failed else 0


def _each(
    chosen: Sequence[str], bench: Bench, work: Workloads, seconds: dict[str, float]
) -> dict[str, str]:
    """Run the steps one after another; what went wrong by name."""
    failed = {}
    for name in chosen:
        begin = time.perf_counter()
        try:
            STEPS[name](bench, work)
        except (WrongResult, torch.OutOfMemoryError) as error:
            failed[name] = str(error)
        seconds[name] = time.perf_counter() - begin
        if bench.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        if bench.mode != "compile":
            print(f"{name}: {seconds[name]:.1f} s", flush=True)
    return failed


def facts(device: torch.device, dry: bool) -> dict[str, Any]:
    """What a number cannot be read without."""
    here: dict[str, Any] = {
        "gpu": "dry run" if dry else torch.cuda.get_device_name(device),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _said("git", "-C", str(ROOT), "rev-parse", "HEAD"),
        "driver": _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "cuda": torch.version.cuda,
        "memory_limit_gib": MEMORY_GIB,
    }
    names = {
        "torch": "torch",
        "triton": "triton",
        "numpy": "numpy",
        "cupy": "cupy-cuda13x",
        "cuvs": "cuvs-cu13",
    }
    for key, package in names.items():
        try:
            here[key] = metadata.version(package)
        except metadata.PackageNotFoundError:
            here[key] = None
    if not dry:
        here["peak_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
        here["l2_bytes"] = torch.cuda.get_device_properties(device).L2_cache_size
    return here


def _said(*command: str) -> str | None:
    """What a command prints, None where there is no such command or it fails."""
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip().split("\n")[0] or None


if __name__ == "__main__":
    raise SystemExit(main())
