"""Cutting a batch into tiles, and tiles into groups that fit the memory budget.

A bank's questions fill tiles of the widest width; what remains takes the narrowest power of two that holds
it, so that at most half of a tile is empty. Tiles of one width run together. No score depends on the cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from zeromem_gpu.build.stack import Lexicon, Stack
from zeromem_gpu.query.batch import QueryBatch
from zeromem_gpu.query.batch import Ragged as Keys
from zeromem_kernels.lexical import Phrases, Ragged, lookup, slot_banks
from zeromem_kernels.tiles import Axis, Tiles
from zeromem_kernels.weights import Asked, gather_counts

WIDEST = 32
# float32 matrices of an axis that are alive at the worst moment; measured, rounded up
_LIVE = {"units": 22, "nodes": 4, "sentences": 3}
# the same for sentences where activation does not visit few of them
_LITERAL_SENTENCES = 8


@dataclass(frozen=True, eq=False)
class Group:
    """Tiles of one width with the queries in them.

    `query` int64 [T·width] is the batch row behind each slot, −1 for an empty one; `hidden` is a bool
    matrix on the unit axis, or None when no query has a boundary.
    """

    stack: Stack
    batch: QueryBatch
    tiles: Tiles
    query: np.ndarray
    hidden: Tensor | None = None

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """The row axes of this group by name, as in `Stack.ptr`."""
        return {name: self.tiles.axis(ptr) for name, ptr in self.stack.ptr.items()}

    @cached_property
    def queries(self) -> Tensor:
        """Question vectors, float32 [T, D, width]; empty slots are zero."""
        return self.spread(self.batch.vectors).transpose(1, 2).contiguous()

    def spread(self, values: np.ndarray) -> Tensor:
        """One value (or row) of each query at its place: [T, width, …]; empty slots are zero."""
        shown = np.zeros((len(self.query), *values.shape[1:]), values.dtype)
        taken = self.query >= 0
        shown[taken] = values[self.query[taken]]
        return torch.from_numpy(shown.reshape(len(self.tiles), self.tiles.width, *values.shape[1:])).to(
            self.stack.device
        )

    def look_up(self, keys: Keys, axis: str, table: Tensor) -> Ragged:
        """The local ids of each slot's keys in its own bank."""
        mine = keys.take(self.query)
        ptr = torch.from_numpy(mine.ptr).to(self.stack.device)
        values = torch.from_numpy(mine.values).to(self.stack.device)
        return Ragged(ptr, lookup(slot_banks(ptr, self.tiles), values, self.stack.ptr[axis], table))

    def asked_terms(self) -> tuple[Asked, Tensor, Ragged]:
        """The distinct terms of each bank with their units, their boundaries, and each slot's."""
        mine, device = self.batch.terms.take(self.query), self.stack.device
        slots = np.repeat(np.arange(len(self.query)), np.diff(mine.ptr))
        bank = self.tiles.host_bank[slots // self.tiles.width]
        order = np.lexsort((mine.values, bank))
        keys, bank = mine.values[order], bank[order]
        fresh = np.ones(len(keys), bool)
        fresh[1:] = (keys[1:] != keys[:-1]) | (bank[1:] != bank[:-1])
        ptr = np.searchsorted(bank[fresh], np.arange(len(self.stack.places.ptr)))
        local = np.empty(len(keys), np.int32)
        local[order] = np.cumsum(fresh) - 1 - ptr[bank]
        banks, wanted = (torch.from_numpy(part[fresh]).to(device) for part in (bank, keys))
        parts = [lexicon.counts for lexicon in self.stack.lexicons]
        rows = [lookup(banks, wanted, part.ptr, part.keys) for part in parts]
        found = gather_counts(parts, rows, banks, self.stack.places)
        slot_ptr, ids = (torch.from_numpy(part).to(device) for part in (mine.ptr, local))
        return found, torch.from_numpy(ptr).to(device), Ragged(slot_ptr, ids)

    def phrases(self, lexicon: Lexicon) -> Phrases:
        """The phrases of each slot in its bank's word ids of a segment."""
        mine = self.batch.phrases.take(self.query)
        words = self.batch.phrase_words.take(mine.values)
        device = self.stack.device
        ptr, word_ptr = torch.from_numpy(mine.ptr).to(device), torch.from_numpy(words.ptr).to(device)
        bank = slot_banks(ptr, self.tiles).repeat_interleave(word_ptr.diff())
        keys = torch.from_numpy(words.values).to(device)
        return Phrases(ptr, word_ptr, lookup(bank, keys, lexicon.stream.word_ptr, lexicon.word_keys))


def cut(
    banks: np.ndarray, stack: Stack, batch: QueryBatch, budget: int, *, literal: bool = True
) -> Iterator[Group]:
    """Cut a batch into groups whose working memory stays within `budget` bytes (one question at least).

    Args:
        banks: int64 [Q], the stacked bank of each query.
        stack: the banks.
        batch: the queries, in the same order.
        budget: bytes.
        literal: whether activation makes matrices of all sentences.
    """
    order = np.argsort(banks, kind="stable")
    present, counts = np.unique(banks, return_counts=True)
    live = _LIVE | ({"sentences": _LITERAL_SENTENCES} if literal else {})
    column_bytes = torch.stack([4 * count * stack.ptr[name].diff() for name, count in live.items()])
    needs = column_bytes.sum(0).cpu().numpy()
    tiles: dict[int, list[tuple[int, np.ndarray]]] = {}
    begin = 0
    for bank, count in zip(present.tolist(), counts.tolist(), strict=True):
        mine = order[begin : begin + count]
        begin += count
        widest = _widest(int(needs[bank]), budget)
        for first in range(0, count, widest):
            part = mine[first : first + widest]
            width = 1 << (len(part) - 1).bit_length()
            tiles.setdefault(width, []).append((bank, part))
    for width in sorted(tiles, reverse=True):
        for run in _within(tiles[width], needs, width, budget):
            query = np.full((len(run), width), -1, np.int64)
            for at, (_, mine) in enumerate(run):
                query[at, : len(mine)] = mine
            bank = torch.tensor([bank for bank, _ in run], device=stack.device)
            yield Group(stack, batch, Tiles(bank, width), query.reshape(-1))


def _widest(need: int, budget: int) -> int:
    """The widest tile of a bank, `need` bytes a column, that fits the budget; one column is the least."""
    width = WIDEST
    while width > 1 and need * width > budget:
        width //= 2
    return width


def _within(
    tiles: list[tuple[int, np.ndarray]], needs: np.ndarray, width: int, budget: int
) -> Iterator[list[tuple[int, np.ndarray]]]:
    """Runs of tiles whose matrices fit the budget together."""
    part: list[tuple[int, np.ndarray]] = []
    used = 0
    for tile in tiles:
        size = int(needs[tile[0]]) * width
        if part and used + size > budget:
            yield part
            part, used = [], 0
        part.append(tile)
        used += size
    if part:
        yield part
