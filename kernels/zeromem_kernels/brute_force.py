"""The most similar vector in one large bank by cuVS's brute force, without a table of queries × vectors.

cuVS is imported when a bank is large enough for it. Its memory is its own, beside torch's.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

# from so many vectors on; unmeasured until a card has run benchmarks/gpu.py. cuVS is said to be slower than
# a product for few queries, while a product's tables take 9 bytes a query and vector
CUVS_ROWS = 1 << 20
# the best are asked for so many, as cuVS gives equals in any order
_EQUALS = 8


class _Library(NamedTuple):
    """The parts of cuVS that are used."""

    resources: Any
    search: Any
    filters: Any


@lru_cache(maxsize=1)
def library() -> _Library | None:
    """What is used of cuVS; None where it does not import."""
    try:
        from cuvs.common import Resources
        from cuvs.neighbors import brute_force, filters
    except ImportError as error:
        # that it is not installed is said where a device is chosen; here, that it does not work
        if find_spec("cuvs") is not None:
            logger.warning(
                "cuvs is installed but does not import (%s): matrix products serve. "
                "pip install 'zeromem-gpu[cuda]' (said once)", error,
            )  # fmt: skip
        return None
    return _Library(Resources, brute_force, filters)


def serves(stored: Tensor) -> bool:
    """Whether cuVS searches these vectors: on CUDA, many enough, and it is there."""
    return stored.is_cuda and len(stored) >= CUVS_ROWS and library() is not None


def nearest(stored: Tensor, rows: Tensor | None, queries: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The most similar vector of each query.

    Args:
        stored: float32 or float16 [n, D], contiguous.
        rows: int64 [m], the vectors that count, in the order of their rows; None is all in their own.
        queries: float32 [q, D].

    Returns:
        Cosines float32 [q], the first of the best rows that cuVS gave int32 [q], and bool [q]: there may be
        more of the best, and an earlier one among them.
    """
    cuvs = library()
    if cuvs is None:
        raise RuntimeError("cuvs does not import: `serves` has to be asked first")
    kept, device = len(stored) if rows is None else len(rows), stored.device
    k = min(_EQUALS, kept)
    queries = queries.to(stored.dtype).contiguous()
    found = torch.empty((len(queries), k), dtype=torch.int64, device=device)
    cosines = torch.empty((len(queries), k), device=device)
    with torch.cuda.device(device):
        resources = cuvs.resources(stream=torch.cuda.current_stream(device).cuda_stream)
        index = cuvs.search.build(stored, metric="inner_product", resources=resources)
        wanted = None if rows is None else cuvs.filters.from_bitset(_bits(rows, len(stored)))
        cuvs.search.search(
            index, queries, k, neighbors=found, distances=cosines, resources=resources, prefilter=wanted
        )
        # what it works with must not end before it does
        resources.sync()
    best = cosines.amax(1, keepdim=True)
    equal = cosines == best
    if rows is not None:
        place = torch.zeros(len(stored), dtype=torch.int64, device=device)
        place[rows] = torch.arange(kept, device=device)
        found = place[found]
    first = torch.where(equal, found, kept).amin(1)
    return best[:, 0], first.int(), equal.all(1) & (k < kept)


def _bits(rows: Tensor, count: int) -> Tensor:
    """Bit r % 32 of word r // 32 is 1 for the rows given, uint32 [⌈count/32⌉]."""
    shown = torch.zeros((-(-count // 32), 32), dtype=torch.int64, device=rows.device)
    shown.view(-1)[rows] = 1
    # the 32nd bit is an int32's sign
    return (shown << torch.arange(32, device=rows.device)).sum(1).to(torch.int32).view(torch.uint32)
