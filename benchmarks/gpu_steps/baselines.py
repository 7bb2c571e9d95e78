"""What libraries need for PageRank at equal L1 error: a torch.sparse.mm loop, cuSPARSE through CuPy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks import gpu_reference as reference
from benchmarks.gpu_bench import Bench
from benchmarks.gpu_graphs import Workload, even_tiles, resets
from benchmarks.gpu_steps.pagerank import SOR_FP16, SOR_FP32, Form, Solves
from benchmarks.gpu_steps.workloads import GAMMA, Workloads
from zeromem_kernels.tiles import Tiles

QUERIES, CHUNKS = 512, (64, 512)
_MOST = 64


def run(bench: Bench, work: Workloads) -> None:
    """Time the loops, then ours for the same questions, as ratios to the fastest of them."""
    hotpotqa = work.hotpotqa
    width, queries = work.width(32), work.queries(QUERIES)
    tiles = even_tiles(queries, width, bench.device)
    reset = resets(hotpotqa, tiles)
    solves = Solves(bench, work, hotpotqa, tiles, reset)
    few = Tiles(tiles.bank[:1], width)
    part = reset[: hotpotqa.axis("nodes", few).rows]
    expected = reference.pagerank(hotpotqa.graph, part, hotpotqa.axis("nodes", few), GAMMA)
    rows = len(hotpotqa.graph.degree)
    columns = reset.view(len(tiles), rows, width).transpose(0, 1).reshape(rows, -1).contiguous()
    matrix = reference.transition(hotpotqa.graph, GAMMA, torch.float32)
    for form in (SOR_FP16, SOR_FP32):
        error = _check(bench, work, hotpotqa, few, part, expected, form)
        turns = turns_for(matrix, part, expected, max(error, 1e-6))
        bench.note(f"power iterations for {form.name}'s error", l1_error=error, iterations=turns)
        loops = {
            f"torch.sparse.mm {turns}x{min(chunk, queries)} columns": torch_loop(
                matrix, columns, turns, chunk
            )
            for chunk in CHUNKS
        }
        cupy = cupy_loop(hotpotqa, columns, turns) if bench.mode == "time" else None
        if cupy is None:
            bench.note("CuPy", left_out="not installed, or a dry run")
        else:
            loops[f"cuSPARSE through CuPy {turns} iterations"] = cupy
        best = min(
            bench.library(f"PageRank {queries} queries {name}", loop) for name, loop in loops.items()
        )
        bench.time(f"{solves.title} {form.name}, launched", solves.solver(form), library=best)


def _check(
    bench: Bench,
    work: Workloads,
    graph: Workload,
    tiles: Tiles,
    reset: Tensor,
    expected: Tensor,
    form: Form,
) -> float:
    """Our L1 error on the first tile."""
    axis, errors = graph.axis("nodes", tiles), [1e-6]

    def fault(found: tuple[Tensor, ...]) -> str:
        errors.append(reference.l1_error(found[0], expected, axis))
        allowed = form.allowed + work.tolerance
        return "" if errors[-1] <= allowed else f"L1 error {errors[-1]:.3g}, allowed {allowed:.3g}"

    bench.check(f"PageRank {form.name}", Solves(bench, work, graph, tiles, reset).solver(form), fault)
    return errors[-1]


def turns_for(matrix: Tensor, reset: Tensor, expected: Tensor, error: float) -> int:
    """Power iterations after which the loop is as near to π as we are."""
    base, x = (1.0 - GAMMA) * reset, reset
    for turn in range(1, _MOST):
        x = torch.sparse.mm(matrix, x).add_(base)
        scaled = x.double() / x.double().sum(0).clamp_(min=1e-300)
        if float((scaled - expected).abs().sum(0).max()) <= error:
            return turn
    return _MOST


def torch_loop(matrix: Tensor, reset: Tensor, turns: int, chunk: int) -> Callable[[], None]:
    """x ← (1−γ) r + γ Pᵀ x over so many columns at a time, then x/Σx."""
    chunks = [part.contiguous() for part in reset.split(chunk, dim=1)]

    def loop() -> None:
        for part in chunks:
            base, x = (1.0 - GAMMA) * part, part
            for _ in range(turns):
                x = torch.sparse.mm(matrix, x).add_(base)
            x.div_(x.sum(0))

    return loop


def cupy_loop(work: Workload, reset: Tensor, turns: int) -> Callable[[], None] | None:
    """The same through CuPy, whose product takes column-major matrices; None where it does not import."""
    try:
        import cupy
        from cupyx.scipy.sparse import csr_matrix
    except ImportError:
        return None
    matrix = reference.transition(work.graph, GAMMA, torch.float32)
    parts = (matrix.values(), matrix.col_indices().int(), matrix.crow_indices().int())
    sparse = csr_matrix(
        tuple(cupy.from_dlpack(part.contiguous()) for part in parts), shape=tuple(matrix.shape)
    )
    columns = cupy.asfortranarray(cupy.from_dlpack(reset))

    def loop() -> None:
        # on torch's stream, where the events are
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            base, x = (1.0 - GAMMA) * columns, columns
            for _ in range(turns):
                x = sparse @ x
                x += base
            x /= x.sum(0)

    return loop
