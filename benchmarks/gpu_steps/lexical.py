"""BM25, plain and of weighted terms: against float64, then times, beside torch's scatter."""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor

from benchmarks import model
from benchmarks.gpu_bench import Bench, differs
from benchmarks.gpu_graphs import even_tiles
from benchmarks.gpu_steps.workloads import Workloads
from zeromem_kernels.lexical import Ragged, bm25
from zeromem_kernels.tiles import Axis, Csr, torch_forms

QUERIES, WORDS_A_QUERY = 1024, 8
# documents, words, postings: HotpotQA's contexts, and toys
SIZE, TOY = (100_000, 60_000, 5_000_000), (70, 20, 300)


def run(bench: Bench, work: Workloads) -> None:
    """Both forms at one size."""
    documents, words, count = TOY if bench.dry else SIZE
    tiles = even_tiles(work.queries(QUERIES), work.width(32), bench.device)
    axis = tiles.axis(torch.tensor([0, documents], device=bench.device))
    postings = postings_of(documents, words, count, bench.device)
    for shared in (False, True):
        _bm25(bench, axis, postings, shared)


def postings_of(documents: int, words: int, count: int, device: torch.device) -> Csr:
    """Random postings, words by a Zipf law of exponent 1, each word a document at most once."""
    make = torch.Generator(device=device).manual_seed(21)
    word = torch.exp(
        torch.rand(count, generator=make, device=device) * torch.log(torch.tensor(float(words)))
    )
    word = (word.long() - 1).clamp(max=words - 1)
    document = torch.randint(documents, (count,), generator=make, device=device)
    pair = torch.unique(word * documents + document)
    indptr = torch.zeros(words + 1, dtype=torch.int64, device=device)
    torch.cumsum(torch.bincount(pair // documents, minlength=words), 0, out=indptr[1:])
    weights = torch.rand(len(pair), generator=make, device=device) * 8
    return Csr(indptr, (pair % documents).int(), weights)


def _bm25(bench: Bench, axis: Axis, postings: Csr, shared: bool) -> None:
    documents, words = int(axis.host_ptr[-1]), len(postings.indptr) - 1
    slots = len(axis.tiles) * axis.tiles.width
    make = torch.Generator(device=bench.device).manual_seed(22)
    asked = torch.randint(words, (slots * WORDS_A_QUERY,), generator=make, device=bench.device)
    ptr = torch.arange(slots + 1, device=bench.device) * WORDS_A_QUERY
    terms, term_ptr = Ragged(ptr, asked.int()), torch.tensor([0, words], device=bench.device)
    shares = torch.rand(len(asked), generator=make, device=bench.device)

    def call() -> Tensor:
        return bm25(postings, term_ptr, terms, axis, shares if shared else None)

    def fault(found: Tensor) -> str:
        exact = postings._replace(weights=postings.weights.double())
        begin, counts = exact.indptr[asked.long()], exact.indptr.diff()[asked.long()]
        which = torch.repeat_interleave(torch.arange(len(asked), device=bench.device), counts)
        place = (
            torch.arange(len(which), device=bench.device)
            - (counts.cumsum(0) - counts)[which]
            + begin[which]
        )
        slot = which // WORDS_A_QUERY
        row = exact.indices[place].long() + axis.starts[slot // axis.tiles.width]
        sums = torch.zeros(found.numel(), dtype=torch.float64, device=bench.device)
        added = exact.weights[place] * shares.double()[which] if shared else exact.weights[place]
        sums.index_add_(0, row * axis.tiles.width + slot % axis.tiles.width, added)
        return differs(found.double().view(-1), sums, 1e-5)

    name = f"bm25 {documents:,} documents {axis.tiles.width}x{len(axis.tiles)}{' with shares' * shared}"
    bench.check(name, call, fault)
    met = int(postings.indptr.diff()[asked.long()].sum())

    def scattered() -> Tensor:
        with torch_forms():
            return call()

    library = bench.library(f"{name}, torch", scattered)
    cost = model.bm25_tile(met, found_cells(axis))
    if bench.device.type != "cuda" or find_spec("cupy") is None:
        cost = model.bm25(met, len(asked), found_cells(axis), shared=shared)
    bench.time(name, call, cost=cost, library=library)


def found_cells(axis: Axis) -> int:
    """Scores of a dense result."""
    return axis.rows * axis.tiles.width
