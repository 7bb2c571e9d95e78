"""Compile the Triton kernels ahead of time, without a GPU, and read back what the compiler made of them.

Run as `python -m tests.kernels.aot`, without TRITON_INTERPRET: prints triton's version and then one JSON
object a line. A path with another triton in front of PYTHONPATH compiles with that one. To record anew
after a change that is meant: `python -m tests.kernels.aot > tests/kernels/aot_3.7.jsonl` (or 3.6). With
`--table FILE` it prints the table of kernels/README.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TARGETS = (89, 90)
LANES, UNROLL, ROWS, CHUNK = 16, 2, 64, 512


@dataclass(frozen=True)
class Variant:
    """A kernel with the types of its arguments: `types` by name where they are not the usual ones."""

    module: str
    kernel: str
    name: str
    meta: dict[str, Any]
    types: dict[str, str]
    warps: int
    options: dict[str, Any]


@dataclass(frozen=True)
class Compiled:
    """What came out for one target."""

    kernel: str
    variant: str
    target: int
    registers: int
    spilled: int
    shared: int
    instructions: int
    wide_loads: int
    reductions: int


_INT64 = ("tile_bank", "node_ptr", "starts", "group_ptr", "slice_ptr", "scratch_starts", "gap_starts",
          "mass_starts", "sum_starts", "long_group", "source_starts", "entity_starts", "unit_starts",
          "node_starts", "bank", "term_ptr", "indptr", "query_ptr", "word_ptr", "stream_ptr", "row_ptr",
          "slot", "phrase_ptr", "unit_ptr")  # fmt: skip
_INT32 = (
    "lane_row",
    "columns",
    "long_row",
    "long_ptr",
    "long_count",
    "peaks",
    "rows",
    "graph_rows",
    "hierarchy_rows",
    "best_row",
    "documents",
    "terms",
    "positions",
    "stream",
    "unit_of",
    "row_of",
    "words",
    "speaker",
    "subjects",
    "units",
)
_COUNTS = (
    "i_first",
    "n_most",
    "i_colour",
    "n_colours",
    "n_kept",
    "n_graph",
    "n_hierarchy",
    "n_rows_a_block",
)
_FLOATS = ("gamma", "floor", "rounding", "equal")


def variants() -> Iterator[Variant]:
    """What is compiled: the widths and storages that a solve on a GPU uses."""
    pagerank, wide = "zeromem_kernels.gpu.pagerank", {"WIDTH": 32, "BLOCK": 32}
    for storage in ("fp16", "fp32"):
        types = dict.fromkeys(("x", "out", "error"), f"*{storage}")
        slices = {"COLOURS": 3, "LANES": LANES, "UNROLL": UNROLL}
        warps = 2 if storage == "fp16" else 4
        for width in (32, 64):
            columns = {"WIDTH": width, "BLOCK": width}
            for name, (update, residual, refine) in (
                ("sor", (True, False, False)), ("power+residual", (True, True, False)),
                ("residual", (False, True, False)), ("refine", (False, False, True)),
            ):  # fmt: skip
                flags = {"UPDATE": update, "RESIDUAL": residual, "REFINE": refine}
                wanted = {**types, "gaps": "*i32"} if refine else types
                meta = {**columns, **slices, **flags}
                yield Variant(
                    pagerank, "sweep", f"{name} {storage} {width}", meta, wanted, warps * width // 32, {}
                )
        meta = {**wide, "COLOURS": 3, "UPDATE": True, "RESIDUAL": False, "REFINE": False}
        yield Variant(pagerank, "combine", f"sor {storage} 32", meta, types, 4, {})
        start = {**wide, "ROWS": 32, "MASKED": True, "SCALED": storage == "fp16"}
        yield Variant(pagerank, "start", f"{storage} 32", start, {**types, "hidden": "*u8"}, 4, {})
        yield Variant(
            pagerank,
            "finish",
            f"{storage} 32",
            {**wide, "ROWS": 32, "REFINED": storage == "fp16"},
            {**types, "mass": "*fp64"},
            4,
            {},
        )
        yield Variant(
            pagerank,
            "masses",
            f"{storage} 32",
            {**wide, "CHUNK": CHUNK, "REFINED": storage == "fp16"},
            {**types, "masses": "*fp64"},
            4,
            {},
        )
    restart = {**wide, "ROWS": 32}
    yield Variant(pagerank, "begin_correction", "fp16 32", restart, {"x": "*fp16"}, 4, {})
    yield Variant(pagerank, "peak", "32", {**wide, "ROWS": 32, "MASKED": True}, {"hidden": "*u8"}, 4, {})
    activation, mask = "zeromem_kernels.gpu.activation", {"hidden": "*u8"}
    for name, flags in (
        ("sentences", (True, False, False)), ("sentences masked", (True, True, False)),
        ("entities", (False, False, False)), ("entities without self", (False, False, True)),
    ):  # fmt: skip
        meta = {**wide, **dict(zip(("GATED", "MASKED", "EXCLUDE"), flags, strict=True))}
        yield Variant(
            activation, "gather_rows", f"{name} 32", {**meta, "LANES": LANES, "UNROLL": UNROLL}, mask, 4, {}
        )
        yield Variant(activation, "combine_rows", f"{name} 32", meta, mask, 4, {})
    yield Variant(activation, "best_of", "32", {**wide, "ROWS": ROWS, "MASKED": True}, mask, 4, {})
    yield Variant(activation, "settle", "32", {**wide, "ROWS": ROWS, "SEEDS": False}, {}, 4, {})
    yield Variant("zeromem_kernels.gpu.reset", "_build", "32", {**wide, "ROWS": ROWS}, {}, 4, {})
    yield Variant(
        "zeromem_kernels.gpu.reduce",
        "_chunk_sums",
        "32",
        {**wide, "CHUNK": CHUNK},
        {"sums": "*fp64"},
        4,
        {},
    )
    select, exact = "zeromem_kernels.gpu.select", {"enable_fp_fusion": False}
    yield Variant(select, "_block_best", "32", {**wide, "ROWS": ROWS}, {}, 4, {})
    yield Variant(
        select, "_select", "32, 256 blocks", {"WIDTH": 32, "BLOCKS": 256, "ROWS": ROWS}, {}, 1, {}
    )
    yield Variant(
        select, "_select", "32, 2048 blocks", {"WIDTH": 32, "BLOCKS": 2048, "ROWS": ROWS}, {}, 4, {}
    )
    yield Variant(select, "_fuse", "32 of 32", {"WIDTH": 32, "GRAPH": 32, "HIERARCHY": 32}, {}, 1, exact)
    for name, storage, width, rows in (("first token", "fp16", 1024, 1), ("mean", "fp16", 384, 4)):
        types = {"hidden": f"*{storage}", "starts": "*i32", "n_rows_most": "i32"}
        meta = {"WIDTH": width, "BLOCK": 1 << (width - 1).bit_length(), "ROWS": rows}
        yield Variant("zeromem_kernels.gpu.pool", "pool", f"{name} {storage} {width}", meta, types, 4, {})
    lexical, scatter = "zeromem_kernels.gpu.lexical", {"WIDTH": 32, "POSTINGS": 256}
    for name, shared in (("32", False), ("shares 32", True)):
        yield Variant(lexical, "_scatter", name, {**scatter, "SHARED": shared}, {}, 4, exact)
    phrases, places = "zeromem_kernels.gpu.phrases", {"WIDTH": 32, "PLACES": 256, "PARTS": 8}
    yield Variant(phrases, "_phrases", "32", places, {}, 4, {})
    yield Variant(phrases, "_speakers", "32", {**wide, "ROWS": ROWS}, {}, 4, {})
    yield Variant(phrases, "_mentions", "32", places, {}, 4, {})


def compile_one(variant: Variant, target: int) -> Compiled:
    """Compile a variant and disassemble it."""
    from importlib import import_module

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(import_module(variant.module), variant.kernel)
    signature, constants, attrs = {}, {}, {}
    for place, name in enumerate(function.arg_names):
        if name in variant.meta:
            signature[name], constants[(place,)] = "constexpr", variant.meta[name]
            continue
        signature[name] = _type(name, variant)
        if signature[name].startswith("*"):
            attrs[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(function, signature, constants, attrs)
    options = {"num_warps": variant.warps, **variant.options}
    made = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
    usage, assembly = disassemble(made.asm["cubin"])
    return Compiled(
        variant.kernel, variant.name, target,
        registers=_number(r"REG:(\d+)", usage),
        # what does not fit registers goes to the stack: local loads and stores
        spilled=_number(r"STACK:(\d+)", usage) + len(re.findall(r"\b(?:LDL|STL)\b", assembly)),
        shared=made.metadata.shared,
        instructions=len(re.findall(r"^\s*/\*[0-9a-f]{4,6}\*/", assembly, re.MULTILINE)),
        wide_loads=len(re.findall(r"LDG\.E\.(?:[A-Z0-9_.]+\.)?128", assembly)),
        reductions=made.asm["ttir"].count('"tt.reduce"'),
    )  # fmt: skip


def _type(name: str, variant: Variant) -> str:
    if name in variant.types:
        return variant.types[name]
    if name in _COUNTS:
        return "i32"
    if name in _FLOATS:
        return "fp32"
    return "*i64" if name in _INT64 else "*i32" if name in _INT32 else "*fp32"


def disassemble(cubin: bytes) -> tuple[str, str]:
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage, assembly = (
            subprocess.run([tool, flag, file.name], capture_output=True, text=True, check=True).stdout
            for flag in ("-res-usage", "-sass")
        )
    return usage, assembly


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def table(recorded: Path) -> str:
    """A recording as the Markdown of kernels/README.md: registers / instructions for each target."""
    found: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for line in recorded.read_text().splitlines()[1:]:
        one = json.loads(line)
        found.setdefault((one["kernel"], one["variant"]), {})[one["target"]] = one
    lines = ["| kernel | variant | sm_89 | sm_90 | 128-bit loads |", "|---|---|---|---|---|"]
    for (kernel, variant), by_target in found.items():
        cells = [f"{by_target[t]['registers']} / {by_target[t]['instructions']}" for t in TARGETS]
        lines.append(f"| `{kernel}` | {variant} | {' | '.join(cells)} | {by_target[90]['wide_loads']} |")
    return "\n".join(lines)


def main() -> None:
    """Compile everything in two processes, one line of JSON each, in the order of `variants`."""
    if sys.argv[1:2] == ["--table"]:
        sys.stdout.write(table(Path(sys.argv[2])) + "\n")
        return
    import triton

    sys.stdout.write(json.dumps({"triton": triton.__version__}) + "\n")
    jobs = [(variant, target) for variant in variants() for target in TARGETS]
    with ProcessPoolExecutor(2) as pool:
        for made in pool.map(compile_one, *zip(*jobs, strict=True)):
            sys.stdout.write(json.dumps(asdict(made)) + "\n")


if __name__ == "__main__":
    main()
