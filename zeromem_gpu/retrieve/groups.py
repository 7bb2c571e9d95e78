"""Cutting a batch into tiles, and tiles into groups that fit the memory budget.

A bank's questions fill tiles of the widest width; what remains takes the narrowest power of two that holds
it, so that at most half of a tile is empty. Tiles of one width run together. No score depends on the cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from zeromem_gpu.build.stack import Lexicon, Stack
from zeromem_gpu.query.batch import QueryBatch
from zeromem_gpu.query.batch import Ragged as Keys
from zeromem_kernels.lexical import Phrases, Ragged, lookup
from zeromem_kernels.tiles import Axis, Tiles
from zeromem_kernels.transfer import to_device
from zeromem_kernels.weights import Asked, Counts, gather_counts

WIDEST = 32
# working memory of a column from which on a tile is worth a thread of its own: about 8,000 turns
_LARGE_BYTES = 1 << 20
# float32 matrices of an axis that are alive at the worst moment; measured, rounded up
_LIVE = {"units": 22, "nodes": 4, "sentences": 8}
# the same for sentences where activation visits few of them
_VISITED_SENTENCES = 3


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
        known = self.stack.host_ptr
        return {name: self.tiles.axis(ptr, known[name]) for name, ptr in self.stack.ptr.items()}

    def within(self, hidden: Tensor | None) -> Group:
        """The same tiles with boundaries."""
        made = replace(self, hidden=hidden)
        # where a cached property keeps what it found
        made.__dict__["axes"] = self.axes
        return made

    @property
    def size(self) -> int:
        """Bytes of the matrices that are alive at the worst moment."""
        return 4 * self.tiles.width * sum(count * self.axes[name].rows for name, count in _LIVE.items())

    @cached_property
    def queries(self) -> Tensor:
        """Question vectors, float32 [T, D, width]; empty slots are zero."""
        return self.spread(self.batch.vectors).transpose(1, 2).contiguous()

    def spread(self, values: np.ndarray) -> Tensor:
        """One value (or row) of each query at its place: [T, width, …]; empty slots are zero."""
        shown = np.zeros((len(self.query), *values.shape[1:]), values.dtype)
        taken = self.query >= 0
        shown[taken] = values[self.query[taken]]
        return self.upload(shown.reshape(len(self.tiles), self.tiles.width, *values.shape[1:]))

    def upload(self, array: np.ndarray) -> Tensor:
        """An array of the batch on the device; nobody waits for it."""
        return to_device(array, self.stack.device)

    def banks_of(self, mine: Keys) -> np.ndarray:
        """The stacked bank of each value of a table with a row a slot, int64 [values]."""
        slots = np.repeat(np.arange(len(self.query)), np.diff(mine.ptr))
        return self.tiles.host_bank[slots // self.tiles.width]

    def look_up(self, keys: Keys, axis: str, table: Tensor) -> Ragged:
        """The local ids of each slot's keys in its own bank."""
        return self.find(keys, self.stack.ptr[axis], table)

    def find(self, keys: Keys, ptr: Tensor, table: Tensor) -> Ragged:
        """The places of each slot's keys in a table whose keys ascend inside each bank `ptr`."""
        mine = keys.take(self.query)
        banks, values = self.upload(self.banks_of(mine)), self.upload(mine.values)
        return Ragged(self.upload(mine.ptr), lookup(banks, values, ptr, table))

    def asked_terms(self) -> tuple[Asked, Tensor, Ragged]:
        """The distinct terms of each bank with their units, their boundaries, and each slot's."""
        parts = [lexicon.counts for lexicon in self.stack.lexicons]
        return self.gathered(self.batch.terms, parts)

    def gathered(self, keys: Keys, parts: Sequence[Counts]) -> tuple[Asked, Tensor, Ragged]:
        """The distinct keys of each bank with what `parts` know of them, their boundaries, each slot's."""
        mine = keys.take(self.query)
        bank = self.banks_of(mine)
        order = np.lexsort((mine.values, bank))
        wanted, bank = mine.values[order], bank[order]
        fresh = np.ones(len(wanted), bool)
        fresh[1:] = (wanted[1:] != wanted[:-1]) | (bank[1:] != bank[:-1])
        ptr = np.searchsorted(bank[fresh], np.arange(len(self.stack.places.ptr)))
        local = np.empty(len(wanted), np.int32)
        local[order] = np.cumsum(fresh) - 1 - ptr[bank]
        banks, distinct = self.upload(bank[fresh]), self.upload(wanted[fresh])
        rows = [lookup(banks, distinct, part.ptr, part.keys) for part in parts]
        found = gather_counts(parts, rows, banks, self.stack.places)
        return found, self.upload(ptr), Ragged(self.upload(mine.ptr), self.upload(local))

    def phrases(self, lexicon: Lexicon) -> Phrases:
        """The phrases of each slot in its bank's word ids of a segment."""
        mine = self.batch.phrases.take(self.query)
        words = self.batch.phrase_words.take(mine.values)
        bank = self.upload(np.repeat(self.banks_of(mine), np.diff(words.ptr)))
        found = lookup(bank, self.upload(words.values), lexicon.stream.word_ptr, lexicon.word_keys)
        return Phrases(self.upload(mine.ptr), self.upload(words.ptr), found)


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
    live = _LIVE if literal else _LIVE | {"sentences": _VISITED_SENTENCES}
    needs = np.sum([4 * count * np.diff(stack.host_ptr[name]) for name, count in live.items()], axis=0)
    tiles: dict[int, list[tuple[int, np.ndarray]]] = {}
    begin = 0
    for bank, count in zip(present.tolist(), counts.tolist(), strict=True):
        mine = order[begin : begin + count]
        begin += count
        widest = _widest(int(needs[bank]), budget)
        if stack.device.type == "cpu" and needs[bank] >= _LARGE_BYTES:
            # a tile is one thread's: a large bank's few questions make a tile for each thread
            widest = min(widest, _power_of_two(-(-count * len(present) // torch.get_num_threads())))
        for first in range(0, count, widest):
            part = mine[first : first + widest]
            width = _power_of_two(len(part))
            tiles.setdefault(width, []).append((bank, part))
    for width in sorted(tiles, reverse=True):
        for run in _within(tiles[width], needs, width, budget):
            query = np.full((len(run), width), -1, np.int64)
            for at, (_, mine) in enumerate(run):
                query[at, : len(mine)] = mine
            bank = np.array([bank for bank, _ in run])
            yield Group(stack, batch, Tiles.of(bank, width, stack.device), query.reshape(-1))


def _power_of_two(count: int) -> int:
    """The least power of two that is not below a count of at least 1."""
    return 1 << (count - 1).bit_length()


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
