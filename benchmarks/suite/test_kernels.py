"""Each kernel alone: the compiled form on a CPU, the Triton form on CUDA."""

from __future__ import annotations

import pytest

from benchmarks.graphs import synthetic
from benchmarks.measure import Lab, Measure
from benchmarks.suite.kernel_calls import (
    KERNELS,
    KernelInputs,
    checked_facts,
    checked_pagerank,
    pagerank_call,
)
from benchmarks.workloads import prepared
from zeromem_gpu import Config

SHORT = pytest.param("locomo-1", marks=pytest.mark.short)


@pytest.fixture(scope="module")
def inputs(request: pytest.FixtureRequest, lab: Lab) -> KernelInputs:
    """The workload's whole batch, cut as a search cuts it."""
    workload = lab.workload(request.param)
    found = KernelInputs(prepared(lab.memory(request.param), workload.questions, workload.banks), Config())
    found.workload = workload  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("inputs", [SHORT, "locomo-10", "hotpot-3200"], indirect=True)
def test_kernel(kernel: str, inputs: KernelInputs, measure: Measure) -> None:
    """One kernel on a workload's batch."""
    call = inputs.call(kernel)
    about = {**inputs.workload.about, **inputs.about}  # type: ignore[attr-defined]
    measure(call, facts=checked_facts(kernel, call), about=about)


@pytest.mark.parametrize("solver", ["sor", "power"])
def test_pagerank_300k(solver: str, lab: Lab, measure: Measure) -> None:
    """PageRank on 300k nodes and 3M non-zeros, 32 queries."""
    graph = synthetic("synthetic-300k", 300_000, 3_000_000, 32)
    if lab.device.type == "cuda":
        graph = graph.to(lab.device)
    call = pagerank_call(graph.graph, graph.reset, graph.axis, solver)
    measure(call, facts=checked_pagerank(solver, graph.graph, graph.reset, call()), about=graph.about)
