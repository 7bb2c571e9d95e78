"""Whole batches for `benchmarks/gpu.py`: written, read, held against the CPU engine's answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from benchmarks.frozen import freeze, thaw
from benchmarks.gpu_engine import TOLERANCE, Case, read, write
from benchmarks.workloads import prepared
from tests.support import small_memory
from zeromem_gpu import Trace
from zeromem_kernels.tiles import torch_forms

CPU = torch.device("cpu")
QUESTIONS = ("Who met Bob in Oslo?", 'Who said "red kayak"?', "When did Ann go to Oslo?")


class Pair(NamedTuple):
    left: object
    right: object


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    memory = small_memory()
    for bank in ("one", "two"):
        memory.add(
            Trace(f"{at}", f"{name} met Bob {at} times in Oslo, with a red kayak.", bank, "s", at)
            for at, name in enumerate(["Ann", "Cleo", "Dan"] * 3)
        )
    ready = prepared(memory, [*QUESTIONS, *QUESTIONS], ["one"] * 3 + ["two"] * 3)
    path = tmp_path_factory.mktemp("engine") / "toy.npz"
    write(path, "toy", ready.stack, ready.bank_of, ready.batch, memory.config)
    return path


@pytest.fixture(scope="module")
def case(file: Path) -> Case:
    return read(file, CPU)


def test_a_batch_that_was_read_gives_the_answer_that_was_kept(case: Case) -> None:
    found = case.found()
    np.testing.assert_array_equal(found.rows, case.rows)
    np.testing.assert_array_equal(found.scores, case.scores)
    assert (case.rows >= 0).any(axis=1).all()
    with torch_forms():
        other = case.found()
    assert case.fault(other.rows, other.scores) == ""


def test_other_scores_and_other_units_are_faults(case: Case) -> None:
    assert "scores off by" in case.fault(case.rows, case.scores + 3 * TOLERANCE)
    assert "scores off by" in case.fault(case.rows, np.full_like(case.scores, np.nan))
    rows = case.rows.copy()
    rows[0, 0] = 999
    assert "other evidence for 16.7% of the questions" in case.fault(rows, case.scores)
    assert "shape" in case.fault(rows[:, 1:], case.scores[:, 1:])
    assert case.fault(case.rows[:, ::-1], case.scores[:, ::-1]) == "", "ties may stand in either order"


def test_the_dry_run_retrieves_what_was_prepared(repo_root: Path, file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "benchmarks/gpu.py", "--dry-run", "--only", "engine", "--engine", str(file)]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], cwd=repo_root, timeout=300, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert [row["name"] for row in report["rows"]] == ["whole retrieval toy, 6 questions"]


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    exact, rounded = torch.tensor([0.5, -2048.0]), torch.tensor([0.1])
    value = Pair({"a": [exact, None], 3: (rounded, True)}, Pair(np.arange(3, dtype=np.int32), "text"))
    freeze(value, tmp_path / "v.npz")
    back = thaw(tmp_path / "v.npz", [Pair], CPU)
    assert back.left["a"][1] is None
    assert back.left[3][1] is True
    assert torch.equal(back.left["a"][0], exact)
    assert torch.equal(back.left[3][0], rounded)
    assert back.right.right == "text"
    np.testing.assert_array_equal(back.right.left, np.arange(3))
    with np.load(tmp_path / "v.npz") as stored:
        assert [stored[name].dtype for name in ("a0", "a1")] == [np.float16, np.float32]
    with pytest.raises(KeyError, match="Pair"):
        thaw(tmp_path / "v.npz", [], CPU)
    with pytest.raises(TypeError, match="cannot freeze set"):
        freeze({"a": {1}}, tmp_path / "v.npz")
