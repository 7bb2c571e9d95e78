"""Three-colour SOR on the graphs of all ten LoCoMo conversations, power iteration beside it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.reference import pagerank
from tests.support import HashEncoder
from zeromem_gpu import Config, Memory
from zeromem_gpu.build.stack import Stack, stack_banks
from zeromem_gpu.build.views import BankView, bank_view
from zeromem_gpu.device import resolve_device
from zeromem_gpu.evaluate.datasets import load_locomo
from zeromem_kernels.pagerank import personalized_pagerank
from zeromem_kernels.tiles import Tiles

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
    import torch

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
