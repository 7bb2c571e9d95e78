"""BM25 and token weights of whole banks, made once for a stack: what a GPU scores from.

Weighing the terms of every batch anew has sizes that only the device knows, and asking it holds up the
batch. On a card a bank's weights are made at the first search after a change and kept with its stack, so
that a batch brings nothing but the places of its terms. On a CPU, where few terms of a large bank are ever
asked for, each batch weighs its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zeromem_gpu.build.stack import Stack
from zeromem_kernels.lexical import lookup
from zeromem_kernels.tiles import Csr, owners
from zeromem_kernels.weights import (
    Asked,
    Counts,
    Documents,
    gather_counts,
    given,
    term_peaks,
    weigh,
)


class Words(NamedTuple):
    """The words of every bank with their units: `keys` int64 ascend inside a bank of `ptr` [banks + 1]."""

    ptr: Tensor
    keys: Tensor
    units: Asked


def serves(stack: Stack) -> bool:
    """Whether searches of a stack read weights of whole banks."""
    return stack.device.type == "cuda"


def words_of(stack: Stack) -> Words:
    """All words of a stack, over all segments of each bank."""
    found: Words | None = stack.kept.get("words")
    if found is None:
        parts = [lexicon.counts for lexicon in stack.lexicons]
        found = stack.kept["words"] = _all_of(stack, parts)
    return found


def learned_of(stack: Stack) -> tuple[Words, Csr]:
    """All tokens that have a weight somewhere, and the units of each by that weight."""
    found: tuple[Words, Csr] | None = stack.kept.get("learned")
    if found is None:
        tokens = _all_of(stack, stack.learned)
        made = given(tokens.units)
        found = stack.kept["learned"] = tokens, made._replace(peaks=term_peaks(made))
    return found


def weights_of(stack: Stack, level: str, k1: float, b: float) -> Csr:
    """BM25 weights of all words in the documents of a level: units, spans, windows or episodes."""
    kept: tuple[float, float, Csr] | None = stack.kept.get(("weights", level))
    if kept is None or kept[:2] != (k1, b):
        words = words_of(stack)
        made = weigh(words.units, stack.ptr["units"], documents_of(stack, level), k1, b)
        # a kernel scales a query's sums by its terms' largest weights
        made = made._replace(peaks=term_peaks(made))
        kept = stack.kept["weights", level] = (k1, b, made)
    return kept[2]


def documents_of(stack: Stack, level: str) -> Documents:
    """A level's intervals as BM25 counts them."""
    whole: Any = stack if level == "units" else getattr(stack, level)
    documents: Documents = whole.documents
    return documents


def _all_of(stack: Stack, parts: Sequence[Counts]) -> Words:
    """All keys of some tables with their units."""
    keys = torch.cat([part.keys for part in parts])
    banks = torch.cat([owners(part.ptr) for part in parts])
    # by key, then by bank; segments of a bank share words
    order = torch.sort(keys, stable=True).indices
    order = order[torch.sort(banks[order], stable=True).indices]
    keys, banks = keys[order], banks[order]
    first = torch.ones_like(keys, dtype=torch.bool)
    first[1:] = (keys[1:] != keys[:-1]) | (banks[1:] != banks[:-1])
    keys, banks = keys[first], banks[first]
    ptr = torch.searchsorted(banks, torch.arange(len(stack.ptr["units"]), device=keys.device))
    rows = [lookup(banks, keys, part.ptr, part.keys) for part in parts]
    return Words(ptr, keys, gather_counts(parts, rows, banks, stack.places))
