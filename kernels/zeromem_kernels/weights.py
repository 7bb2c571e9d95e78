"""BM25 weights of the terms that a batch asks for, from term counts that know no document but the unit.

    w(t, d) = idf(t) · tf (k1 + 1) / (tf + k1 (1 − b + b·len(d)/avglen))
    idf(t) = ln(1 + (N − n_t + ½)/(n_t + ½))

A document is a run of units, and a unit stands in a run of documents: tf, n_t, len and avglen of every
level follow from the counts by unit. A unit that comes or goes changes the idf of every term, but only the
counts of its own: nothing that spans a bank is stored, so nothing has to be refreshed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from zeromem_kernels.tiles import Csr, compiled, expand, joined, owners, run_parts

# entries of a thread's part; fewer are done before another thread has begun
_LEAST_ROOM = 1 << 16


class Counts(NamedTuple):
    """How often each term stands in each unit of stacked banks.

    `ptr` int64 [banks + 1] are the terms of each bank, `keys` int64 ascending inside a bank. Term i
    stands in the stored units `units[indptr[i]:indptr[i+1]]` (int32, local to the bank), `counts` int32
    times in each. Where weights are given, `counts` are these, float32 (see `given`).
    """

    ptr: Tensor
    keys: Tensor
    indptr: Tensor
    units: Tensor
    counts: Tensor


class Places(NamedTuple):
    """Where stored units stand: `row` int32 is the row of each in its bank, −1 for one that is gone.

    `ptr` int64 [banks + 1] are the stored units of each bank.
    """

    ptr: Tensor
    row: Tensor


class Documents(NamedTuple):
    """A level's documents: `ptr` int64 [banks + 1], `length` int64 words of each.

    The unit in row u of a bank is part of its documents `low[u] … high[u]` − 1, int32 over the stack.
    """

    ptr: Tensor
    length: Tensor
    low: Tensor
    high: Tensor


class Asked(NamedTuple):
    """Live units of some terms: term i stands in rows `units[begin[i]:end[i]]`, `counts` times in each.

    `banks` int64 [terms] is the stacked bank of each, ascending; `begin`, `end` int64; the others int32,
    `counts` float32 where those of `Counts` are.
    """

    banks: Tensor
    begin: Tensor
    end: Tensor
    units: Tensor
    counts: Tensor


def gather_counts(parts: Sequence[Counts], terms: Sequence[Tensor], banks: Tensor, places: Places) -> Asked:
    """Bring together what several tables know of some terms.

    Args:
        parts: tables of the same banks; a unit is in one of them.
        terms: per table, int32 [n] the local term, −1 where the bank does not have it.
        banks: int64 [n], the bank of each term, ascending.
        places: where the units stand.

    Returns:
        The units of each term that are not gone.
    """
    rows = [
        torch.where(term >= 0, term + part.ptr[banks], -1) for part, term in zip(parts, terms, strict=True)
    ]
    sizes = [
        torch.where(row >= 0, _sizes(part.indptr, row), 0) for part, row in zip(parts, rows, strict=True)
    ]
    ptr = torch.zeros(len(banks) + 1, dtype=torch.int64, device=banks.device)
    torch.cumsum(torch.stack(sizes).sum(0), 0, out=ptr[1:])
    if cpu := compiled(banks):
        units = torch.empty(int(ptr[-1]), dtype=torch.int32)
        counts = torch.empty(len(units), dtype=parts[0].counts.dtype)
        end = ptr[:-1].clone()
        for part, row in zip(parts, rows, strict=True):
            cpu.gather_rows(*(x.numpy() for x in (
                banks, row, part.indptr, part.units, part.counts, places.ptr, places.row, end, units, counts
            )))  # fmt: skip
        return Asked(banks, ptr[:-1], end, units, counts)
    found = []
    for part, row, size in zip(parts, rows, sizes, strict=True):
        which, at = expand(part.indptr[row.clamp(min=0)] if len(part.indptr) > 1 else row * 0, size)
        unit = places.row[places.ptr[banks[which]] + part.units[at]]
        live = unit >= 0
        found.append((which[live], unit[live], part.counts[at][live]))
    which, unit, count = (torch.cat(column) for column in zip(*found, strict=True))
    order = torch.sort(which, stable=True).indices
    total = torch.bincount(which, minlength=len(banks))
    end = torch.cumsum(total, 0)
    return Asked(banks, end - total, end, unit[order], count[order])


def weigh(asked: Asked, unit_ptr: Tensor, documents: Documents, k1: float, b: float) -> Csr:
    """The weights of each term in the documents of a level.

    Args:
        asked: the terms and their units.
        unit_ptr: int64 [banks + 1], the units of each bank.
        documents: the level.
        k1: saturation of repeated terms.
        b: how much long documents are held back.

    Returns:
        Rows are terms, indices local documents, in no particular order; weights float32.
    """
    banks, sizes = asked.banks, documents.ptr.diff()
    cover = torch.cat([documents.length.new_zeros(1), torch.cumsum(documents.length, 0)])[
        documents.ptr
    ].diff()
    average = (cover.double() / sizes.clamp(min=1)).clamp_(min=1.0)
    if cpu := compiled(banks):
        widest = int((documents.high - documents.low).max()) if len(documents.low) else 0
        room = torch.minimum((asked.end - asked.begin) * widest, sizes[banks])
        most = int(sizes.max()) if len(sizes) else 0

        def some(first: int, last: int) -> Csr:
            ptr = torch.zeros(last - first + 1, dtype=torch.int64)
            found = torch.empty(int(room[first:last].sum()), dtype=torch.int32)
            weights = torch.empty(len(found))
            seen, touched = torch.zeros((2, most), dtype=torch.int32)
            terms = (banks[first:last], asked.begin[first:last], asked.end[first:last])
            given = (*terms, asked.units, asked.counts, unit_ptr, *documents, average)
            cpu.weigh_terms(
                *(x.numpy() for x in given), float(k1), float(b),
                *(x.numpy() for x in (seen, touched, ptr, found, weights)),
            )  # fmt: skip
            total = int(ptr[-1])
            return Csr(ptr, found[:total], weights[:total])

        return joined(run_parts(some, room.numpy(), _LEAST_ROOM))
    which, at = expand(asked.begin, asked.end - asked.begin)
    unit = unit_ptr[banks[which]] + asked.units[at]
    member, document = expand(documents.low[unit], (documents.high - documents.low)[unit])
    most = max(int(sizes.max()) if len(sizes) else 0, 1)
    pair, place = torch.unique(which[member] * most + document, return_inverse=True)
    tf = torch.zeros(len(pair), dtype=torch.int64, device=pair.device)
    tf.index_add_(0, place, asked.counts[at][member].long())
    term, document = pair // most, pair % most
    frequency = torch.bincount(term, minlength=len(banks))
    idf = torch.log1p((sizes[banks] - frequency.double() + 0.5) / (frequency.double() + 0.5))
    length = documents.length[documents.ptr[banks[term]] + document].double()
    held = tf + k1 * (1 - b + b * length / average[banks[term]])
    ptr = torch.cat([frequency.new_zeros(1), torch.cumsum(frequency, 0)])
    return Csr(ptr, document.int(), (idf[term] * tf * (k1 + 1) / held).float())


def given(asked: Asked) -> Csr:
    """The postings of terms whose weights are given, not counted: rows are terms, indices units.

    `lexical.bm25` over them, with the query's weights as shares, is Σ_t w(t, q) · w(t, d). Units ascend
    inside a row, but for the compiled forms, which ask for no order.
    """
    sizes = asked.end - asked.begin
    which, at = expand(asked.begin, sizes)
    if compiled(asked.units) is None:
        at = at[torch.argsort(which << 32 | asked.units[at].long())]
    ptr = torch.cat([sizes.new_zeros(1), torch.cumsum(sizes, 0)])
    return Csr(ptr, asked.units[at], asked.counts[at])


def term_peaks(postings: Csr) -> Tensor:
    """The largest weight of each term, float32 [terms]; 0 for one without documents."""
    if postings.peaks is not None:
        return postings.peaks
    row = owners(postings.indptr, len(postings.weights))
    found = torch.zeros(len(postings.indptr) - 1, device=row.device)
    return found.scatter_reduce_(0, row, postings.weights, "amax")


def weigh_collection(
    indptr: Tensor, units: Tensor, counts: Tensor, length: Tensor, k1: float, b: float
) -> Csr:
    """The weights of every term of one collection in which each unit is a document of its own.

    Args:
        indptr: int64 [terms + 1].
        units: int32, the units of each term.
        counts: int32, how often it stands in each.
        length: int64 [units], words of each.
        k1: saturation of repeated terms.
        b: how much long documents are held back.

    Returns:
        As of `weigh`.
    """
    ptr, unit = length.new_tensor([0, len(length)]), torch.arange(len(length), dtype=torch.int32)
    asked = Asked(torch.zeros(len(indptr) - 1, dtype=torch.int64), indptr[:-1], indptr[1:], units, counts)
    return weigh(asked, ptr, Documents(ptr, length, unit, unit + 1), k1, b)


def _sizes(indptr: Tensor, rows: Tensor) -> Tensor:
    """The length of each row; row −1 is as long as any."""
    if len(indptr) < 2:
        return torch.zeros_like(rows)
    safe = rows.clamp(min=0)
    return indptr[safe + 1] - indptr[safe]
