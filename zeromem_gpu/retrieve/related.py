"""BM25 of words near to the questions' without asking the device anything: the form of a card.

Σ near(t, t′) · rarity(t′)² · w(t′, d) is a matrix of shares, near · rarity² of each word of a bank for
each question, times the weights of the bank's words in its units. Both have sizes that the host knows,
where a list of the near words (`words.py`) is as long as the device finds it to be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zeromem_gpu.build.stack import Stack
from zeromem_gpu.config import Config
from zeromem_gpu.retrieve import eager
from zeromem_gpu.retrieve.groups import Group
from zeromem_kernels.layout import positions
from zeromem_kernels.lexical import lookup
from zeromem_kernels.related import nearness, rarity
from zeromem_kernels.similarity import runs
from zeromem_kernels.spmm import tile_spmm
from zeromem_kernels.tiles import Csr, expand, owners, slice_table

# near(t, t′) of so many pairs at once, 64 MiB of them
_BLOCK = 1 << 24


class Links(NamedTuple):
    """`weights` has units as rows and words that have a vector as indices; `rarity` float32 is theirs."""

    weights: Csr
    rarity: Tensor


def related_bm25(group: Group, config: Config) -> Tensor:
    """BM25 of the words near to each question's, float32 [unit rows, width]."""
    stack, terms, width = group.stack, group.axes["terms"], group.tiles.width
    links = links_of(stack, config.bm25_k1, config.bm25_b)
    asked = group.batch.words.take(group.query)
    beside = group.upload(group.batch.word_vectors.vectors)
    shares = terms.full(0.0)
    for bank, first, last in runs(group.tiles):
        count = int(np.diff(stack.host_ptr["terms"])[bank])
        ptr = asked.ptr[first * width : last * width + 1]
        mine = asked.values[ptr[0] : ptr[-1]]
        if count == 0 or len(mine) == 0:
            continue
        keys, word = np.unique(mine, return_inverse=True)
        slot = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        found = torch.zeros((len(ptr) - 1, count), device=stack.device)
        step = max(_BLOCK // count, 1)
        for a in range(0, len(keys), step):
            here = (word >= a) & (word < a + step)
            near = _near(group, bank, keys[a : a + step], beside, config.related_floor)
            _add(group, found, slot[here], word[here] - a, near)
        rows = shares[int(terms.host_starts[first]) : int(terms.host_starts[last])]
        rows.view(last - first, count, width).copy_(found.view(last - first, width, count).transpose(1, 2))
    shares *= links.rarity[terms.stacked_row][:, None]
    return tile_spmm(links.weights, shares, terms, group.axes["units"])


def links_of(stack: Stack, k1: float, b: float) -> Links:
    """The words of a stack's units, made once."""
    kept: tuple[float, float, Links] | None = stack.kept.get("links")
    if kept is None or kept[:2] != (k1, b):
        kept = stack.kept["links"] = (k1, b, _links(stack, k1, b))
    return kept[2]


def _links(stack: Stack, k1: float, b: float) -> Links:
    words, postings = eager.words_of(stack), eager.weights_of(stack, "units", k1, b)
    units, terms = stack.ptr["units"], stack.ptr["terms"]
    bank = owners(terms)
    place = lookup(bank, stack.term_keys, words.ptr, words.keys)
    # a word whose units are all gone stands nowhere
    row = torch.where(place >= 0, place + words.ptr[bank], -1)
    begin = postings.indptr[row.clamp(min=0)]
    counts = torch.where(row >= 0, postings.indptr[row.clamp(min=0) + 1] - begin, 0)
    term, at = expand(begin, counts)
    unit = postings.indices[at] + units[bank[term]]
    order = torch.sort(unit, stable=True).indices
    indptr = torch.zeros(int(units[-1]) + 1, dtype=torch.int64, device=unit.device)
    torch.cumsum(torch.bincount(unit, minlength=len(indptr) - 1), 0, out=indptr[1:])
    table = Csr(indptr, (term - terms[bank[term]])[order].int(), postings.weights[at][order])
    table = table._replace(slices=slice_table(table, units, terms))
    return Links(table, rarity(counts, units.diff()[bank]))


def _near(group: Group, bank: int, keys: np.ndarray, beside: Tensor, floor: float) -> Tensor:
    """near(t, t′) of some words with all of a bank's, by the ascending keys of both, float32 [m, n]."""
    stack = group.stack
    known, arrival = stack.host_terms[bank]
    own = positions(keys, known)
    stored, unknown = np.flatnonzero(own >= 0), np.flatnonzero(own < 0)
    words = torch.zeros((len(keys), beside.shape[1]), device=stack.device)
    if len(unknown):
        given = group.batch.word_vectors.find(keys[unknown])
        words[group.upload(unknown)] = beside[group.upload(given.astype(np.int64))]
    place = group.upload(stored)
    if len(stored):
        words[place] = stack.term_vectors[bank][group.upload(arrival[own[stored]])]
    begin, end = (int(edge) for edge in stack.host_ptr["terms"][bank : bank + 2])
    near = nearness(words, stack.term_vectors[bank], floor)[:, stack.term_rows[begin:end]]
    if len(stored):
        near[place, group.upload(own[stored].astype(np.int64))] = 0.0
    return near


def _add(group: Group, found: Tensor, slot: np.ndarray, word: np.ndarray, near: Tensor) -> None:
    """Add the rows `near[word]` to the rows `found[slot]`, those of a slot one after another by word."""
    order = np.lexsort((word, slot))
    slot, word = slot[order], word[order]
    first = np.searchsorted(slot, slot)
    turn = np.arange(len(slot)) - first
    order = np.argsort(turn, kind="stable")
    rows, words = group.upload(slot[order]), group.upload(word[order])
    begin = 0
    for size in np.bincount(turn).tolist():
        # no slot twice: whatever adds first, the sum is the same
        found.index_add_(0, rows[begin : begin + size], near[words[begin : begin + size]])
        begin += size
