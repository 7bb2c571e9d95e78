"""The words of a bank in order of arrival: how often each stands in each unit, and the stream for phrases.

A bank's words lie in segments, runs of its units. Segments never change. New units go into a small last
one, which is made anew until it is full and then joins the one before: as many segments as the logarithm
of the bank, and each word is sorted that often. Weights follow from the counts when a search asks for
them (`zeromem_kernels.weights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch

from zeromem_gpu.build.ragged import Rows, checked_int32, first_from, from_pairs
from zeromem_kernels.grouping import distinct_keys, term_counts
from zeromem_kernels.layout import pointer

# units of a last segment that is full
_FULL = 256
# a segment joins the one before unless that is this many times its size
_RATIO = 16


class Run(Protocol):
    """A run of a bank's units, [first, end)."""

    @property
    def first(self) -> int: ...  # noqa: D102

    @property
    def end(self) -> int: ...  # noqa: D102

    @property
    def size(self) -> int: ...  # noqa: D102


R = TypeVar("R", bound=Run)


@dataclass(frozen=True)
class WordStream:
    """Words of a run of units in reading order; see `zeromem_kernels.lexical.Stream`."""

    keys: np.ndarray
    words: np.ndarray
    unit: np.ndarray
    occurrences: Rows


@dataclass(frozen=True)
class Segment:
    """The units [first, end) of a bank and their tokens, which begin at row `token` of the table.

    `terms` int64 ascend; term i stands in units `units[indptr[i]:indptr[i+1]]`, `counts` times in each.
    """

    first: int
    end: int
    token: int
    terms: np.ndarray
    indptr: np.ndarray
    units: np.ndarray
    counts: np.ndarray
    stream: WordStream

    @property
    def size(self) -> int:
        """How many units it has."""
        return self.end - self.first


def grow_segments(
    segments: tuple[Segment, ...], raw: np.ndarray, stem: np.ndarray, unit: np.ndarray, units: int
) -> tuple[Segment, ...]:
    """Segments over all `units` of a bank, from those over its first ones.

    Args:
        segments: what was there; () for a new bank.
        raw: int64 [tokens] keys of the words as they are, 0 between parts.
        stem: int64 [tokens] keys for BM25, 0 for words that it ignores.
        unit: int32 [tokens], the unit of each, ascending.
        units: how many units the bank has.
    """
    if segments and segments[-1].end == units:
        return segments
    kept, first = settled(segments, units)
    begin = first_from(unit, first)
    kept.append(build_segment(raw[begin:], stem[begin:], unit[begin:], first, units, begin))
    return tuple(kept)


def settled(segments: Sequence[R], units: int) -> tuple[list[R], int]:
    """Which segments stay when their bank has `units`, and where the one to make behind them begins."""
    kept = list(segments)
    if kept and kept[-1].size < _FULL:
        kept.pop()
    first = kept[-1].end if kept else 0
    while kept and units - first >= _FULL and kept[-1].size < (units - first) * _RATIO:
        first = kept.pop().first
    return kept, first


def build_segment(
    raw: np.ndarray, stem: np.ndarray, unit: np.ndarray, first: int, end: int, token: int = 0
) -> Segment:
    """The segment of the units [first, end), whose tokens are given; `token` is the row of the first."""
    spoken = stem != 0
    terms, term = distinct_keys(stem[spoken])
    place = np.arange(end - first)
    edges = pointer(np.bincount(unit[spoken] - first, minlength=len(place)))
    of, ptr, first_unit, end_unit = (
        torch.from_numpy(x.astype(np.int64)) for x in (term, edges, place, place + 1)
    )
    found = term_counts(of, ptr, first_unit, end_unit, len(terms))
    indptr, units, counts = (part.numpy() for part in found)
    return Segment(
        first, end, token, terms, indptr, checked_int32(units + first), counts.astype(np.int32),
        build_stream(raw, unit),
    )  # fmt: skip


def build_stream(raw: np.ndarray, unit: np.ndarray) -> WordStream:
    """Number the words and list where each stands; key 0 separates parts."""
    keys, word = distinct_keys(raw)
    separator = int(np.searchsorted(keys, 0))
    if separator < len(keys) and keys[separator] == 0:
        keys = np.delete(keys, separator)
        word = np.where(word == separator, -1, word - (word > separator))
    spoken = np.flatnonzero(word >= 0)
    return WordStream(
        keys,
        word.astype(np.int32),
        unit.astype(np.int32, copy=False),
        from_pairs(word[spoken], spoken, len(keys)),
    )
