"""The whole engine from packed questions to ranked evidence, against the CPU engine's answer."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.gpu_bench import Bench
from benchmarks.gpu_engine import Case, read
from benchmarks.gpu_steps.workloads import Workloads
from zeromem_kernels.replay import Replays


def run(bench: Bench, work: Workloads) -> None:
    """Every batch that `prepare_engine` has written; a line that says so where there is none."""
    for path in work.engines:
        one(bench, read(path, bench.device))
    if not work.engines:
        bench.note("whole retrieval: nothing prepared (python -m benchmarks.prepare_engine)")


def one(bench: Bench, case: Case) -> None:
    """Check and time one batch, launched kernel by kernel and with graphs of what returns."""
    count = len(case.batch)

    def found(replays: Replays | None = None) -> tuple[Tensor, Tensor]:
        with bench.plain():
            ranked = case.found(replays)
        return torch.from_numpy(ranked.rows), torch.from_numpy(ranked.scores)

    def fault(answer: tuple[Tensor, Tensor]) -> str:
        return case.fault(*(part.numpy() for part in answer))

    name = f"whole retrieval {case.name}, {count} questions"
    bench.check(name, found, fault)
    launched = bench.time(name, found)
    if bench.device.type != "cuda" or bench.mode == "compile":
        return
    replays = Replays()
    # a shape is captured when it comes for the third time
    for _ in range(3):
        answer = found(replays)
    bench.check(f"{name}, replayed", lambda: found(replays), fault)
    bench.time(f"{name}, replayed", lambda: found(replays), library=launched)
    bench.note(f"{name}, same evidence", share=float(case.same(answer[0].numpy()).mean()))
    replays.drop()
