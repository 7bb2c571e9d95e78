"""A stand-in for cuVS's brute force that takes only what the real one documents, and answers after a sync.

What it refuses is what cuVS 26.10 refuses (`cuvs.neighbors.brute_force`, `cuvs.neighbors.filters`,
`cuvs.common.Resources`); it computes on the CPU, and gives equals back in no helpful order.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor

STREAM = 77
METRICS = {"sqeuclidean", "euclidean", "inner_product", "cosine"}
# what takes part of a filter of the documented kind
_FILTERED = {"inner_product", "sqeuclidean", "euclidean", "cosine"}


class Resources:
    """Work on a stream: done when it is waited for."""

    def __init__(self, stream: int | None = None) -> None:
        assert stream == STREAM, "work belongs on torch's current stream"
        self.pending: list[Callable[[], None]] = []

    def get_c_obj(self) -> int:
        return 1

    def sync(self) -> None:
        for work in self.pending:
            work()
        self.pending.clear()


class Index:
    def __init__(self, dataset: Tensor, metric: str) -> None:
        self.dataset, self.metric = dataset, metric


class Prefilter:
    def __init__(self, bits: Tensor) -> None:
        self.bits = bits


def build(
    dataset: Tensor,
    metric: str = "sqeuclidean",
    metric_arg: float = 2.0,
    resources: Resources | None = None,
) -> Index:
    assert resources is not None, "without resources it would not be torch's stream"
    assert dataset.ndim == 2
    assert dataset.dtype in (torch.float32, torch.float16)
    assert dataset.is_contiguous()
    if metric not in METRICS:
        raise KeyError(metric)
    return Index(dataset, metric)


def from_bitset(bitset: Tensor) -> Prefilter:
    if bitset.dtype != torch.uint32:
        raise TypeError(f"dtype {bitset.dtype} not supported")
    if not bitset.is_contiguous():
        raise ValueError("Row major input is expected")
    assert bitset.ndim == 1
    return Prefilter(bitset)


def search(
    index: Index,
    queries: Tensor,
    k: int,
    neighbors: Tensor | None = None,
    distances: Tensor | None = None,
    resources: Resources | None = None,
    prefilter: Prefilter | None = None,
) -> tuple[Tensor, Tensor]:
    assert resources is not None
    assert neighbors is not None
    assert distances is not None
    assert isinstance(k, int)
    rows, dim = index.dataset.shape
    if queries.dtype != index.dataset.dtype:
        raise RuntimeError("type mismatch between index and queries")
    assert queries.is_contiguous()
    assert queries.shape[1] == dim
    assert (neighbors.dtype, tuple(neighbors.shape)) == (torch.int64, (len(queries), k))
    assert (distances.dtype, tuple(distances.shape)) == (torch.float32, (len(queries), k))
    shown = torch.ones(rows, dtype=torch.bool)
    if prefilter is not None:
        assert index.metric in _FILTERED
        # bits beyond the last row may be anything, missing ones may not
        assert len(prefilter.bits) == -(-rows // 32)
        words = prefilter.bits.view(torch.int32).long()
        at = torch.arange(rows)
        shown = (words[at // 32] >> (at % 32)) & 1 == 1
    assert 0 < k <= int(shown.sum()), "cuVS leaves what it does not find unwritten"
    assert index.metric == "inner_product", "its other metrics are distances"

    def work() -> None:
        scores = queries.float() @ index.dataset.float().T
        scores[:, ~shown] = torch.finfo(torch.float32).min
        # later rows first among equals: whoever needs the earliest has to look for it
        best = scores.flip(1).topk(k, dim=1, sorted=False)
        neighbors.copy_(rows - 1 - best.indices)
        distances.copy_(best.values)

    resources.pending.append(work)
    return distances, neighbors


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `import cuvs` find the stand-in, and torch have a current stream."""
    import sys
    from contextlib import nullcontext
    from types import SimpleNamespace

    from zeromem_kernels import brute_force

    modules = {name: ModuleType(name) for name in ("cuvs", "cuvs.common", "cuvs.neighbors")}
    modules["cuvs.common"].Resources = Resources  # type: ignore[attr-defined]
    neighbors = modules["cuvs.neighbors"]
    neighbors.brute_force = SimpleNamespace(build=build, search=search)  # type: ignore[attr-defined]
    neighbors.filters = SimpleNamespace(from_bitset=from_bitset)  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=STREAM))
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    brute_force.library.cache_clear()
