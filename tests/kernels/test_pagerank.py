"""Personalized PageRank: both solvers in both forms against a direct solve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.kernels.layout import TILINGS, blocks, both, by_unit, float64, pointer, stacked, tiles_of
from tests.reference import pagerank
from zeromem_gpu.build.graph import EntityContextGraph, build_graph
from zeromem_kernels.pagerank import Graph, PageRank, personalized_pagerank
from zeromem_kernels.sweeps import sweeps_for
from zeromem_kernels.tiles import Axis, Tiles

UNITS = (7, 0, 63, 1, 257, 100)
ENTITIES = (4, 0, 30, 0, 60, 3)
every_tiling = pytest.mark.parametrize("tiling", TILINGS)


@dataclass(frozen=True)
class Stacked:
    """Random banks: units without entities, entities without units, sessions of one unit."""

    banks: tuple[EntityContextGraph, ...]
    weights: tuple[np.ndarray, ...]
    graph: Graph

    def axis(self, tiling: str) -> Axis:
        return tiles_of(tiling).axis(pointer([len(bank.degree) for bank in self.banks]))


def stack(banks: list[EntityContextGraph]) -> Graph:
    sizes = np.concatenate([bank.colour_sizes for bank in banks])
    return Graph(
        stacked([bank.weights for bank in banks]),
        torch.from_numpy(np.concatenate([bank.degree for bank in banks])),
        torch.from_numpy(np.concatenate([bank.colours for bank in banks])),
        pointer([int(size) for size in sizes]),
    )


@cache
def random_banks(chain: float) -> Stacked:
    rng = np.random.default_rng(1)
    banks, weights = [], []
    for n, m in zip(UNITS, ENTITIES, strict=True):
        lengths: list[int] = []
        while sum(lengths) < n:
            lengths.append(min(int(rng.choice([1, 2, 5, 20])), n - sum(lengths)))
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        pairs = np.argwhere((rng.random((n, m)) < 0.08) & (np.arange(m) > 0))
        count = rng.integers(1, 4, size=len(pairs))
        banks.append(build_graph(by_unit(pairs[:, 0], pairs[:, 1], count, n), bounds, m, chain))
        counts = [
            {str(e): int(k) for (i, e), k in zip(pairs, count, strict=True) if i == row} for row in range(n)
        ]
        sessions = [(int(a), int(b) - 1) for a, b in pairwise(bounds)]
        weights.append(pagerank.edge_weights(counts, {str(e): e for e in range(m)}, sessions, chain))
    return Stacked(tuple(banks), tuple(weights), stack(banks))


def resets(axis: Axis, seed: int) -> torch.Tensor:
    """Columns of sum 1; the second one stays 0."""
    rng = np.random.default_rng(seed)
    reset = rng.random((axis.rows, axis.tiles.width)) ** 4
    for block in blocks(axis):
        reset[block.at] /= np.maximum(reset[block.at].sum(0), 1e-9)
    if axis.tiles.width > 1:
        reset[:, 1] = 0.0
    return torch.from_numpy(reset.astype(np.float32))


def hide_units(axis: Axis, seed: int) -> torch.Tensor:
    hidden = torch.from_numpy(np.random.default_rng(seed).random((axis.rows, axis.tiles.width)) < 0.3)
    hidden[:, 0] = False
    for block in blocks(axis):
        hidden[block.at][UNITS[block.bank] :] = False
    return hidden


def truth(
    weights: np.ndarray, reset: torch.Tensor, hidden: torch.Tensor | None, gamma: float
) -> np.ndarray:
    """x before it is scaled, in float64."""
    shown = np.ones(len(reset), bool) if hidden is None else ~hidden.numpy()
    return pagerank.solve(float64(reset), pagerank.transition(weights), gamma, shown)


@pytest.mark.parametrize("chain", [0.0, 1.0])
def test_weights_degrees_and_colours(chain: float) -> None:
    made = random_banks(chain)
    for bank, weights in zip(made.banks, made.weights, strict=True):
        row = np.repeat(np.arange(len(weights)), np.diff(bank.weights.indptr))
        found = np.zeros(weights.shape)
        found[row, bank.weights.indices] = bank.weights.weights
        np.testing.assert_allclose(found, weights, atol=1e-7)
        np.testing.assert_allclose(bank.degree, weights.sum(1), rtol=1e-6)
        assert sorted(bank.colours.tolist()) == list(range(len(weights)))
        colour = np.empty(len(weights), int)
        colour[bank.colours] = np.repeat(np.arange(3), bank.colour_sizes)
        assert (colour[row] != colour[bank.weights.indices]).all()


@pytest.mark.parametrize(
    ("tiling", "solver", "gamma"),
    [(tiling, "sor", gamma) for tiling in TILINGS for gamma in (0.0, 0.6, 0.9, 0.99)]
    + [(tiling, "power", gamma) for tiling in TILINGS for gamma in (0.0, 0.6)]
    # hundreds of sweeps: one bank is enough
    + [("narrow", "power", 0.9), ("narrow", "power", 0.99)],
)
@pytest.mark.parametrize("masked", [False, True])
def test_pagerank(tiling: str, solver: str, gamma: float, masked: bool) -> None:
    made = random_banks(1.0)
    axis = made.axis(tiling)
    hidden = hide_units(axis, 2) if masked else None
    reset = resets(axis, 3)
    if hidden is not None:
        reset = reset.masked_fill(hidden, 0.0)
    plain, fast = both(
        lambda: personalized_pagerank(
            made.graph, reset, axis, hidden, gamma=gamma, tolerance=1e-6, solver=solver
        )
    )
    for block in blocks(axis):
        for c in range(axis.tiles.width):
            mask = None if hidden is None else hidden[block.at, c]
            x = truth(made.weights[block.bank], reset[block.at, c], mask, gamma)
            total = max(float(x.sum()), 1e-9)
            for found in (plain, fast):
                gap = np.abs(found.pi[block.at, c].numpy() - pagerank.rescaled(x)).sum()
                # the rounding of float32 residuals counts 1/(1 − γ) times
                assert gap <= (1.2e-6 + 3e-7 / (1.0 - gamma)) / total
                if mask is not None:
                    assert not found.pi[block.at, c][mask].any()
    if gamma <= 0.6:  # nearer 1 the residual's own rounding decides when to stop
        assert ((plain.sweeps - fast.sweeps).abs() <= 1).all()


@pytest.mark.parametrize("chain", [0.0, 1.0])
@pytest.mark.parametrize("gamma", [0.15, 0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
def test_the_number_of_sweeps_that_a_tolerance_takes(chain: float, gamma: float, tolerance: float) -> None:
    made = random_banks(chain)
    axis = made.axis("many")
    reset = resets(axis, 3)
    for solver in ("sor", "power"):
        count = sweeps_for(gamma, tolerance, solver)
        found = personalized_pagerank(
            made.graph, reset, axis, None, gamma=gamma, tolerance=tolerance, solver=solver, sweeps=count
        )
        assert (found.sweeps == count).all()
        for block in blocks(axis):
            for c in range(axis.tiles.width):
                x = truth(made.weights[block.bank], reset[block.at, c], None, gamma)
                gap = np.abs(found.pi[block.at, c].numpy() - pagerank.rescaled(x)).sum()
                assert gap <= 1.2 * tolerance / max(float(x.sum()), 1e-9)


def test_a_column_without_mass_stays_zero_and_others_do_not_move_it() -> None:
    made = random_banks(1.0)
    axis = made.axis("many")
    reset = resets(axis, 4)
    for found in both(lambda: personalized_pagerank(made.graph, reset, axis, None, gamma=0.6)):
        assert not found.pi[:, 1].any()


@pytest.mark.parametrize("solver", ["sor", "power"])
def test_a_column_does_not_depend_on_those_beside_it(solver: str) -> None:
    made = random_banks(1.0)
    wide = Tiles(torch.tensor([4]), 16).axis(made.axis("none").ptr)
    narrow = Tiles(torch.tensor([4]), 1).axis(wide.ptr)
    reset = resets(wide, 5)
    hidden = hide_units(wide, 6)
    reset = reset.masked_fill(hidden, 0.0)

    def solve(axis: Axis, columns: slice) -> PageRank:
        part = reset[:, columns].contiguous(), axis, hidden[:, columns].contiguous()
        return personalized_pagerank(made.graph, *part, gamma=0.6, solver=solver)

    for form in (0, 1):
        together = both(lambda: solve(wide, slice(None)))[form]
        for c in range(16):
            alone = both(lambda c=c: solve(narrow, slice(c, c + 1)))[form]  # type: ignore[misc]
            assert torch.equal(alone.pi[:, 0], together.pi[:, c])
            assert alone.sweeps[0, 0] == together.sweeps[0, c]


def test_the_order_inside_a_colour_does_not_matter() -> None:
    made = random_banks(1.0)
    axis = made.axis("many")
    reset = resets(axis, 7)
    rng = np.random.default_rng(8)
    shuffled = made.graph.colour_rows.clone()
    ptr = made.graph.colour_ptr.tolist()
    for begin, end in pairwise(ptr):
        shuffled[begin:end] = shuffled[begin:end][torch.from_numpy(rng.permutation(end - begin))]
    assert not torch.equal(shuffled, made.graph.colour_rows)
    given, other = (
        both(lambda g=g: personalized_pagerank(g, reset, axis, None, gamma=0.6))  # type: ignore[misc]
        for g in (made.graph, made.graph._replace(colour_rows=shuffled))
    )
    for one, two in zip(given, other, strict=True):
        assert torch.equal(one.pi, two.pi)
        assert torch.equal(one.sweeps, two.sweeps)


def test_tolerance_is_the_l1_error_before_scaling() -> None:
    made = random_banks(1.0)
    axis = made.axis("narrow")
    reset = resets(axis, 9)
    expected = truth(made.weights[4], reset[:, 0], None, 0.9)
    sweeps = []
    for tolerance in (1e-1, 1e-3, 1e-5):
        for found in both(
            lambda tolerance=tolerance: personalized_pagerank(  # type: ignore[misc]
                made.graph, reset, axis, None, gamma=0.9, tolerance=tolerance, solver="power"
            )
        ):
            x = float64(found.pi[:, 0]) * expected.sum()
            assert np.abs(x - expected).sum() <= 2 * tolerance
            assert float(found.residuals[0, 0]) <= tolerance * 0.1
            sweeps.append(int(found.sweeps[0, 0]))
    assert sweeps == sorted(sweeps)
    assert sweeps[0] < sweeps[-1]


def test_the_stop_bound_is_never_below_the_residual() -> None:
    made = random_banks(1.0)
    axis = made.axis("many")
    reset = resets(axis, 10)
    for tolerance in (1e-2, 1e-5):
        _, fast = both(
            lambda tolerance=tolerance: personalized_pagerank(  # type: ignore[misc]
                made.graph, reset, axis, None, gamma=0.9, tolerance=tolerance
            )
        )
        for block in blocks(axis):
            move = pagerank.transition(made.weights[block.bank])
            for c in range(axis.tiles.width):
                pi, r = (float64(one[block.at, c]) for one in (fast.pi, reset))
                given, left = 0.1 * r, pi - 0.9 * move @ pi
                # π was scaled to sum 1 after the last sweep: the best scale gives at most what was measured
                scales = given[left != 0] / left[left != 0]
                residual = min((np.abs(given - s * left).sum() for s in scales), default=0.0)
                assert residual <= float(fast.residuals[block.tile, c]) + 1e-7


def test_columns_keep_their_bits_where_a_width_is_cut_into_runs() -> None:
    made = random_banks(1.0)
    wide = Tiles(torch.tensor([4, 2]), 48).axis(made.axis("none").ptr)
    reset = resets(wide, 11)
    together = both(lambda: personalized_pagerank(made.graph, reset, wide, None, gamma=0.6))[1]
    for columns in (slice(0, 7), slice(29, 36), slice(47, 48)):
        narrow = Tiles(wide.tiles.bank, columns.stop - columns.start).axis(wide.ptr)
        part = reset[:, columns].contiguous()
        alone = both(lambda a=narrow, r=part: personalized_pagerank(made.graph, r, a, None, gamma=0.6))[1]  # type: ignore[misc]
        assert torch.equal(alone.pi, together.pi[:, columns])
        assert torch.equal(alone.residuals, together.residuals[:, columns])
