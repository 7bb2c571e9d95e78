"""Exact signals per unit: BM25 from weighed terms, phrases word for word, and who speaks or is named.

The terms of a batch are weighed first (`weights.py`), so that scoring is a sum over postings:
score(d, q) = Σ_{t in q} w(t, d), a repeated term counting again.

Ragged query inputs have one slot per tile and column: slot = t·width + column, `ptr` int64 [T·width + 1].
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zeromem_kernels.checks import expect_whole
from zeromem_kernels.tiles import Axis, Csr, Tiles, compiled, expand, on_triton, owners, run_tiles
from zeromem_kernels.topk import TopK, ordered_topk
from zeromem_kernels.weights import Places


class Ragged(NamedTuple):
    """Ids per slot: slot s holds `values[ptr[s]:ptr[s+1]]` (int32 local ids, −1 unknown)."""

    ptr: Tensor
    values: Tensor


class Phrases(NamedTuple):
    """Phrases per slot (`ptr`), and per phrase f its words `words[word_ptr[f]:word_ptr[f+1]]`."""

    ptr: Tensor
    word_ptr: Tensor
    words: Tensor


class Stream(NamedTuple):
    """The words of stacked banks in reading order.

    `words` int32 local word ids, −1 between parts; `unit` int32 the stored unit of each place, one run a unit;
    `ptr` int64 [banks + 1]; `occurrences` is, per word of the axis `word_ptr`, where it stands in its bank;
    `rows` says where the stored units stand now.
    """

    words: Tensor
    unit: Tensor
    ptr: Tensor
    word_ptr: Tensor
    occurrences: Csr
    rows: Places


def lookup(banks: Tensor, keys: Tensor, ptr: Tensor, stack_keys: Tensor) -> Tensor:
    """Find each key in its bank's ascending keys.

    Args:
        banks: int64 [n], the stacked bank of each key.
        keys: int64 [n].
        ptr: int64 [banks + 1] into `stack_keys`.
        stack_keys: int64, ascending inside each bank.

    Returns:
        int32 [n] local positions, −1 for a key the bank does not have.
    """
    if cpu := compiled(keys):
        found = torch.empty(len(keys), dtype=torch.int32)
        cpu.lookup(banks.numpy(), keys.numpy(), ptr.numpy(), stack_keys.numpy(), found.numpy())
        return found
    low, high = ptr[banks].clone(), ptr[banks + 1].clone()
    end = high.clone()
    last = max(len(stack_keys) - 1, 0)
    if len(stack_keys) == 0:
        return torch.full((len(keys),), -1, dtype=torch.int32, device=keys.device)
    # as often as one bank with all of the keys needs: the largest bank's number is the device's
    for _ in range(len(stack_keys).bit_length() + 1):
        middle = (low + high) // 2
        open_ = low < high
        less = open_ & (stack_keys[middle.clamp(max=last)] < keys)
        low = torch.where(less, middle + 1, low)
        high = torch.where(open_ & ~less, middle, high)
    hit = (low < end) & (stack_keys[low.clamp(max=last)] == keys)
    return torch.where(hit, low - ptr[banks], -1).int()


def bm25(
    postings: Csr, term_ptr: Tensor, terms: Ragged, axis: Axis, shares: Tensor | None = None
) -> Tensor:
    """Sum the weights of each query's terms, each times its share.

    Args:
        postings: rows are stacked terms, indices local documents, weights BM25 weights (`weights.weigh`).
        term_ptr: int64 [banks + 1], the stacked terms of each bank.
        terms: local term ids of each query, −1 for unknown terms.
        axis: the document axis (units, spans, windows or episodes).
        shares: float32 of at least 0, one beside each of `terms.values`; None is 1 for all.

    Returns:
        float32 [rows, width], 0 where no term occurs.
    """
    if on_triton(postings.weights):
        from zeromem_kernels.gpu import lexical

        return lexical.bm25(postings, term_ptr, *terms, axis, shares)
    if cpu := compiled(postings.weights):
        out = axis.empty()
        shares = torch.ones(len(terms.values)) if shares is None else shares
        run_tiles(cpu.bm25_scatter, axis.tiles, axis.tiles.bank, term_ptr, postings.indptr, postings.indices,
                  postings.weights, terms.ptr, terms.values, shares, axis.starts, out)  # fmt: skip
        return out
    slot, term = _known(terms)
    tile = slot // axis.tiles.width
    row = term + term_ptr[axis.tiles.bank[tile]]
    begin, counts = postings.indptr[row], postings.indptr[row + 1] - postings.indptr[row]
    which, place = expand(begin, counts)
    flat = (postings.indices[place].long() + axis.starts[tile[which]]) * axis.tiles.width
    flat += slot[which] % axis.tiles.width
    added = postings.weights[place]
    if shares is not None:
        added = added * shares[terms.values >= 0][which]
    out = axis.full(0.0)
    out.view(-1).index_add_(0, flat, added)
    return out


def bm25_topk(postings: Csr, term_ptr: Tensor, terms: Ragged, axis: Axis, k: int) -> TopK:
    """The k best documents of each query by BM25 alone, bit for bit `ordered_topk` of `bm25`.

    Args:
        postings: rows are stacked terms, indices local documents, weights BM25 weights.
        term_ptr: int64 [banks + 1], the stacked terms of each bank.
        terms: local term ids of each query, −1 for unknown terms.
        axis: the document axis.
        k: at least 0; more than a bank's documents is allowed and leaves −1.

    Returns:
        Scores and documents, ties in document order; a document without any of the terms has score 0.

    Raises:
        InvalidTensor: k is out of range.
    """
    expect_whole("k", k, 0, 1 << 24)
    cpu = compiled(postings.weights)
    if cpu is None:
        return ordered_topk(bm25(postings, term_ptr, terms, axis), axis, k)
    scores = torch.empty((len(axis.tiles), k, axis.tiles.width))
    rows = torch.empty(scores.shape, dtype=torch.int32)
    run_tiles(cpu.bm25_topk, axis.tiles, axis.tiles.bank, term_ptr, postings.indptr, postings.indices,
              postings.weights, terms.ptr, terms.values, axis.starts, scores, rows)  # fmt: skip
    return TopK(scores, rows)


def phrase_support(stream: Stream, phrases: Phrases, axis: Axis, out: Tensor | None = None) -> Tensor:
    """Share of a query's phrases whose words stand side by side inside one part of the unit.

    Args:
        stream: the stacked banks' words.
        phrases: the queries' phrases in local word ids; a −1 word makes its phrase match nothing.
        axis: the unit axis.
        out: what another stream of the same banks gave, to add to in place; a unit is in one of them.

    Returns:
        float32 [rows, width] in [0, 1]; 0 for a query without phrases.
    """
    out = axis.full(0.0) if out is None else out
    if on_triton(stream.words):
        from zeromem_kernels.gpu import phrases as device

        return device.add_phrases(stream, phrases, axis, out)
    if cpu := compiled(stream.words):
        run_tiles(cpu.phrase_scatter, axis.tiles, axis.tiles.bank, stream.word_ptr, stream.occurrences.indptr,
                  stream.occurrences.indices, stream.ptr, stream.words, stream.unit, *stream.rows,
                  phrases.ptr, phrases.word_ptr, phrases.words, axis.starts, out)  # fmt: skip
        return out
    slot = owners(phrases.ptr)
    if len(slot) == 0:
        return out
    length = phrases.word_ptr.diff()
    bank = axis.tiles.bank[slot // axis.tiles.width]
    first = phrases.words[phrases.word_ptr[:-1].clamp(max=max(len(phrases.words) - 1, 0))].long()
    known = (length > 0) & (first >= 0)
    slot, bank, first = slot[known], bank[known], first[known]
    begin, length = phrases.word_ptr[:-1][known], length[known]
    row = first + stream.word_ptr[bank]
    counts = stream.occurrences.indptr[row + 1] - stream.occurrences.indptr[row]
    which, place = expand(stream.occurrences.indptr[row], counts)
    start = stream.occurrences.indices[place].long() + stream.ptr[bank[which]]
    same = start + length[which] <= stream.ptr[bank[which] + 1]
    for j in range(int(length.max()) if len(length) else 0):
        inside = j < length[which]
        said = stream.words[(start + j).clamp(max=len(stream.words) - 1)]
        meant = phrases.words[(begin[which] + j).clamp(max=len(phrases.words) - 1)]
        # an unknown word is −1, and so is a separator
        same &= ~inside | ((said == meant) & (meant >= 0))
    unit = stream.rows.row[stream.rows.ptr[bank[which[same]]] + stream.unit[start[same]]].long()
    hits = torch.stack([which[same], unit], 1)[unit >= 0].unique(dim=0)
    share = 1.0 / phrases.ptr.diff()[slot].float()
    tile, column = slot // axis.tiles.width, slot % axis.tiles.width
    flat = (hits[:, 1] + axis.starts[tile[hits[:, 0]]]) * axis.tiles.width + column[hits[:, 0]]
    out.view(-1).index_add_(0, flat, share[hits[:, 0]])
    return out


def subject_support(
    subjects: Ragged, speaker: Tensor, links: Csr, unit_ptr: Tensor, node_ptr: Tensor, axis: Axis
) -> Tensor:
    """1 where a subject of the query speaks the unit, ½ where the unit mentions one, else 0.

    Args:
        subjects: local entity ids of each query, −1 unknown.
        speaker: int32 [stacked units], the local entity that speaks, or −1.
        links: the graph's W; row (units + e) of a bank lists the units of entity e.
        unit_ptr: int64 [banks + 1] of units.
        node_ptr: int64 [banks + 1] of nodes.
        axis: the unit axis.

    Returns:
        float32 [rows, width].
    """
    if on_triton(speaker):
        from zeromem_kernels.gpu import phrases

        return phrases.subjects_of(*subjects, speaker, links, unit_ptr, node_ptr, axis)
    if cpu := compiled(speaker):
        out = axis.empty()
        run_tiles(cpu.subject_scatter, axis.tiles, axis.tiles.bank, unit_ptr, speaker, node_ptr, links.indptr,
                  links.indices, subjects.ptr, subjects.values, axis.starts, out)  # fmt: skip
        return out
    out = axis.full(0.0)
    slot, entity = _known(subjects)
    if len(slot) == 0:
        return out
    tile, column = slot // axis.tiles.width, slot % axis.tiles.width
    bank = axis.tiles.bank[tile]
    row = node_ptr[bank] + unit_ptr.diff()[bank] + entity
    which, place = expand(links.indptr[row], links.indptr[row + 1] - links.indptr[row])
    flat = (links.indices[place].long() + axis.starts[tile[which]]) * axis.tiles.width + column[which]
    out.view(-1)[flat] = 0.5
    which, unit = expand(unit_ptr[bank], unit_ptr.diff()[bank])
    spoken = speaker[unit] == entity[which]
    which, unit = which[spoken], unit[spoken]
    flat = (unit - unit_ptr[bank[which]] + axis.starts[tile[which]]) * axis.tiles.width + column[which]
    out.view(-1)[flat] = 1.0
    return out


def slot_banks(ptr: Tensor, tiles: Tiles) -> Tensor:
    """The stacked bank of each value of a ragged input, int64 [values]."""
    return tiles.bank[owners(ptr) // tiles.width]


def _known(ragged: Ragged) -> tuple[Tensor, Tensor]:
    """Slots and values (int64) of the entries that are not −1."""
    slot = owners(ragged.ptr)
    known = ragged.values >= 0
    return slot[known], ragged.values[known].long()
