"""Which entity stands in which unit and sentence, in rows of arrival."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from zeromem_gpu.build.facts import SPEAKER_PART
from zeromem_gpu.build.ragged import expand, first_from
from zeromem_gpu.build.tails import extended
from zeromem_kernels.grouping import distinct_keys
from zeromem_kernels.layout import pointer

Table = dict[str, np.ndarray]


def _no_rows() -> np.ndarray:
    return np.zeros(1, np.int64)


@dataclass(frozen=True)
class EntityPairs:
    """c(e, d) by unit and e ∈ z by sentence, entities by ascending key inside a row.

    Unit u holds `entity[unit_ptr[u]:unit_ptr[u+1]]`, `count` times each; sentence z holds
    `inside[inside_ptr[z]:inside_ptr[z+1]]`. Pointers are int64, the rest int32.
    """

    unit_ptr: np.ndarray = field(default_factory=_no_rows)
    entity: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    count: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    inside_ptr: np.ndarray = field(default_factory=_no_rows)
    inside: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))

    def and_(self, other: EntityPairs) -> EntityPairs:
        """These rows, then the others."""
        return EntityPairs(
            extended(self.unit_ptr, other.unit_ptr[1:] + self.unit_ptr[-1]),
            extended(self.entity, other.entity),
            extended(self.count, other.count),
            extended(self.inside_ptr, other.inside_ptr[1:] + self.inside_ptr[-1]),
            extended(self.inside, other.inside),
        )


def find_pairs(
    facts: dict[str, Table], first: int, speakers: np.ndarray, *, speaker_entities: bool
) -> EntityPairs:
    """The pairs of the units from `first` on.

    A unit counts an entity as often as NER found it or, for a speaker's one-word name, the word stands in
    it, whichever is more, and once more if it speaks.

    Args:
        facts: the tables of the bank.
        first: the first unit.
        speakers: int64, ascending, the entities whose one-word names are looked for in texts.
        speaker_entities: whether a unit holds its own speaker.
    """
    units, sentences, entities = facts["units"], facts["sentences"], facts["entities"]
    sentence0 = first_from(sentences["unit"], first)
    tokens = _from(facts["tokens"], "unit", first)
    mentions = _from(facts["mentions"], "unit", first)
    held = _from(facts["sentence_entities"], "sentence", sentence0)
    speaker = units["speaker"][first:].astype(np.int64)
    token, named = _known_names(
        speakers, entities["word"], tokens["raw"], tokens["sentence"] != SPEAKER_PART
    )
    unit, entity, count = _sum_pairs(mentions["unit"], mentions["entity"], mentions["count"])
    by_word = _sum_pairs(tokens["unit"][token], named, np.ones(len(named), np.int64))
    unit, entity, count = _merge((unit, entity, count), by_word, np.maximum)
    # the caption's words name entities of the unit, but belong to none of its sentences
    within = tokens["sentence"][token] >= 0
    sentence = [held["sentence"], tokens["sentence"][token[within]]]
    member = [held["entity"], named[within]]
    if speaker_entities:
        own = np.flatnonzero(speaker >= 0)
        unit, entity, count = _merge(
            (unit, entity, count), (first + own, speaker[own], np.ones(len(own), np.int64)), np.add
        )
        says = speaker[sentences["unit"][sentence0:] - first]
        said = np.flatnonzero(says >= 0)
        sentence.append(sentence0 + said)
        member.append(says[said])
    key = entities["key"]
    order = np.lexsort((key[entity], unit))
    unit, entity, count = unit[order], entity[order], count[order]
    pair, _ = distinct_keys(np.concatenate(sentence).astype(np.int64) << 32 | np.concatenate(member))
    home, inside = pair >> 32, pair & 0xFFFFFFFF
    order = np.lexsort((key[inside], home))
    return EntityPairs(
        pointer(np.bincount(unit - first, minlength=len(speaker))),
        entity.astype(np.int32), count.astype(np.int32),
        pointer(np.bincount(home - sentence0, minlength=len(sentences["unit"]) - sentence0)),
        inside[order].astype(np.int32),
    )  # fmt: skip


def _from(table: Table, column: str, first: int) -> Table:
    """The rows of a table whose ascending column is at least `first`."""
    begin = first_from(table[column], first)
    return {name: values[begin:] for name, values in table.items()}


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


def _sum_pairs(
    first: np.ndarray, second: np.ndarray, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct (first, second) with their counts added up."""
    key = first.astype(np.int64) << 32 | second
    distinct, inverse = distinct_keys(key)
    total = np.bincount(inverse, weights=count, minlength=len(distinct)).astype(np.int64)
    return distinct >> 32, distinct & 0xFFFFFFFF, total


def _merge(
    left: tuple[np.ndarray, ...], right: tuple[np.ndarray, ...], combine: np.ufunc
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Join two lists of distinct (unit, entity, count); counts of a pair in both are combined."""
    key = np.concatenate([left[0] << 32 | left[1], right[0].astype(np.int64) << 32 | right[1]])
    distinct, inverse = distinct_keys(key)
    count = np.zeros(len(distinct), np.int64)
    count[inverse[: len(left[0])]] = left[2]
    slot = inverse[len(left[0]) :]
    count[slot] = combine(count[slot], right[2])
    return distinct >> 32, distinct & 0xFFFFFFFF, count
