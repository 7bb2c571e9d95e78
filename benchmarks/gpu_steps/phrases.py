"""Phrases and subjects: held to the torch forms, then times beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks import model
from benchmarks.gpu_bench import Bench, differs
from benchmarks.gpu_graphs import even_tiles
from benchmarks.gpu_steps.lexical import QUERIES, found_cells
from benchmarks.gpu_steps.workloads import Workloads
from benchmarks.model import Cost
from zeromem_kernels.lexical import Phrases, Ragged, Stream, phrase_support, subject_support
from zeromem_kernels.tiles import Csr, Tiles, torch_forms
from zeromem_kernels.weights import Places

PHRASE, SUBJECTS = 3, 2


class Size(NamedTuple):
    """A bank of units of so many words each, and the words that there are."""

    units: int
    length: int
    words: int


# HotpotQA's contexts, and a toy
SIZE, TOY = Size(100_000, 60, 60_000), Size(70, 5, 20)


def run(bench: Bench, work: Workloads) -> None:
    """One phrase and two subjects a question."""
    tiles = even_tiles(work.queries(QUERIES), work.width(32), bench.device)
    phrases(bench, tiles, TOY if bench.dry else SIZE)
    subjects(bench, work, tiles)


def stream_of(size: Size, device: torch.device) -> Stream:
    """Words by a Zipf law of exponent 1; a separator behind each unit."""
    make = torch.Generator(device=device).manual_seed(25)
    drawn = torch.rand((size.units, size.length), generator=make, device=device)
    words = ((drawn * torch.log(torch.tensor(float(size.words)))).exp().long() - 1).clamp(
        max=size.words - 1
    )
    words[:, -1] = -1
    words = words.reshape(-1)
    unit = torch.arange(len(words), device=device) // size.length
    place = torch.nonzero(words >= 0).flatten()
    order = torch.sort(words[place], stable=True).indices
    indptr = torch.zeros(size.words + 1, dtype=torch.int64, device=device)
    torch.cumsum(torch.bincount(words[place], minlength=size.words), 0, out=indptr[1:])
    stands = place[order].int()
    bounds = [torch.tensor([0, n], device=device) for n in (len(words), size.words, size.units)]
    rows = Places(bounds[2], torch.arange(size.units, dtype=torch.int32, device=device))
    return Stream(
        words.int(),
        unit.int(),
        *bounds[:2],
        Csr(indptr, stands, torch.ones(len(stands), device=device)),
        rows,
    )


def phrases(bench: Bench, tiles: Tiles, size: Size) -> None:
    """Three words that some unit says, for every question."""
    stream, device = stream_of(size, bench.device), bench.device
    axis, slots = tiles.axis(stream.rows.ptr), len(tiles) * tiles.width
    make = torch.Generator(device=device).manual_seed(26)
    begin = torch.randint(size.units, (slots,), generator=make, device=device) * size.length
    words = stream.words[begin[:, None] + torch.arange(PHRASE, device=device)]
    ptr = torch.arange(slots + 1, device=device)
    asked = Phrases(ptr, ptr * PHRASE, words.reshape(-1).contiguous())
    places = stream.occurrences.indptr.diff()[words.long()].amin(1)
    met = int(places.sum())
    compare(
        bench,
        f"phrases {size.units:,} units {tiles.width}x{len(tiles)}",
        lambda: phrase_support(stream, asked, axis),
        model.phrases(PHRASE * slots, met, PHRASE * met, found_cells(axis)),
    )


def subjects(bench: Bench, work: Workloads, tiles: Tiles) -> None:
    """Entities as popular as a context's; every second unit has a speaker."""
    bank, device = work.hotpotqa, bench.device
    units, nodes = bank.ptr["units"], bank.ptr["nodes"]
    axis, slots = bank.axis("units", tiles), len(tiles) * tiles.width
    make = torch.Generator(device=device).manual_seed(27)
    count = int(units[-1])
    inside = bank.graph.weights.indices[bank.graph.weights.indices >= count] - count
    drawn = torch.randint(len(inside), (slots * SUBJECTS + count,), generator=make, device=device)
    names, speaker = inside[drawn[: slots * SUBJECTS]], inside[drawn[slots * SUBJECTS :]].clone()
    speaker[::2] = -1
    asked = Ragged(torch.arange(slots + 1, device=device) * SUBJECTS, names)
    mentions = int(bank.graph.weights.indptr.diff()[names.long() + count].sum())
    compare(
        bench,
        f"subjects {count:,} units {tiles.width}x{len(tiles)}",
        lambda: subject_support(asked, speaker, bank.graph.weights, units, nodes, axis),
        model.subjects(np.diff(axis.host_starts), tiles.width, len(names), mentions),
    )


def compare(bench: Bench, name: str, call: Callable[[], Tensor], cost: Cost) -> None:
    """Ours against torch's form, which is exact here, then both on the clock."""

    def plain() -> Tensor:
        with torch_forms():
            return call()

    bench.check(name, call, lambda found: differs(found, plain(), 1e-6))
    bench.time(name, call, cost=cost, library=bench.library(f"{name}, torch", plain))
