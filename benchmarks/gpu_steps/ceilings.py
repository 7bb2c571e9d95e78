"""What copies and random row gathers reach, over working sets up to and past the L2."""

from __future__ import annotations

from benchmarks.gpu_bench import Bench, differs
from benchmarks.gpu_ceilings import Gather
from benchmarks.gpu_steps.workloads import Workloads

COPY_MB = (4, 8, 16, 32, 48, 64, 96, 128, 200)
GATHER_MB = (5, 20, 40, 60, 100, 200)
ROW_BYTES = (32, 64, 128, 256)


def run(bench: Bench, work: Workloads) -> None:
    """Check the gather against float64 sums, then note every rate."""
    for row_bytes in ROW_BYTES[:1] if bench.dry else ROW_BYTES:
        gather = Gather(bench.device, row_bytes, 1 << 12 if bench.dry else 1 << 24, 2 if bench.dry else 64)
        bench.check(
            f"gather of {row_bytes}-byte rows",
            gather,
            # float32 sums of 512 numbers below 1
            lambda out, gather=gather: differs(out, gather.expected(len(out)), 1e-3),
        )
    if bench.mode == "compile":
        return
    bench.note("copy 8 GB", bytes_per_s=bench.ceilings.copy())
    for size in COPY_MB[:1] if bench.dry else COPY_MB:
        bench.note(f"copy {size} MB", bytes_per_s=bench.ceilings.copy(size * 1_000_000))
    for row_bytes in ROW_BYTES[:1] if bench.dry else ROW_BYTES:
        for size in GATHER_MB[:1] if bench.dry else GATHER_MB:
            rate = bench.ceilings.gather(row_bytes, size * 1_000_000)
            bench.note(f"gather {row_bytes} B of {size} MB", bytes_per_s=rate)
