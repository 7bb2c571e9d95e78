"""Adjacency in the forms that people have it in, as one CSR matrix of float64 weights in NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zeromem_gpu import InvalidInput

_FORMS = "a SciPy or torch sparse matrix [n, n], or edges: int [m, 2], or (sources, targets)"


class Matrix(NamedTuple):
    """Row i holds `weights[indptr[i]:indptr[i+1]]` (float64, above 0) at columns `indices` (int32)."""

    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray

    @property
    def nodes(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1

    @property
    def rows(self) -> np.ndarray:
        """The row of each entry, int64."""
        return np.repeat(np.arange(self.nodes), np.diff(self.indptr))

    def transposed(self) -> Matrix:
        """Columns as rows."""
        return from_triples(self.indices, self.rows, self.weights, self.nodes)

    def symmetric(self) -> bool:
        """Whether the weight from i to j is that from j to i, up to rounding of float64 sums."""
        other = self.transposed()
        if not np.array_equal(self.indptr, other.indptr) or not np.array_equal(self.indices, other.indices):
            return False
        return bool(np.allclose(self.weights, other.weights, rtol=1e-9, atol=0.0))


def from_triples(row: np.ndarray, column: np.ndarray, weight: np.ndarray, nodes: int) -> Matrix:
    """The matrix of (row, column, weight) triples; weights of one place add up, zeros go."""
    key = row.astype(np.int64) * nodes + column
    order = np.argsort(key, kind="stable")
    key, weight = key[order], weight[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    total = np.add.reduceat(weight, first) if len(first) else weight
    kept = total > 0
    key, total = key[first][kept], total[kept]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(key // max(nodes, 1), minlength=nodes))])
    return Matrix(indptr.astype(np.int64), (key % max(nodes, 1)).astype(np.int32), total)


def read_adjacency(adjacency: Any, weights: Any, nodes: int | None, directed: bool) -> Matrix:
    """Read what a caller has; undirected edges count both ways, an edge to itself twice, as in igraph.

    A matrix of an undirected graph must be symmetric; its diagonal counts as it stands.
    """
    if hasattr(adjacency, "tocsr") or _is_sparse_tensor(adjacency):
        if weights is not None:
            raise InvalidInput("weights", "it beside a matrix", "None: a matrix has its weights")
        matrix = _from_matrix(adjacency)
        if nodes is not None and nodes != matrix.nodes:
            raise InvalidInput("adjacency", f"{matrix.nodes} nodes", f"{nodes}, as many as the reset has")
        if not directed and not matrix.symmetric():
            raise InvalidInput(
                "adjacency", "a matrix that is not symmetric", "a symmetric one for directed=False",
                "Give directed=True, or adjacency + adjacency.T.",
            )  # fmt: skip
        return matrix
    source, target = _pairs(adjacency)
    if nodes is None:
        raise InvalidInput("nodes", "None", "the number of nodes, which edges alone do not tell")
    if not isinstance(nodes, int | np.integer) or nodes < 0:
        raise InvalidInput("nodes", repr(nodes), "a whole number from 0")
    weight = np.ones(len(source)) if weights is None else _numbers("weights", weights)
    if weight.shape != source.shape:
        raise InvalidInput("weights", f"shape {list(weight.shape)}", f"[{len(source)}], one an edge")
    if len(source) and (min(source.min(), target.min()) < 0 or max(source.max(), target.max()) >= nodes):
        lowest, highest = min(source.min(), target.min()), max(source.max(), target.max())
        raise InvalidInput("edges", f"node numbers {lowest} … {highest}", f"0 … {nodes - 1}")
    _not_negative("weights", weight)
    if not directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
        weight = np.concatenate([weight, weight])
    return from_triples(source, target, weight, nodes)


def _is_sparse_tensor(value: Any) -> bool:
    return hasattr(value, "to_sparse_csr") and "sparse" in str(value.layout)


def _from_matrix(matrix: Any) -> Matrix:
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidInput("adjacency", f"shape {list(matrix.shape)}", _FORMS)
    if hasattr(matrix, "tocsr"):
        csr = matrix.tocsr()
        indptr, indices, values = csr.indptr, csr.indices, csr.data
    else:
        csr = matrix.detach().cpu().to_sparse_csr()
        indptr, indices, values = (
            part.numpy() for part in (csr.crow_indices(), csr.col_indices(), csr.values())
        )
    weight = _numbers("adjacency", values)
    _not_negative("adjacency", weight)
    nodes = int(matrix.shape[0])
    row = np.repeat(np.arange(nodes), np.diff(indptr))
    return from_triples(row, np.asarray(indices, np.int64), weight, nodes)


def _pairs(edges: Any) -> tuple[np.ndarray, np.ndarray]:
    """Source and target of edges [m, 2], or of a tuple of two arrays [m]."""
    if isinstance(edges, tuple) and [type(one) for one in edges] == [tuple, tuple] and len(edges[0]) == 2:
        raise InvalidInput(
            "adjacency", "two tuples of two nodes, which may be edges or sources and targets",
            "a list of edges, or a tuple of two arrays",
        )  # fmt: skip
    try:
        parts = edges if isinstance(edges, tuple) and len(edges) == 2 else None
        found = np.asarray(edges if parts is None else np.stack([np.asarray(one) for one in parts], 1))
    except (TypeError, ValueError) as error:
        raise InvalidInput("adjacency", type(edges).__name__, _FORMS) from error
    if found.size == 0:
        found = found.reshape(0, 2).astype(np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or not np.issubdtype(found.dtype, np.integer):
        got = f"{found.dtype} {list(found.shape)}"
        raise InvalidInput("adjacency", got, _FORMS, "A dense matrix goes through scipy.sparse.csr_array.")
    return found[:, 0].astype(np.int64), found[:, 1].astype(np.int64)


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(name, type(values).__name__, "numbers") from error


def _not_negative(name: str, weight: np.ndarray) -> None:
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise InvalidInput(name, "a negative, infinite or NaN weight", "finite weights from 0")
