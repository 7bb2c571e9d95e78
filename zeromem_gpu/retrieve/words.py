"""Which words of a bank are near in meaning to those of each question, by the vectors of single words."""

from __future__ import annotations

import numpy as np
import torch

from zeromem_gpu.retrieve.groups import Group
from zeromem_kernels.lexical import expand, lookup
from zeromem_kernels.related import Weighted, near, rarity
from zeromem_kernels.tiles import Csr


def words_near(group: Group, floor: float) -> Weighted:
    """The near terms of every slot.

    A word that its bank knows has the stored vector, another the one that came with the batch.
    """
    asked = group.batch.words.take(group.query)
    keys, key = np.unique(asked.values, return_inverse=True)
    base = max(len(keys), 1)
    # in ascending order of their keys, whatever the question's: sums come out the same for every bank
    slot, key = np.divmod(np.sort(_rows(asked.ptr) * base + key), base)
    bank = group.tiles.bank.cpu().numpy()[slot // group.tiles.width]
    distinct, word = np.unique(bank * base + key, return_inverse=True)
    banks, key = np.divmod(distinct, base)
    found = _near(group, banks, keys[key], floor)

    device = group.stack.device
    row = torch.from_numpy(word).to(device)
    which, place = expand(found.indptr[row], found.indptr[row + 1] - found.indptr[row])
    counts = torch.bincount(torch.from_numpy(slot).to(device)[which], minlength=len(group.query))
    ptr = torch.zeros(len(group.query) + 1, dtype=torch.int64, device=device)
    torch.cumsum(counts, 0, out=ptr[1:])
    return Weighted(ptr, found.indices[place], found.weights[place])


def _near(group: Group, banks: np.ndarray, keys: np.ndarray, floor: float) -> Csr:
    """The near terms of distinct words, `keys` int64 [m] in stacked `banks` int64 [m] ascending."""
    stack, device = group.stack, group.stack.device
    frequency = stack.unit_postings.indptr.diff()
    term_ptr, units = stack.ptr["terms"].tolist(), stack.ptr["units"].diff().tolist()
    own = lookup(torch.from_numpy(banks).to(device), torch.from_numpy(keys).to(device),
                 stack.ptr["terms"], stack.term_keys)  # fmt: skip
    given = torch.from_numpy(group.batch.word_vectors.find(keys)).to(device)
    beside = torch.from_numpy(group.batch.word_vectors.vectors).to(device)
    parts: list[Csr] = []
    for bank in np.unique(banks).tolist():
        first, last = np.searchsorted(banks, [bank, bank + 1]).tolist()
        terms, vectors = stack.term_of_vector[bank], stack.term_vectors[bank]
        count = term_ptr[bank + 1] - term_ptr[bank]
        stored = torch.full((count + 1,), -1, device=device)  # the spare last one takes the −1 entries
        stored[terms.long()] = torch.arange(len(terms), device=device)
        stored[count] = -1
        mine, at = given[first:last], stored[own[first:last].long()]
        words = torch.zeros((last - first, vectors.shape[1]), device=device)
        words[mine >= 0] = beside[mine[mine >= 0]]
        words[at >= 0] = vectors[at[at >= 0]]
        rare = rarity(frequency[term_ptr[bank] : term_ptr[bank + 1]], units[bank])
        parts.append(near(words, own[first:last], vectors, terms, rare, floor))
    return _joined(parts, device)


def _joined(parts: list[Csr], device: torch.device) -> Csr:
    """Tables one below the other."""
    sizes = [part.indptr.diff() for part in parts]
    ptr = torch.zeros(sum(map(len, sizes)) + 1, dtype=torch.int64, device=device)
    if not parts:
        return Csr(ptr, torch.empty(0, dtype=torch.int32, device=device), torch.empty(0, device=device))
    torch.cumsum(torch.cat(sizes), 0, out=ptr[1:])
    return Csr(ptr, torch.cat([p.indices for p in parts]), torch.cat([p.weights for p in parts]))


def _rows(ptr: np.ndarray) -> np.ndarray:
    """The row of each value of a ragged table."""
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
