"""Memory: add traces, search with one question or thousands, save and open. Wiring only."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from zeromem_gpu.boundary import hidden_units
from zeromem_gpu.build.check import check_traces
from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.ingest import Tools, ingest
from zeromem_gpu.build.stack import Stack, stack_banks
from zeromem_gpu.build.views import BankView, bank_view
from zeromem_gpu.cache import DiskCache, default_cache_dir
from zeromem_gpu.config import Config
from zeromem_gpu.device import resolve_device
from zeromem_gpu.encoders import resolve_encoder
from zeromem_gpu.encoders.protocol import Encoder, checked_encode
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.query.batch import QueryBatch, build_batch
from zeromem_gpu.query.profile import Profiler
from zeromem_gpu.retrieve.closure import RULES
from zeromem_gpu.retrieve.engine import Hidden, Ranked, retrieve
from zeromem_gpu.text.entities import CachedExtractor, EntityExtractor, SpacyExtractor
from zeromem_gpu.text.normalize import clean
from zeromem_gpu.text.tokens import Analyzer
from zeromem_gpu.types import Boundary, Evidence, QueryProfile, SearchResult, Trace

if TYPE_CHECKING:
    import torch

_STACKS_KEPT = 4


@dataclass(frozen=True)
class AddReport:
    """What one `add` did: counts of traces and units, trace ids whose vectors were unusable, seconds.

    Quarantined traces stay in the memory and are found by their words. `timings` has text_s, ner_s and
    encode_s.
    """

    added: int
    updated: int
    unchanged: int
    units: int
    quarantined: tuple[str, ...]
    timings: Mapping[str, float]


class Memory:
    """Banks of raw traces that can be searched, each question in one bank.

    Args:
        config: every number of the method.
        encoder: a model name ("BAAI/bge-m3", "minilm" for the offline model, any sentence-transformers
            name or path) or an object that follows the `Encoder` protocol.
        device: "cpu", "cuda", "cuda:N"; default ZEROMEM_DEVICE, else CUDA where there is one.
        vectors: a safetensors file of precomputed vectors that takes the encoder's place.
        cache_dir: where vectors and entities are cached; None takes the default, False caches nothing.
        extractor: replaces the spaCy entity extractor that `config.ner_model` names.

    Models load when first needed. A search works on the index version it began with; `add` may run beside
    it. One thread adds at a time.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        encoder: str | Encoder = "BAAI/bge-m3",
        device: str | torch.device | None = None,
        vectors: str | Path | None = None,
        cache_dir: str | Path | bool | None = None,
        extractor: EntityExtractor | None = None,
    ) -> None:
        self.config = config or Config()
        self.device = resolve_device(device)
        self._cache = None if cache_dir is False else DiskCache(_cache_path(cache_dir))
        self._encoder_spec = encoder
        self._vectors = Path(vectors) if vectors is not None else None
        self._extractor = extractor
        self._tools: Tools | None = None
        self._profiler: Profiler | None = None
        self._index: MemoryIndex | None = None
        self._stacks: OrderedDict[tuple[Any, ...], Stack] = OrderedDict()
        self._writing = threading.Lock()
        self._loading = threading.Lock()

    # -- writing --

    def add(
        self,
        traces: Trace | Iterable[Trace],
        *,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> AddReport:
        """Add traces, or update those whose id their bank already has.

        The same id with the same content changes nothing. All traces are checked before the first one is
        stored; an `InvalidInput` (or an error of a model) leaves the memory as it was.

        Args:
            traces: one or many; none is allowed.
            progress: called as (stage, done, total) with stage "entities" or "encode".
        """
        given = [traces] if isinstance(traces, Trace) else list(traces)
        checked = check_traces(given, self.config.timezone)
        with self._writing:
            tools = self._load_tools()
            index = self._index or MemoryIndex.empty(tools.encoder.dim)
            self._index, report = ingest(index, checked, tools, self.config, progress)
        return AddReport(
            report.added, report.updated, report.unchanged, report.units,
            tuple(report.quarantined), report.timings,
        )  # fmt: skip

    def prepare(self, banks: Sequence[str] | None = None) -> dict[str, float]:
        """Build what searches need of the banks (all by default) now instead of at the first search.

        Returns:
            Seconds spent: graph_s and bm25_s.
        """
        timings = {"graph_s": 0.0, "bm25_s": 0.0}
        index = self._index
        if index is not None:
            for name in index.banks if banks is None else banks:
                bank_view(index, index.banks[name], self.config, timings)
        return timings

    # -- searching --

    @overload
    def search(
        self, query: str, *, bank: str | None = ..., boundary: Boundary | None = ...,
        top_k: int | None = ..., limit: int | None = ..., explain: bool = ..., config: Config | None = ...,
    ) -> SearchResult: ...  # fmt: skip
    @overload
    def search(
        self, query: Sequence[str], *, bank: str | Sequence[str] | None = ...,
        boundary: Boundary | Sequence[Boundary | None] | None = ...,
        top_k: int | None = ..., limit: int | None = ..., explain: bool = ..., config: Config | None = ...,
    ) -> list[SearchResult]: ...  # fmt: skip
    def search(
        self,
        query: str | Sequence[str],
        *,
        bank: str | Sequence[str] | None = None,
        boundary: Boundary | Sequence[Boundary | None] | None = None,
        top_k: int | None = None,
        limit: int | None = None,
        explain: bool = False,
        config: Config | None = None,
    ) -> SearchResult | list[SearchResult]:
        """Find evidence for one question, or for many in one batch.

        Args:
            query: a question, or several. A question without a known word or name still ranks by meaning;
                an empty one is an `InvalidInput`.
            bank: the bank to search, or one per question; may be left out while there is only one. A bank
                that does not exist gives no evidence.
            boundary: a hard filter, or one per question.
            top_k: primary units per question, default `config.top_k`; more than a bank holds is allowed.
            limit: most units returned per question; None returns all that were selected.
            explain: fill `timings` of each result with the seconds of the batch.
            config: other numbers for this search; index fields must equal the memory's.

        Returns:
            A `SearchResult` for a string, a list of them for a sequence (empty for an empty one).
        """
        one = isinstance(query, str)
        questions = [query] if isinstance(query, str) else list(query)
        config = self._search_config(config, top_k)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise InvalidInput("limit", repr(limit), "None, or a whole number from 1")
        for place, text in enumerate(questions):
            if not isinstance(text, str) or not text.strip():
                raise InvalidInput(f"query[{place}]", repr(text)[:40], "a question that is not blank")
        index = self._index
        banks = self._one_each("bank", bank, len(questions), self._default_bank(index, bank, questions))
        boundaries = self._one_each("boundary", boundary, len(questions), None)
        for name in banks:
            if not isinstance(name, str) or not name:
                raise InvalidInput("bank", repr(name), "text that is not empty")
        results = self._search(index, questions, banks, boundaries, config, limit, explain)
        return results[0] if one else results

    def _search(
        self, index: MemoryIndex | None, questions: list[str], names: list[str],
        boundaries: list[Boundary | None], config: Config, limit: int | None, explain: bool,
    ) -> list[SearchResult]:  # fmt: skip
        timings: dict[str, float] = {}
        known = [name if index is not None and name in index.banks else None for name in names]
        begin = time.perf_counter()
        profiles = self._profiles(index, questions, known)
        timings["profile_s"] = time.perf_counter() - begin
        asked = [place for place, name in enumerate(known) if name is not None]
        evidence: list[tuple[Evidence, ...]] = [()] * len(questions)
        if index is not None and asked:
            mine = [names[place] for place in asked]
            begin = time.perf_counter()
            views = {name: bank_view(index, index.banks[name], config) for name in dict.fromkeys(mine)}
            order = {name: at for at, name in enumerate(views)}
            stack = self._stack([index.banks[name] for name in views], index, config)
            timings["prepare_s"] = time.perf_counter() - begin
            begin = time.perf_counter()
            batch = self._batch(index, [profiles[place] for place in asked], [views[name] for name in mine])
            timings["encode_queries_s"] = time.perf_counter() - begin
            begin = time.perf_counter()
            hidden = self._hidden(index, mine, [boundaries[place] for place in asked], config)
            ranked = retrieve(stack, np.array([order[name] for name in mine]), batch, hidden, config)
            timings["retrieve_s"] = time.perf_counter() - begin
            timings |= ranked.timings
            for row, place in enumerate(asked):
                bank = index.banks[names[place]]
                evidence[place] = _evidence(index, bank, views[names[place]].rows.unit_rows, ranked, row, limit)
        return [
            SearchResult(text, name, profile, found, timings if explain else None)
            for text, name, profile, found in zip(questions, names, profiles, evidence, strict=True)
        ]

    def _profiles(
        self, index: MemoryIndex | None, questions: list[str], banks: list[str | None]
    ) -> list[QueryProfile]:
        speakers = {
            name: _speakers(index, index.banks[name]) for name in set(banks) if index is not None and name is not None
        }
        if self._profiler is None:
            self._profiler = Profiler(self.config.ner_model, self.config.timezone)
        return self._profiler.profile(questions, [speakers.get(name or "", ()) for name in banks])

    def _batch(self, index: MemoryIndex, profiles: list[QueryProfile], views: list[BankView]) -> QueryBatch:
        """Encode the questions, and those of their entities that their bank does not know by name."""
        tools = self._load_tools()
        texts = [clean(profile.text) for profile in profiles]
        empty = np.zeros((len(texts), index.dim), np.float32)
        batch = build_batch(profiles, empty, tools.analyzer)
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
            raise InvalidInput(
                f"query[{first}]", "a zero or NaN vector from the encoder", "questions that the encoder can read"
            )
        return replace(
            batch, vectors=vectors[: len(texts)], vector_keys=missing, entity_vectors=vectors[len(texts) :]
        )

    def _stack(self, banks: list[Bank], index: MemoryIndex, config: Config) -> Stack:
        """The stacked views of some banks; the last few are kept."""
        # the banks themselves are the key: an id could be taken again by the bank of a newer version
        key = (*banks, config.bm25_k1, config.bm25_b, config.chain_weight)
        with self._loading:
            found = self._stacks.get(key)
            if found is None:
                found = stack_banks([bank_view(index, bank, config) for bank in banks], self.device)
                self._stacks[key] = found
            self._stacks.move_to_end(key)
            while len(self._stacks) > _STACKS_KEPT:
                self._stacks.popitem(last=False)
        return found

    def _hidden(
        self, index: MemoryIndex, banks: list[str], boundaries: list[Boundary | None], config: Config
    ) -> Hidden | None:
        """Each distinct (bank, boundary) as one mask."""
        if all(boundary is None for boundary in boundaries):
            return None
        place: dict[tuple[str, Boundary], int] = {}
        masks: list[np.ndarray] = []
        mask_of = np.full(len(banks), -1, np.int64)
        for row, (name, boundary) in enumerate(zip(banks, boundaries, strict=True)):
            if boundary is None:
                continue
            if (name, boundary) not in place:
                place[name, boundary] = len(masks)
                bank = index.banks[name]
                rows = bank_view(index, bank, config).rows
                masks.append(hidden_units(index, bank, rows, boundary, config.timezone))
            mask_of[row] = place[name, boundary]
        return Hidden(mask_of, masks)

    def _search_config(self, config: Config | None, top_k: int | None) -> Config:
        chosen = config or self.config
        if chosen.index_fields() != self.config.index_fields():
            changed = [k for k, v in chosen.index_fields().items() if v != self.config.index_fields()[k]]
            raise InvalidInput(
                "config", f"other values for {', '.join(changed)}", "the values that this memory was built with",
                "Make a new Memory with them and add the traces again.",
            )  # fmt: skip
        return chosen if top_k is None else chosen.replace(top_k=top_k)

    def _default_bank(
        self, index: MemoryIndex | None, bank: str | Sequence[str] | None, questions: list[str]
    ) -> str | None:
        """The only bank there is, when none was named."""
        if bank is not None or not questions:
            return None
        names = list(index.banks) if index is not None else []
        if len(names) > 1:
            raise InvalidInput("bank", "None", f"one of the {len(names)} banks, or one per question")
        return names[0] if names else "default"

    @staticmethod
    def _one_each(name: str, given: Any, count: int, default: Any) -> list[Any]:
        """A value for every question, from one for all or a sequence."""
        if given is None:
            return [default] * count
        if isinstance(given, (str, Boundary)):
            return [given] * count
        values = list(given)
        if len(values) != count:
            raise InvalidInput(name, f"{len(values)} values", f"one value, or one for each of {count} questions")
        return values

    # -- files and facts --

    def save(self, directory: str | Path) -> None:
        """Write the memory to a directory; see `store.py` for the format."""
        from zeromem_gpu.store import save_index

        index = self._index or MemoryIndex.empty(self._load_tools().encoder.dim)
        save_index(Path(directory), index, self.config, self._fingerprint())

    @classmethod
    def open(
        cls,
        directory: str | Path,
        *,
        encoder: str | Encoder | None = None,
        device: str | torch.device | None = None,
        vectors: str | Path | None = None,
        cache_dir: str | Path | bool | None = None,
        extractor: EntityExtractor | None = None,
    ) -> Memory:
        """Open a saved memory with the encoder that built it, or another that has the same fingerprint."""
        from zeromem_gpu.store import open_index

        index, config, fingerprint = open_index(Path(directory))
        memory = cls(
            config, encoder=encoder or fingerprint["encoder"], device=device, vectors=vectors,
            cache_dir=cache_dir, extractor=extractor,
        )  # fmt: skip
        memory._index = index
        memory._expected = dict(fingerprint)
        return memory

    @property
    def banks(self) -> tuple[str, ...]:
        """Names of the banks, in order of arrival."""
        return tuple(self._index.banks) if self._index is not None else ()

    def info(self) -> dict[str, Any]:
        """Counts, sizes, encoder and configuration."""
        index = self._index
        banks = list(index.banks.values()) if index is not None else []

        def count(table: str) -> int:
            return sum(bank.spans[table].length for bank in banks if table in bank.spans)

        return {
            "banks": len(banks),
            "traces": sum(len(bank.ids) for bank in banks),
            "units": count("units") - sum(len(bank.dead) for bank in banks),
            "sentences": count("sentences"),
            "entities": count("entities"),
            "words": count("tokens"),
            "bytes": sum(arena.nbytes for arena in index.arenas.values()) if index is not None else 0,
            "device": str(self.device),
            "fingerprint": self._fingerprint(),
            "config": self.config.to_dict(),
        }

    _expected: Mapping[str, Any] | None = None

    def _fingerprint(self) -> dict[str, Any]:
        """What an index must be searched with: names and versions of everything that read its text."""
        if self._expected is not None:
            return dict(self._expected)
        tools = self._load_tools()
        return {
            "encoder": tools.encoder.name,
            "encoder_fingerprint": tools.encoder.fingerprint,
            "dim": tools.encoder.dim,
            "ner": tools.extractor.fingerprint,
            "words": tools.analyzer.fingerprint,
        }

    def _load_tools(self) -> Tools:
        """Load encoder, extractor and analyzer on first use; an opened index checks them."""
        with self._loading:
            if self._tools is None:
                encoder = resolve_encoder(
                    self._encoder_spec, device=str(self.device), vectors=self._vectors, cache=self._cache
                )
                extractor = self._extractor or SpacyExtractor(
                    self.config.ner_model, capitalised=self.config.capitalised_entities
                )
                if self._cache is not None:
                    extractor = CachedExtractor(extractor, self._cache)
                tools = Tools(encoder, extractor, Analyzer(self.config.stemmer))
                self._check_tools(tools)
                self._tools = tools
            return self._tools

    def _check_tools(self, tools: Tools) -> None:
        """Refuse an encoder, NER or tokenizer other than the one that built an opened index."""
        found = {
            "encoder_fingerprint": tools.encoder.fingerprint,
            "ner": tools.extractor.fingerprint,
            "words": tools.analyzer.fingerprint,
        }
        for name, value in found.items():
            expected = (self._expected or {}).get(name, value)
            if expected != value:
                raise InvalidInput(
                    name.removesuffix("_fingerprint"), repr(value), f"{expected!r}, which built this index",
                    "Open it with the same one, or index the traces again into a new directory.",
                )  # fmt: skip


def _cache_path(cache_dir: str | Path | bool | None) -> Path:
    return default_cache_dir() if cache_dir in (None, True) else Path(str(cache_dir))


def _speakers(index: MemoryIndex, bank: Bank) -> tuple[str, ...]:
    """The speakers of a bank as they were written, each once, in order of arrival."""
    traces = index.column(bank, "traces", "trace")
    return bank.cached("speakers", lambda: tuple(dict.fromkeys(t.speaker for t in traces if t.speaker)))  # type: ignore[no-any-return]


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
