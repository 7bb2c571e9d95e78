"""Three-colour SOR on the graphs of all ten LoCoMo conversations, power iteration beside it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.sparse import linalg

from tests.reference import pagerank
from tests.support import HashEncoder
from zeromem_gpu import Config, Memory
from zeromem_gpu.build.stack import Stack, stack_banks
from zeromem_gpu.build.views import BankView, bank_view
from zeromem_gpu.device import resolve_device
from zeromem_gpu.evaluate.datasets import load_locomo
from zeromem_gpu.retrieve import graph_view
from zeromem_kernels.pagerank import Graph, PageRank, personalized_pagerank
from zeromem_kernels.tiles import Axis, Tiles, torch_forms

GAMMA, WIDTH = 0.6, 8


@pytest.fixture(scope="module")
def graphs(data_dir: Path, cache_dir: Path) -> tuple[list[BankView], Stack]:
    # the graph needs names, not vectors
    memory = Memory(encoder=HashEncoder(8), cache_dir=cache_dir, device="cpu")
    memory.add(load_locomo(data_dir).traces)
    index = memory._index
    assert index is not None
    views = [bank_view(index, bank, Config()) for bank in index.banks.values()]
    return views, stack_banks(views, resolve_device("cpu"))


def test_no_edge_inside_a_colour(graphs: tuple[list[BankView], Stack]) -> None:
    assert len(graphs[0]) == 10
    for view in graphs[0]:
        graph = view.graph
        colour = np.empty(len(graph.degree), int)
        colour[graph.colours] = np.repeat(np.arange(3), graph.colour_sizes)
        row = np.repeat(np.arange(len(colour)), np.diff(graph.weights.indptr))
        assert (colour[row] != colour[graph.weights.indices]).all()


def test_ten_sweeps_reach_one_in_a_million(graphs: tuple[list[BankView], Stack]) -> None:
    views, stack = graphs
    axis = Tiles(torch.arange(10), WIDTH).axis(stack.ptr["nodes"])
    rng = np.random.default_rng(1)
    starts = axis.starts.tolist()
    reset = rng.random((axis.rows, WIDTH)) ** 30  # few nodes hold most of the mass, as in a search
    for begin, end in pairwise(starts):
        reset[begin:end] /= reset[begin:end].sum(0)
    r = torch.from_numpy(reset.astype(np.float32))
    solved = {
        solver: personalized_pagerank(
            stack.graph, r, axis, None, gamma=GAMMA, tolerance=1e-6, solver=solver
        )
        for solver in ("sor", "power")
    }
    for t, view in enumerate(views):
        table, n = view.graph.weights, len(view.graph.degree)
        weights = np.zeros((n, n))
        weights[np.repeat(np.arange(n), np.diff(table.indptr)), table.indices] = table.weights
        matrix = pagerank.transition(weights)
        system = np.eye(n) - GAMMA * matrix
        truth = np.linalg.solve(system, (1.0 - GAMMA) * r[starts[t] : starts[t + 1]].double().numpy())
        for result in solved.values():
            # the solver's x, before it was scaled to sum 1
            x = result.pi[starts[t] : starts[t + 1]].double().numpy() * truth.sum(0)
            assert np.abs(x - truth).sum(0).max() <= 1e-6
    sor, power = (int(solved[name].sweeps.max()) for name in ("sor", "power"))
    assert sor <= 10
    assert 2 * sor < power


@pytest.mark.slow
def test_float16_keeps_the_five_best_of_every_question(data_dir: Path, cache_dir: Path) -> None:
    """Against float64, on the resets of all LoCoMo questions; as many as 1 in 1,000 might differ."""
    data = load_locomo(data_dir)
    memory = Memory(encoder="minilm", cache_dir=cache_dir, device="cpu")
    memory.add(data.traces)
    calls: list[tuple[Graph, torch.Tensor, Axis]] = []

    def watched(graph: Graph, reset: torch.Tensor, axis: Axis, hidden: None, **how: Any) -> PageRank:
        assert hidden is None
        calls.append((graph, reset, axis))
        return personalized_pagerank(graph, reset, axis, hidden, **how)

    with mock.patch.object(graph_view, "personalized_pagerank", watched):
        memory.search([q.text for q in data.questions], bank=[q.bank for q in data.questions])
    asked = differ = 0
    worst = 0.0
    for graph, reset, axis in calls:
        with torch_forms():
            half = personalized_pagerank(graph, reset, axis, None, gamma=GAMMA, storage=torch.float16).pi
        starts = axis.starts.tolist()
        for t, bank in enumerate(axis.tiles.bank.tolist()):
            r, found = (x[starts[t] : starts[t + 1]].double().numpy() for x in (reset, half))
            taken = np.flatnonzero(r.sum(0) > 0)
            solved = solve_exactly(graph, axis, bank, r[:, taken])
            units = int(graph.colour_ptr[3 * bank + 3] - graph.colour_ptr[3 * bank + 1])
            best = [np.argsort(-x[:units], axis=0, kind="stable")[:5] for x in (solved, found[:, taken])]
            asked += len(taken)
            differ += int((np.sort(best[0], axis=0) != np.sort(best[1], axis=0)).any(0).sum())
            worst = max(worst, float(np.abs(solved - found[:, taken]).sum(0).max(initial=0.0)))
    assert asked == len(data.questions)
    assert differ <= asked // 1000
    assert worst <= 2e-6


def solve_exactly(graph: Graph, axis: Axis, bank: int, reset: np.ndarray) -> np.ndarray:
    """π in float64 by a direct sparse solve, columns of sum 1."""
    begin, end = int(axis.ptr[bank]), int(axis.ptr[bank + 1])
    indptr = graph.weights.indptr[begin : end + 1].numpy()
    inside = slice(int(indptr[0]), int(indptr[-1]))
    values, columns = graph.weights.weights[inside].double().numpy(), graph.weights.indices[inside].numpy()
    w = sparse.csr_matrix((values, columns, indptr - indptr[0]), shape=(end - begin, end - begin))
    degree = np.asarray(w.sum(1)).ravel()
    inverse = sparse.diags(np.where(degree > 0, 1.0 / np.where(degree > 0, degree, 1.0), 0.0))
    x = linalg.splu((sparse.eye(end - begin) - GAMMA * (w @ inverse)).tocsc()).solve((1.0 - GAMMA) * reset)
    return np.asarray(x / x.sum(0))
