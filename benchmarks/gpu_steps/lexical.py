"""BM25 and similarities: against float64, then times, beside torch's scatter and a product a tile."""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor

from benchmarks import model
from benchmarks.gpu_bench import Bench, differs
from benchmarks.gpu_graphs import even_tiles
from benchmarks.gpu_steps.workloads import Workloads
from benchmarks.model import Cost
from zeromem_kernels.lexical import Ragged, bm25
from zeromem_kernels.similarity import Placed, similarities
from zeromem_kernels.tiles import Axis, Csr, torch_forms

QUERIES, WORDS_A_QUERY, DIM = 1024, 8, 1024
# documents, words, postings: HotpotQA's contexts, and toys
SIZE, TOY = (100_000, 60_000, 5_000_000), (70, 20, 300)


def run(bench: Bench, work: Workloads) -> None:
    """Both operations at one size."""
    documents, words, count = TOY if bench.dry else SIZE
    tiles = even_tiles(work.queries(QUERIES), work.width(32), bench.device)
    axis = tiles.axis(torch.tensor([0, documents], device=bench.device))
    _bm25(bench, axis, words, count)
    _similarity(bench, axis, 16 if bench.dry else DIM)


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


def _bm25(bench: Bench, axis: Axis, words: int, count: int) -> None:
    documents = int(axis.host_ptr[-1])
    postings = postings_of(documents, words, count, bench.device)
    slots = len(axis.tiles) * axis.tiles.width
    make = torch.Generator(device=bench.device).manual_seed(22)
    asked = torch.randint(words, (slots * WORDS_A_QUERY,), generator=make, device=bench.device)
    ptr = torch.arange(slots + 1, device=bench.device) * WORDS_A_QUERY
    terms, term_ptr = Ragged(ptr, asked.int()), torch.tensor([0, words], device=bench.device)

    def call() -> Tensor:
        return bm25(postings, term_ptr, terms, axis)

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
        sums.index_add_(0, row * axis.tiles.width + slot % axis.tiles.width, exact.weights[place])
        return differs(found.double().view(-1), sums, 1e-5)

    name = f"bm25 {documents:,} documents {axis.tiles.width}x{len(axis.tiles)}"
    bench.check(name, call, fault)
    met = int(postings.indptr.diff()[asked.long()].sum())

    def scattered() -> Tensor:
        with torch_forms():
            return call()

    library = bench.library(f"{name}, torch", scattered)
    cost = model.bm25_tile(met, found_cells(axis))
    if bench.device.type != "cuda" or find_spec("cupy") is None:
        cost = model.bm25(met, len(asked), found_cells(axis))
    bench.time(name, call, cost=cost, library=library)


def _similarity(bench: Bench, axis: Axis, dim: int) -> None:
    make = torch.Generator(device=bench.device).manual_seed(23)
    documents, count, width = int(axis.host_ptr[-1]), len(axis.tiles), axis.tiles.width

    def unit(shape: tuple[int, ...], along: int) -> Tensor:
        return torch.nn.functional.normalize(
            torch.randn(shape, generator=make, device=bench.device), dim=along
        )

    stored, asked = unit((documents, dim), 1), unit((count, dim, width), 1)

    def call() -> Tensor:
        return similarities([Placed(stored)], asked, axis)

    def alone() -> list[Tensor]:
        return [torch.mm(stored, one) for one in asked]

    def fault(found: Tensor) -> str:
        # a few rows of every tile in float64
        rows = torch.arange(0, documents, max(documents // 50, 1), device=bench.device)
        expected = stored[rows].double() @ asked.double()
        return differs(found.view(count, documents, width)[:, rows].double(), expected, 1e-4)

    name = f"similarity {documents:,}x{dim} {width}x{count}"
    bench.check(name, call, fault)
    library = bench.library(f"{name}, a product a tile", alone)
    cells = found_cells(axis)
    moved = 4 * (documents * dim + asked.numel() + cells)
    bench.time(name, call, cost=Cost(moved, moved, 2 * cells * dim), library=library)


def found_cells(axis: Axis) -> int:
    """Scores of a dense result."""
    return axis.rows * axis.tiles.width
