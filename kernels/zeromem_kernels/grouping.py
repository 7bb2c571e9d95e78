"""Grouping by counting: stable orders of small keys, and how often each term stands in each document.

Both are linear in what they read, where sorting is not; a bank's lexicon is made of little else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zeromem_kernels.tiles import compiled, compiled_host


class TermCounts(NamedTuple):
    """Postings by term: term t stands in `documents[ptr[t]:ptr[t+1]]` (ascending), `counts` times in each.

    `ptr` is int64 [terms + 1], `documents` int64 and `counts` int64 [postings].
    """

    ptr: Tensor
    documents: Tensor
    counts: Tensor


def distinct_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys (int64 [n]), ascending, and where each key is among them, int64 [n].

    >>> distinct_keys(np.array([7, -3, 7]))
    (array([-3,  7]), array([1, 0, 1]))
    """
    if cpu := compiled_host():
        number = np.empty(len(keys), np.int64)
        found = cpu.number_keys(keys, number)
        order = np.argsort(found)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return found[order], place[number]
    distinct, number = np.unique(keys, return_inverse=True)
    return distinct, number


def stable_order(keys: Tensor, bins: int) -> Tensor:
    """The order that sorts `keys`, equal ones as they came.

    Args:
        keys: int64 [n], from 0 to `bins` − 1.
        bins: at least 1.

    Returns:
        int64 [n].
    """
    if cpu := compiled(keys):
        order = torch.empty_like(keys)
        cpu.stable_order(keys.numpy(), torch.zeros(bins + 1, dtype=torch.int64).numpy(), order.numpy())
        return order
    return torch.sort(keys, stable=True).indices


def term_counts(terms: Tensor, unit_ptr: Tensor, first: Tensor, end: Tensor, bins: int) -> TermCounts:
    """Count terms in documents that are runs of units.

    Args:
        terms: int64 [tokens], from 0 to `bins` − 1, in unit order.
        unit_ptr: int64 [units + 1], the tokens of each unit.
        first: int64 [documents], the first unit of each document.
        end: int64 [documents], the unit behind its last.
        bins: how many terms there are.

    Returns:
        The postings of every term.
    """
    if cpu := compiled(terms):
        ptr = torch.zeros(bins + 1, dtype=torch.int64)
        given = [x.numpy() for x in (terms, unit_ptr, first, end)]
        cpu.document_frequency(*given, torch.full((bins,), -1).numpy(), ptr.numpy())
        torch.cumsum(ptr, 0, out=ptr)
        documents, counts = torch.empty((2, int(ptr[-1])), dtype=torch.int64)
        cursor = ptr[:-1].clone()
        cpu.fill_postings(
            *given, torch.full((bins,), -1).numpy(), cursor.numpy(), documents.numpy(), counts.numpy()
        )
        return TermCounts(ptr, documents, counts)
    sizes = (unit_ptr[end] - unit_ptr[first]).clamp(min=0)
    document = torch.repeat_interleave(torch.arange(len(first)), sizes)
    begin = torch.cumsum(sizes, 0) - sizes
    token = torch.arange(len(document)) - begin[document] + unit_ptr[first][document]
    pair, counts = torch.unique(terms[token] * max(len(first), 1) + document, return_counts=True)
    term, documents = pair // max(len(first), 1), pair % max(len(first), 1)
    ptr = torch.zeros(bins + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(term, minlength=bins), 0, out=ptr[1:])
    return TermCounts(ptr, documents, counts)
