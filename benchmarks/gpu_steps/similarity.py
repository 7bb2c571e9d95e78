"""Similarities in float32 and float16, and the most similar entity by products and by cuVS."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from benchmarks.gpu_bench import Bench, differs
from benchmarks.gpu_graphs import even_tiles
from benchmarks.gpu_steps.lexical import QUERIES, found_cells
from benchmarks.gpu_steps.workloads import Workloads
from benchmarks.model import Cost
from zeromem_kernels import brute_force
from zeromem_kernels.similarity import HALF_ERROR, Placed, by_cuvs, by_products, similarities
from zeromem_kernels.tiles import Axis

DOCUMENTS, DIM = 100_000, 1024
# where cuVS overtakes products sets brute_force.CUVS_ROWS
ENTITIES, NAMES, ENTITY_DIM = (1 << 16, 1 << 18, 1 << 20), 256, 1024


def run(bench: Bench, work: Workloads) -> None:
    """All tiles of one bank, then a batch of names in banks of growing size."""
    tiles = even_tiles(work.queries(QUERIES), work.width(32), bench.device)
    axis = tiles.axis(torch.tensor([0, 70 if bench.dry else DOCUMENTS], device=bench.device))
    similarity(bench, axis, 16 if bench.dry else DIM)
    for entities in (90,) if bench.dry else ENTITIES:
        nearest(bench, entities, 4 if bench.dry else NAMES, 16 if bench.dry else ENTITY_DIM)


def unit(make: torch.Generator, shape: tuple[int, ...], along: int) -> Tensor:
    """Random vectors of length 1."""
    random = torch.randn(shape, generator=make, device=make.device)
    return torch.nn.functional.normalize(random, dim=along)


def similarity(bench: Bench, axis: Axis, dim: int) -> None:
    """Both storages against float64, float16 beside float32."""
    make = torch.Generator(device=bench.device).manual_seed(23)
    documents, count, width = int(axis.host_ptr[-1]), len(axis.tiles), axis.tiles.width
    stored, asked = unit(make, (documents, dim), 1), unit(make, (count, dim, width), 1)
    half = stored.half()

    def fault(found: Tensor, allowed: float) -> str:
        # a few rows of every tile in float64
        rows = torch.arange(0, documents, max(documents // 50, 1), device=bench.device)
        expected = stored[rows].double() @ asked.double()
        return differs(found.view(count, documents, width)[:, rows].double(), expected, allowed)

    name, cells = f"similarity {documents:,}x{dim} {width}x{count}", found_cells(axis)
    library = bench.library(f"{name}, a product a tile", lambda: [torch.mm(stored, one) for one in asked])
    for kind, vectors, allowed in (("float32", stored, 1e-4), ("float16", half, HALF_ERROR)):
        moved = vectors.nbytes + asked.numel() * vectors.element_size() + 4 * cells

        def call(vectors: Tensor = vectors) -> Tensor:
            return similarities([Placed(vectors)], asked, axis)

        bench.check(f"{name} {kind}", call, lambda found, allowed=allowed: fault(found, allowed))
        bench.time(f"{name} {kind}", call, cost=Cost(moved, moved, 2 * cells * dim), library=library)


def nearest(bench: Bench, entities: int, names: int, dim: int) -> None:
    """The most similar of a bank's vectors: what products find, cuVS finds, and how long both take."""
    make = torch.Generator(device=bench.device).manual_seed(24)
    stored, asked = unit(make, (entities, dim), 1), unit(make, (names, dim), 1)
    # a tenth is gone: a bitset names the others
    rows = torch.randperm(entities, generator=make, device=bench.device)[: entities - entities // 10]
    vectors = Placed(stored, rows)

    def fault(found: tuple[Tensor, Tensor]) -> str:
        cosines, row = found
        exact = (stored[rows[row.long()]].double() * asked.double()).sum(1)
        best = (asked @ stored[rows].T).amax(1).double()
        return differs(cosines.double(), exact, 1e-5) or differs(exact, best, 1e-5)

    name = f"nearest of {entities:,}x{dim}, {names} names"
    forms = {"products": by_products}
    if bench.device.type == "cuda" and brute_force.library() is not None:
        forms["cuVS"] = by_cuvs
    else:
        bench.note(f"{name}, cuVS", left_out="not installed, or a dry run")
    moved, first = stored.nbytes + asked.nbytes, None
    for form, search in forms.items():
        call = partial(search, vectors, asked)
        bench.check(f"{name}, {form}", call, fault)
        cost = Cost(moved, moved, 2 * entities * names * dim)
        median = bench.time(f"{name}, {form}", call, cost=cost, library=first)
        first = first or median
