"""`make bench` catches what it is there to catch: a slowdown, another answer, another machine."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.calibration import paired
from benchmarks.clock import now, waited
from benchmarks.compare import LONG_LIMIT, SHORT_LIMIT, best_of, compare, same_machine
from benchmarks.facts import WrongResult, differences, gate, projection
from benchmarks.gate import newest, store_run

ROOT = Path(__file__).resolve().parents[2]


def entry(name: str, ratio: float = 4.0, **extra: object) -> dict:
    facts = {"evidence": "1a2b", "sweeps": 54, "bytes": 800, "output_0": projection([1.0, 2.0, 3.0])}
    info = {"calibration": "2", "threads": 1, "about": {"input": "aa"}, "facts": facts, "ratio": ratio}
    return {"name": name, "stats": {"median": ratio / 100}, "extra_info": info | extra}


def run_of(*entries: dict) -> dict:
    device = {
        "device": "cpu",
        "cpu": "Z80",
        "cpu_family": "1-1",
        "cores": 2,
        "threads": 1,
        "python": "3.11",
    }
    facts = {"device": device | {"versions": {}}, "commit": {"id": "0123456789", "changed": False}}
    return {"machine_info": {"zeromem": facts, "node": "here"}, "benchmarks": list(entries)}


def kinds(old: dict, new: dict, limit: float = LONG_LIMIT, **options: bool) -> dict[str, str]:
    return {one.name: one.kind for one in compare(old, new, limit, **options)}


def test_unchanged_code_passes() -> None:
    assert kinds(run_of(entry("a", 4.0)), run_of(entry("a", 4.3))) == {"a": "ok"}


@pytest.mark.parametrize("limit", [LONG_LIMIT, SHORT_LIMIT])
def test_twice_as_slow_fails(limit: float) -> None:
    (verdict,) = compare(run_of(entry("a", 4.0)), run_of(entry("a", 8.0)), limit)
    assert (verdict.kind, verdict.failed, verdict.times) == ("slower", True, 2.0)


def test_a_slower_tail_fails_at_an_equal_median() -> None:
    old, new = entry("a", 4.0, ratio_p99=6.0), entry("a", 4.0, ratio_p99=12.0)
    assert kinds(run_of(old), run_of(new)) == {"a": "slower"}


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("evidence", "9f9f"),
        ("sweeps", 55),
        ("bytes", 808),
        ("output_0", projection([1.0, 2.0, 3.001])),
        ("output_0", projection([2.0, 1.0, 3.0])),
    ],
    ids=["evidence", "sweeps", "bytes", "values", "order"],
)
def test_another_answer_at_equal_speed_fails(fact: str, value: object) -> None:
    new = copy.deepcopy(entry("a"))
    new["extra_info"]["facts"][fact] = value
    (verdict,) = compare(run_of(entry("a")), run_of(new), LONG_LIMIT)
    assert (verdict.kind, verdict.failed) == ("changed", True)
    assert fact in verdict.notes[0]


def test_rounding_in_the_last_bit_is_no_other_answer() -> None:
    values = np.random.default_rng(0).standard_normal(1000)
    assert not differences({"x": projection(values)}, {"x": projection(values * (1 + 1e-7))})


def test_other_input_is_said_and_not_compared() -> None:
    new = entry("a", 9.0, about={"input": "bb"})
    (verdict,) = compare(run_of(entry("a")), run_of(new), LONG_LIMIT)
    assert (verdict.kind, verdict.times, verdict.failed) == ("other", None, False)


def test_a_benchmark_that_vanished_fails_unless_the_form_is_short() -> None:
    old = run_of(entry("a", short=True), entry("b", short=True), entry("long", short=False))
    assert kinds(old, run_of(entry("a"))) == {"a": "ok", "b": "gone", "long": "gone"}
    assert kinds(old, run_of(entry("a")), short=True) == {"a": "ok", "b": "gone"}


def test_a_second_measurement_forgives_bad_luck_but_no_other_answer() -> None:
    old = run_of(entry("unlucky"), entry("slow"), entry("wrong"))
    wrong = copy.deepcopy(entry("wrong"))
    wrong["extra_info"]["facts"]["sweeps"] = 1
    first = compare(old, run_of(entry("unlucky", 8.0), entry("slow", 8.0), wrong), LONG_LIMIT)
    second = compare(old, run_of(entry("unlucky"), entry("slow", 7.0), entry("wrong")), LONG_LIMIT)
    merged = {one.name: (one.kind, one.times) for one in best_of(first, second)}
    assert merged == {"unlucky": ("ok", 1.0), "slow": ("slower", 1.75), "wrong": ("changed", 1.0)}


def test_another_machine_is_named() -> None:
    old, new = run_of(entry("a")), copy.deepcopy(run_of(entry("a")))
    assert same_machine(old, new) == []
    new["machine_info"]["zeromem"]["device"]["cores"] = 64
    assert same_machine(old, new) == ["cores: 2 → 64"]


def test_a_stored_run_becomes_the_newest_and_tells_no_host_name(tmp_path: Path) -> None:
    first = store_run(run_of(entry("a")), tmp_path / "z80")
    second = store_run(run_of(entry("a")), tmp_path / "z80")
    assert (first.name, second.name) == ("0001_0123456789.json", "0002_0123456789.json")
    assert newest(tmp_path / "z80") == second
    assert '"node"' not in second.read_text()


def test_a_round_is_divided_by_the_calibrations_around_it() -> None:
    assert paired([6.0, 6.0], [1.0, 3.0, 1.0]) == [3.0, 3.0]
    with pytest.raises(ValueError, match="need 3 calibrations"):
        paired([6.0, 6.0], [1.0, 3.0])


def test_the_clock_counts_sleep_and_work_and_leaves_out_waits() -> None:
    # outermost, because the clock itself may be interrupted between its two readings
    wall = time.perf_counter()
    before = now()
    time.sleep(0.05)
    sum(range(200_000))
    counted, passed = now() - before, time.perf_counter() - wall
    assert 0.05 < counted <= passed + 1e-4
    assert waited() >= 0.0


def test_a_wrong_result_is_never_timed() -> None:
    with pytest.raises(WrongResult, match="not timed"):
        gate("sum", np.array([1.0, 2.1]), np.array([1.0, 2.0]))


PLANTED = """
import os
import pytest
from benchmarks.calibration import Calibration

@pytest.mark.short
def test_planted(measure):
    work = Calibration()

    def call():
        for _ in range(int(os.environ.get("PLANT_WORK", "1"))):
            work.run()

    facts = {"answer": os.environ.get("PLANT_ANSWER", "right")}
    measure(call, facts=facts, about={"input": "planted"})
"""


def gated(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gate", "--suite", str(folder / "test_planted.py")]
    command += ["--baselines", str(folder / "baseline"), "--short", "--reruns", "1", *options]
    # pytest-benchmark times nothing in a process that it takes for a worker of pytest-xdist
    ours = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    return subprocess.run(
        command, cwd=ROOT, env=ours | environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_the_whole_gate_on_a_planted_benchmark(tmp_path: Path) -> None:
    """Stored and kept; doubled work and another answer each end with exit code 1."""
    pytest.importorskip("pytest_benchmark")
    (tmp_path / "test_planted.py").write_text(PLANTED)
    assert gated(tmp_path, "--store").returncode == 0
    same = gated(tmp_path)
    assert same.returncode == 0, same.stdout
    assert "1 of 1 compared, 0 failed" in same.stdout
    slower = gated(tmp_path, PLANT_WORK="2")
    assert (slower.returncode, "slower" in slower.stdout) == (1, True), slower.stdout
    wrong = gated(tmp_path, PLANT_ANSWER="wrong")
    assert (wrong.returncode, "changed" in wrong.stdout) == (1, True), wrong.stdout
