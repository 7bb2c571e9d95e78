"""The canonical rows of a bank: live units in session order, with their sentences and entities.

Canonical order makes a view depend on what a bank holds and not on how it came there: units by session,
turn and trace; sessions and traces by the first arrival of a trace id that is still there (an update keeps
its place); entities by key. What is known of each unit (`ledger.py`) is only put in that order here, so a
change of any kind costs a few passes over the bank's arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from zeromem_gpu.build.arena import Span
from zeromem_gpu.build.bridges import Bridges, Pairs
from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.ledger import Ledger
from zeromem_gpu.build.ordered import Vectors, is_all, ordered_vectors, take_ranges
from zeromem_kernels.layout import pointer, session_order


@dataclass(frozen=True)
class Rows:
    """The canonical tables of one bank; all ids are canonical rows unless they say arrival.

    `unit_rows`, `sentence_rows`, `entity_rows` give the arrival row of each; `unit_place` and
    `entity_place` int32 the row of each by arrival, −1 for one that is gone (entities have a spare −1 at
    the end). `bounds` int64 [sessions + 1] are the units of each session. `counts` are c(e, d) as
    (pointer, entity, count) by unit, `incidence` (pointer, entity) by sentence, entities ascending;
    `given` (unit, entity) and `told` (entity, unit) are those of `bridges.py`; `replies` int64 are the
    units that reply to the one before. `words` int64 are how many words of each unit BM25 counts,
    `words_ptr` int64 [units + 1] their sums; `session`, `speaker` and `sentence_unit` are int32.

    `in_order` says that this is the order of arrival. `pairs_origin` and `dead` are the ledger's,
    `sessions` counts those that ever were. `version` is an object of its own, `after` that of the rows that
    these go on from, None where they were made anew.
    """

    unit_rows: np.ndarray
    unit_place: np.ndarray
    session: np.ndarray
    bounds: np.ndarray
    time: np.ndarray
    speaker: np.ndarray
    types: np.ndarray
    words: np.ndarray
    words_ptr: np.ndarray
    vectors: Vectors
    sentence_rows: np.ndarray
    sentence_ptr: np.ndarray
    sentence_unit: np.ndarray
    sentence_vectors: Vectors
    entity_rows: np.ndarray
    entity_place: np.ndarray
    entity_keys: np.ndarray
    entity_vectors: Vectors
    counts: tuple[np.ndarray, np.ndarray, np.ndarray]
    incidence: tuple[np.ndarray, np.ndarray]
    given: Pairs
    told: Pairs
    replies: np.ndarray
    in_order: bool
    pairs_origin: object
    dead: int
    sessions: int
    version: object = field(default_factory=object)
    after: object = None


def canonical_rows(index: MemoryIndex, bank: Bank, ledger: Ledger) -> Rows:
    """Sort a bank's live units into canonical order and everything that is known of them with them."""
    units = index.facts(bank, "units")
    unit_rows, session = _live_order(units, bank)
    place = np.full(len(units["session"]), -1, np.int32)
    place[unit_rows] = np.arange(len(unit_rows), dtype=np.int32)
    bounds = np.append(np.flatnonzero(np.diff(session, prepend=-1)), len(session)).astype(np.int64)

    sentence_ptr, sentences = take_ranges(ledger.sentence_ptr, unit_rows)
    sentence_rows = np.arange(ledger.sentence_ptr[-1])[sentences]
    # most banks are in order already: their columns are read where they are
    in_order = is_all(unit_rows, len(place))
    at = slice(None) if in_order else unit_rows
    count_ptr, taken = take_ranges(ledger.pairs.unit_ptr, unit_rows)
    entity, count = ledger.pairs.entity[taken], ledger.pairs.count[taken]
    inside_ptr, taken = take_ranges(ledger.pairs.inside_ptr, sentence_rows)
    inside = ledger.pairs.inside[taken]

    speaker = units["speaker"][at]
    keys = index.column(bank, "entities", "key")
    entity_rows = ledger.key_order
    if len(bank.dead):
        # the spare last place takes the −1 of units without a speaker
        present = np.zeros(len(keys) + 1, bool)
        for used in (entity, inside, speaker):
            present[used] = True
        entity_rows = entity_rows[present[entity_rows]]
    entity_place = np.full(len(keys) + 1, -1, np.int32)
    entity_place[entity_rows] = np.arange(len(entity_rows), dtype=np.int32)
    given, told = bridged(ledger.bridges, place, entity_place)
    return Rows(
        unit_rows=unit_rows,
        unit_place=place,
        session=session.astype(np.int32),
        bounds=bounds,
        time=units["time"][at],
        speaker=entity_place[speaker],
        types=units["types"][at],
        words=ledger.length[at],
        words_ptr=pointer(ledger.length[at]),
        vectors=ordered_vectors(units["vector"], unit_rows),
        sentence_rows=sentence_rows,
        sentence_ptr=sentence_ptr,
        sentence_unit=np.repeat(np.arange(len(unit_rows), dtype=np.int32), np.diff(sentence_ptr)),
        sentence_vectors=ordered_vectors(index.column(bank, "sentences", "vector"), sentence_rows),
        entity_rows=entity_rows,
        entity_place=entity_place,
        entity_keys=keys[entity_rows] if len(bank.dead) else ledger.keys,
        entity_vectors=ordered_vectors(index.column(bank, "entities", "vector"), entity_rows),
        counts=(count_ptr, entity_place[entity], count),
        incidence=(inside_ptr, entity_place[inside]),
        given=given,
        told=told,
        replies=replying(ledger, units, unit_rows, session),
        in_order=in_order,
        pairs_origin=ledger.origin,
        dead=ledger.dead,
        sessions=bank.spans.get("sessions", Span()).length,
    )


def continued(rows: Rows, old: Rows) -> np.ndarray | None:
    """Where the entities of an older version of a bank are, int32, if this one only adds units at the end.

    None where a unit came before others, went, or holds other entities than it did.
    """
    same = rows.after is old.version or np.array_equal(rows.unit_rows[: len(old.unit_rows)], old.unit_rows)
    if rows.pairs_origin is not old.pairs_origin or not same:
        return None
    moved: np.ndarray = rows.entity_place[old.entity_rows]
    return moved


def _live_order(units: dict[str, np.ndarray], bank: Bank) -> tuple[np.ndarray, np.ndarray]:
    """Arrival rows of the live units in canonical order, and the session of each, numbered from 0."""
    ranks, columns = bank.ranks(), (units["session"], units["turn"], units["trace"])
    if len(bank.dead) == 0:
        session, turn, trace = columns
        return session_order(session, turn, ranks[trace])
    live = np.ones(len(units["session"]), bool)
    live[bank.dead] = False
    alive = np.flatnonzero(live)
    session, turn, trace = (column[alive] for column in columns)
    order, session = session_order(session, turn, ranks[trace])
    return alive[order], session


def bridged(bridges: Bridges, place: np.ndarray, entity_place: np.ndarray) -> tuple[Pairs, Pairs]:
    """Bridges between units that are left, by names that units that are left were given."""
    unit = place[bridges.given[0]]
    live = unit >= 0
    named = bridges.given[1][live]
    about = np.zeros(len(entity_place), bool)
    about[named] = True
    teller = place[bridges.told[1]]
    kept = (teller >= 0) & about[bridges.told[0]]
    given = unit[live].astype(np.int64), entity_place[named].astype(np.int64)
    told = entity_place[bridges.told[0][kept]].astype(np.int64), teller[kept].astype(np.int64)
    return given, told


def replying(
    ledger: Ledger, units: dict[str, np.ndarray], rows: np.ndarray, session: np.ndarray
) -> np.ndarray:
    """Units behind a unit of their session that ends with a question, unless its speaker goes on."""
    # few units ask: only those behind one that does are looked at
    behind = np.flatnonzero(ledger.asks[rows[:-1]] & (session[1:] == session[:-1])) + 1
    here, before = rows[behind], rows[behind - 1]
    trace, speaker = units["trace"], units["speaker"]
    other = (trace[here] != trace[before]) & ((speaker[here] != speaker[before]) | (speaker[here] < 0))
    found: np.ndarray = behind[other]
    return found
