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
from zeromem_gpu.build.hierarchy import Encoded, Level, build_levels
from zeromem_gpu.build.lexical import Lexicon, WordStream, build_lexicon, build_stream
from zeromem_gpu.build.ragged import Rows as Table
from zeromem_gpu.build.ragged import from_pairs, from_ranges, transpose
from zeromem_gpu.build.units import Rows, canonical_rows
from zeromem_gpu.config import Config

T = TypeVar("T")


@dataclass(frozen=True)
class BankView:
    """Everything about one bank that a search reads, in NumPy; `stack.py` puts banks side by side.

    `term_vectors` float32 [n, D] are in order of arrival, `term_of_vector` int32 [n] names the term of each
    (row of `lexicon.terms`), −1 where no live unit holds it.
    """

    rows: Rows
    spans: Level
    windows: Level
    episodes: Level
    episode_of_window: np.ndarray
    windows_of_unit: Table
    neighbours: Table
    incidence: Table
    incidence_transposed: Table
    given: Table
    told: Table
    replies: Table
    graph: EntityContextGraph
    lexicon: Lexicon
    term_vectors: np.ndarray
    term_of_vector: np.ndarray
    stream: WordStream

    @property
    def units(self) -> int:
        """How many units are live."""
        return len(self.rows.unit_rows)


def bank_view(
    index: MemoryIndex, bank: Bank, config: Config, timings: dict[str, float] | None = None
) -> BankView:
    """The view of a bank under `config`; the parts that the configuration does not touch are shared.

    `timings` gains the seconds spent here as graph_s and bm25_s.
    """

    def timed(stage: str, make: Callable[[], T]) -> T:
        begin = time.perf_counter()
        made = make()
        if timings is not None:
            timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - begin
        return made

    lexical = (config.bm25_k1, config.bm25_b)
    with bank.building:
        rows, levels = bank.cached(
            "rows", lambda: timed("graph_s", lambda: _rows_and_levels(index, bank, config))
        )
        spans, windows, episodes, episode_of = levels
        units, entities = len(rows.unit_rows), len(rows.entity_keys)
        graph = bank.cached(
            ("graph", config.chain_weight),
            lambda: timed(
                "graph_s", lambda: build_graph(rows.counts, rows.bounds, entities, config.chain_weight)
            ),
        )
        unit = np.arange(units)
        intervals = {"units": (unit, unit + 1)}
        for name, level in (("spans", spans), ("windows", windows), ("episodes", episodes)):
            intervals[name] = (level.first, level.end)
        lexicon = bank.cached(
            ("lexicon", *lexical),
            lambda: timed(
                "bm25_s", lambda: build_lexicon(rows.stem, rows.token_unit, units, intervals, config)
            ),
        )
        stream = bank.cached(
            "stream", lambda: timed("bm25_s", lambda: build_stream(rows.raw, rows.token_unit))
        )
        return bank.cached(
            ("view", config.chain_weight, *lexical),
            lambda: _assemble(
                rows,
                spans,
                windows,
                episodes,
                episode_of,
                graph,
                lexicon,
                stream,
                index.facts(bank, "terms"),
            ),
        )


def _assemble(
    rows: Rows, spans: Level, windows: Level, episodes: Level, episode_of: np.ndarray,
    graph: EntityContextGraph, lexicon: Lexicon, stream: WordStream, terms: dict[str, np.ndarray],
) -> BankView:  # fmt: skip
    units = len(rows.unit_rows)
    session = np.repeat(np.arange(len(rows.bounds) - 1), np.diff(rows.bounds))
    left = np.flatnonzero(session[:-1] == session[1:])
    neighbours = from_pairs(np.concatenate([left, left + 1]), np.concatenate([left + 1, left]), units)
    incidence = from_pairs(*rows.incidence, len(rows.sentence_rows))
    return BankView(
        rows, spans, windows, episodes, episode_of,
        windows_of_unit=transpose(from_ranges(windows.first, windows.end), units),
        neighbours=neighbours,
        incidence=incidence,
        incidence_transposed=transpose(incidence, len(rows.entity_keys)),
        given=from_pairs(*rows.given, units),
        told=from_pairs(*rows.told, len(rows.entity_keys)),
        replies=from_pairs(rows.replies, rows.replies - 1, units),
        graph=graph, lexicon=lexicon, stream=stream,
        term_vectors=terms["vector"], term_of_vector=positions(terms["key"], lexicon.terms),
    )  # fmt: skip


def positions(keys: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    """Where each key stands among ascending ones, int32; −1 for one that is not there."""
    place = np.searchsorted(ascending, keys)
    return np.where(np.append(ascending, 0)[place] == keys, place, -1).astype(np.int32)


def _rows_and_levels(
    index: MemoryIndex, bank: Bank, config: Config
) -> tuple[Rows, tuple[Level, Level, Level, np.ndarray]]:
    rows = canonical_rows(index, bank, config)
    if config.window_vectors == "pooled":
        return rows, build_levels(rows.vectors, rows.bounds, rows.time, config)
    windows = stored_spans(index, bank, rows, WINDOW_LEVEL)
    episodes = stored_spans(index, bank, rows, EPISODE_LEVEL)
    return rows, build_levels(rows.vectors, rows.bounds, rows.time, config, windows, episodes)


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
