"""Sparse times tile: y[i] = Σ_j W[i, j] · x[j] inside each tile, and the same with max for Σ.

It carries sums over the members of a span, window or episode, both passes of activation, and power
iteration. The sum runs over a row's entries in their stored order, whatever the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zeromem_kernels.tiles import Axis, Csr, compiled, on_triton, run_tiles


def tile_spmm(csr: Csr, x: Tensor, source: Axis, target: Axis) -> Tensor:
    """y = W x per tile.

    Args:
        csr: W over the stack, rows on `target`, indices on `source`.
        x: float32 [source rows, width].
        source: the axis of x.
        target: the axis of the result.

    Returns:
        float32 [target rows, width]; a row without entries is 0.
    """
    if cpu := compiled(x):
        y = target.empty()
        for column, lanes in cpu.pieces(x.shape[1]):
            run_tiles(cpu.spmm, target.tiles, column, lanes, target.tiles.bank, csr.indptr, csr.indices,
                      csr.weights, target.ptr, target.starts, source.starts, x, y)  # fmt: skip
        return y
    if csr.slices is not None and csr.slices.colours == 1 and on_triton(x):
        from zeromem_kernels.gpu import activation

        summed: Tensor = activation.gather(csr.slices, x, source, target)
        return summed
    rows, columns, weights = target.lift(csr, source)
    return target.full(0.0).index_add_(0, rows, x[columns] * weights[:, None])


def tile_spmax(csr: Csr, x: Tensor, source: Axis, target: Axis) -> Tensor:
    """y[i] = max over the entries j of row i of x[j] (weights unused); −inf for a row without entries.

    Args:
        csr: the pattern over the stack, rows on `target`, indices on `source`.
        x: float32 [source rows, width].
        source: the axis of x.
        target: the axis of the result.

    Returns:
        float32 [target rows, width].
    """
    if cpu := compiled(x):
        y = target.empty()
        run_tiles(cpu.spmax, target.tiles, target.tiles.bank, csr.indptr, csr.indices,
                  target.ptr, target.starts, source.starts, x, y)  # fmt: skip
        return y
    rows, columns, _ = target.lift(csr, source)
    index = rows[:, None].expand(-1, x.shape[1])
    return target.full(-torch.inf).scatter_reduce_(0, index, x[columns], "amax")
