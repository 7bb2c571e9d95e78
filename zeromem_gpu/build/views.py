"""A bank as retrieval reads it: canonical rows, levels, lexicon and graph, made lazily from the facts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from zeromem_gpu.build.facts import EPISODE_LEVEL, WINDOW_LEVEL, Bank, MemoryIndex
from zeromem_gpu.build.graph import EntityContextGraph, build_graph
from zeromem_gpu.build.hierarchy import Encoded, Levels, build_levels, grow_levels
from zeromem_gpu.build.learned import WeightSegment
from zeromem_gpu.build.ledger import Ledger, grow_ledger
from zeromem_gpu.build.lexical import Segment
from zeromem_gpu.build.ragged import Rows as Table
from zeromem_gpu.build.ragged import from_pairs, from_ranges, ones
from zeromem_gpu.build.units import Rows, canonical_rows, continued
from zeromem_gpu.config import Config
from zeromem_kernels.layout import Continued, neighbours, pointer, transpose

T = TypeVar("T")


@dataclass(frozen=True)
class BankView:
    """Everything about one bank that a search reads, in NumPy; `stack.py` puts banks side by side.

    `term_vectors` float32 [n, D] of the bank's words are in order of arrival, `term_keys` int64 [n] ascend,
    and `term_rows` int64 [n] is where the vector of each key is.
    """

    rows: Rows
    levels: Levels
    windows_of_unit: Table
    neighbours: Table
    incidence: Table
    incidence_transposed: Table
    given: Table
    told: Table
    replies: Table
    graph: EntityContextGraph
    segments: tuple[Segment, ...]
    learned: tuple[WeightSegment, ...]
    term_keys: np.ndarray
    term_rows: np.ndarray
    term_vectors: np.ndarray

    @property
    def units(self) -> int:
        """How many units are live."""
        return len(self.rows.unit_rows)


def bank_view(
    index: MemoryIndex, bank: Bank, config: Config, timings: dict[str, float] | None = None
) -> BankView:
    """The view of a bank under `config`; the parts that the configuration does not touch are shared.

    What an ancestor of the bank had is grown, not made again. `timings` gains the seconds spent here as
    bm25_s (what grows: words, pairs, names) and graph_s (what is put in order).
    """

    def timed(stage: str, make: Callable[[], T]) -> T:
        begin = time.perf_counter()
        made = make()
        if timings is not None:
            timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - begin
        return made

    with bank.building:
        ledger = timed("bm25_s", lambda: bank_ledger(index, bank, config))
        rows, levels = bank.cached(
            "rows", lambda: timed("graph_s", lambda: _rows_and_levels(index, bank, ledger, config))
        )
        key = ("view", config.chain_weight)
        before: BankView | None = bank.past(key)
        return bank.cached(
            key,
            lambda: timed(
                "graph_s",
                lambda: _assemble(rows, levels, ledger, index.facts(bank, "terms"), config, before),
            ),
        )


def bank_ledger(index: MemoryIndex, bank: Bank, config: Config) -> Ledger:
    """The ledger of a bank, grown from that of its ancestor."""
    with bank.building:
        before = bank.past("ledger") or Ledger()
        return bank.cached("ledger", lambda: grow_ledger(before, index, bank, config))


def _assemble(
    rows: Rows,
    levels: Levels,
    ledger: Ledger,
    terms: dict[str, np.ndarray],
    config: Config,
    before: BankView | None,
) -> BankView:
    units, entities = len(rows.unit_rows), len(rows.entity_keys)
    ptr, entity = rows.incidence
    old_graph = old_incidence = None
    if before is not None and (moved := continued(rows, before.rows)) is not None:
        old_graph = before.graph.made, Continued(before.units, moved)
        table = before.incidence_transposed
        old_incidence = (table.indptr, table.indices), Continued(len(before.rows.sentence_rows), moved)
    back, sentence = transpose(ptr, entity, entities, old_incidence)
    next_to, beside = neighbours(rows.bounds)
    weights = ones(len(entity))
    replying = np.zeros(units, bool)
    replying[rows.replies] = True
    return BankView(
        rows, levels,
        windows_of_unit=from_ranges(levels.windows.low, levels.windows.high),
        neighbours=Table(next_to, beside, ones(len(beside))),
        incidence=Table(ptr, entity, weights),
        incidence_transposed=Table(back, sentence, weights),
        given=from_pairs(*rows.given, units),
        told=from_pairs(*rows.told, entities),
        replies=Table(pointer(replying), (rows.replies - 1).astype(np.int32), ones(len(rows.replies))),
        graph=build_graph(rows.counts, rows.bounds, entities, config.chain_weight, old_graph),
        segments=ledger.segments,
        learned=ledger.learned,
        term_keys=terms["key"][ledger.term_order], term_rows=ledger.term_order,
        term_vectors=terms["vector"],
    )  # fmt: skip


def _rows_and_levels(index: MemoryIndex, bank: Bank, ledger: Ledger, config: Config) -> tuple[Rows, Levels]:
    rows = canonical_rows(index, bank, ledger)
    windows = episodes = before = None
    if config.window_vectors == "encoded":
        windows = stored_spans(index, bank, rows, WINDOW_LEVEL)
        episodes = stored_spans(index, bank, rows, EPISODE_LEVEL)
    past = bank.past("rows")
    if past is not None:
        old, levels = past
        if windows is None and continued(rows, old) is not None:
            return rows, grow_levels(rows.vectors, rows.bounds, rows.time, config, levels, old.bounds)
        # units that were added since are nowhere there
        there = np.append(old.unit_place, np.full(len(rows.unit_place) - len(old.unit_place), -1, np.int32))
        before = levels, there[rows.unit_rows].astype(np.int64)
    return rows, build_levels(rows.vectors, rows.bounds, rows.time, config, windows, episodes, before)


def stored_spans(index: MemoryIndex, bank: Bank, rows: Rows, level: int) -> Encoded:
    """A function that looks up stored span vectors by level and members."""
    spans = index.facts(bank, "spans")
    mine = np.flatnonzero(spans["level"] == level)
    stored = dict(zip(spans["members"][mine].tolist(), mine.tolist(), strict=True))

    def look_up(first: np.ndarray, end: np.ndarray) -> np.ndarray:
        keys = span_members(rows, first, end)
        return spans["vector"][[stored[key] for key in keys]].reshape(-1, index.dim)

    return look_up


def span_members(rows: Rows, first: np.ndarray, end: np.ndarray) -> list[int]:
    """A 64-bit key of the arrival rows of the units in each interval.

    First and last unit would not do: an update or a late turn may change what lies between them.
    """
    units = rows.unit_rows.astype("<i8")
    return [
        int.from_bytes(blake2b(units[a:b].tobytes(), digest_size=8).digest(), "little", signed=True)
        for a, b in zip(first.tolist(), end.tolist(), strict=True)
    ]
