"""Questions as arrays: what the profiles say, in 64-bit keys and vectors, one row a question.

Everything here is NumPy and independent of where an index lives; `retrieve` looks the keys up in its
banks and moves the rest to its device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from zeromem_gpu.encoders.lexical import LexicalWeights
from zeromem_gpu.text.entities import ANSWER_TYPES
from zeromem_gpu.text.normalize import entity_name
from zeromem_gpu.text.tokens import Analyzer, term_keys
from zeromem_gpu.types import QueryProfile
from zeromem_kernels.layout import positions


@dataclass(frozen=True)
class Ragged:
    """`values[ptr[i]:ptr[i+1]]` belong to row i; `ptr` int64 [rows + 1], `values` int64 keys."""

    ptr: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[np.ndarray]) -> Ragged:
        """Put rows of keys one after another."""
        ptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=ptr[1:])
        return cls(ptr, np.concatenate(rows) if len(rows) else np.empty(0, np.int64))

    def take(self, rows: np.ndarray) -> Ragged:
        """The given rows in the given order; row −1 is an empty one."""
        begin, end = np.append(self.ptr[:-1], 0)[rows], np.append(self.ptr[1:], 0)[rows]
        ptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(end - begin, out=ptr[1:])
        slot = np.repeat(begin - ptr[:-1], end - begin) + np.arange(ptr[-1])
        return Ragged(ptr, self.values[slot])


@dataclass(frozen=True)
class Keyed:
    """Vectors by key: `keys` int64 [m] ascending, `vectors` float32 [m, D]."""

    keys: np.ndarray
    vectors: np.ndarray

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The row of each key, −1 for one without a vector."""
        return positions(keys, self.keys)


@dataclass(frozen=True)
class QueryBatch:
    """One row a question.

    `vectors` float32 [Q, D]; `terms` stems for BM25, `words` those of letters and outside of names, each
    once; `phrases` row → phrase ids, `phrase_words` phrase → raw words; `subjects` and `entities` keys of
    normalised names; `word_names` and `entity_names` what words and entities stand for;
    `validity` float64 [Q, 2] UTC seconds, NaN both where there is none; `type_bits` int32 [Q];
    `dated` bool [Q], a date is asked for; `relational` bool [Q], the route; `entity_vectors` and
    `word_vectors` are those of the query's entities and words that their bank does not know; `learned` are
    the encoder's token weights of each question, none where nothing asks for them.
    """

    vectors: np.ndarray
    terms: Ragged
    words: Ragged
    word_names: dict[int, str]
    phrases: Ragged
    phrase_words: Ragged
    subjects: Ragged
    entities: Ragged
    entity_names: dict[int, str]
    validity: np.ndarray
    type_bits: np.ndarray
    dated: np.ndarray
    relational: np.ndarray
    entity_vectors: Keyed
    word_vectors: Keyed
    learned: LexicalWeights

    def __len__(self) -> int:
        """The number of questions."""
        return len(self.vectors)

    def take(self, rows: np.ndarray) -> QueryBatch:
        """The given questions in the given order; what they refer to is shared."""
        ragged = {
            name: getattr(self, name).take(rows)
            for name in ("terms", "words", "phrases", "subjects", "entities", "learned")
        }
        plain = {
            name: getattr(self, name)[rows]
            for name in ("vectors", "validity", "type_bits", "dated", "relational")
        }
        return replace(self, **ragged, **plain)


def build_batch(profiles: Sequence[QueryProfile], vectors: np.ndarray, analyzer: Analyzer) -> QueryBatch:
    """Turn profiles and question vectors into arrays; the analyzer must be the index's."""
    words = [analyzer.tokens(profile.text) for profile in profiles]
    stems = [[stem for stem in analyzer.stems(tokens) if stem] for tokens in words]
    said = [[tokens for phrase in p.phrases if (tokens := analyzer.tokens(phrase))] for p in profiles]
    names = [_names(profile.entities) for profile in profiles]
    no_vectors = Keyed(np.empty(0, np.int64), np.empty((0, vectors.shape[1]), np.float32))
    named = [{stem for name in row for stem in analyzer.stems(analyzer.tokens(name))} for row in names]
    plain = [
        list(dict.fromkeys(stem for stem in row if stem.isalpha() and stem not in taken))
        for row, taken in zip(stems, named, strict=True)
    ]
    counts = np.cumsum([0, *(len(phrases) for phrases in said)])
    return QueryBatch(
        vectors=vectors,
        terms=Ragged.of([term_keys(row) for row in stems]),
        words=Ragged.of([term_keys(row) for row in plain]),
        word_names=_by_key(plain),
        phrases=Ragged.of([np.arange(a, b) for a, b in pairwise(counts.tolist())]),
        phrase_words=Ragged.of([term_keys(phrase) for phrases in said for phrase in phrases]),
        subjects=Ragged.of([term_keys(_names(profile.subjects)) for profile in profiles]),
        entities=Ragged.of([term_keys(row) for row in names]),
        entity_names=_by_key(names),
        validity=np.array([_interval(profile.validity) for profile in profiles]).reshape(-1, 2),
        type_bits=np.array([_type_bit(profile.answer_type) for profile in profiles], np.int32),
        dated=np.array([profile.answer_type == "date" for profile in profiles], bool),
        relational=np.array([profile.route == "relational" for profile in profiles], bool),
        entity_vectors=no_vectors,
        word_vectors=no_vectors,
        learned=LexicalWeights.none(len(profiles)),
    )


def _by_key(rows: Sequence[Sequence[str]]) -> dict[int, str]:
    """What the keys of some texts stand for."""
    return {int(key): text for row in rows for key, text in zip(term_keys(row), row, strict=True)}


def _names(surfaces: Sequence[str]) -> list[str]:
    """Normalised names without repeats, in the order in which they came."""
    return list(dict.fromkeys(name for surface in surfaces if (name := entity_name(surface))))


def _interval(validity: tuple[float | None, float | None] | None) -> tuple[float, float]:
    if validity is None or validity == (None, None):
        return (np.nan, np.nan)
    low, high = validity
    return (-np.inf if low is None else low, np.inf if high is None else high)


def _type_bit(answer_type: str) -> int:
    return 1 << ANSWER_TYPES.index(answer_type) if answer_type in ANSWER_TYPES else 0
