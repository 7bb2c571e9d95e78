"""Bridges between documents: which units tell of a name that a caller gave to other units.

A caller's name (`Trace.entities`, such as a document's title) says what a unit is about. A unit that has
the words of the name in its text and was not given it leads to the units that were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from zeromem_gpu.build.facts import SPEAKER_PART, Bank, MemoryIndex
from zeromem_gpu.build.lexical import Segment, WordStream, build_stream
from zeromem_gpu.build.ragged import expand, first_from
from zeromem_gpu.build.tails import extended
from zeromem_gpu.text.normalize import entity_name
from zeromem_gpu.text.tokens import term_key, term_keys
from zeromem_kernels.layout import pointer

Pairs = tuple[np.ndarray, np.ndarray]


def no_pairs() -> Pairs:
    """Two empty columns."""
    return np.empty(0, np.int64), np.empty(0, np.int64)


@dataclass(frozen=True)
class NameWords:
    """Word keys of names: those of name i are `keys[ptr[i]:ptr[i+1]]`, int64."""

    ptr: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, words: Sequence[np.ndarray]) -> NameWords:
        """The words of some names."""
        sizes = np.array([len(one) for one in words], np.int64)
        return cls(pointer(sizes), np.concatenate([np.empty(0, np.int64), *words]))

    def and_(self, other: NameWords) -> NameWords:
        """These names, then the others."""
        ptr = extended(self.ptr, other.ptr[1:] + self.ptr[-1])
        return NameWords(ptr, extended(self.keys, other.keys))


@dataclass(frozen=True)
class Bridges:
    """Names that callers gave and where they are told, in rows of arrival, of all units, gone ones too.

    `given` are distinct (unit, entity), sorted; `told` (entity, unit); `names` int64 the entities that were
    given, in the order in which `words` has theirs.
    """

    given: Pairs = field(default_factory=no_pairs)
    told: Pairs = field(default_factory=no_pairs)
    names: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    words: NameWords = field(default_factory=NameWords)


def grow_bridges(
    known: Bridges, index: MemoryIndex, bank: Bank, first: int, segments: Sequence[Segment],
    analyze: Callable[[str], list[str]],
) -> Bridges:  # fmt: skip
    """Bridges over all units of a bank.

    Args:
        known: those over the units before `first`.
        index: holds the bank.
        bank: where to look.
        first: the first unit that is new.
        segments: the words of all units.
        analyze: from a name to its words.
    """
    given = _given_names(index, bank, first)
    fresh = np.setdiff1d(given[1], known.names) if len(given[1]) else given[1]
    names = index.column(bank, "entities", "name")
    words = NameWords.of([term_keys(analyze(name)) for name in names[fresh]])
    inside = index.column(bank, "tokens", "sentence")
    unit = index.column(bank, "tokens", "unit")
    found = [np.empty(0, np.int64)]

    def look(names: np.ndarray, words: NameWords, stream: WordStream, begin: int) -> None:
        searched = inside[begin : begin + len(stream.words)] != SPEAKER_PART
        which, token = find_words(words, stream, searched)
        key = np.unique(names[which] << 32 | stream.unit[token])
        found.append(np.setdiff1d(key, given[1] << 32 | given[0], assume_unique=True))

    if len(known.names):
        begin = first_from(unit, first)
        raw = index.column(bank, "tokens", "raw")[begin:]
        look(known.names, known.words, build_stream(raw, unit[begin:]), begin)
    for segment in segments if len(fresh) else ():
        look(fresh, words, segment.stream, segment.token)
    key = np.concatenate(found)
    told = key >> 32, key & 0xFFFFFFFF
    return Bridges(
        (extended(known.given[0], given[0]), extended(known.given[1], given[1])),
        (extended(known.told[0], told[0]), extended(known.told[1], told[1])),
        extended(known.names, fresh),
        known.words.and_(words),
    )


def _given_names(index: MemoryIndex, bank: Bank, first: int) -> Pairs:
    """Distinct (unit, entity) of the names that callers gave to the units from `first` on, sorted."""
    traces = index.column(bank, "traces", "trace")
    rows = index.column(bank, "units", "trace")[first:]
    pairs = {
        (first + at, bank.entities[term_key(name)])
        for at, row in enumerate(rows.tolist())
        for name in map(entity_name, traces[row].entities)
        if name
    }
    table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def find_words(names: NameWords, stream: WordStream, searched: np.ndarray) -> Pairs:
    """(which, token) for every searched token at which the words of name `which` stand in a row.

    `searched` bool [tokens] says where a name may begin. A name without words is nowhere.
    """
    kept = np.flatnonzero(np.diff(names.ptr))
    if len(kept) == 0 or len(stream.keys) == 0:
        return no_pairs()
    # a word that the stream does not have must not look like a separator
    place = np.minimum(np.searchsorted(stream.keys, names.keys), len(stream.keys) - 1)
    word = np.where(stream.keys[place] == names.keys, place, -2)
    begin = names.ptr[:-1]
    kept = kept[word[begin[kept]] >= 0]
    head, occurrences = word[begin[kept]], stream.occurrences
    slot, which = expand(occurrences.indptr[head], occurrences.indptr[head + 1])
    token = occurrences.indices[slot].astype(np.int64)
    which, token = kept[which[searched[token]]], token[searched[token]]
    length = np.diff(names.ptr)
    for step in range(1, int(length[which].max(initial=0))):
        ends = length[which] <= step
        # the last token of a bank closes a part: it is no word
        there = stream.words[np.minimum(token + step, len(stream.words) - 1)]
        same = ends | (there == word[begin[which] + np.minimum(step, length[which] - 1)])
        which, token = which[same], token[same]
    return which, token
