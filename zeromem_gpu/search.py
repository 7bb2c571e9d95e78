"""One search, from questions to evidence, over one version of the index. Wiring of query and retrieve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from zeromem_gpu.budget import Budget, is_out_of_memory, release
from zeromem_gpu.build.boundary import hidden_units
from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.stack import Stack
from zeromem_gpu.build.views import BankView, bank_ledger, bank_view
from zeromem_gpu.config import Config
from zeromem_gpu.device import say_what_serves
from zeromem_gpu.encoders.lexical import checked_weights
from zeromem_gpu.encoders.protocol import checked_encode
from zeromem_gpu.errors import InvalidInput, OutOfMemory
from zeromem_gpu.query.batch import Keyed, QueryBatch, Ragged, build_batch
from zeromem_gpu.retrieve.closure import RULES
from zeromem_gpu.retrieve.engine import Hidden, Ranked, retrieve
from zeromem_gpu.stacks import Stacks
from zeromem_gpu.stopwatch import Stopwatch
from zeromem_gpu.text.normalize import clean
from zeromem_gpu.toolbox import Toolbox
from zeromem_gpu.types import Boundary, Evidence, QueryProfile, SearchResult
from zeromem_kernels.layout import positions
from zeromem_kernels.related import on_grid
from zeromem_kernels.replay import Replays

if TYPE_CHECKING:
    import torch

# of each view's own ranking, shown by explain
_LISTED = 10


Rankings: TypeAlias = dict[str, tuple[tuple[str, float], ...]]


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
    """Runs searches on one device, each in parts that fit the memory budget."""

    def __init__(self, device: torch.device, toolbox: Toolbox) -> None:
        self.device = device
        self._toolbox = toolbox
        self._replays = None
        if device.type == "cuda":
            say_what_serves()
            self._replays = Replays()
        self._stacks = Stacks(device, None if self._replays is None else self._replays.drop)
        self._budget = Budget(str(device))

    def search(
        self, index: MemoryIndex | None, questions: Sequence[str], names: Sequence[str],
        boundaries: Sequence[Boundary | None], config: Config, limit: int | None, explain: bool,
    ) -> list[SearchResult]:  # fmt: skip
        """The evidence of every question in the bank of the same place; an unknown bank has none."""
        clock = Stopwatch()
        profiles = self.profiles(index, questions, names, config)
        clock.lap("profile_s")
        evidence: list[tuple[Evidence, ...]] = [()] * len(questions)
        rankings: list[Rankings | None] = [{} if explain else None] * len(questions)
        asked = [place for place, name in enumerate(names) if index is not None and name in index.banks]
        if index is not None and asked:
            mine = [names[place] for place in asked]
            views = self._views(index, mine, config)
            clock.lap("prepare_s")
            # encoded as one batch, so that no vector depends on how the rest is split
            some = [profiles[place] for place in asked]
            batch = self._batch(index, some, [views[name] for name in mine], config)
            clock.lap("encode_queries_s")
            bounds = [boundaries[place] for place in asked]
            listed = _LISTED if explain else 0
            parts = self._in_parts(index, mine, views, batch, bounds, config, listed, clock)
            for rows, ranked in parts:
                for at, row in enumerate(rows.tolist()):
                    bank, unit_rows = index.banks[mine[row]], views[mine[row]].rows.unit_rows
                    evidence[asked[row]] = _evidence(index, bank, unit_rows, ranked, at, limit)
                    if explain:
                        rankings[asked[row]] = _rankings(index, bank, unit_rows, ranked, at)
            clock.lap("texts_s")
        return [
            SearchResult(text, name, profile, found, clock.laps if explain else None, lists)
            for text, name, profile, found, lists in zip(
                questions, names, profiles, evidence, rankings, strict=True
            )
        ]

    def _in_parts(
        self, index: MemoryIndex, names: Sequence[str], views: Mapping[str, BankView], batch: QueryBatch,
        boundaries: Sequence[Boundary | None], config: Config, listed: int, clock: Stopwatch,
    ) -> list[tuple[np.ndarray, Ranked]]:  # fmt: skip
        """Rank the questions (banks `names`) in parts within the budget: (their rows, what was found)."""
        before = self._budget.halvings
        waiting, done = [np.arange(len(names))], []
        while waiting:
            rows = waiting.pop(0)
            seen = self._budget.halvings
            mine = [names[row] for row in rows.tolist()]
            split = self._stacks.split(index, mine, views, self._budget.banks(config))
            if len(split) > 1:
                waiting = [rows[places] for places in split] + waiting
                continue
            failed: BaseException | None = None
            try:
                bounds = [boundaries[row] for row in rows.tolist()]
                part = batch.take(rows)
                done.append((rows, self._part(index, mine, views, part, bounds, config, listed, clock)))
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                failed = error.with_traceback(None)  # which would keep the arrays of the attempt alive
            if failed is not None:
                self._stacks.drop()
                release(str(self.device))
                try:
                    self._budget.halve(seen, config, failed)
                except OutOfMemory:
                    self._budget.restore(before)
                    raise
                waiting.insert(0, rows)
        return done

    def _part(
        self, index: MemoryIndex, names: Sequence[str], views: Mapping[str, BankView], batch: QueryBatch,
        boundaries: Sequence[Boundary | None], config: Config, listed: int, clock: Stopwatch,
    ) -> Ranked:  # fmt: skip
        """Rank the questions of one part."""
        mine = {name: views[name] for name in sorted(set(names))}
        stack = self._stacks.get(index, mine, config, self._budget.banks(config))
        ready = _prepared(stack, batch, names, mine)
        clock.lap("prepare_s")
        hidden = _hidden(index, ready, names, boundaries, config)
        work = self._budget.work(config)
        ranked = retrieve(stack, ready.bank_of, batch, hidden, config, work, listed, self._replays)
        clock.lap("retrieve_s")
        for stage, seconds in ranked.timings.items():
            clock.laps[stage] = clock.laps.get(stage, 0.0) + seconds
        return ranked

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
        self, index: MemoryIndex, profiles: Sequence[QueryProfile], names: Sequence[str], config: Config
    ) -> Prepared:
        """Views and stack of the banks (each must exist), and the questions as arrays and vectors."""
        views, stack = self.refresh(index, names, config)
        batch = self._batch(index, profiles, [views[name] for name in names], config)
        return _prepared(stack, batch, names, views)

    def refresh(
        self, index: MemoryIndex, names: Sequence[str], config: Config
    ) -> tuple[dict[str, BankView], Stack]:
        """Views and stack of the banks: what a search after a change has to wait for."""
        views = self._views(index, names, config)
        return views, self._stacks.get(index, views, config, self._budget.banks(config))

    def _views(self, index: MemoryIndex, names: Sequence[str], config: Config) -> dict[str, BankView]:
        """The views of some banks, in one order whatever the questions': the same banks, the same stack."""
        return {name: bank_view(index, index.banks[name], config) for name in sorted(set(names))}

    def _batch(
        self, index: MemoryIndex, profiles: Sequence[QueryProfile], views: Sequence[BankView],
        config: Config,
    ) -> QueryBatch:  # fmt: skip
        """Encode the questions, and those of their entities and words that their bank does not know."""
        tools = self._toolbox.tools()
        texts = [clean(profile.text) for profile in profiles]
        batch = build_batch(profiles, np.zeros((len(texts), index.dim), np.float32), tools.analyzer)
        learned = batch.learned
        if config.asks_learned:
            argument = "learned" if config.learned > 0 else "graph_learned"
            learned = checked_weights(tools.encoder, texts, argument)
        entities = _unknown(batch.entities, [view.rows.entity_keys for view in views])
        words = np.empty(0, np.int64)
        if config.graph_related > 0 and config.views != "hierarchy":
            words = _unknown(batch.words, [view.term_keys for view in views])
        names = [batch.entity_names[key] for key in entities.tolist()]
        spelt = [batch.word_names[key] for key in words.tolist()]
        vectors, bad = checked_encode(tools.encoder, [*texts, *names, *spelt])
        if bad[: len(texts)].any():
            first = int(np.flatnonzero(bad[: len(texts)])[0])
            got = "a text for which the encoder gives a zero or NaN vector"
            raise InvalidInput(f"query[{first}]", got, "questions that the encoder can read")
        asked, named, alone = np.split(vectors, [len(texts), len(texts) + len(names)])
        return replace(
            batch, vectors=asked, entity_vectors=Keyed(entities, named),
            word_vectors=Keyed(words, on_grid(alone)), learned=learned,
        )  # fmt: skip


def _prepared(
    stack: Stack, batch: QueryBatch, names: Sequence[str], views: dict[str, BankView]
) -> Prepared:
    """A batch whose questions ask the banks `names`, over the stack of `views`."""
    order = {name: at for at, name in enumerate(views)}
    return Prepared(stack, batch, np.array([order[name] for name in names]), views)


def _unknown(asked: Ragged, live: Sequence[np.ndarray]) -> np.ndarray:
    """The keys (int64, ascending) that a question asks for and that are not among its bank's live ones."""
    ptr = asked.ptr.tolist()
    unknown: set[int] = set()
    for at, keys in enumerate(live):
        mine = asked.values[ptr[at] : ptr[at + 1]]
        unknown |= set(mine[positions(mine, keys) < 0].tolist())
    return np.array(sorted(unknown), np.int64)


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


def _rankings(index: MemoryIndex, bank: Bank, unit_rows: np.ndarray, ranked: Ranked, row: int) -> Rankings:
    """What each view ranked first for one question, a trace once."""
    trace_of, traces = index.column(bank, "units", "trace"), index.column(bank, "traces", "trace")
    found: Rankings = {}
    for view, (rows, scores) in ranked.lists.items():
        best: dict[str, float] = {}
        for unit, score in zip(rows[row].tolist(), scores[row].tolist(), strict=True):
            if unit >= 0:
                best.setdefault(traces[trace_of[unit_rows[unit]]].id, score)
        found[view] = tuple(best.items())
    return found


def _evidence(
    index: MemoryIndex, bank: Bank, unit_rows: np.ndarray, ranked: Ranked, row: int, limit: int | None
) -> tuple[Evidence, ...]:
    """Look up the texts of one question's ranked units."""
    units, traces = index.facts(bank, "units"), index.column(bank, "traces", "trace")
    places = np.flatnonzero(ranked.rows[row] >= 0)[:limit]
    chosen = unit_rows[ranked.rows[row, places]]
    trace, start, end = (units[name][chosen].tolist() for name in ("trace", "start", "end"))
    names = ("scores", "graph", "hierarchy", "rules")
    ranks = (getattr(ranked, name)[row, places].tolist() for name in names)
    found = []
    for at, begin, stop, score, graph, hierarchy, rule in zip(trace, start, end, *ranks, strict=True):
        found.append(
            Evidence(
                trace=traces[at],
                score=score,
                graph_score=None if math.isnan(graph) else graph,
                hierarchy_score=None if math.isnan(hierarchy) else hierarchy,
                rule=RULES[rule],
                start=begin,
                end=stop,
            )
        )
    return tuple(found)
