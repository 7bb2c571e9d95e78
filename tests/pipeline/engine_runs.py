"""The engine and the oracle asked the same questions, and how their answers are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tests.pipeline.facts_of import bank_facts, query_facts
from tests.reference import oracle, views
from tests.reference.facts import BankFacts, OracleResult, QueryFacts
from zeromem_gpu import Config, Memory
from zeromem_gpu.build.facts import MemoryIndex
from zeromem_gpu.retrieve.engine import Hidden, Ranked, retrieve
from zeromem_gpu.retrieve.graph_view import graph_view
from zeromem_gpu.retrieve.groups import cut
from zeromem_gpu.retrieve.signals import Signals
from zeromem_gpu.types import QueryProfile

TOLERANCE = 1e-5
# nearer to a threshold than this, float32 may decide otherwise than float64
NOISE = {
    "align": 1e-6, "sentence_floor": 2e-6, "activation_floor": 1e-5, "episode_break": 1e-6,
    "episode_beam": 1e-5, "window_beam": 1e-5,
}  # fmt: skip


@dataclass(repr=False)
class Asked:
    """Questions to a memory: `banks[i]` is the bank of `profiles[i]`; `hidden[i]` masks its units."""

    memory: Memory
    banks: list[str]
    profiles: list[QueryProfile]
    hidden: list[list[bool] | None] | None = None
    queries: list[QueryFacts] = field(default_factory=list)
    facts: dict[str, BankFacts] = field(default_factory=dict)
    _oracles: dict[tuple[str, str], oracle.Bank] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the facts once for all configurations."""
        self.queries = self.queries or query_facts(self.memory, self.profiles, self.hidden)
        self.facts = self.facts or {
            name: bank_facts(self.memory, name) for name in dict.fromkeys(self.banks)
        }

    @property
    def index(self) -> MemoryIndex:
        """The memory's current version."""
        assert self.memory._index is not None
        return self.memory._index

    def every(self, step: int, start: int = 0) -> Asked:
        """Some of the questions, with the same facts."""
        at = slice(start, None, step)
        hidden = None if self.hidden is None else self.hidden[at]
        return replace(
            self, banks=self.banks[at], profiles=self.profiles[at], queries=self.queries[at], hidden=hidden
        )

    def engine(self, config: Config) -> Ranked:
        """All questions in one batch through the engine."""
        ready = self.memory._searcher.prepare(self.index, self.profiles, self.banks, config)
        return retrieve(ready.stack, ready.bank_of, ready.batch, self.masks(), config)

    def masks(self) -> Hidden | None:
        """The boundaries as the engine takes them."""
        if self.hidden is None:
            return None
        shown = [at for at, mask in enumerate(self.hidden) if mask is not None]
        of = np.full(len(self.hidden), -1, np.int64)
        of[shown] = np.arange(len(shown))
        return Hidden(of, [np.array(self.hidden[at], bool) for at in shown])

    def oracle(self, place: int, config: Config) -> OracleResult:
        """One question through the oracle."""
        name = self.banks[place]
        key = (name, repr(oracle.bank_key(config)))
        if key not in self._oracles:
            self._oracles[key] = oracle.Bank(self.facts[name], config)
        return oracle.retrieve(self._oracles[key], self.queries[place], config)

    def pagerank(self, config: Config) -> tuple[list[np.ndarray], np.ndarray]:
        """π of each question (units, then entities) as the engine computes it, and the sweeps."""
        ready = self.memory._searcher.prepare(self.index, self.profiles, self.banks, config)
        found: list[np.ndarray] = [np.empty(0)] * len(self.profiles)
        sweeps = np.zeros(len(self.profiles), np.int64)
        assert self.hidden is None
        for group in cut(ready.bank_of, ready.stack, ready.batch, config.batch_bytes):
            ranked = graph_view(Signals(group, config)).pagerank
            starts = group.axes["nodes"].starts.tolist()
            for slot, query in enumerate(group.query.tolist()):
                tile, column = divmod(slot, group.tiles.width)
                if query >= 0:
                    found[query] = (
                        ranked.pi[starts[tile] : starts[tile + 1], column].double().numpy().copy()
                    )
                    sweeps[query] = int(ranked.sweeps[tile, column])
        return found, sweeps


def disagreements(asked: Asked, config: Config) -> tuple[list[str], int]:
    """What the engine answers otherwise than the oracle, and how many questions noise excuses.

    The whole list of candidates is compared: `top_k` is set to `candidates`. Scores may differ by
    `TOLERANCE`, and by what PageRank's own tolerance leaves open.
    """
    # closure and the order of evidence have a reference of their own (test_closure.py)
    config = config.replace(top_k=config.candidates, closure=False, calibrate=False)
    ranked = asked.engine(config)
    wrong: list[str] = []
    excused = 0
    for place, profile in enumerate(asked.profiles):
        truth = asked.oracle(place, config)
        units = len(asked.facts[asked.banks[place]].units)
        fault = _fault(ranked, place, truth, asked.queries[place].route, config, units)
        if not fault:
            continue
        near = [name for name, noise in NOISE.items() if truth.margins.get(name, np.inf) < noise]
        if near:
            excused += 1
        else:
            wrong.append(f"{asked.banks[place]}: {profile.text!r}: {fault}; margins {truth.margins}")
    return wrong, excused


def _fault(ranked: Ranked, place: int, truth: OracleResult, route: str, config: Config, units: int) -> str:
    """The first difference between the engine's answer and the oracle's, "" for none."""
    # mm(cos) of a library product is right to 8e-7, which prior_power multiplies; π to config.tolerance
    # (L1), and sc(π) divides by its maximum
    graph_open = TOLERANCE + 8e-7 * config.prior_power
    if truth.aligned and units and truth.pi[:units].max() > 0:
        graph_open += config.tolerance / float(truth.pi[:units].max())
    fused_open = max(
        TOLERANCE, graph_open / max(truth.margins["graph_spread"], 1e-9) if truth.graph_scores else 0.0
    )
    rows = [int(row) for row in ranked.rows[place] if row >= 0]
    if len(rows) != len(truth.rows) or len(set(rows)) != len(rows):
        return f"{len(rows)} rows, not {len(truth.rows)}"
    weight = views.graph_weight(config.views, route, config.rho)
    fused = views.fuse(truth.graph_scores, truth.hierarchy_scores, weight)
    for rank, row in enumerate(rows):
        score, expected = float(ranked.scores[place, rank]), truth.scores[rank]
        if not abs(score - expected) <= fused_open:
            return f"score {score} at rank {rank}, not {expected}"
        # another order is right only among equal scores; a row at the edge of a view adds 0 either way
        if not abs(fused.get(row, 0.0) - expected) <= 2 * fused_open:
            return f"row {row} at rank {rank}, not {truth.rows[rank]}"
    for name, found, given, open_ in (
        ("graph", ranked.graph[place], truth.graph_scores, graph_open),
        ("hierarchy", ranked.hierarchy[place], truth.hierarchy_scores, TOLERANCE),
    ):
        edge = min(given.values(), default=-np.inf)
        for row, value in zip(rows, found.tolist(), strict=False):
            expected = given.get(row, edge if row not in given and not np.isnan(value) else np.nan)
            if np.isnan(value) and not np.isnan(expected):
                value = edge
            if not np.isclose(value, expected, atol=open_, rtol=1e-6, equal_nan=True):
                return f"{name} score {value} of row {row}, not {expected}"
    return ""


def assert_agree(asked: Asked, config: Config, excusable: float = 0.005) -> None:
    """Engine and oracle agree; at most the given share of questions may be excused by noise."""
    wrong, excused = disagreements(asked, config)
    assert not wrong, "\n".join(wrong[:5])
    assert excused <= excusable * len(asked.profiles)


def assert_same(one: Ranked, two: Ranked, order: Sequence[int] | None = None) -> None:
    """Bit for bit the same, `two` being asked in another order of the questions.

    The arrays are as wide as the longest answer of a batch; past it both must be padding.
    """
    at = slice(None) if order is None else np.asarray(order)
    width = max(one.rows.shape[1], two.rows.shape[1])
    padding = {"rows": -1, "rules": -1, "scores": 0.0, "graph": np.nan, "hierarchy": np.nan}
    for name, empty in padding.items():
        left, right = (
            np.pad(getattr(x, name), ((0, 0), (0, width - x.rows.shape[1])), constant_values=empty)
            for x in (one, two)
        )
        np.testing.assert_array_equal(left[at], right, err_msg=name)
    np.testing.assert_array_equal(one.sweeps[at], two.sweeps, err_msg="sweeps")
