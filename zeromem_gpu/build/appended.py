"""The canonical rows of a bank to which units came at the end, from those before: work for what is new.

Only a new name renumbers what was there, because entities stand by key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zeromem_gpu.build.arena import Span
from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.ledger import Ledger
from zeromem_gpu.build.ordered import Vectors, ordered_vectors
from zeromem_gpu.build.tails import extended, extended_pointer
from zeromem_gpu.build.units import Rows, bridged, replying


def appended_rows(index: MemoryIndex, bank: Bank, ledger: Ledger, old: Rows) -> Rows | None:
    """What `canonical_rows` gives, grown from an older version of the bank.

    None where units went, do not come last, or hold other entities than they did.
    """
    if not len(old.unit_rows) or ledger.dead != old.dead or ledger.origin is not old.pairs_origin:
        return None
    units, pairs = index.facts(bank, "units"), ledger.pairs
    placed = _placed(units, bank, old)
    if placed is None:
        return None
    session, bounds = placed
    first, before = len(old.unit_place), len(old.unit_rows)
    sentence = int(ledger.sentence_ptr[first])
    pair, inside = int(pairs.unit_ptr[first]), int(pairs.inside_ptr[sentence])

    def follow(mine: np.ndarray, whole: np.ndarray, since: int) -> np.ndarray:
        """A column that goes on with rows that arrived since; in order of arrival it is the stored one."""
        return whole if old.in_order else extended(mine, whole[since:])

    def follow_pointer(mine: np.ndarray, whole: np.ndarray, since: int) -> np.ndarray:
        return whole if old.in_order else extended_pointer(mine, np.diff(whole[since:]))

    entities = _entities(
        index.column(bank, "entities", "key"), old,
        np.concatenate([pairs.entity[pair:], pairs.inside[inside:], units["speaker"][first:]]),
    )  # fmt: skip
    moved, place = entities.moved, entities.place
    names = old.speaker, old.counts[1], old.incidence[1]
    speaker, entity, member = names if moved is None else (moved[one] for one in names)
    unit_rows = extended(old.unit_rows, np.arange(first, len(units["trace"])))
    unit_place = extended(old.unit_place, np.arange(before, len(unit_rows)))
    said = np.diff(ledger.sentence_ptr[first:])
    sentence_rows = extended(old.sentence_rows, np.arange(sentence, ledger.sentence_ptr[-1]))
    given, told = old.given, old.told
    if len(ledger.bridges.names):
        given, told = bridged(ledger.bridges, unit_place, place)
    numbers = extended(old.session, session)
    replies = replying(ledger, units, unit_rows[before - 1 :], numbers[before - 1 :])
    return Rows(
        unit_rows=unit_rows,
        unit_place=unit_place,
        session=numbers,
        bounds=bounds,
        time=follow(old.time, units["time"], first),
        speaker=extended(speaker, place[units["speaker"][first:]]),
        types=follow(old.types, units["types"], first),
        words=follow(old.words, ledger.length, first),
        words_ptr=extended_pointer(old.words_ptr, ledger.length[first:]),
        vectors=_vectors(units["vector"], unit_rows, old.vectors, old),
        sentence_rows=sentence_rows,
        sentence_ptr=follow_pointer(old.sentence_ptr, ledger.sentence_ptr, first),
        sentence_unit=extended(old.sentence_unit, np.repeat(np.arange(before, len(unit_rows)), said)),
        sentence_vectors=_vectors(
            index.column(bank, "sentences", "vector"), sentence_rows, old.sentence_vectors, old
        ),
        entity_rows=entities.rows,
        entity_place=place,
        entity_keys=entities.keys,
        entity_vectors=_entity_vectors(index.column(bank, "entities", "vector"), entities, old),
        counts=(
            follow_pointer(old.counts[0], pairs.unit_ptr, first),
            extended(entity, place[pairs.entity[pair:]]),
            follow(old.counts[2], pairs.count, pair),
        ),
        incidence=(
            follow_pointer(old.incidence[0], pairs.inside_ptr, sentence),
            extended(member, place[pairs.inside[inside:]]),
        ),
        given=given,
        told=told,
        replies=extended(old.replies, before - 1 + replies),
        in_order=old.in_order,
        pairs_origin=old.pairs_origin,
        dead=old.dead,
        sessions=bank.spans.get("sessions", Span()).length,
        after=old.version,
    )


def _placed(units: dict[str, np.ndarray], bank: Bank, old: Rows) -> tuple[np.ndarray, np.ndarray] | None:
    """The session of each new unit and the new `bounds`; None if one has its place before an old one.

    New units come last if each goes on with the session before it, or opens one whose trace came later.
    """
    ranks, first = bank.ranks(), len(old.unit_place)
    last = int(old.unit_rows[-1])
    columns = units["session"], units["turn"], ranks[units["trace"][first:]]
    at = int(units["session"][last])
    place = int(units["turn"][last]), int(ranks[units["trace"][last]])
    opened = int(ranks[units["trace"][old.unit_rows[old.bounds[-2] :]]].min())
    number, seen = int(old.session[-1]), set[int]()
    numbers: list[int] = []
    starts: list[int] = []
    for session, turn, rank in zip(
        columns[0][first:].tolist(), columns[1][first:].tolist(), columns[2].tolist(), strict=True
    ):
        if session != at:
            if session < old.sessions or session in seen or rank <= opened:
                return None
            seen.add(session)
            starts.append(len(old.unit_rows) + len(numbers))
            at, opened, number = session, rank, number + 1
        elif (turn, rank) < place or rank < opened:
            return None
        place = turn, rank
        numbers.append(number)
    bounds = np.concatenate([old.bounds[:-1], np.array([*starts, len(old.unit_rows) + len(numbers)])])
    return np.array(numbers, np.int32), bounds


class _Entities(NamedTuple):
    """Those of `Rows`; `moved` int32 is the new row of each old one, and −1; None where all stay."""

    rows: np.ndarray
    place: np.ndarray
    keys: np.ndarray
    moved: np.ndarray | None


def _entities(keys: np.ndarray, old: Rows, used: np.ndarray) -> _Entities:
    """The entities with those that new units use (`used` are rows of arrival, −1 for none)."""
    there = len(old.entity_place) - 1
    used = np.unique(used[used >= 0])
    # the spare last place is the −1 of those that arrived since
    fresh = used[old.entity_place[np.minimum(used, there)] < 0]
    if len(fresh) == 0 and there == len(keys):
        return _Entities(old.entity_rows, old.entity_place, old.entity_keys, None)
    fresh = fresh[np.argsort(keys[fresh], kind="stable")]
    at = np.searchsorted(old.entity_keys, keys[fresh])
    rows = np.insert(old.entity_rows, at, fresh)
    place = np.full(len(keys) + 1, -1, np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    moved = np.append(place[old.entity_rows], np.int32(-1))
    return _Entities(rows, place, np.insert(old.entity_keys, at, keys[fresh]), moved)


def _vectors(column: np.ndarray, rows: np.ndarray, before: Vectors, old: Rows) -> Vectors:
    """Vectors of units or sentences; which rows they are is looked at only where they may be copied."""
    if old.in_order:
        return Vectors(column, None)
    return ordered_vectors(column, rows) if before.rows is None else Vectors(column, rows)


def _entity_vectors(column: np.ndarray, entities: _Entities, old: Rows) -> Vectors:
    """Vectors of entities; a copy serves as long as there are no others."""
    # a part of the column would keep an outgrown arena alive
    copied = old.entity_vectors.rows is None and old.entity_vectors.stored.base is None
    return (
        old.entity_vectors if copied and entities.moved is None else ordered_vectors(column, entities.rows)
    )
