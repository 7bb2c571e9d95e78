"""The byte model against the kernels themselves: loads and stores counted while the interpreter runs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import model
from benchmarks.tallies import tally, tally_of_degrees
from tests.kernels.counting import Counter, counting
from tests.kernels.layout import interpreted, pointer
from tests.kernels.test_bm25_gpu import questions, tables
from tests.kernels.test_lexical import UNITS as LEXICAL_UNITS
from tests.kernels.test_lexical import Texts, phrase_case
from tests.kernels.test_triton import (
    ENTITIES,
    NODES,
    TILINGS,
    UNITS,
    axis_of,
    banks,
    hide,
    incidences,
    resets,
)
from zeromem_kernels import slices
from zeromem_kernels.activation import propagate
from zeromem_kernels.fusion import fuse
from zeromem_kernels.gpu import reduce, select
from zeromem_kernels.gpu.launch import Wave
from zeromem_kernels.gpu.solve import Sweeper
from zeromem_kernels.lexical import Ragged, bm25, phrase_support, slot_banks, subject_support
from zeromem_kernels.pagerank import slice_graph
from zeromem_kernels.reset import reset_vector
from zeromem_kernels.slices import Slices
from zeromem_kernels.tiles import Axis, Csr, Tiles, slice_table
from zeromem_kernels.topk import TopK, ordered_topk

every_tiling = pytest.mark.parametrize("tiling", ["several banks", "one column", "whole block"])
every_storage = pytest.mark.parametrize("storage", [torch.float32, torch.float16])


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than 8 entries are cut: the hub of 30 becomes four segments."""
    monkeypatch.setattr(slices, "LONGEST", 8)


def counted(call: Callable[[], Any]) -> tuple[Counter, Any]:
    """The bytes of a call, and its result."""
    with counting() as counter:
        return counter, interpreted(call)


def agrees(counter: Counter, cost: model.Cost) -> None:
    assert counter.asked == cost.l2
    assert counter.dram == cost.dram


class Solve:
    """A `Sweeper` over the test graphs with its tally."""

    def __init__(self, tiling: str, storage: torch.dtype, in_place: bool, masked: bool = False) -> None:
        self.axis = axis_of(tiling, NODES)
        graph = banks().graph
        self.slices = slice_graph(graph, self.axis.ptr)
        self.tally = tally(self.slices, self.axis)
        self.itemsize = storage.itemsize
        hidden = hide(self.axis) if masked else None
        reset = resets(self.axis, hidden)
        self.started, self.state = counted(
            lambda: Sweeper(
                self.slices, graph.degree, reset, self.axis, hidden, 0.6, storage, in_place=in_place
            )
        )
        self.step = torch.ones((len(self.axis.tiles), self.axis.tiles.width))
        self.wave = Wave(0, len(self.axis.tiles))


@every_tiling
@every_storage
@pytest.mark.parametrize("masked", [False, True])
def test_start_and_finish(tiling: str, storage: torch.dtype, masked: bool) -> None:
    solve = Solve(tiling, storage, True, masked)
    agrees(solve.started, model.start(solve.tally, solve.itemsize, masked=masked))
    agrees(counted(solve.state.finish)[0], model.finish(solve.tally, solve.itemsize))


@every_tiling
@every_storage
def test_a_sweep_of_sor(tiling: str, storage: torch.dtype) -> None:
    solve = Solve(tiling, storage, True)
    counter, _ = counted(lambda: solve.state.sweep(solve.wave, solve.step, solve.state.y, 1))
    agrees(counter, model.sweep(solve.tally, solve.itemsize, in_place=True))


@every_tiling
def test_operations_of_a_sweep(tiling: str) -> None:
    """Counted by walking the slices of every tile as its programs do."""
    solve = Solve(tiling, torch.float32, True)
    made, width = solve.slices, solve.axis.tiles.width
    cells = rows = 0
    for bank in solve.axis.tiles.bank.tolist():
        first, last = (int(made.host_group[made.colours * edge]) for edge in (bank, bank + 1))
        for at in range(first, last):
            cells += int(made.slice_ptr[at + 1] - made.slice_ptr[at])
            rows += int((made.lane_row[at * slices.LANES : (at + 1) * slices.LANES] >= 0).sum())
        rows += int(made.host_long[made.colours * (bank + 1)] - made.host_long[made.colours * bank])
    assert rows == solve.axis.rows
    # a multiply-add a cell, b + gain·Σ − y, y + ω·gap, and |gap|·d where it is asked for
    for update, residual, each in ((True, False, 6), (False, True, 5), (True, True, 7)):
        cost = model.sweep(solve.tally, 4, in_place=True, update=update, residual=residual)
        assert cost.flops == (2 * cells + each * rows) * width


@every_tiling
def test_a_correction(tiling: str) -> None:
    solve = Solve(tiling, torch.float16, True)
    counter, _ = counted(lambda: solve.state.refine(solve.wave, solve.step))
    cost = model.refine(solve.tally, solve.itemsize)
    assert counter.asked == cost.l2
    # what the beginning reads of b, the residual pass has just written
    assert counter.dram <= cost.dram
    counter, _ = counted(lambda: solve.state.sweep(solve.wave, solve.step, solve.state.error, 1))
    agrees(counter, model.sweep(solve.tally, solve.itemsize, in_place=True))
    agrees(counted(solve.state.finish)[0], model.finish(solve.tally, solve.itemsize, refined=True))


@every_tiling
@every_storage
def test_a_power_iteration(tiling: str, storage: torch.dtype) -> None:
    solve = Solve(tiling, storage, False)
    counter, _ = counted(lambda: solve.state.iterate(solve.wave, solve.step, solve.state.y, 0))
    agrees(counter, model.sweep(solve.tally, solve.itemsize, in_place=False))


@every_tiling
def test_a_residual(tiling: str) -> None:
    solve = Solve(tiling, torch.float16, True)
    counter, _ = counted(lambda: solve.state.residual(solve.wave, solve.step))
    bank = solve.axis.tiles.bank.numpy()
    bounds = (
        solve.slices.host_group[:: solve.slices.colours],
        solve.slices.host_long[:: solve.slices.colours],
    )
    gaps = sum(bound[bank + 1] - bound[bank] for bound in bounds)
    agrees(counter, model.residual(solve.tally, solve.itemsize, gaps))


def test_sums_of_sums() -> None:
    rows = np.array([3, 0, 2 * reduce.CHUNK + 5])
    starts = torch.tensor([0, *np.cumsum(rows)])
    counter, _ = counted(
        lambda: reduce.column_sums(torch.ones((int(rows.sum()), 2)), starts, int(rows.max()))
    )
    cost = model.column_sums(rows, 2, 4)
    assert counter.asked == cost.l2
    # what the second round reads, the first one wrote
    assert counter.dram == cost.dram


@every_tiling
@pytest.mark.parametrize(
    ("steps", "masked", "exclude"), [(0, True, False), (2, False, False), (2, True, True)]
)
def test_propagate(tiling: str, steps: int, masked: bool, exclude: bool) -> None:
    rng = np.random.default_rng(2)
    sentences, entities = axis_of(tiling, UNITS), axis_of(tiling, ENTITIES)
    incidence, transposed, _ = incidences(rng)
    forward = slice_table(incidence, sentences.ptr, entities.ptr)
    backward = slice_table(transposed, entities.ptr, sentences.ptr)
    width = entities.tiles.width
    hidden = torch.rand((sentences.rows, width)) < 0.3 if masked else None
    counter, _ = counted(
        lambda: propagate(
            torch.rand((entities.rows, width)), torch.rand((sentences.rows, width)), hidden,
            incidence._replace(slices=forward), transposed._replace(slices=backward), sentences, entities,
            steps=steps, floor=0.05, sentence_floor=0.2, exclude_self=exclude,
        )
    )  # fmt: skip
    cost = model.propagate(
        tally(forward, sentences), tally(backward, entities), steps, masked=masked, exclude=exclude
    )
    assert counter.asked == cost.l2
    # over several operations memory is counted once an operation, here once in all
    assert counter.dram <= cost.dram


@every_tiling
def test_one_pass_of_activation(tiling: str) -> None:
    from zeromem_kernels.gpu.activation import _Pass

    rng = np.random.default_rng(2)
    sentences, entities = axis_of(tiling, UNITS), axis_of(tiling, ENTITIES)
    incidence, transposed, _ = incidences(rng)
    forward = slice_table(incidence, sentences.ptr, entities.ptr)
    backward = slice_table(transposed, entities.ptr, sentences.ptr)
    tiles, width = len(entities.tiles), entities.tiles.width
    eta, spread = torch.rand((entities.rows, width)), torch.rand((sentences.rows, width))
    least, peaks = torch.zeros((tiles, width)), torch.zeros((tiles, width), dtype=torch.int32)
    hidden = torch.zeros((sentences.rows, width), dtype=torch.uint8)
    out = torch.empty_like(spread)
    there = _Pass(forward, entities, sentences, width)
    back = _Pass(backward, sentences, entities, width)
    wave = Wave(0, tiles)
    counter, _ = counted(
        lambda: there(wave, eta, out, spread, hidden, least, out, out, peaks, 1e-5,
                      GATED=True, MASKED=True, EXCLUDE=False)
    )  # fmt: skip
    agrees_but_for_unread(
        counter,
        model.to_sentences(tally(forward, sentences), entities.rows, masked=True),
        incidence,
        entities,
    )
    counter, _ = counted(
        lambda: back(wave, spread, torch.empty_like(eta), eta, eta, least, eta, eta, peaks, 1e-5,
                     GATED=False, MASKED=False, EXCLUDE=False)
    )  # fmt: skip
    agrees_but_for_unread(
        counter, model.to_entities(tally(backward, entities), sentences.rows), transposed, sentences
    )


def agrees_but_for_unread(counter: Counter, cost: model.Cost, table: Csr, source: Axis) -> None:
    """The model gathers every row of the source once, the kernel those that an entry (or padding) names."""
    assert counter.asked == cost.l2
    ptr, indices = table.indptr.tolist(), table.indices
    target_ptr = {UNITS: pointer(ENTITIES), ENTITIES: pointer(UNITS)}[tuple(source.ptr.diff().tolist())]
    unread = 0
    for bank, size in zip(source.tiles.bank.tolist(), source.starts.diff().tolist(), strict=True):
        named = indices[ptr[target_ptr[bank]] : ptr[target_ptr[bank + 1]]]
        unread += size - len({0, *named.tolist()} if len(named) else set())
    assert cost.dram - counter.dram == unread * source.tiles.width * 4


@every_tiling
def test_reset_vector(tiling: str) -> None:
    units, entities, nodes = (axis_of(tiling, sizes) for sizes in (UNITS, ENTITIES, NODES))
    width = nodes.tiles.width
    eta, prior = torch.rand((entities.rows, width)), torch.rand((units.rows, width))
    counter, _ = counted(lambda: reset_vector(eta, prior, entities, units, nodes, 0.3))
    rows = [np.diff(axis.host_starts) for axis in (units, entities)]
    assert counter.asked == model.reset(*rows, width).l2


@pytest.mark.parametrize("k", [0, 1, 5])
def test_topk_of_full_blocks(k: int) -> None:
    # all rows in whole blocks and more of them than k: the bound is met
    axis = Tiles(torch.tensor([0, 0, 1]), 3).axis(torch.tensor([0, 128, 192]))
    x = torch.rand((axis.rows, 3), generator=torch.Generator().manual_seed(1))
    counter, _ = counted(lambda: ordered_topk(x, axis, k))
    agrees(counter, model.ordered_topk(np.diff(axis.host_starts), 3, k))


@every_tiling
def test_topk_of_any_rows_stays_below_the_bound(tiling: str) -> None:
    axis = axis_of(tiling, (130, 0, 63, 1, 64))
    x = torch.rand((axis.rows, axis.tiles.width))
    counter, _ = counted(lambda: ordered_topk(x, axis, 4))
    cost = model.ordered_topk(np.diff(axis.host_starts), axis.tiles.width, 4)
    assert counter.asked <= cost.l2
    assert counter.dram == cost.dram


def test_topk_of_a_tile_with_more_rows_than_blocks_of_64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "_MOST_BLOCKS", 2)
    monkeypatch.setattr(model, "_MOST_BLOCKS", 2)
    axis = Tiles(torch.tensor([0]), 2).axis(torch.tensor([0, 256]))
    x = torch.rand((256, 2), generator=torch.Generator().manual_seed(1))
    counter, _ = counted(lambda: ordered_topk(x, axis, 3))
    agrees(counter, model.ordered_topk(np.array([256]), 2, 3))


def test_the_model_cuts_tiles_as_top_k_does() -> None:
    assert (model._ROWS, model._MOST_BLOCKS) == (select._ROWS, select._MOST_BLOCKS)


@pytest.mark.parametrize(("graph", "hierarchy", "k"), [(9, 9, 5), (0, 12, 3), (7, 4, 0)])
def test_fuse(graph: int, hierarchy: int, k: int) -> None:
    axis = axis_of("several banks", (40, 40, 40, 40, 40))
    tiles, width = len(axis.tiles), axis.tiles.width

    def listed(n: int) -> TopK:
        rows = torch.arange(n, dtype=torch.int32)[None, :, None].expand(tiles, n, width).contiguous()
        return TopK(torch.rand((tiles, n, width)), rows)

    weight = torch.full((tiles, width), 0.5)
    lists = listed(graph), listed(hierarchy)
    counter, _ = counted(lambda: fuse(*lists, weight, axis, k))
    agrees(counter, model.fuse(tiles, width, graph, hierarchy, k))


@every_tiling
@pytest.mark.parametrize("shared", [False, True])
def test_bm25(tiling: str, shared: bool) -> None:
    axis = axis_of(tiling, UNITS)
    postings, term_ptr = tables(UNITS)
    terms = questions(len(axis.tiles) * axis.tiles.width)
    banks_of = slot_banks(terms.ptr, axis.tiles)
    known = terms.values >= 0
    rows = term_ptr[banks_of[known]] + terms.values[known]
    met = int((postings.indptr[rows + 1] - postings.indptr[rows]).sum())
    # of a term that no bank knows nobody asks for the share
    shares = torch.ones(len(terms.values)) if shared else None
    counter, _ = counted(lambda: bm25(postings, term_ptr, terms, axis, shares))
    cost = model.bm25(met, len(terms.values), axis.rows * axis.tiles.width, shared=shared)
    assert counter.asked == cost.l2 - shared * 4 * int((~known).sum())


@every_tiling
def test_subjects(tiling: str) -> None:
    axis, nodes = axis_of(tiling, UNITS), axis_of(tiling, NODES)
    width, columns = axis.tiles.width, len(axis.tiles) * axis.tiles.width
    links = banks().graph.weights
    asked = Ragged(pointer([1] * columns), torch.zeros(columns, dtype=torch.int32))
    bank = axis.tiles.bank.repeat_interleave(width)
    # banks without an entity are asked for nothing
    asked.values[torch.tensor(ENTITIES)[bank] == 0] = -1
    row = nodes.ptr[bank] + axis.ptr.diff()[bank]
    met = torch.where(asked.values >= 0, links.indptr[row + 1] - links.indptr[row], 0)
    speaker = torch.full((sum(UNITS),), -1, dtype=torch.int32)
    counter, found = counted(lambda: subject_support(asked, speaker, links, axis.ptr, nodes.ptr, axis))
    cost = model.subjects(np.diff(axis.host_starts), width, columns, int(met.sum()))
    assert int((found == 0.5).sum()) == int(met.sum())
    assert counter.asked == cost.l2
    # tiles of one bank read its lists again
    assert counter.dram <= cost.dram


@every_tiling
def test_phrases_stay_below_the_bound(tiling: str) -> None:
    texts, sizes = Texts.random(5), LEXICAL_UNITS
    banks_of, width = TILINGS[tiling]
    tiles = Tiles(torch.tensor(banks_of, dtype=torch.int64), width)
    said = [[[2, 3]], [[4], [5, 6, 7]], []]
    stream, phrases = phrase_case(texts, tiles, [said[i % 3] for i in range(len(tiles) * width)])
    axis = tiles.axis(pointer(sizes))
    length = phrases.word_ptr.diff()
    bank = slot_banks(phrases.ptr, tiles).repeat_interleave(length)
    row = stream.word_ptr[bank] + phrases.words.clamp(min=0)
    stands = torch.where(
        phrases.words >= 0,
        (stream.occurrences.indptr.diff())[row.clamp(max=len(stream.occurrences.indptr) - 2)],
        0,
    )
    edges = phrases.word_ptr.tolist()
    places = torch.tensor([int(stands[a:b].min()) for a, b in pairwise(edges)], dtype=torch.int64)
    counter, _ = counted(lambda: phrase_support(stream, phrases, axis))
    cost = model.phrases(
        len(phrases.words), int(places.sum()), int((places * length).sum()), axis.rows * width
    )
    assert counter.asked <= cost.l2
    assert counter.dram <= cost.dram


@pytest.mark.parametrize("longest", [3, 8, 64])
def test_degrees_alone_give_the_same_tally(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "LONGEST", longest)
    graph = banks().graph
    axis = Tiles(torch.tensor([0, 0, 0]), 4).axis(torch.tensor([0, *np.cumsum(NODES)]))
    made: Slices = slice_graph(graph, axis.ptr)
    degree = graph.weights.indptr.diff().numpy()[: NODES[0]]
    bounds = graph.colour_ptr.numpy()[:4]
    by_colour = [degree[graph.colour_rows.numpy()[a:b]] for a, b in pairwise(bounds)]
    found, said = tally(made, axis), tally_of_degrees(by_colour, 4, 3)
    assert (found.moved, found.stored) == (said.moved, said.stored)
    assert found.rows.tolist() == said.rows.tolist()
