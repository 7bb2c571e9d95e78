"""Forgetting: traces leave a bank at once; compacting then leaves nothing of them in any table.

A deleted trace loses its id, and its units are hidden like those that an update replaced. Views are
made from what is left, so a search after it equals one in a memory that never held the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from zeromem_gpu.build.arena import Span
from zeromem_gpu.build.facts import EPISODE_LEVEL, WINDOW_LEVEL, Bank, MemoryIndex
from zeromem_gpu.build.views import bank_view, span_members, stored_spans
from zeromem_gpu.config import Config


def chosen_rows(
    index: MemoryIndex,
    bank: Bank,
    ids: Iterable[str] | None,
    sessions: Iterable[str] | None,
    before: float | None,
) -> np.ndarray:
    """The trace rows of a bank that meet every condition that is given (all rows where none is).

    Args:
        index: holds the bank.
        bank: where to look.
        ids: trace ids; unknown ones match nothing.
        sessions: session ids; unknown ones match nothing.
        before: UTC seconds; traces from then on, or without a time, stay.
    """
    rows = np.fromiter(bank.ids.values(), np.int64, len(bank.ids))
    if ids is not None:
        rows = np.array([bank.ids[one] for one in dict.fromkeys(ids) if one in bank.ids], np.int64)
    units = index.facts(bank, "units")
    keep = np.ones(len(units["trace"]), bool)
    if sessions is not None:
        keep &= np.isin(units["session"], [bank.sessions[one] for one in sessions if one in bank.sessions])
    if before is not None:
        keep &= units["time"] < before
    return rows[np.isin(rows, units["trace"][keep])]


def forget(index: MemoryIndex, rows: Mapping[str, np.ndarray]) -> MemoryIndex:
    """The index without some trace rows of some banks; a bank of which nothing is left goes too."""
    banks = dict(index.banks)
    for name, gone in rows.items():
        bank = banks[name]
        taken = set(gone.tolist())
        ids = {key: row for key, row in bank.ids.items() if row not in taken}
        if not ids:
            del banks[name]
        elif taken:
            hidden = np.flatnonzero(np.isin(index.column(bank, "units", "trace"), gone))
            dead = np.union1d(bank.dead, hidden).astype(np.int32)
            banks[name] = bank.changed(ids=ids, dead=dead)
    return replace(index, banks=banks)


def compact(index: MemoryIndex, config: Config) -> MemoryIndex:
    """The same memory in arenas of its own, without a row of what was deleted or replaced."""
    fresh = MemoryIndex.empty(index.dim)
    return replace(
        fresh, banks={name: _rewrite(index, fresh, bank, config) for name, bank in index.banks.items()}
    )


def _rewrite(index: MemoryIndex, fresh: MemoryIndex, bank: Bank, config: Config) -> Bank:
    facts = {table: index.facts(bank, table) for table in index.arenas}
    units, sentences = facts["units"], facts["sentences"]
    live = np.ones(len(units["trace"]), bool)
    live[bank.dead] = False
    said = live[sentences["unit"]]
    kept = {"units": live, "sentences": said}
    kept["tokens"], kept["mentions"] = live[facts["tokens"]["unit"]], live[facts["mentions"]["unit"]]
    kept["learned"] = live[facts["learned"]["unit"]]
    kept["sentence_entities"] = said[facts["sentence_entities"]["sentence"]]
    kept["traces"] = _marked(len(facts["traces"]["trace"]), np.fromiter(bank.ids.values(), np.int64))
    kept["sessions"] = _marked(len(facts["sessions"]["name"]), units["session"][live])
    speaker = units["speaker"][live]
    named = [facts[table]["entity"][kept[table]] for table in ("mentions", "sentence_entities")]
    kept["entities"] = _marked(
        len(facts["entities"]["key"]), np.concatenate([*named, speaker[speaker >= 0]])
    )

    said_terms = facts["tokens"]["stem"][kept["tokens"]]
    kept["terms"] = np.isin(facts["terms"]["key"], said_terms)

    place = {table: _places(mask) for table, mask in kept.items()}
    refers = {
        "units": {"session": "sessions", "speaker": "entities", "trace": "traces"},
        "sentences": {"unit": "units"},
        "tokens": {"unit": "units", "sentence": "sentences"},
        "mentions": {"unit": "units", "entity": "entities"},
        "learned": {"unit": "units"},
        "sentence_entities": {"sentence": "sentences", "entity": "entities"},
    }
    columns: dict[str, dict[str, np.ndarray]] = {}
    for table, mask in kept.items():
        columns[table] = {name: values[mask] for name, values in facts[table].items()}
        for name, target in refers.get(table, {}).items():
            columns[table][name] = _moved(columns[table][name], place[target])
    if config.window_vectors == "encoded":
        columns["spans"] = _spans(index, bank, config, place["units"])
    spans = {
        table: fresh.arenas[table].append(Span(), rows)
        for table, rows in columns.items()
        if len(next(iter(rows.values())))
    }
    return Bank(
        bank.name, spans,
        {key: int(place["traces"][row]) for key, row in bank.ids.items()},
        {name: row for row, name in enumerate(columns["sessions"]["name"])},
        {key: row for row, key in enumerate(columns["entities"]["key"].tolist())},
    )  # fmt: skip


def _marked(size: int, rows: np.ndarray) -> np.ndarray:
    mask = np.zeros(size, bool)
    mask[rows] = True
    return mask


def _places(mask: np.ndarray) -> np.ndarray:
    """The new row of each kept row, int64; −1 for the others."""
    return np.where(mask, np.cumsum(mask) - 1, -1)


def _moved(rows: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Row numbers after the move; negative ones stand for something else and stay."""
    # a table that nothing was kept of still has to be indexed by the −1 of those who refer to none
    moved: np.ndarray = np.where(rows < 0, rows, np.append(place, -1)[np.maximum(rows, -1)])
    return moved.astype(rows.dtype)


def _spans(index: MemoryIndex, bank: Bank, config: Config, place: np.ndarray) -> dict[str, np.ndarray]:
    """The vectors of today's windows and episodes, under the keys that their moved units have."""
    view = bank_view(index, bank, config)
    moved = replace(view.rows, unit_rows=place[view.rows.unit_rows])
    parts = []
    for number, level in ((WINDOW_LEVEL, view.levels.windows), (EPISODE_LEVEL, view.levels.episodes)):
        rows = moved.unit_rows
        parts.append({
            "level": np.full(len(level.first), number, np.int32),
            "first": rows[level.first].astype(np.int32),
            "last": rows[level.end - 1].astype(np.int32),
            "members": np.array(span_members(moved, level.first, level.end), np.int64),
            "vector": stored_spans(index, bank, view.rows, number)(level.first, level.end),
        })  # fmt: skip
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
