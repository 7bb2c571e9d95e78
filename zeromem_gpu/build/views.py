"""A bank as retrieval reads it: canonical rows, levels, lexicon and graph, made lazily from the facts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from zeromem_gpu.build.appended import appended_rows
from zeromem_gpu.build.facts import EPISODE_LEVEL, WINDOW_LEVEL, Bank, MemoryIndex
from zeromem_gpu.build.graph import EntityContextGraph, build_graph
from zeromem_gpu.build.hierarchy import Encoded, Levels, build_levels, grow_levels
from zeromem_gpu.build.learned import WeightSegment
from zeromem_gpu.build.ledger import Ledger, grow_ledger
from zeromem_gpu.build.lexical import Segment
from zeromem_gpu.build.ragged import Rows as Table
from zeromem_gpu.build.ragged import from_pairs, ones, spliced_rows
from zeromem_gpu.build.units import Rows, canonical_rows, continued
from zeromem_gpu.config import Config
from zeromem_kernels.layout import Continued, neighbours, pointer, transpose

T = TypeVar("T")


@dataclass(frozen=True)
class BankView:
    """Everything about one bank that a search reads, in NumPy; `stack.py` puts banks side by side.

    `speaks` bool [entities] marks those who speak. `term_vectors` float32 [n, D] of the bank's words are
    in order of arrival, `term_keys` int64 [n] ascend, `term_rows` int64 [n] is where each one's vector is.
    """

    rows: Rows
    levels: Levels
    neighbours: Table
    incidence: Table
    incidence_transposed: Table
    given: Table
    told: Table
    replies: Table
    graph: EntityContextGraph
    speaks: np.ndarray
    segments: tuple[Segment, ...]
    learned: tuple[WeightSegment, ...]
    term_keys: np.ndarray
    term_rows: np.ndarray
    term_vectors: np.ndarray

    @property
    def units(self) -> int:
        """How many units are live."""
        return len(self.rows.unit_rows)

    @property
    def windows_of_unit(self) -> Table:
        """The windows around each unit."""
        return self.levels.windows_of_unit


def bank_view(
    index: MemoryIndex, bank: Bank, config: Config, timings: dict[str, float] | None = None
) -> BankView:
    """The view of a bank under `config`; the parts that the configuration does not touch are shared.

    What an ancestor of the bank had is grown, not made again. `timings` gains the seconds spent here as
    bm25_s (what grows: words, pairs, names) and graph_s (what is put in order).
    """
    vectors = index.column(bank, "terms", "vector")

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
                lambda: _assemble(rows, levels, ledger, vectors, config, before),
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
    term_vectors: np.ndarray,
    config: Config,
    before: BankView | None,
) -> BankView:
    units, entities = len(rows.unit_rows), len(rows.entity_keys)
    ptr, entity = rows.incidence
    old_graph = old_incidence = old = None
    if before is not None and (moved := continued(rows, before.rows)) is not None:
        old = before
        old_graph = before.graph.made, Continued(before.units, moved)
        table = before.incidence_transposed
        old_incidence = (table.indptr, table.indices), Continued(len(before.rows.sentence_rows), moved)
    back, sentence = transpose(ptr, entity, entities, old_incidence)
    weights = ones(len(entity))
    speaks = np.zeros(entities, bool)
    speaks[rows.entity_place[ledger.speakers]] = True
    return BankView(
        rows, levels,
        neighbours=_neighbours(rows, old),
        incidence=Table(ptr, entity, weights),
        incidence_transposed=Table(back, sentence, weights),
        given=from_pairs(*rows.given, units),
        told=from_pairs(*rows.told, entities),
        replies=_replies(rows, old),
        graph=build_graph(rows.counts, rows.bounds, entities, config.chain_weight, old_graph),
        speaks=speaks,
        segments=ledger.segments,
        learned=ledger.learned,
        term_keys=ledger.term_keys, term_rows=ledger.term_order,
        term_vectors=term_vectors,
    )  # fmt: skip


def _neighbours(rows: Rows, old: BankView | None) -> Table:
    """The units beside each unit; of the old sessions only the last one changes."""
    start = int(old.rows.bounds[-2]) if old is not None and len(old.rows.bounds) > 1 else 0
    ptr, beside = neighbours(rows.bounds[np.searchsorted(rows.bounds, start) :] - start)
    fresh = Table(ptr, beside, ones(len(beside)))
    return fresh if old is None else spliced_rows(old.neighbours, start, fresh, start)


def _replies(rows: Rows, old: BankView | None) -> Table:
    """The unit that each unit replies to."""
    start, known = (old.units, len(old.replies.indices)) if old is not None else (0, 0)
    fresh = rows.replies[known:]
    replying = np.zeros(len(rows.unit_rows) - start, bool)
    replying[fresh - start] = True
    table = Table(pointer(replying), (fresh - 1).astype(np.int32), ones(len(fresh)))
    return table if old is None else spliced_rows(old.replies, start, table, 0)


def _rows_and_levels(index: MemoryIndex, bank: Bank, ledger: Ledger, config: Config) -> tuple[Rows, Levels]:
    windows = episodes = before = None
    past: tuple[Rows, Levels] | None = bank.past("rows")
    rows = None if past is None else appended_rows(index, bank, ledger, past[0])
    rows = rows or canonical_rows(index, bank, ledger)
    levelled = rows.vectors, rows.bounds, rows.time, rows.words_ptr
    if config.window_vectors == "encoded":
        windows = stored_spans(index, bank, rows, WINDOW_LEVEL)
        episodes = stored_spans(index, bank, rows, EPISODE_LEVEL)
    if past is not None:
        old, levels = past
        if windows is None and continued(rows, old) is not None:
            return rows, grow_levels(*levelled, config, levels, old.bounds)
        # units that were added since are nowhere there
        there = np.append(old.unit_place, np.full(len(rows.unit_place) - len(old.unit_place), -1, np.int32))
        before = levels, there[rows.unit_rows].astype(np.int64)
    return rows, build_levels(*levelled, config, windows, episodes, before)


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
