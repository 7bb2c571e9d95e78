"""Where results lie: `benchmarks/results/<device>/<name>.json`, each with what it was measured on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT, commit, device_facts, device_name, load_facts

RESULTS = ROOT / "benchmarks" / "results"


def measured_on(threads: int) -> dict[str, Any]:
    """Device, load and commit of a run that begins now."""
    day = datetime.now(UTC).date().isoformat()
    return {"device": device_facts(threads), "load": load_facts(), "commit": commit(), "day": day}


def write(name: str, run: Mapping[str, Any], results: Path = RESULTS) -> Path:
    """Keep a run (`measured` says on what) as this device's newest of that name; its path."""
    folder = results / device_name(run["measured"]["device"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return path


def told(measured: Mapping[str, Any]) -> str:
    """One line that says on what a run was measured."""
    device, load, at = measured["device"], measured["load"], measured["commit"]
    versions = ", ".join(f"{name} {version}" for name, version in device["versions"].items())
    busy = f"; **taken under load** (load {load['load_1min']} on {load['cores']} cores)"
    changed = " with changes" if at["changed"] else ""
    return (
        f"{device['cpu']}, {device['cores']} cores, {device['threads']} thread(s), "
        f"Python {device['python']}, {versions}; {measured['day']}, "
        f"commit {at['id']}{changed}{busy if load['under_load'] else ''}"
    )
