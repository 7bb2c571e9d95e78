"""One search, from questions to evidence, over one version of the index. Wiring of query and retrieve."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeromem_gpu.build.boundary import hidden_units
from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.stack import Stack, stack_banks
from zeromem_gpu.build.views import BankView, bank_ledger, bank_view
from zeromem_gpu.config import Config
from zeromem_gpu.encoders.protocol import checked_encode
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.query.batch import QueryBatch, build_batch
from zeromem_gpu.retrieve.closure import RULES
from zeromem_gpu.retrieve.engine import Hidden, Ranked, retrieve
from zeromem_gpu.stopwatch import Stopwatch
from zeromem_gpu.text.normalize import clean
from zeromem_gpu.toolbox import Toolbox
from zeromem_gpu.types import Boundary, Evidence, QueryProfile, SearchResult

if TYPE_CHECKING:
    import torch

_STACKS_KEPT = 4


@dataclass(frozen=True)
class Prepared:
    """A batch that is ready for retrieval: its questions as arrays, and the banks that they ask.

    `bank_of` int64 [Q] is the place of each question's bank in `views` and in the stack.
    """

    stack: Stack
    batch: QueryBatch
    bank_of: np.ndarray
    views: dict[str, BankView]


class Searcher:
    """Runs searches on one device and keeps the stacks of the last few sets of banks."""

    def __init__(self, device: torch.device, toolbox: Toolbox) -> None:
        self.device = device
        self._toolbox = toolbox
        self._stacks: OrderedDict[tuple[Any, ...], Stack] = OrderedDict()
        self._lock = threading.Lock()

    def search(
        self, index: MemoryIndex | None, questions: Sequence[str], names: Sequence[str],
        boundaries: Sequence[Boundary | None], config: Config, limit: int | None, explain: bool,
    ) -> list[SearchResult]:  # fmt: skip
        """The evidence of every question in the bank of the same place; an unknown bank has none."""
        clock = Stopwatch()
        profiles = self.profiles(index, questions, names, config)
        clock.lap("profile_s")
        evidence: list[tuple[Evidence, ...]] = [()] * len(questions)
        asked = [place for place, name in enumerate(names) if index is not None and name in index.banks]
        if index is not None and asked:
            mine = [names[place] for place in asked]
            ready = self.prepare(index, [profiles[place] for place in asked], mine, config, clock)
            hidden = _hidden(index, ready, mine, [boundaries[place] for place in asked], config)
            ranked = retrieve(ready.stack, ready.bank_of, ready.batch, hidden, config)
            clock.lap("retrieve_s")
            clock.laps |= ranked.timings
            for row, place in enumerate(asked):
                unit_rows = ready.views[names[place]].rows.unit_rows
                evidence[place] = _evidence(index, index.banks[names[place]], unit_rows, ranked, row, limit)
            clock.lap("texts_s")
        return [
            SearchResult(text, name, profile, found, clock.laps if explain else None)
            for text, name, profile, found in zip(questions, names, profiles, evidence, strict=True)
        ]

    def profiles(
        self, index: MemoryIndex | None, questions: Sequence[str], names: Sequence[str], config: Config
    ) -> list[QueryProfile]:
        """φ(q) of each question, read with the speakers of its bank at hand."""
        speakers: dict[str, tuple[str, ...]] = {}
        for name in dict.fromkeys(names):
            if index is not None and name in index.banks:
                speakers[name] = _speakers(index, index.banks[name], config)
        return self._toolbox.profiler().profile(questions, [speakers.get(name, ()) for name in names])

    def prepare(
        self, index: MemoryIndex, profiles: Sequence[QueryProfile], names: Sequence[str], config: Config,
        clock: Stopwatch | None = None,
    ) -> Prepared:  # fmt: skip
        """Views and stack of the banks (each must exist), and the questions as arrays and vectors."""
        clock = clock or Stopwatch()
        views, stack = self.refresh(index, names, config)
        clock.lap("prepare_s")
        batch = self._batch(index, profiles, [views[name] for name in names])
        clock.lap("encode_queries_s")
        order = {name: at for at, name in enumerate(views)}
        return Prepared(stack, batch, np.array([order[name] for name in names]), views)

    def refresh(
        self, index: MemoryIndex, names: Sequence[str], config: Config
    ) -> tuple[dict[str, BankView], Stack]:
        """Views and stack of the banks: what a search after a change has to wait for."""
        # in one order whatever the questions': the same banks find the same stack
        views = {name: bank_view(index, index.banks[name], config) for name in sorted(set(names))}
        return views, self._stack(index, list(views), list(views.values()), config)

    def _batch(
        self, index: MemoryIndex, profiles: Sequence[QueryProfile], views: Sequence[BankView]
    ) -> QueryBatch:
        """Encode the questions, and those of their entities that their bank does not know by name."""
        tools = self._toolbox.tools()
        texts = [clean(profile.text) for profile in profiles]
        batch = build_batch(profiles, np.zeros((len(texts), index.dim), np.float32), tools.analyzer)
        ptr = batch.entities.ptr.tolist()
        unknown: set[int] = set()
        for at, view in enumerate(views):
            keys, live = batch.entities.values[ptr[at] : ptr[at + 1]], view.rows.entity_keys
            place = np.searchsorted(live, keys)
            unknown |= set(keys[np.append(live, 0)[place] != keys].tolist())
        missing = np.array(sorted(unknown), np.int64)
        names = [batch.entity_names[key] for key in missing.tolist()]
        vectors, bad = checked_encode(tools.encoder, [*texts, *names])
        if bad[: len(texts)].any():
            first = int(np.flatnonzero(bad[: len(texts)])[0])
            got = f"{texts[first][:40]!r}, for which the encoder gives a zero or NaN vector"
            raise InvalidInput(f"query[{first}]", got, "questions that the encoder can read")
        return replace(
            batch, vectors=vectors[: len(texts)], vector_keys=missing, entity_vectors=vectors[len(texts) :]
        )

    def _stack(
        self, index: MemoryIndex, names: Sequence[str], views: Sequence[BankView], config: Config
    ) -> Stack:
        """The stacked views of some banks; the last few are kept while their banks are current."""
        # the banks themselves are the key: an id could be taken again by the bank of a newer version
        key = (*(index.banks[name] for name in names), config.chain_weight)
        with self._lock:
            found = self._stacks.get(key)
            if found is not None:
                self._stacks.move_to_end(key)
                return found
        # outside the lock: another search need not wait, at worst two make the same stack
        found = stack_banks(views, self.device)
        with self._lock:
            for old in [old for old in self._stacks if not _current(index, old)]:
                del self._stacks[old]
            self._stacks[key] = found
            while len(self._stacks) > _STACKS_KEPT:
                self._stacks.popitem(last=False)
        return found


def _current(index: MemoryIndex, key: tuple[Any, ...]) -> bool:
    """Whether a stack's banks are all in this version: an outdated one would keep old vectors alive."""
    banks = (part for part in key if isinstance(part, Bank))
    return all(index.banks.get(bank.name) is bank for bank in banks)


def _hidden(
    index: MemoryIndex,
    ready: Prepared,
    names: Sequence[str],
    boundaries: Sequence[Boundary | None],
    config: Config,
) -> Hidden | None:
    """Each distinct (bank, boundary) as one mask."""
    if all(boundary is None for boundary in boundaries):
        return None
    place: dict[tuple[str, Boundary], int] = {}
    masks: list[np.ndarray] = []
    mask_of = np.full(len(names), -1, np.int64)
    for row, (name, boundary) in enumerate(zip(names, boundaries, strict=True)):
        if boundary is None:
            continue
        if (name, boundary) not in place:
            place[name, boundary] = len(masks)
            rows = ready.views[name].rows
            masks.append(hidden_units(index, index.banks[name], rows, boundary, config.timezone))
        mask_of[row] = place[name, boundary]
    return Hidden(mask_of, masks)


def _speakers(index: MemoryIndex, bank: Bank, config: Config) -> tuple[str, ...]:
    """The speakers of a bank's live units as they were written, each once, in session order."""
    rows = bank_view(index, bank, config).rows.unit_rows

    def read() -> tuple[str, ...]:
        ledger = bank_ledger(index, bank, config)
        first = np.full(len(ledger.voices) + 1, len(rows), np.int64)
        # backwards: the first unit of each voice is written last; the spare last place takes the −1
        first[ledger.voice[rows[::-1]]] = np.arange(len(rows))[::-1]
        heard = [voice for voice in np.argsort(first[:-1]).tolist() if first[voice] < len(rows)]
        return tuple(ledger.voices[voice] for voice in heard)

    with bank.building:
        return bank.cached("speakers", read)


def _evidence(
    index: MemoryIndex, bank: Bank, unit_rows: np.ndarray, ranked: Ranked, row: int, limit: int | None
) -> tuple[Evidence, ...]:
    """Look up the texts of one question's ranked units."""
    units, traces = index.facts(bank, "units"), index.column(bank, "traces", "trace")
    found = []
    for place in np.flatnonzero(ranked.rows[row] >= 0)[:limit]:
        unit = unit_rows[ranked.rows[row, place]]
        graph, hierarchy = ranked.graph[row, place], ranked.hierarchy[row, place]
        found.append(
            Evidence(
                trace=traces[units["trace"][unit]],
                score=float(ranked.scores[row, place]),
                graph_score=None if np.isnan(graph) else float(graph),
                hierarchy_score=None if np.isnan(hierarchy) else float(hierarchy),
                rule=RULES[ranked.rules[row, place]],
                start=int(units["start"][unit]),
                end=int(units["end"][unit]),
            )
        )
    return tuple(found)
