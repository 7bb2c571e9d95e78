"""`benchmarks/gpu.py` without a GPU: the dry run, what it refuses, what it reads and makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import gpu_reference as reference
from benchmarks.gpu_bench import Bench, WrongResult, differs
from benchmarks.gpu_graphs import Size, even_tiles, resets, synthetic
from benchmarks.gpu_locomo import load
from benchmarks.gpu_report import table
from benchmarks.prepare_gpu import prepared
from tests.support import small_memory
from zeromem_gpu import Trace
from zeromem_kernels.pagerank import is_sound, personalized_pagerank
from zeromem_kernels.tiles import torch_forms

CPU = torch.device("cpu")


def script(root: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "benchmarks/gpu.py", *options], cwd=root, env=kept | environment, timeout=300,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_dry_run_goes_through_every_step(repo_root: Path, tmp_path: Path) -> None:
    done = script(repo_root, "--dry-run", "--out", str(tmp_path), TRITON_INTERPRET="1", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert report["gpu"] == "dry run"
    assert report["failed"] == {}
    assert set(report["seconds"]) == {
        "ceilings",
        "pagerank",
        "baselines",
        "activation",
        "reset",
        "fusion",
        "lexical",
        "phrases",
        "similarity",
        "replay",
        "encoding",
        "engine",
    }
    timed = [row for row in report["rows"] if "of_ceiling" in row]
    for kernel in ("PageRank", "activation", "reset", "top-", "fusion of lists", "phrases", "subjects"):
        assert any(row["name"].startswith(kernel) for row in timed)
    encoded = [row for row in report["rows"] if "of_matrix_rate" in row]
    assert len(encoded) == 4
    assert all(row["tokens_a_second"] > 0 and row["of_matrix_rate"] > 0 for row in encoded)
    assert encoded[0]["padding"] == 0.0 < encoded[2]["padding"] < encoded[3]["padding"]
    assert all(row["median_us"] > 0 and row["l2_bytes"] > 0 for row in timed)
    assert any("library_ratio" in row for row in report["rows"])
    names = [row["name"] for row in timed]
    assert [name for name in names if name.startswith("bm25")][1].endswith("with shares")
    assert [name[-7:] for name in names if name.startswith("similarity")] == ["float32", "float16"]
    assert any(row["name"].startswith("replayed as one graph") for row in report["rows"])
    assert "mean nothing" in done.stdout


def test_without_a_device_it_says_so_in_one_line(repo_root: Path) -> None:
    done = script(repo_root, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert done.stdout.count("\n") == 1
    assert "no CUDA device" in done.stdout
    assert done.stderr == ""


def test_it_needs_nothing_but_torch_triton_and_numpy(repo_root: Path) -> None:
    # the device machine has no spaCy, no rich, no numba, and this project is not installed there
    code = (
        "import runpy, sys; runpy.run_path('benchmarks/gpu.py'); "
        "roots = {name.split('.')[0] for name in sys.modules}; "
        "print(sorted(roots & {'rich', 'typer', 'numba', 'safetensors', 'spacy', 'regex', 'pyarrow', "
        "'Stemmer', 'dateparser', 'filelock', 'tokenizers', 'transformers'}))"
    )
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repo_root, env=kept, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n", done.stderr


def test_an_unknown_step_lists_the_known(repo_root: Path) -> None:
    done = script(repo_root, "--only", "everything")
    assert done.returncode == 2
    assert "'pagerank'" in done.stderr


def test_a_wrong_result_is_not_timed() -> None:
    bench = Bench(CPU, "dry")
    right = torch.ones(3)
    bench.check("right", lambda: right.clone(), lambda found: differs(found, right, 0.0))
    with pytest.raises(WrongResult, match="wrong: off by 1, allowed"):
        bench.check("wrong", lambda: right + 1, lambda found: differs(found, right, 0.5))
    with pytest.raises(WrongResult, match="never written: off by nan"):
        bench.check("never written", lambda: torch.empty(3), lambda found: differs(found, right, 1e9))
    with pytest.raises(WrongResult, match="a race: two runs differ"):
        bench.check("a race", lambda: torch.rand(3), lambda found: "")
    assert bench.rows == []


COMPILE = """
import sys
sys.path[:0] = ["benchmarks/..", "kernels"]
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

class Driver:
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def get_active_torch_device(self): return torch.device("cpu")

driver.set_active(Driver())
from benchmarks.gpu_ceilings import Gather, gather_rows_at_random
from benchmarks.gpu_timing import compiling
gather = Gather(torch.device("cpu"), 64, 1 << 12, 2)
gather.out.fill_(7.0)
with compiling(2) as met:
    gather()
assert met == {"gather_rows_at_random"}, met
assert bool((gather.out == 7.0).all())
compiled, = gather_rows_at_random.device_caches[0][0].values()
assert compiled.asm["cubin"], compiled
print("compiled")
"""


def test_kernels_are_compiled_beforehand_without_running(repo_root: Path, tmp_path: Path) -> None:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], cwd=repo_root, env=kept | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "compiled\n", done.stderr


def test_synthetic_graphs_are_sound_and_as_large_as_asked() -> None:
    size = Size(400, 60, 1500)
    work = synthetic("graph", size, CPU)
    graph = work.graph
    assert is_sound(graph, work.ptr["nodes"])
    # both directions of every pair, and of the chain inside sessions of ten
    assert len(graph.weights.indices) == 2 * (1500 + 400 - 40)
    assert len(work.incidence.indices) == len(work.transposed.indices) == 1500
    degree = torch.zeros(460).index_add_(
        0, torch.repeat_interleave(torch.arange(460), graph.weights.indptr.diff()), graph.weights.weights
    )
    torch.testing.assert_close(graph.degree, degree)
    # what each context gives to its entities adds up to 1
    again = synthetic("graph", size, CPU)
    assert torch.equal(again.graph.weights.indices, graph.weights.indices)
    hub = int(work.transposed.indptr.diff().max())
    assert hub > 10 * 1500 / 60 / 3


def test_the_float64_reference_is_what_the_torch_form_approaches() -> None:
    work = synthetic("graph", Size(60, 9, 200), CPU)
    axis = work.axis("nodes", even_tiles(6, 3, CPU))
    reset = resets(work, axis.tiles)
    torch.testing.assert_close(reset.view(2, 69, 3).sum(1), torch.ones(2, 3))
    with torch_forms():
        found = personalized_pagerank(work.graph, reset, axis, None, gamma=0.6, tolerance=5e-7).pi
    assert reference.l1_error(found, reference.pagerank(work.graph, reset, axis, 0.6), axis) <= 1e-6


def test_a_prepared_batch_is_read_back(tmp_path: Path) -> None:
    memory = small_memory()
    said = [
        f"{name} met Rob{i % 4} in Rome{i % 3}. It rained." for i, name in enumerate(["Ann", "Bob"] * 6)
    ]
    memory.add(Trace(id=f"{bank}{i}", bank=bank, session="s", turn=i, speaker=text[:3], text=text)
               for bank in ("a", "b") for i, text in enumerate(said))  # fmt: skip
    texts = ["Whom did Ann meet?", "Where is Rome1?", "Who is Bob?"]
    arrays = prepared(memory, texts, ["b", "a", "b"], width=2)
    np.savez_compressed(tmp_path / "batch.npz", **arrays)
    batch = load(tmp_path / "batch.npz", CPU)
    assert batch.taken.tolist() == [[True, False], [True, True]]
    assert batch.tiles.bank.tolist() == [0, 1]
    assert batch.similarity.shape == (batch.axis("sentences").rows, 2)
    assert batch.graph_scores.shape == batch.prior.shape == (batch.axis("units").rows, 2)
    assert is_sound(batch.work.graph, batch.work.ptr["nodes"])
    assert batch.seeds.max() == 1.0
    sums = reference.tile_sums(batch.reset(), batch.axis("nodes")).float()
    # bank a has one question: its tile's second column is an empty slot
    torch.testing.assert_close(sums[1], torch.ones(2))
    assert sums[0, 0] == pytest.approx(1.0, abs=1e-6)


def test_the_table_has_a_line_for_every_row() -> None:
    rows = [
        {"name": "copy", "bytes_per_s": 4.3e12},
        {"name": "sweep", "median_us": 53.0, "l2_bytes": 1e6, "memory_bytes": 2e6, "of_ceiling": 0.7},
    ]
    assert table(rows).split("\n")[1:] == [
        "copy   bytes_per_s 4,300 GB/s",
        "sweep         53.0        1.0        2.0        70%",
    ]
