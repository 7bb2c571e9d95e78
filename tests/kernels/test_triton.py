"""The Triton forms in Triton's interpreter against the float64 references, over outputs of NaN.

An operation costs the interpreter some 50 µs a block, so banks are small; where a test needs
hubs, the limit on segments is made short instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.kernels.layout import (
    blocks,
    by_unit,
    float64,
    interpreted,
    pointer,
    random_csr,
    random_hidden,
    stacked,
)
from tests.reference import activation, pagerank, scaling, views
from zeromem_gpu.build.graph import EntityContextGraph, build_graph
from zeromem_gpu.build.ragged import Rows
from zeromem_kernels import slices
from zeromem_kernels.activation import propagate
from zeromem_kernels.fusion import fuse
from zeromem_kernels.gpu import launch, select
from zeromem_kernels.layout import transpose
from zeromem_kernels.pagerank import Graph, PageRank, is_sound, personalized_pagerank, slice_graph
from zeromem_kernels.reset import reset_vector
from zeromem_kernels.spmm import tile_spmm
from zeromem_kernels.tiles import Axis, Csr, Tiles, slice_table, torch_forms
from zeromem_kernels.topk import TopK, kept_mask, ordered_topk

# a bank with a hub, an empty one, one without entities, one unit alone, one of two
UNITS = (90, 0, 21, 1, 2)
ENTITIES = (9, 0, 0, 2, 1)
NODES = tuple(n + m for n, m in zip(UNITS, ENTITIES, strict=True))
TILINGS = {
    "several banks": ((0, 3, 2, 1, 0, 4), 3),
    "one column": ((0,), 1),
    "whole block": ((4, 2), 8),
    "none": ((), 2),
}
every_tiling = pytest.mark.parametrize("tiling", TILINGS)


def axis_of(tiling: str, sizes: tuple[int, ...]) -> Axis:
    banks, width = TILINGS[tiling]
    return Tiles(torch.tensor(banks, dtype=torch.int64), width).axis(pointer(sizes))


@dataclass(frozen=True)
class Banks:
    """Graphs side by side, and each one's dense weights in float64."""

    graph: Graph
    weights: tuple[np.ndarray, ...]


@cache
def banks() -> Banks:
    """Every third unit of the first bank knows entity 1, which makes it a hub of 30; some know nothing."""
    rng = np.random.default_rng(1)
    made: list[EntityContextGraph] = []
    weights = []
    for n, m in zip(UNITS, ENTITIES, strict=True):
        bounds = np.array([0, *range(7, n, 7), n]) if n else np.array([0])
        knows = rng.random((n, m)) < 0.1
        if m > 2:
            knows[::3, 1] = True
        pairs = np.argwhere(knows)
        count = rng.integers(1, 4, size=len(pairs))
        made.append(build_graph(by_unit(pairs[:, 0], pairs[:, 1], count, n), bounds, m, 1.0))
        row = np.repeat(np.arange(n + m), np.diff(made[-1].weights.indptr))
        dense = np.zeros((n + m, n + m))
        dense[row, made[-1].weights.indices] = made[-1].weights.weights
        weights.append(dense)
    graph = Graph(
        stacked([bank.weights for bank in made]),
        torch.from_numpy(np.concatenate([bank.degree for bank in made])),
        torch.from_numpy(np.concatenate([bank.colours for bank in made])),
        pointer([int(size) for bank in made for size in bank.colour_sizes]),
        sound=True,
    )
    return Banks(graph, tuple(weights))


@pytest.fixture
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than 8 entries are cut, the hub of 30 into four segments; tiles run in several waves."""
    monkeypatch.setattr(slices, "LONGEST", 8)
    monkeypatch.setattr(launch, "_L2_BYTES", 600)


def resets(axis: Axis, hidden: torch.Tensor | None, seed: int = 3) -> torch.Tensor:
    """Columns of sum 1 over shown rows, hidden ones not 0; of several columns the second stays 0."""
    reset = np.random.default_rng(seed).random((axis.rows, axis.tiles.width)) ** 4
    shown = np.ones(reset.shape) if hidden is None else ~hidden.numpy()
    for block in blocks(axis):
        reset[block.at] /= np.maximum((reset * shown)[block.at].sum(0), 1e-9)
    if axis.tiles.width > 1:
        reset[:, 1] = 0.0
    return torch.from_numpy(reset.astype(np.float32))


def hide(axis: Axis) -> torch.Tensor:
    """A third of the units of each column but the first."""
    hidden = torch.from_numpy(np.random.default_rng(2).random((axis.rows, axis.tiles.width)) < 0.3)
    hidden[:, 0] = False
    for block in blocks(axis):
        hidden[block.at][UNITS[block.bank] :] = False
    return hidden


@every_tiling
@pytest.mark.parametrize("coloured", [False, True])
@pytest.mark.usefixtures("short_segments")
def test_sums_over_a_table(tiling: str, coloured: bool) -> None:
    """Of values below 0 too, whose maximum nobody asks for; colours make no difference."""
    axis, graph = axis_of(tiling, NODES), banks().graph
    made = slice_graph(graph, axis.ptr) if coloured else slice_table(graph.weights, axis.ptr, axis.ptr)
    x = np.random.default_rng(8).normal(size=(axis.rows, axis.tiles.width)).astype(np.float32)
    found = interpreted(
        lambda: tile_spmm(graph.weights._replace(slices=made), torch.from_numpy(x), axis, axis)
    )
    for block in blocks(axis):
        expected = banks().weights[block.bank] @ x[block.at].astype(np.float64)
        np.testing.assert_allclose(found[block.at].numpy(), expected, rtol=1e-5, atol=1e-5)


def worst_error(
    found: PageRank, axis: Axis, reset: torch.Tensor, hidden: torch.Tensor | None, gamma: float
) -> float:
    worst = 0.0
    for block in blocks(axis):
        transition = pagerank.transition(banks().weights[block.bank])
        for c in range(axis.tiles.width):
            shown = np.ones(len(transition), bool) if hidden is None else ~hidden[block.at, c].numpy()
            r = float64(reset[block.at, c]) * shown
            x = pagerank.rescaled(pagerank.solve(r, transition, gamma, shown))
            worst = max(worst, float(np.abs(found.pi[block.at, c].numpy() - x).sum()))
    return worst


@every_tiling
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("solver", "gamma"), [("sor", 0.6), ("power", 0.2)])
@pytest.mark.usefixtures("short_segments")
def test_pagerank_stops_by_its_residual(tiling: str, masked: bool, solver: str, gamma: float) -> None:
    axis = axis_of(tiling, NODES)
    hidden = hide(axis) if masked else None
    reset = resets(axis, hidden)

    def solve() -> PageRank:
        return personalized_pagerank(banks().graph, reset, axis, hidden, gamma=gamma, solver=solver)

    found = interpreted(solve)
    assert worst_error(found, axis, reset, hidden, gamma) <= 2.5e-6
    assert (found.residuals <= 1e-6 * (1 - gamma)).all()
    with torch_forms():
        plain = solve()
    # the Triton form of power iteration has its next iterate in hand when it learns that it may stop
    assert ((found.sweeps - plain.sweeps).abs() <= 1 + (solver == "power")).all()
    torch.testing.assert_close(found.pi, plain.pi, atol=2e-6, rtol=0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("solver", ["sor", "power"])
@pytest.mark.parametrize(("storage", "error"), [(torch.float32, 3e-5), (torch.float16, 8e-4)])
@pytest.mark.usefixtures("short_segments")
def test_a_fixed_number_of_sweeps(masked: bool, solver: str, storage: torch.dtype, error: float) -> None:
    axis = axis_of("several banks", NODES)
    hidden = hide(axis) if masked else None
    reset = resets(axis, hidden)

    def solve() -> PageRank:
        return personalized_pagerank(
            banks().graph,
            reset,
            axis,
            hidden,
            gamma=0.3,
            tolerance=1e-4,
            solver=solver,
            sweeps=5,
            storage=storage,
        )

    found = interpreted(solve)
    assert worst_error(found, axis, reset, hidden, 0.3) <= error + (2 * 0.3**6 if solver == "power" else 0)
    assert (found.sweeps == 5).all()
    assert found.residuals.isnan().all()
    with torch_forms():
        plain = solve()
    # a sum in another order may round to the neighbour in float16
    torch.testing.assert_close(
        found.pi, plain.pi, atol=1e-6 if storage == torch.float32 else 2e-4, rtol=2e-3
    )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("solver", ["sor", "power"])
@pytest.mark.usefixtures("short_segments")
def test_float16_is_corrected_to_the_tolerance(masked: bool, solver: str) -> None:
    axis = axis_of("whole block", NODES) if solver == "power" else axis_of("several banks", NODES)
    hidden = hide(axis) if masked else None
    reset = resets(axis, hidden)
    gamma = 0.15

    def solve() -> PageRank:
        return personalized_pagerank(
            banks().graph,
            reset,
            axis,
            hidden,
            gamma=gamma,
            tolerance=1e-5,
            solver=solver,
            storage=torch.float16,
        )

    found = interpreted(solve)
    assert worst_error(found, axis, reset, hidden, gamma) <= 2e-5
    with torch_forms():
        plain = solve()
    assert torch.equal(found.sweeps, plain.sweeps)
    torch.testing.assert_close(found.pi, plain.pi, atol=1e-5, rtol=0)


def test_float16_near_one_is_float32(caplog: pytest.LogCaptureFixture) -> None:
    axis = axis_of("one column", NODES)
    reset = resets(axis, None)
    call: dict[str, Any] = {"gamma": 0.9, "tolerance": 1e-3}
    graph = banks().graph
    half = personalized_pagerank(graph, reset, axis, None, storage=torch.float16, **call)
    assert torch.equal(half.pi, personalized_pagerank(graph, reset, axis, None, **call).pi)
    assert "float16 storage serves γ up to 0.8" in caplog.text


def test_float16_takes_resets_that_are_almost_nothing() -> None:
    made = build_graph(by_unit(np.array([0]), np.array([0]), np.array([1]), 2), np.array([0, 2]), 1, 0.0)
    graph = Graph(
        stacked([made.weights]), torch.from_numpy(made.degree), torch.from_numpy(made.colours),
        pointer(made.colour_sizes.tolist()), sound=True,
    )  # fmt: skip
    axis = Tiles(torch.tensor([0]), 1).axis(pointer([3]))
    reset = torch.tensor([[1e-38], [2e-38], [0.0]])
    found = interpreted(
        lambda: personalized_pagerank(graph, reset, axis, None, gamma=0.5, storage=torch.float16)
    )
    assert found.pi.isfinite().all()


@pytest.mark.usefixtures("short_segments")
def test_a_sweeper_forgets_the_correction_of_the_reset_before() -> None:
    from zeromem_kernels.gpu.solve import Sweeper
    from zeromem_kernels.tiles import triton_forms

    axis, graph = axis_of("whole block", NODES), banks().graph
    first, second = resets(axis, None, 3), resets(axis, None, 4)
    step = torch.ones((len(axis.tiles), axis.tiles.width))

    def finished(state: Sweeper) -> torch.Tensor:
        for wave in state.waves:
            state.sweep(wave, step, state.y, 1)
        return state.finish()

    with triton_forms():
        made = slice_graph(graph, axis.ptr)
        used, fresh = (
            Sweeper(made, graph.degree, r, axis, None, 0.3, torch.float16, True) for r in (first, second)
        )
        for wave in used.waves:
            used.refine(wave, step)
        used.restart(second, None)
        assert torch.equal(finished(used), finished(fresh))


def test_float16_keeps_what_small_degrees_and_small_resets_bring() -> None:
    # entity 1 has degree 0.02: y = r/d would leave float16's range by far without a scale
    n = 50
    pairs = np.array([[0, 0], [0, 1], *([i, 0] for i in range(1, n))])
    made = build_graph(
        by_unit(pairs[:, 0], pairs[:, 1], np.array([98, 2] + [1] * (n - 1)), n), np.array([0, n]), 2, 1.0
    )
    graph = Graph(
        stacked([made.weights]), torch.from_numpy(made.degree), torch.from_numpy(made.colours),
        pointer(made.colour_sizes.tolist()), sound=True,
    )  # fmt: skip
    axis = Tiles(torch.tensor([0]), 2).axis(pointer([n + 2]))
    reset = torch.zeros((n + 2, 2))
    reset[n + 1, 0] = 1.0
    reset[:, 1] = 1.0 / (n + 2)
    call: dict[str, Any] = {"gamma": 0.6, "tolerance": 1e-6}
    exact = personalized_pagerank(graph, reset, axis, None, **call).pi
    found = interpreted(
        lambda: personalized_pagerank(graph, reset, axis, None, storage=torch.float16, **call)
    ).pi
    assert found.isfinite().all()
    assert (found - exact).abs().sum(0).max() <= 2e-6


@pytest.mark.usefixtures("short_segments")
def test_no_program_order_changes_a_bit_of_sor() -> None:
    axis = (
        axis_of("whole block", NODES)._replace
        if False
        else Tiles(torch.tensor([0]), 2).axis(pointer(NODES))
    )
    graph = banks().graph
    assert is_sound(graph, axis.ptr)
    made = slice_graph(graph, axis.ptr)
    reset = resets(axis, None)

    def solve(order: slices.Slices) -> torch.Tensor:
        one = graph._replace(weights=graph.weights._replace(slices=order))
        return interpreted(lambda: personalized_pagerank(one, reset, axis, None, gamma=0.6, sweeps=3)).pi

    given = solve(made)
    rng = np.random.default_rng(5)
    for _ in range(2):
        assert torch.equal(solve(shuffled(made, rng)), given)


def shuffled(made: slices.Slices, rng: np.random.Generator) -> slices.Slices:
    """The same slices, in another order inside each colour: programs then write in that order."""
    order = np.concatenate(
        [
            begin + rng.permutation(end - begin)
            for begin, end in zip(made.host_group, made.host_group[1:], strict=False)
        ]
    )
    begin, end = made.slice_ptr[:-1][order], made.slice_ptr[1:][order]
    cells = torch.cat([torch.arange(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=True)])
    return made._replace(
        columns=made.columns[cells], weights=made.weights[cells], slice_ptr=pointer((end - begin).tolist()),
        lane_row=made.lane_row.view(-1, slices.LANES)[order].reshape(-1),
    )  # fmt: skip


@pytest.mark.usefixtures("short_segments")
def test_a_column_has_the_same_bits_in_a_tile_of_any_width() -> None:
    wide = Tiles(torch.tensor([0]), 8).axis(pointer(NODES))
    reset = resets(wide, None)
    # γ so small that few sweeps are needed; the residual decides how many
    together = interpreted(
        lambda: personalized_pagerank(banks().graph, reset, wide, None, gamma=0.1, tolerance=1e-3)
    )
    for c in (0, 5):
        narrow = Tiles(torch.tensor([0]), 1).axis(wide.ptr)
        part = reset[:, c : c + 1].contiguous()
        alone = interpreted(
            lambda part=part, narrow=narrow: personalized_pagerank(  # type: ignore[misc]
                banks().graph, part, narrow, None, gamma=0.1, tolerance=1e-3
            )
        )
        assert torch.equal(alone.pi[:, 0], together.pi[:, c])
        assert alone.sweeps[0, 0] == together.sweeps[0, c]


@every_tiling
@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize(
    ("floor", "masked", "exclude_self"), [(0.0, False, False), (0.05, True, False), (0.05, False, True)]
)
@pytest.mark.usefixtures("short_segments")
def test_propagate(tiling: str, steps: int, floor: float, masked: bool, exclude_self: bool) -> None:
    rng = np.random.default_rng(2)
    sentences, entities = axis_of(tiling, UNITS), axis_of(tiling, ENTITIES)
    incidence, transposed, dense = incidences(rng)
    width = entities.tiles.width
    seeds = rng.random((entities.rows, width)) * (rng.random((entities.rows, width)) < 0.4)
    eta = torch.from_numpy(seeds.astype(np.float32))
    similarity = torch.from_numpy(rng.uniform(-0.2, 1.0, (sentences.rows, width)).astype(np.float32))
    hidden = random_hidden(rng, sentences) if masked else None
    found = interpreted(
        lambda: propagate(
            eta,
            similarity,
            hidden,
            incidence,
            transposed,
            sentences,
            entities,
            steps=steps,
            floor=floor,
            sentence_floor=6 * floor,
            exclude_self=exclude_self,
        )
    )
    doubtful = 0
    for z, e in zip(blocks(sentences), blocks(entities), strict=True):
        members = [np.flatnonzero(row).tolist() for row in dense[e.bank]]
        for c in range(width):
            shown = np.ones(UNITS[z.bank], bool) if hidden is None else ~hidden[z.at, c].numpy()
            gate, gate_margin = activation.sentence_similarity(
                float64(similarity[z.at, c]), shown, 6 * floor
            )
            expected, margin = activation.spread_activation(
                float64(eta[e.at, c]), gate, members, steps, floor or None, exclude_self
            )
            if min(margin, gate_margin) < 1e-5:  # float32 may decide otherwise
                doubtful += 1
                continue
            np.testing.assert_allclose(found[e.at, c].numpy(), expected, rtol=3e-5, atol=1e-5)
    assert doubtful <= 1


def incidences(rng: np.random.Generator) -> tuple[Csr, Csr, list[np.ndarray]]:
    """Sentences × entities with one entity in every second sentence, its transpose, the dense matrices."""
    _, dense = random_csr(rng, UNITS, ENTITIES, 0.15)
    dense[0][1::2, 3] = 1.0
    tables = []
    for matrix in dense:
        row, column = np.nonzero(matrix)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(matrix)))])
        tables.append(Rows(indptr.astype(np.int64), column.astype(np.int32), np.ones(len(row), np.float32)))
    across = []
    for table, matrix in zip(tables, dense, strict=True):
        back, row = transpose(table.indptr, table.indices, matrix.shape[1])
        across.append(Rows(back, row, np.ones(len(row), np.float32)))
    return stacked(tables), stacked(across), dense


@every_tiling
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_reset_vector(tiling: str, share: float) -> None:
    rng = np.random.default_rng(3)
    units, entities, nodes = (axis_of(tiling, sizes) for sizes in (UNITS, ENTITIES, NODES))
    width = nodes.tiles.width
    eta = torch.from_numpy(rng.random((entities.rows, width)).astype(np.float32))
    prior = torch.from_numpy(rng.random((units.rows, width)).astype(np.float32))
    eta[:, 0] = 0.0
    if width > 1:
        prior[:, 1] = 0.0
    found = interpreted(lambda: reset_vector(eta, prior, entities, units, nodes, share))
    for u, e, n in zip(blocks(units), blocks(entities), blocks(nodes), strict=True):
        for c in range(width):
            shown = np.ones(UNITS[n.bank], bool)
            expected = pagerank.reset_vector(
                float64(eta[e.at, c]), float64(prior[u.at, c]), shown, share, 1.0
            )
            np.testing.assert_allclose(found[n.at, c].numpy(), expected, rtol=1e-5, atol=1e-7)


def test_reset_sums_of_many_rows_are_exact_sums() -> None:
    # three levels of chunks would be 512³ rows: two are enough to meet every branch
    sizes = (1100, 0, 3)
    tiles = Tiles(torch.tensor([0, 1, 2]), 2)
    units, entities, nodes = (
        tiles.axis(pointer(sizes)),
        tiles.axis(pointer((0, 0, 0))),
        tiles.axis(pointer(sizes)),
    )
    prior = torch.rand((units.rows, 2), generator=torch.Generator().manual_seed(1))
    prior[5] = 1e6
    found = interpreted(lambda: reset_vector(torch.empty((0, 2)), prior, entities, units, nodes, 0.5))
    for block in blocks(units):
        part = prior[block.at].double()
        torch.testing.assert_close(found[block.at].double(), part / part.sum(0), rtol=2e-7, atol=0)


ROWS = (130, 0, 63, 1, 64)


def values(axis: Axis, seed: int) -> torch.Tensor:
    """Random columns; the second has many ties, and zeros of both signs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(axis.rows, axis.tiles.width)).astype(np.float32)
    if axis.tiles.width > 1:
        x[:, 1] = rng.integers(-2, 2, size=axis.rows) * np.float32(rng.choice([1.0, -1.0]))
        x[::2, 1] *= np.float32(-0.0) if seed % 2 else np.float32(1.0)
    return torch.from_numpy(x)


@every_tiling
@pytest.mark.parametrize("k", [0, 1, 9])
@pytest.mark.parametrize("most_blocks", [2048, 1])
def test_ordered_topk(tiling: str, k: int, most_blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # with one block a tile every block is longer than a chunk of rows
    monkeypatch.setattr(select, "_MOST_BLOCKS", most_blocks)
    axis = axis_of(tiling, ROWS)
    hidden = random_hidden(np.random.default_rng(4), axis)
    x = values(axis, 5).masked_fill(hidden, -torch.inf)
    if axis.rows > 3:
        x[3, 0] = torch.nan
    found = interpreted(lambda: ordered_topk(x, axis, k))
    assert found.rows.shape == (len(axis.tiles), k, x.shape[1])
    for block in blocks(axis):
        for c in range(x.shape[1]):
            scores = float64(x[block.at, c])
            rows, best = scaling.ordered_top_k(scores, np.isfinite(scores), k)
            assert found.rows[block.tile, :, c].tolist() == rows
            assert found.scores[block.tile, :, c].tolist() == best


@every_tiling
@pytest.mark.parametrize(
    ("graph", "hierarchy", "k"), [(9, 9, 5), (0, 12, 15), (12, 0, 3), (70, 4, 9), (2, 2, 0)]
)
def test_fuse(tiling: str, graph: int, hierarchy: int, k: int) -> None:
    axis = axis_of(tiling, ROWS)
    hidden = random_hidden(np.random.default_rng(6), axis)
    g, h = (
        ordered_topk(values(axis, s).masked_fill(hidden, -torch.inf), axis, n)
        for s, n in ((7, graph), (8, hierarchy))
    )
    weight = torch.from_numpy(
        np.random.default_rng(9).choice([0.0, 0.4, 0.6, 1.0], size=(len(axis.tiles), axis.tiles.width))
    ).float()
    found = interpreted(lambda: fuse(g, h, weight, axis, k))
    with torch_forms():
        plain = fuse(g, h, weight, axis, k)
    assert torch.equal(found.rows, plain.rows)
    torch.testing.assert_close(found.scores, plain.scores, atol=1e-6, rtol=0)
    for block in blocks(axis):
        for c in range(axis.tiles.width):
            lists = [
                {
                    r: s
                    for r, s in zip(
                        top.rows[block.tile, :, c].tolist(),
                        top.scores[block.tile, :, c].tolist(),
                        strict=True,
                    )
                    if r >= 0
                }
                for top in (g, h)
            ]
            fused = views.fuse(lists[0], lists[1], float(weight[block.tile, c]))
            best = sorted(fused.values(), reverse=True)[:k]
            best += [-np.inf] * (k - len(best))
            np.testing.assert_allclose(found.scores[block.tile, :, c].numpy(), best, atol=1e-6)


def test_topk_beyond_the_rows_leaves_no_row() -> None:
    axis = Tiles(torch.tensor([0, 1, 2]), 2).axis(pointer((12, 0, 3)))
    x = torch.tensor([[1.0, -torch.inf]] * 15)
    found = interpreted(lambda: ordered_topk(x, axis, 14))
    assert found.rows[:, :, 0].tolist() == [[*range(12), -1, -1], [-1] * 14, [0, 1, 2] + [-1] * 11]
    assert (found.rows[:, :, 1] == -1).all()
    assert (found.scores[:, :, 1] == -torch.inf).all()


def test_fusion_of_equal_scores_goes_by_row() -> None:
    axis = Tiles(torch.tensor([0]), 1).axis(pointer([9]))
    lists = [
        TopK(torch.ones((1, 3, 1)), torch.tensor([[[7], [2], [5]]], dtype=torch.int32)) for _ in range(2)
    ]
    found = interpreted(lambda: fuse(lists[0], lists[1], torch.full((1, 1), 0.5), axis, 5))
    assert found.rows.flatten().tolist() == [2, 5, 7, -1, -1]
    assert kept_mask(found, axis).flatten().nonzero().flatten().tolist() == [2, 5, 7]


def test_slices_hold_every_entry_once() -> None:
    rng = np.random.default_rng(8)
    csr, dense = random_csr(rng, (150, 0, 5), (90, 0, 3), 0.9)
    ptr, source = pointer((150, 0, 5)), pointer((90, 0, 3))
    made = slice_table(csr, ptr, source)
    for bank, matrix in enumerate(dense):
        found, scratch = np.zeros(matrix.shape), np.zeros((int(made.host_scratch[bank]), matrix.shape[1]))
        for s in range(made.host_group[bank], made.host_group[bank + 1]):
            begin, end = int(made.slice_ptr[s]), int(made.slice_ptr[s + 1])
            assert (end - begin) % (slices.LANES * slices.UNROLL) == 0
            assert end - begin <= slices.LANES * slices.LONGEST
            for lane in range(slices.LANES):
                row = int(made.lane_row[s * slices.LANES + lane])
                columns = made.columns[begin + lane : end : slices.LANES].numpy()
                weights = made.weights[begin + lane : end : slices.LANES].numpy()
                if row == -1:
                    assert not weights.any()
                else:
                    np.add.at(found[row] if row >= 0 else scratch[-2 - row], columns, weights)
        for at in range(made.host_long[bank], made.host_long[bank + 1]):
            first, count = int(made.long_ptr[at]), int(made.long_count[at])
            assert not found[int(made.long_row[at])].any()
            found[int(made.long_row[at])] = scratch[first : first + count].sum(0)
        np.testing.assert_array_equal(found, matrix)
