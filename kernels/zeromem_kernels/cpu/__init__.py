"""Compiled CPU forms: numba kernels over a range of tiles, called through `tiles.run_tiles`.

They release the GIL and share no output between tiles. `fastmath` stays off: sums keep their order, so
that a query's scores do not depend on the queries beside it.
"""

from zeromem_kernels.cpu.activation import propagate
from zeromem_kernels.cpu.combine import plus_rows, reset_parts, unit_scores, weighted_sum
from zeromem_kernels.cpu.fit import temporal_fit, type_fit
from zeromem_kernels.cpu.gather import pieces
from zeromem_kernels.cpu.grouping import document_frequency, fill_postings, number_keys, stable_order
from zeromem_kernels.cpu.intervals import sum_cosines, sum_norms
from zeromem_kernels.cpu.layout import (
    fill_colours,
    fill_covering,
    fill_graph,
    fill_kept,
    fill_neighbours,
    fill_ranges,
    fill_spans,
    fill_transpose,
    order_sessions,
)
from zeromem_kernels.cpu.lexical import (
    bm25_scatter,
    bm25_topk,
    gather_rows,
    lookup,
    phrase_scatter,
    subject_scatter,
    weigh_terms,
)
from zeromem_kernels.cpu.pagerank import power_iteration, sor
from zeromem_kernels.cpu.select import (
    fuse,
    min_max,
    ordered_topk,
    reduce_amax,
    reduce_amin,
    reduce_sum,
    scale_to_max,
)
from zeromem_kernels.cpu.shared import shares_entity
from zeromem_kernels.cpu.sparse import spmax, spmm

__all__ = [
    "bm25_scatter",
    "bm25_topk",
    "document_frequency",
    "fill_colours",
    "fill_covering",
    "fill_graph",
    "fill_kept",
    "fill_neighbours",
    "fill_postings",
    "fill_ranges",
    "fill_spans",
    "fill_transpose",
    "fuse",
    "gather_rows",
    "lookup",
    "min_max",
    "number_keys",
    "order_sessions",
    "ordered_topk",
    "phrase_scatter",
    "pieces",
    "plus_rows",
    "power_iteration",
    "propagate",
    "reduce_amax",
    "reduce_amin",
    "reduce_sum",
    "reset_parts",
    "scale_to_max",
    "shares_entity",
    "sor",
    "spmax",
    "spmm",
    "stable_order",
    "subject_scatter",
    "sum_cosines",
    "sum_norms",
    "temporal_fit",
    "type_fit",
    "unit_scores",
    "weigh_terms",
    "weighted_sum",
]
