"""Which words of a bank are near in meaning to those of each question, by the vectors of single words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zeromem_gpu.config import Config
from zeromem_gpu.retrieve.groups import Group
from zeromem_kernels.lexical import Ragged, lookup
from zeromem_kernels.related import near, rarity
from zeromem_kernels.tiles import Csr, expand, joined
from zeromem_kernels.weights import gather_counts, weigh


class WordsNear(NamedTuple):
    """Near words as BM25 reads them: their units with weights, their boundaries, and those of each slot.

    Rows of `postings` are words, `ptr` int64 [banks + 1] are those of each bank, `terms` local to it, and
    `shares` float32 is near · rarity² of each.
    """

    postings: Csr
    ptr: Tensor
    terms: Ragged
    shares: Tensor


def words_near(group: Group, config: Config) -> WordsNear:
    """The words near to those of every slot, each with near · rarity².

    A word that its bank knows has the stored vector, another the one that came with the batch.
    """
    stack, device = group.stack, group.stack.device
    asked = group.batch.words.take(group.query)
    keys, key = np.unique(asked.values, return_inverse=True)
    base = max(len(keys), 1)
    # in ascending order of their keys, whatever the question's: sums come out the same for every bank
    slot, key = np.divmod(np.sort(_rows(asked.ptr) * base + key), base)
    bank = group.tiles.host_bank[slot // group.tiles.width]
    distinct, word = np.unique(bank * base + key, return_inverse=True)
    banks, key = np.divmod(distinct, base)
    found = _near(group, banks, keys[key], config.related_floor)

    first = stack.ptr["terms"][torch.from_numpy(banks).to(device)]
    every = found.indices + torch.repeat_interleave(first, found.indptr.diff())
    terms, term = torch.unique(every, return_inverse=True)
    bank_of = torch.searchsorted(stack.ptr["terms"], terms, right=True) - 1
    parts = [lexicon.counts for lexicon in stack.lexicons]
    rows = [lookup(bank_of, stack.term_keys[terms], part.ptr, part.keys) for part in parts]
    held = gather_counts(parts, rows, bank_of, stack.places)
    postings = weigh(held, stack.ptr["units"], stack.documents, config.bm25_k1, config.bm25_b)
    ptr = torch.searchsorted(bank_of, torch.arange(len(stack.ptr["units"]), device=device))
    rare = rarity(postings.indptr.diff(), stack.ptr["units"].diff()[bank_of])

    row = torch.from_numpy(word).to(device)
    which, place = expand(found.indptr[row], found.indptr[row + 1] - found.indptr[row])
    counts = torch.bincount(torch.from_numpy(slot).to(device)[which], minlength=len(group.query))
    slot_ptr = torch.zeros(len(group.query) + 1, dtype=torch.int64, device=device)
    torch.cumsum(counts, 0, out=slot_ptr[1:])
    mine = term[place]
    terms_of_slot = Ragged(slot_ptr, (mine - ptr[bank_of[mine]]).int())
    return WordsNear(postings, ptr, terms_of_slot, found.weights[place] * rare[mine])


def _near(group: Group, banks: np.ndarray, keys: np.ndarray, floor: float) -> Csr:
    """The near words of distinct words, `keys` int64 [m] in stacked `banks` int64 [m] ascending.

    Indices are places among the ascending keys of the words of the bank.
    """
    stack, device = group.stack, group.stack.device
    ptr = stack.ptr["terms"].tolist()
    own = lookup(torch.from_numpy(banks).to(device), torch.from_numpy(keys).to(device),
                 stack.ptr["terms"], stack.term_keys)  # fmt: skip
    given = torch.from_numpy(group.batch.word_vectors.find(keys)).to(device)
    beside = torch.from_numpy(group.batch.word_vectors.vectors).to(device)
    parts: list[Csr] = []
    for bank in np.unique(banks).tolist():
        first, last = np.searchsorted(banks, [bank, bank + 1]).tolist()
        vectors, rows = stack.term_vectors[bank], stack.term_rows[ptr[bank] : ptr[bank + 1]]
        place = torch.empty_like(rows)
        place[rows] = torch.arange(len(rows), device=device)
        mine, at = given[first:last], own[first:last]
        words = torch.zeros((last - first, vectors.shape[1]), device=device)
        words[mine >= 0] = beside[mine[mine >= 0]]
        words[at >= 0] = vectors[rows[at[at >= 0].long()]]
        parts.append(near(words, at, vectors, place, floor))
    if not parts:
        return Csr(stack.ptr["terms"][:1], own, torch.empty(0, device=device))
    return joined(parts)


def _rows(ptr: np.ndarray) -> np.ndarray:
    """The row of each value of a ragged table."""
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
