"""The stacks of the last few sets of banks on one device, within a budget of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.stack import Stack, stack_banks
from zeromem_gpu.build.views import BankView
from zeromem_gpu.config import Config

if TYPE_CHECKING:
    import torch

_KEPT = 16
# an entry of a slice with its padding, a posting in the weights of four levels and of near words; measured
_SLICE_BYTES, _WEIGHT_BYTES = 16, 72
# a token weight gathered from its segment and as a posting
_TOKEN_BYTES = 16


class Stacks:
    """Stacks by the banks in them; those used last are kept as far as a budget reaches, and the newest."""

    def __init__(self, device: torch.device, dropped: Callable[[Stack | None], None] | None = None) -> None:
        """`dropped` is told of every stack that is kept no longer, by None of all."""
        self._device = device
        self._dropped = dropped or (lambda _: None)
        self._kept: OrderedDict[tuple[Any, ...], tuple[Stack, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, index: MemoryIndex, views: Mapping[str, BankView], config: Config, budget: int) -> Stack:
        """The stacked views of some banks by name; `budget` bounds the bytes of all that is kept."""
        # the banks themselves are the key: an id could be taken again by the bank of a newer version
        half = self._half(config)
        key = (*(index.banks[name] for name in views), config.chain_weight, half)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found[0]
        # outside the lock: another search need not wait, at worst two make the same stack
        size = sum(self.bytes_of(index.banks[name], view, len(views)) for name, view in views.items())
        self._make_room(index, budget - size)
        made = stack_banks(list(views.values()), self._device, half=half)
        with self._lock:
            self._kept[key] = (made, size)
        return made

    def _half(self, config: Config) -> bool:
        """Whether vectors are stored in float16; a CPU shares the index's, which it multiplies faster.

        Budgets count them as float32 either way.
        """
        return self._device.type == "cuda" and config.vector_storage == "float16"

    def split(
        self, index: MemoryIndex, names: Sequence[str], views: Mapping[str, BankView], budget: int
    ) -> list[np.ndarray]:
        """Places of `names` in parts whose banks fit the budget together; one bank at least is in each."""
        present = sorted(set(names))
        if len(present) == 1:
            return [np.arange(len(names))]
        part_of: dict[str, int] = {}
        used = parts = 0
        for name in present:
            size = self.bytes_of(index.banks[name], views[name], len(present))
            if used and used + size > budget:
                used, parts = 0, parts + 1
            part_of[name] = parts
            used += size
        place = np.array([part_of[name] for name in names])
        return [np.flatnonzero(place == part) for part in range(parts + 1)]

    def bytes_of(self, bank: Bank, view: BankView, beside: int) -> int:
        """Bytes that a bank's arrays take in a stack of `beside` banks, those of vectors on a GPU only."""
        cuda = self._device.type == "cuda"
        if not cuda and beside == 1:
            return 0  # on the CPU a stack of one bank shares all its arrays
        with bank.building:
            return bank.cached(("stack bytes", cuda), lambda: _bytes(view, cuda=cuda))

    def drop(self) -> None:
        """Keep nothing: what was kept stands in the way of a search."""
        with self._lock:
            self._kept.clear()
        self._dropped(None)

    def _make_room(self, index: MemoryIndex, left: int) -> None:
        """Drop stacks of outdated banks, and the ones used longest ago until the rest fits."""
        gone: list[Stack] = []
        with self._lock:
            for old in [old for old in self._kept if not _current(index, old)]:
                gone.append(self._kept.pop(old)[0])
            while self._kept and (
                len(self._kept) >= _KEPT or sum(size for _, size in self._kept.values()) > left
            ):
                gone.append(self._kept.popitem(last=False)[1][0])
        for stack in gone:
            self._dropped(stack)


def _bytes(view: BankView, *, cuda: bool) -> int:
    return sum(_sizes(view, vectors=cuda)) + (_made_on_a_card(view) if cuda else 0)


def _made_on_a_card(view: BankView) -> int:
    """Bytes of what a card makes of a view: tables as slices, and its words with their weights."""
    levels = (view.levels.spans, view.levels.windows, view.levels.episodes)
    entries = 2 * len(view.incidence.indices) + len(view.graph.weights.indices)
    entries += sum(int((level.end - level.first).sum()) for level in levels)
    postings = sum(len(segment.units) for segment in view.segments)
    tokens = sum(len(segment.postings.indices) for segment in view.learned)
    return _SLICE_BYTES * entries + _WEIGHT_BYTES * postings + _TOKEN_BYTES * tokens


def _sizes(value: Any, *, vectors: bool) -> Iterator[int]:
    """Bytes of the arrays in a view."""
    if isinstance(value, np.ndarray):
        yield value.nbytes
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _sizes(one, vectors=vectors)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _sizes(one, vectors=vectors)
    elif is_dataclass(value):
        for field in fields(value):
            if vectors or "vectors" not in field.name:
                yield from _sizes(getattr(value, field.name), vectors=vectors)


def _current(index: MemoryIndex, key: tuple[Any, ...]) -> bool:
    """Whether a stack's banks are all in this version: an outdated one would keep old vectors alive."""
    banks = (part for part in key if isinstance(part, Bank))
    return all(index.banks.get(bank.name) is bank for bank in banks)
