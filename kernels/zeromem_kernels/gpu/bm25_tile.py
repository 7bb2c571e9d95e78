"""BM25 with sums in shared memory: a kernel in CUDA C, since Triton has no atomics there.

A block owns some documents of one tile and up to 8 of its columns, with a share of its threads for each. Sums are whole numbers
under a power of two of the query's own, the largest that cannot overflow: additions are exact in any order,
so that a score has the same bits every time and beside any neighbours. It is off by half a unit of 2⁻²⁹ of the
query's highest possible score a term, less than a float32 sum. Terms may count in part (`shares`, not below 0). Nothing is read but the postings inside the
block's documents, which are found by bisection, and every line of the result is written once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zeromem_kernels.tiles import Axis, Csr
from zeromem_kernels.weights import term_peaks

_CELLS, _MOST_COLUMNS, THREADS = 8192, 8, 256

# COLUMNS and DOCUMENTS are defined by `options`
SOURCE = r"""
__device__ long long first_at_least(const int* documents, long long low, long long high, int wanted)
{
    while (low < high) {
        long long middle = (low + high) / 2;
        if (documents[middle] < wanted) low = middle + 1; else high = middle;
    }
    return low;
}

extern "C" __global__ void bm25_tile(
    const long long* bank, const long long* term_ptr, const long long* indptr, const int* documents,
    const float* weights, const float* peaks, const long long* query_ptr, const int* terms,
    const float* shares, const long long* starts, float* out, int width, int groups, int parts)
{
    __shared__ int sums[DOCUMENTS * COLUMNS];
    __shared__ float unit[COLUMNS];
    const int part = blockIdx.x % parts, group = blockIdx.x / parts % groups;
    const long long tile = blockIdx.x / parts / groups;
    const long long base = starts[tile];
    const int rows = (int)(starts[tile + 1] - base), first = part * DOCUMENTS;
    if (first >= rows) return;
    const int last = first + DOCUMENTS < rows ? first + DOCUMENTS : rows;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    for (int i = thread; i < DOCUMENTS * COLUMNS; i += threads) sums[i] = 0;
    __syncthreads();
    const long long term0 = term_ptr[bank[tile]];
    for (int c = threadIdx.y; c < COLUMNS; c += blockDim.y) {
        const int column = group * COLUMNS + c;
        if (column >= width) break;
        const long long slot = tile * width + column;
        float highest = 0.0f;
        for (long long q = query_ptr[slot]; q < query_ptr[slot + 1]; q++)
            if (terms[q] >= 0) highest += (shares ? shares[q] : 1.0f) * peaks[term0 + terms[q]];
        // highest < 2^(ilogb + 1), so that sums stay below 2^30 and their rounding below 2^31; a scale beyond
        // 2^120 would overflow, and serves scores below 2^-90
        int exponent = highest > 0.0f ? 29 - ilogbf(highest) : 0;
        exponent = exponent < 120 ? exponent : 120;
        const float scale = ldexpf(1.0f, exponent);
        if (threadIdx.x == 0) unit[c] = ldexpf(1.0f, -exponent);
        for (long long q = query_ptr[slot]; q < query_ptr[slot + 1]; q++) {
            if (terms[q] < 0) continue;
            const long long row = term0 + terms[q], end = indptr[row + 1];
            const float share = shares ? shares[q] : 1.0f;
            long long p = first_at_least(documents, indptr[row], end, first) + threadIdx.x;
            for (; p < end && documents[p] < last; p += blockDim.x)
                atomicAdd(&sums[(documents[p] - first) * COLUMNS + c], __float2int_rn(share * weights[p] * scale));
        }
    }
    __syncthreads();
    for (int i = thread; i < (last - first) * COLUMNS; i += threads) {
        const int column = group * COLUMNS + i % COLUMNS;
        if (column < width)
            out[(base + first + i / COLUMNS) * width + column] = (float)sums[i] * unit[i % COLUMNS];
    }
}
"""


def columns_of(width: int) -> int:
    """The columns that a block takes of a tile: up to 8, which fill a 32-byte sector of the result."""
    return min(_MOST_COLUMNS, 1 << max(width - 1, 0).bit_length())


def options(columns: int) -> tuple[str, ...]:
    """What the source is compiled with: 32 KB of sums, so that three blocks share the least of the cards."""
    return (f"-DCOLUMNS={columns}", f"-DDOCUMENTS={_CELLS // columns}", "--std=c++14")


@lru_cache
def _kernel(columns: int) -> Any:
    import cupy

    return cupy.RawKernel(SOURCE, "bm25_tile", options=options(columns))


def bm25(
    postings: Csr, term_ptr: Tensor, ptr: Tensor, terms: Tensor, axis: Axis, shares: Tensor | None = None
) -> Tensor:
    """Float32 [rows, width], as `zeromem_kernels.lexical.bm25` says; `ptr` and `terms` are its ragged terms.

    Documents are ascending in each term's row. The sum of a query's highest weights must be finite, shares at
    least 0.
    """
    out = axis.empty()
    if axis.rows == 0:
        return out
    import cupy

    width = axis.tiles.width
    columns = columns_of(width)
    groups, parts = -(-width // columns), -(-axis.tallest // (_CELLS // columns))
    tensors = (
        axis.tiles.bank, term_ptr, postings.indptr, postings.indices, postings.weights, term_peaks(postings),
        ptr, terms, shares, axis.starts, out,
    )  # fmt: skip
    # the addresses are torch's, and so are the device and the stream; no shares are address 0
    addresses = [np.uint64(0 if one is None else one.data_ptr()) for one in tensors]
    stream = torch.cuda.current_stream(out.device)
    with cupy.cuda.Device(out.device.index), cupy.cuda.ExternalStream(stream.cuda_stream):
        _kernel(columns)(
            (len(axis.tiles) * groups * parts,), (THREADS // columns, columns),
            (*addresses, np.int32(width), np.int32(groups), np.int32(parts)),
        )  # fmt: skip
    return out
