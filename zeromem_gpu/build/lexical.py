"""BM25 postings with eager weights at every level, and the word stream for phrases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zeromem_gpu.build.ragged import Rows, checked_int32, from_pairs, pointer
from zeromem_gpu.config import Config
from zeromem_kernels.grouping import term_counts


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
    token = torch.from_numpy(term.astype(np.int64))
    unit_ptr = torch.from_numpy(pointer(np.bincount(unit[kept], minlength=units)))
    postings = {
        name: _postings(token, unit_ptr, *edges, len(terms), config) for name, edges in levels.items()
    }
    return Lexicon(terms, postings)


def _postings(
    term: Tensor, unit_ptr: Tensor, first: np.ndarray, end: np.ndarray, terms: int, config: Config
) -> Rows:
    """Count terms in each document's units and weigh them."""
    documents = len(first)
    starts, ends = (torch.from_numpy(np.ascontiguousarray(edge, np.int64)) for edge in (first, end))
    found = term_counts(term, unit_ptr, starts, ends, terms)
    ptr, document, tf = (part.numpy() for part in found)
    frequency = np.diff(ptr)
    length = (unit_ptr[ends] - unit_ptr[starts]).numpy()
    average = max(length.mean() if documents else 1.0, 1.0)
    idf = np.log1p((documents - frequency + 0.5) / (frequency + 0.5))
    k1, b = config.bm25_k1, config.bm25_b
    weight = (
        np.repeat(idf, frequency) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length[document] / average))
    )
    return Rows(ptr, checked_int32(document), weight.astype(np.float32))


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
