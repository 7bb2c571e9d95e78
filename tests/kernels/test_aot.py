"""What the compiler makes of the Triton kernels for RTX 4090 (sm_89) and H200 (sm_90), without either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
# triton by itself, beside the environment: `make test` puts it there
OTHER = Path(sys.prefix) / "triton-3.6"
Table = dict[tuple[str, str, int], dict[str, Any]]


def table(lines: str) -> tuple[str, Table]:
    """Triton's version, and what was compiled by kernel, variant and target."""
    first, *rest = [json.loads(line) for line in lines.splitlines()]
    return first["triton"], {(one["kernel"], one["variant"], one["target"]): one for one in rest}


@pytest.fixture(scope="module", params=["3.7", "3.6"])
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, repo_root: Path
) -> tuple[Table, Table]:
    """What compiles now, and what is on record."""
    version = str(request.param)
    path = [str(repo_root), str(repo_root / "kernels")]
    if version == "3.6":
        if not OTHER.is_dir():
            pytest.skip(f"no triton 3.6 in {OTHER}: pip install --no-deps --target {OTHER} triton==3.6.0")
        path.insert(0, str(OTHER))
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {
        "PYTHONPATH": os.pathsep.join(path),
        "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "tests.kernels.aot"], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found, now = table(ran.stdout)
    assert found.startswith(version)
    return now, table((HERE / f"aot_{version}.jsonl").read_text())[1]


def test_every_kernel_compiles_without_spills(compiled: tuple[Table, Table]) -> None:
    now, recorded = compiled
    assert now.keys() == recorded.keys()
    assert {key: one["spilled"] for key, one in now.items() if one["spilled"]} == {}


def test_registers_leave_room_for_many_warps(compiled: tuple[Table, Table]) -> None:
    gathers = ("sweep", "combine", "gather_rows", "combine_rows")
    for key, one in compiled[0].items():
        # 48 registers a thread let 40 warps of an SM run: what hides the latency of gathers
        assert one["registers"] <= (48 if one["kernel"] in gathers else 96), key


def test_gathers_load_128_bits_at_once(compiled: tuple[Table, Table]) -> None:
    now, recorded = compiled
    for key, one in now.items():
        if one["kernel"] in ("sweep", "gather_rows"):
            # two gathers a round and what the epilogue reads; fewer means that some became narrower
            assert one["wide_loads"] >= max(recorded[key]["wide_loads"], 4), key


def test_sums_over_rows_are_no_reduction_of_the_compilers(compiled: tuple[Table, Table]) -> None:
    # the order of tl.sum follows the layout, and so the width of a tile; maxima may
    exact = {"masses", "_chunk_sums", "combine"}
    for key, one in compiled[0].items():
        if one["kernel"] in exact or (one["kernel"] == "sweep" and not one["variant"].startswith("refine")):
            assert one["reductions"] == 0, key


def test_instructions_do_not_grow_unnoticed(compiled: tuple[Table, Table]) -> None:
    now, recorded = compiled
    grown = {key: (one["instructions"], recorded[key]["instructions"]) for key, one in now.items()
             if one["instructions"] > 1.1 * recorded[key]["instructions"]}  # fmt: skip
    assert grown == {}
