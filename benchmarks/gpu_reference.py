"""What results are checked against: the formulas in float64, edge by edge, on the device of the data."""

from __future__ import annotations

import torch
from torch import Tensor

from zeromem_kernels.pagerank import Graph
from zeromem_kernels.tiles import Axis, Csr

# 2 · 0.6^51 is 1e-11
_ITERATIONS = 50


def pagerank(graph: Graph, reset: Tensor, axis: Axis, gamma: float) -> Tensor:
    """π by power iteration, float64 [rows, width]."""
    rows, columns, weights = axis.lift(graph.weights, axis)
    degree = graph.degree[axis.stacked_row].double()
    inverse = torch.where(degree > 0, 1.0 / degree, 0.0)[:, None]
    weights = weights.double()[:, None]
    base = (1.0 - gamma) * reset.double()
    x = reset.double()
    for _ in range(_ITERATIONS):
        flow = torch.zeros_like(x).index_add_(0, rows, (x * inverse)[columns] * weights)
        x = base + gamma * flow
    return x / tile_sums(x, axis).clamp_(min=1e-300)[axis.tile_of_row]


def tile_sums(x: Tensor, axis: Axis) -> Tensor:
    """Σ over each tile's rows, float64 [T, width]."""
    total = torch.zeros((len(axis.tiles), x.shape[1]), dtype=torch.float64, device=x.device)
    return total.index_add_(0, axis.tile_of_row, x.double())


def l1_error(pi: Tensor, expected: Tensor, axis: Axis) -> float:
    """The largest ‖π − expected‖₁ of a column; NaN where π holds one."""
    return float(tile_sums((pi.double() - expected).abs(), axis).max())


def propagate(
    seeds: Tensor,
    similarity: Tensor,
    incidence: Csr,
    transposed: Csr,
    sentences: Axis,
    entities: Axis,
    steps: int,
) -> Tensor:
    """Σ_t η_t of the literal form, each step divided by its maximum, float64 [entity rows, width]."""
    there, back = sentences.lift(incidence, entities), entities.lift(transposed, sentences)
    gate = similarity.double().clamp(min=0.0)
    total = eta = seeds.double()
    for _ in range(steps):
        spread = gate * _spmm(there, eta, sentences)
        found = _spmm(back, spread, entities)
        index = entities.tile_of_row[:, None].expand_as(found)
        top = torch.zeros((len(entities.tiles), found.shape[1]), dtype=torch.float64, device=found.device)
        top.scatter_reduce_(0, index, found, "amax")
        eta = found * torch.where(top > 0, 1.0 / top, 0.0)[entities.tile_of_row]
        total = total + eta
    return total


def _spmm(edges: tuple[Tensor, Tensor, Tensor], x: Tensor, target: Axis) -> Tensor:
    rows, columns, weights = edges
    out = torch.zeros((target.rows, x.shape[1]), dtype=torch.float64, device=x.device)
    return out.index_add_(0, rows, x[columns] * weights.double()[:, None])


def transition(graph: Graph, gamma: float, dtype: torch.dtype) -> Tensor:
    """γ Pᵀ of a graph of one bank as torch's CSR, what libraries multiply with."""
    w = graph.weights
    degree = graph.degree.double()
    values = gamma * w.weights.double() / degree[w.indices.long()]
    nodes = len(graph.degree)
    return torch.sparse_csr_tensor(w.indptr.int(), w.indices, values.to(dtype), (nodes, nodes))
