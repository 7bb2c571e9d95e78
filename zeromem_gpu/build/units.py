"""The canonical rows of a bank: live units in session order, with their sentences, words and entities.

Canonical order makes a view depend on what a bank holds and not on how it came there: units by session,
turn and trace; sessions and traces by the first arrival of a trace id that is still there (an update keeps
its place); entities by key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeromem_gpu.build.bridges import given_names, told_names
from zeromem_gpu.build.facts import SPEAKER_PART, Bank, MemoryIndex
from zeromem_gpu.build.ragged import expand
from zeromem_gpu.config import Config
from zeromem_gpu.text.sentences import asks


@dataclass(frozen=True)
class Rows:
    """The canonical tables of one bank; all ids are canonical rows unless they say arrival.

    `unit_rows`, `sentence_rows`, `entity_rows` give the arrival row of each. `bounds` int64 [sessions + 1]
    are the units of each session. `counts` lists c(e, d) as (unit, entity, count), sorted by unit and
    entity; `incidence` the (sentence, entity) pairs, sorted; `given` (unit, entity) and `told`
    (entity, unit) are those of `bridges.py`; `replies` int64 are the units that reply to the one before.
    """

    unit_rows: np.ndarray
    session: np.ndarray
    bounds: np.ndarray
    time: np.ndarray
    speaker: np.ndarray
    types: np.ndarray
    vectors: np.ndarray
    sentence_rows: np.ndarray
    sentence_unit: np.ndarray
    sentence_vectors: np.ndarray
    entity_rows: np.ndarray
    entity_keys: np.ndarray
    entity_vectors: np.ndarray
    counts: tuple[np.ndarray, np.ndarray, np.ndarray]
    incidence: tuple[np.ndarray, np.ndarray]
    given: tuple[np.ndarray, np.ndarray]
    told: tuple[np.ndarray, np.ndarray]
    replies: np.ndarray
    raw: np.ndarray
    stem: np.ndarray
    token_unit: np.ndarray


def canonical_rows(index: MemoryIndex, bank: Bank, config: Config) -> Rows:
    """Sort a bank's live facts into canonical order and settle which entity belongs where."""
    units = index.facts(bank, "units")
    unit_rows = _session_order(units, bank)
    place = np.full(len(units["session"]), -1, np.int64)
    place[unit_rows] = np.arange(len(unit_rows))
    session, bounds = _compact(units["session"][unit_rows])

    sentences = index.facts(bank, "sentences")
    sentence_rows = _ordered(place[sentences["unit"]])
    sentence_place = np.full(len(sentences["unit"]), -1, np.int64)
    sentence_place[sentence_rows] = np.arange(len(sentence_rows))

    tokens = index.facts(bank, "tokens")
    token_rows = _ordered(place[tokens["unit"]])
    raw, token_unit = tokens["raw"][token_rows], place[tokens["unit"][token_rows]]
    token_sentence = tokens["sentence"][token_rows]

    speaker = units["speaker"][unit_rows].astype(np.int64)
    words = index.column(bank, "entities", "word")
    named = _known_names(np.unique(speaker[speaker >= 0]), words, raw, token_sentence != SPEAKER_PART)
    counts = _counts(index.facts(bank, "mentions"), place, named, token_unit, speaker, config)
    pairs = _incidence(
        index.facts(bank, "sentence_entities"), sentence_place, sentences["unit"], place,
        named, token_sentence, speaker, config,
    )  # fmt: skip

    given = given_names(index, bank, units["trace"][unit_rows])
    about = np.unique(given[1])
    names = index.column(bank, "entities", "name")[about]
    told = told_names(names, about, given, raw, token_unit, token_sentence != SPEAKER_PART, config)

    keys = index.column(bank, "entities", "key")
    present = np.unique(np.concatenate([counts[1], pairs[1], speaker[speaker >= 0]]))
    entity_rows = present[np.argsort(keys[present], kind="stable")]
    entity_place = np.full(len(keys), -1, np.int64)
    entity_place[entity_rows] = np.arange(len(entity_rows))
    return Rows(
        unit_rows=unit_rows,
        session=session,
        bounds=bounds,
        time=units["time"][unit_rows],
        # −1, no speaker, finds the −1 behind the last entity; a bank may have no entity at all
        speaker=np.append(entity_place, -1)[speaker],
        types=units["types"][unit_rows],
        vectors=_take(units["vector"], unit_rows),
        sentence_rows=sentence_rows,
        sentence_unit=place[sentences["unit"][sentence_rows]],
        sentence_vectors=_take(sentences["vector"], sentence_rows),
        entity_rows=entity_rows,
        entity_keys=keys[entity_rows],
        entity_vectors=_take(index.column(bank, "entities", "vector"), entity_rows),
        counts=_sorted_counts(counts[0], entity_place[counts[1]], counts[2]),
        incidence=_sorted_pairs(pairs[0], entity_place[pairs[1]]),
        given=(given[0], entity_place[given[1]]),
        told=(entity_place[told[0]], told[1]),
        replies=_replies(index, bank, units, unit_rows, session),
        raw=raw,
        stem=tokens["stem"][token_rows],
        token_unit=token_unit,
    )


def _session_order(units: dict[str, np.ndarray], bank: Bank) -> np.ndarray:
    """Arrival rows of the live units in canonical order."""
    # a dictionary keeps the place of a key whose value is replaced: an updated trace stays where it was
    rows = np.fromiter(bank.ids.values(), np.int64, len(bank.ids))
    rank = np.full(int(units["trace"].max(initial=-1)) + 1, len(rows), np.int64)
    rank[rows] = np.arange(len(rows))
    live = np.ones(len(units["session"]), bool)
    live[bank.dead] = False
    alive = np.flatnonzero(live)
    trace, session = rank[units["trace"][alive]], units["session"][alive]
    earliest = np.full(int(session.max(initial=-1)) + 1, len(rows), np.int64)
    np.minimum.at(earliest, session, trace)
    order: np.ndarray = alive[np.lexsort((trace, units["turn"][alive], earliest[session]))]
    return order


def _replies(
    index: MemoryIndex, bank: Bank, units: dict[str, np.ndarray], rows: np.ndarray, session: np.ndarray
) -> np.ndarray:
    """Units behind a unit of their session that ends with a question, unless its speaker goes on."""
    traces = index.column(bank, "traces", "trace")
    trace, speaker = units["trace"][rows], units["speaker"][rows]
    bounds = zip(*(units[name][rows].tolist() for name in ("trace", "start", "end")), strict=True)
    question = np.array([asks(traces[at].text[start:end]) for at, start, end in bounds], bool)
    other = (trace[1:] != trace[:-1]) & ((speaker[1:] != speaker[:-1]) | (speaker[1:] < 0))
    found: np.ndarray = np.flatnonzero(question[:-1] & other & (session[1:] == session[:-1])) + 1
    return found


def _compact(session: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number runs of equal session ids from 0, and their bounds."""
    starts = np.flatnonzero(np.diff(session, prepend=-1))
    bounds = np.append(starts, len(session)).astype(np.int64)
    return np.repeat(np.arange(len(starts)), np.diff(bounds)), bounds


def _ordered(unit: np.ndarray) -> np.ndarray:
    """Rows of live units (unit ≥ 0) in unit order, arrival inside a unit."""
    rows = np.argsort(unit, kind="stable")
    return rows[unit[rows] >= 0]


def _take(column: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """`column[rows]`, without a copy when that is the whole column in its own order."""
    return column if len(rows) == len(column) and (np.diff(rows) == 1).all() else column[rows]


def _known_names(
    speakers: np.ndarray, words: np.ndarray, raw: np.ndarray, searched: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(token, entity) for every searched token that is the one-word name of a speaker of this bank."""
    single = speakers[words[speakers] != 0]
    order = np.argsort(words[single], kind="stable")
    single = single[order]
    if len(single) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # two speakers may share a word ("C" and "C#"): it names both
    left, right = (np.searchsorted(words[single], raw, side) for side in ("left", "right"))
    slot, token = expand(left, np.where(searched, right, left))
    return token, single[slot]


def _counts(
    mentions: dict[str, np.ndarray],
    place: np.ndarray,
    named: tuple[np.ndarray, np.ndarray],
    token_unit: np.ndarray,
    speaker: np.ndarray,
    config: Config,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """c(e, d): the larger of NER count and count of the name's word, plus 1 for the unit's own speaker."""
    live = place[mentions["unit"]] >= 0
    found = place[mentions["unit"][live]], mentions["entity"][live].astype(np.int64)
    unit, entity, by_ner = _sum_pairs(*found, mentions["count"][live])
    by_word = _sum_pairs(token_unit[named[0]], named[1], np.ones(len(named[0]), np.int64))
    unit, entity, count = _merge((unit, entity, by_ner), by_word, np.maximum)
    if config.speaker_entities:
        own = np.flatnonzero(speaker >= 0)
        unit, entity, count = _merge(
            (unit, entity, count), (own, speaker[own], np.ones(len(own), np.int64)), np.add
        )
    return unit, entity, count


def _incidence(
    pairs: dict[str, np.ndarray],
    sentence_place: np.ndarray,
    sentence_unit: np.ndarray,
    place: np.ndarray,
    named: tuple[np.ndarray, np.ndarray],
    token_sentence: np.ndarray,
    speaker: np.ndarray,
    config: Config,
) -> tuple[np.ndarray, np.ndarray]:
    """Which sentence contains which entity (arrival rows of entities), not yet sorted or made unique."""
    # the caption's words name entities of the unit, but belong to none of its sentences
    inside = token_sentence[named[0]] >= 0
    sentences = [pairs["sentence"].astype(np.int64), token_sentence[named[0][inside]].astype(np.int64)]
    entities = [pairs["entity"].astype(np.int64), named[1][inside]]
    if config.speaker_entities:
        unit = place[sentence_unit]
        own = np.flatnonzero(unit >= 0)
        own = own[speaker[unit[own]] >= 0]
        sentences.append(own)
        entities.append(speaker[unit[own]])
    sentence, entity = sentence_place[np.concatenate(sentences)], np.concatenate(entities)
    return sentence[sentence >= 0], entity[sentence >= 0]


def _sum_pairs(
    first: np.ndarray, second: np.ndarray, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct (first, second) with their counts added up."""
    key = first.astype(np.int64) << 32 | second
    distinct, inverse = np.unique(key, return_inverse=True)
    total = np.bincount(inverse, weights=count, minlength=len(distinct)).astype(np.int64)
    return distinct >> 32, distinct & 0xFFFFFFFF, total


def _merge(
    left: tuple[np.ndarray, ...], right: tuple[np.ndarray, ...], combine: np.ufunc
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Join two lists of distinct (unit, entity, count); counts of a pair in both are combined."""
    key = np.concatenate([left[0] << 32 | left[1], right[0].astype(np.int64) << 32 | right[1]])
    distinct, inverse = np.unique(key, return_inverse=True)
    count = np.zeros(len(distinct), np.int64)
    count[inverse[: len(left[0])]] = left[2]
    slot = inverse[len(left[0]) :]
    count[slot] = combine(count[slot], right[2])
    return distinct >> 32, distinct & 0xFFFFFFFF, count


def _sorted_counts(
    unit: np.ndarray, entity: np.ndarray, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    order = np.lexsort((entity, unit))
    return unit[order], entity[order], count[order]


def _sorted_pairs(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    distinct = np.unique(first.astype(np.int64) << 32 | second)
    return distinct >> 32, distinct & 0xFFFFFFFF
