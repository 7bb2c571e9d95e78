"""BM25 over tiles on a card (formula in `lexical.py`): in shared memory where CuPy is there, else in Triton."""

from __future__ import annotations

from importlib.util import find_spec

import triton
import triton.language as tl
from torch import Tensor

from zeromem_kernels.gpu.launch import check_size, launch
from zeromem_kernels.tiles import Axis, Csr

_POSTINGS = 256


@triton.jit
def _scatter(
    bank, term_ptr, indptr, documents, weights, query_ptr, terms, shares, starts, out,
    WIDTH: tl.constexpr, POSTINGS: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """One query: its terms one after the other, so that a document's sum has the order of the terms.

    SHARED says whether each term's weights count only in part; else `shares` is not read.
    """
    i_slot = tl.program_id(0)
    i_tile, i_w = i_slot // WIDTH, i_slot % WIDTH
    i_term = tl.load(term_ptr + tl.load(bank + i_tile))
    p_out = out + tl.load(starts + i_tile) * WIDTH + i_w
    i_end = tl.load(query_ptr + i_slot + 1)
    for i_q in range(tl.load(query_ptr + i_slot), i_end):
        i_local = tl.load(terms + i_q)
        if i_local >= 0:
            p_row = indptr + i_term + i_local
            o_end = tl.load(p_row + 1)
            i_share = 1.0
            if SHARED:
                i_share = tl.load(shares + i_q)
            for o_first in range(tl.load(p_row), o_end, POSTINGS):
                o_p = o_first + tl.arange(0, POSTINGS)
                m_p = o_p < o_end
                # a term names a document once, so no two lanes meet
                p_sum = p_out + tl.load(documents + o_p, mask=m_p, other=0) * WIDTH
                b_sum = tl.load(p_sum, mask=m_p, other=0.0)
                b_weight = tl.load(weights + o_p, mask=m_p, other=0.0)
                if SHARED:
                    b_weight *= i_share
                tl.store(p_sum, b_sum + b_weight, mask=m_p)
            # another thread of the program may add the next term to the same document
            tl.debug_barrier()


def bm25(
    postings: Csr, term_ptr: Tensor, ptr: Tensor, terms: Tensor, axis: Axis, shares: Tensor | None = None
) -> Tensor:
    """Float32 [rows, width], as `zeromem_kernels.lexical.bm25` says; `ptr` and `terms` are its ragged terms."""
    check_size(axis)
    if postings.weights.is_cuda and find_spec("cupy") is not None:
        from zeromem_kernels.gpu import bm25_tile

        return bm25_tile.bm25(postings, term_ptr, ptr, terms, axis, shares)
    out = axis.full(0.0)
    # shares and sums are rounded one by one, as the compiled form does
    launch(_scatter, len(axis.tiles) * axis.tiles.width, axis.tiles.bank, term_ptr, postings.indptr,
           postings.indices, postings.weights, ptr, terms, postings.weights if shares is None else shares,
           axis.starts, out, WIDTH=axis.tiles.width, POSTINGS=_POSTINGS, SHARED=shares is not None,
           num_warps=4, enable_fp_fusion=False)  # fmt: skip
    return out
