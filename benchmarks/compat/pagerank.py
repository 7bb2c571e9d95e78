"""The PageRank function beside igraph's prpack: same graph, same reset vectors, errors in the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.calibration import Calibration
from benchmarks.facts import WrongResult
from benchmarks.graphs import synthetic
from benchmarks.peers.pagerank import GAMMA, Problem, igraph_entry
from benchmarks.peers.rows import OURS, Comparison, Entry, timed
from zeromem_gpu.compat.graph import PageRankGraph, personalized_pagerank

# undirected edges, each two non-zeros of the matrix
SIZES = {"5k": (5_000, 40_000), "100k": (100_000, 1_000_000)}
RESETS = 64


def compare(size: str, threads: int, rounds: int, calibration: Calibration) -> Comparison:
    """The function with a graph read before, as igraph's is, or reading a matrix, and igraph."""
    nodes, edges = SIZES[size]
    problem = Problem(synthetic(f"synthetic-{size}-edges", nodes, 2 * edges, RESETS))
    graph = PageRankGraph(problem.weights)
    resets = np.ascontiguousarray(problem.resets[:, :RESETS].T.astype(np.float64))
    calls: dict[str, Callable[[], Any]] = {
        f"{OURS}, {RESETS} resets": lambda: personalized_pagerank(graph, resets, GAMMA),
        f"{OURS}, {RESETS} resets, error 1e-4": lambda: personalized_pagerank(
            graph, resets, GAMMA, tolerance=1e-4
        ),
        f"{OURS}, {RESETS} resets, reading the matrix": lambda: personalized_pagerank(
            problem.weights, resets, GAMMA
        ),
        f"{OURS}, one reset": lambda: personalized_pagerank(graph, resets[:1], GAMMA),
    }
    entries = []
    for name, call in calls.items():
        error = problem.error(np.asarray(call(), np.float64).T)
        if error > (1e-4 if "1e-4" in name else 1e-6):
            raise WrongResult(f"{name}: L1 error {error:.2g}; not timed")
        queries = 1 if "one reset" in name else RESETS
        entries.append(Entry(name, call, queries, threads, f"L1 {error:.0e}", {"solver": graph.solver}))
    entries.append(igraph_entry(problem))
    about = {**problem.graph.about, "edges": len(problem.weights.data) // 2, "gamma": GAMMA}
    return Comparison(f"PageRank function, {size}", about, timed(entries, rounds, calibration), {})
