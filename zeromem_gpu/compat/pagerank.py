"""PageRank with igraph's semantics and the engine's kernels: one reset vector or thousands.

`personalized_pagerank` stands where `Graph.personalized_pagerank(..., implementation="prpack")` stood.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch

from zeromem_gpu import InvalidInput
from zeromem_gpu.compat.colours import three_colours
from zeromem_gpu.compat.columns import as_columns, as_rows, not_negative, read_rows, tiles_for
from zeromem_gpu.compat.edges import Matrix, read_adjacency
from zeromem_gpu.device import resolve_device
from zeromem_kernels.pagerank import Graph
from zeromem_kernels.pagerank import personalized_pagerank as solve
from zeromem_kernels.tiles import Csr, Tiles

logger = logging.getLogger(__name__)

# float32 sums of a residual settle near it
_FINEST = 2e-7


class PageRankGraph:
    """A graph that was read once: as igraph's object, it is made before many calls.

    Args:
        adjacency: a SciPy or torch sparse matrix [n, n], row i the edges from i; or edges, int [m, 2] or a
            tuple of sources and targets.
        weights: [m] of the edges; None is 1 each. Edges that occur again add up.
        nodes: n, where edges are given.
        directed: follow edges from source to target only. Undirected edges are entered both ways, an edge
            from a node to itself counts twice, and a matrix must be symmetric.
        device: where to compute; None is the CPU.

    Weights are finite, not negative and within 37 powers of ten; edges of weight 0 are none. Anything else
    is an `InvalidInput`.
    """

    def __init__(
        self, adjacency: Any, weights: Any = None, *, nodes: int | None = None, directed: bool = False,
        device: str | torch.device | None = None,
    ) -> None:  # fmt: skip
        matrix = read_adjacency(adjacency, weights, nodes, directed)
        self.nodes, self.directed = matrix.nodes, directed
        self.device = resolve_device(device or "cpu")
        colours = None if directed else three_colours(matrix.indptr, matrix.indices)
        # three-colour relaxation takes a third of the sweeps; power iteration serves every graph
        self.solver = "power" if colours is None else "sor"
        self._graph = _graph(matrix, directed, colours, self.device)
        self._leaks = bool((self._graph.degree == 0).any())

    def personalized_pagerank(self, reset: Any, damping: float = 0.85, *, tolerance: float = 1e-6) -> Any:
        """PageRank of one reset vector [n] or of several [k, n]; see the function of this name."""
        _check(damping, tolerance)
        rows, single = self._resets(reset)
        if not len(rows):
            nothing = rows.astype(np.float32)
            return torch.from_numpy(nothing) if isinstance(reset, torch.Tensor) else nothing
        # what nodes without edges hold back is returned by scaling, which scales the error too
        within = max(tolerance * (1.0 - damping), _FINEST) if self._leaks else tolerance
        tiles = tiles_for(len(rows))
        tiles = Tiles(tiles.bank.to(self.device), tiles.width)
        axis = tiles.axis(torch.tensor([0, self.nodes], device=self.device))
        found = solve(
            self._graph, as_columns(rows, tiles).to(self.device), axis, None,
            gamma=damping, tolerance=within, solver=self.solver,
        )  # fmt: skip
        bound = float(found.residuals.max()) / (1.0 - damping)
        if bound > 1.01 * tolerance:
            logger.warning("PageRank's L1 error is known to be below %.1e only, not %.1e", bound, tolerance)
        return as_rows(found.pi, tiles, len(rows), reset, single)

    def _resets(self, reset: Any) -> tuple[np.ndarray, bool]:
        """Rows of sum 1, float64 [k, n], and whether there was one vector only."""
        rows, single = read_rows("reset", reset, self.nodes)
        not_negative("reset", rows)
        total = rows.sum(1, keepdims=True)
        if (total <= 0).any():
            row = int(np.flatnonzero(total[:, 0] <= 0)[0])
            raise InvalidInput(
                "reset", f"row {row} without any mass", "some mass on some node",
                "A question that reaches no node has no ranking; give every node a share, or leave it out.",
            )  # fmt: skip
        return rows / total, single


def personalized_pagerank(
    adjacency: Any, reset: Any, damping: float = 0.85, directed: bool = False, *, weights: Any = None,
    tolerance: float = 1e-6,
) -> Any:  # fmt: skip
    """Personalized PageRank with the semantics of igraph's prpack, for one reset vector or a batch.

    Nodes without edges to follow return their mass to the reset vector. What it does not reach has 0.

    Args:
        adjacency: as for `PageRankGraph`, or one: reading a graph costs more than solving for one vector.
        reset: [n] or [k, n], not negative, each with some mass; scaled to sum 1.
        damping: how much mass follows edges, from 0 to below 1.
        directed: for an adjacency that was not read before.
        weights: of edges.
        tolerance: the L1 error of each vector, at least 5e-7: sums are float32. Above a damping of 0.9
            rounding alone may exceed 1e-6; what was not reached is logged.

    Returns:
        float32 of the shape of `reset`, each vector of sum 1; a tensor for a tensor, else a NumPy array.
        Raises `InvalidInput` for anything else.

    >>> print(personalized_pagerank([[0, 1], [1, 2]], [1.0, 0.0, 0.0], 0.5).round(3))
    [0.583 0.333 0.083]
    """
    if isinstance(adjacency, PageRankGraph):
        if weights is not None or directed != adjacency.directed:
            raise InvalidInput(
                "adjacency", "a PageRankGraph of another kind", "its own weights and direction"
            )
        return adjacency.personalized_pagerank(reset, damping, tolerance=tolerance)
    rows, _ = read_rows("reset", reset)
    graph = PageRankGraph(adjacency, weights, nodes=rows.shape[1], directed=directed)
    return graph.personalized_pagerank(reset, damping, tolerance=tolerance)


def _graph(matrix: Matrix, directed: bool, colours: np.ndarray | None, device: torch.device) -> Graph:
    # only ratios of weights count, and float32 has a smaller range
    matrix = matrix._replace(weights=matrix.weights / matrix.weights.max(initial=1e-300))
    if matrix.weights.min(initial=1.0) < np.finfo(np.float32).tiny:
        raise InvalidInput(
            "weights", "weights more than 37 powers of ten apart", "a range that float32 has"
        )
    degree = np.bincount(matrix.rows, matrix.weights, matrix.nodes)
    flow = matrix.transposed() if directed else matrix
    if colours is None:
        colours = np.zeros(matrix.nodes, np.int8)
    sizes = np.bincount(colours, minlength=3)
    arrays = (
        flow.indptr, flow.indices, flow.weights.astype(np.float32), degree.astype(np.float32),
        np.argsort(colours, kind="stable").astype(np.int32), np.concatenate([[0], np.cumsum(sizes)]),
    )  # fmt: skip
    indptr, indices, weights, total, rows, ptr = (torch.from_numpy(one).to(device) for one in arrays)
    return Graph(Csr(indptr, indices, weights), total, rows, ptr, sound=True)


def _check(damping: float, tolerance: float) -> None:
    if not isinstance(damping, int | float) or not 0 <= damping < 1:
        raise InvalidInput("damping", repr(damping), "a number from 0 to below 1")
    if not isinstance(tolerance, int | float) or not 5e-7 <= tolerance <= 1:
        raise InvalidInput("tolerance", repr(tolerance), "a number from 5e-7 to 1")
