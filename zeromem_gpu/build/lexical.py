"""BM25 postings with eager weights at every level, and the word stream for phrases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeromem_gpu.build.ragged import Rows, checked_int32, expand, from_pairs, pointer
from zeromem_gpu.config import Config


@dataclass(frozen=True)
class Lexicon:
    """Terms of a bank (ascending keys) and, per level, the postings of each term."""

    terms: np.ndarray
    postings: dict[str, Rows]


@dataclass(frozen=True)
class WordStream:
    """Words of a bank in reading order; see `zeromem_kernels.lexical.Stream`."""

    keys: np.ndarray
    words: np.ndarray
    unit: np.ndarray
    places: Rows


def build_lexicon(
    stem: np.ndarray,
    unit: np.ndarray,
    units: int,
    levels: dict[str, tuple[np.ndarray, np.ndarray]],
    config: Config,
) -> Lexicon:
    """BM25 weights of every (term, document) of every level.

    Args:
        stem: int64 [tokens] keys, 0 for words that BM25 ignores.
        unit: int64 [tokens], the unit of each, ascending.
        units: number of units.
        levels: per level, the [first, end) unit intervals that are its documents.
        config: holds k1 and b.
    """
    kept = stem != 0
    terms, term = np.unique(stem[kept], return_inverse=True)
    pair, count = np.unique(term.astype(np.int64) * max(units, 1) + unit[kept], return_counts=True)
    term, unit = pair // max(units, 1), pair % max(units, 1)
    by_unit = from_pairs(unit, np.arange(len(unit)), units)
    return Lexicon(
        terms,
        {
            name: _postings(term, count, by_unit, first, end, len(terms), config)
            for name, (first, end) in levels.items()
        },
    )


def _postings(
    term: np.ndarray,
    count: np.ndarray,
    by_unit: Rows,
    first: np.ndarray,
    end: np.ndarray,
    terms: int,
    config: Config,
) -> Rows:
    """Sum (term, unit) counts over each document's units and weigh them."""
    documents = len(first)
    member, document = expand(first, end)
    entry, which = expand(by_unit.indptr[member], by_unit.indptr[member + 1])
    source = by_unit.indices[entry]
    key = term[source] * max(documents, 1) + document[which]
    pair, inverse = np.unique(key, return_inverse=True)
    tf = np.bincount(inverse, count[source], len(pair))
    term, document = pair // max(documents, 1), pair % max(documents, 1)
    length = np.bincount(document, tf, documents)
    average = max(length.mean() if documents else 1.0, 1.0)
    frequency = np.bincount(term, minlength=terms)
    idf = np.log1p((documents - frequency + 0.5) / (frequency + 0.5))
    k1, b = config.bm25_k1, config.bm25_b
    weight = idf[term] * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length[document] / average))
    return Rows(pointer(frequency), checked_int32(document), weight.astype(np.float32))


def build_stream(raw: np.ndarray, unit: np.ndarray) -> WordStream:
    """Number a bank's words and list where each stands; key 0 separates parts."""
    keys, word = np.unique(raw, return_inverse=True)
    separator = int(np.searchsorted(keys, 0))
    if separator < len(keys) and keys[separator] == 0:
        keys = np.delete(keys, separator)
        word = np.where(word == separator, -1, word - (word > separator))
    spoken = np.flatnonzero(word >= 0)
    return WordStream(
        keys, word.astype(np.int32), unit.astype(np.int32), from_pairs(word[spoken], spoken, len(keys))
    )
