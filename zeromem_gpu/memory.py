"""Memory: add traces, search with one question or thousands, save and open. Wiring only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from zeromem_gpu.arguments import (
    check_bank,
    check_limit,
    name_list,
    one_each,
    question_list,
    trace_list,
)
from zeromem_gpu.build.boundary import check_boundary
from zeromem_gpu.build.check import check_traces
from zeromem_gpu.build.estimate import SizeReport, announce, estimate_size
from zeromem_gpu.build.facts import MemoryIndex
from zeromem_gpu.build.forget import chosen_rows, compact, forget
from zeromem_gpu.build.ingest import ingest
from zeromem_gpu.build.spans import encode_spans
from zeromem_gpu.build.vectors import trace_vectors
from zeromem_gpu.build.views import bank_view
from zeromem_gpu.config import Config
from zeromem_gpu.device import resolve_device
from zeromem_gpu.encoders.protocol import Encoder, checked_encode
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.search import Searcher
from zeromem_gpu.text.dates import parse_time
from zeromem_gpu.text.entities import EntityExtractor
from zeromem_gpu.text.normalize import clean
from zeromem_gpu.toolbox import Toolbox
from zeromem_gpu.traces import write_traces
from zeromem_gpu.types import Answer, Boundary, SearchResult, Trace

if TYPE_CHECKING:
    import numpy as np
    import torch

    from zeromem_gpu.ask import ReaderSpec


@dataclass(frozen=True)
class AddReport:
    """What one `add` did: counts of traces and units, trace ids whose vectors were unusable, seconds.

    Quarantined traces stay in the memory and are found by their words. `timings` has text_s, ner_s and
    encode_s. `split` counts texts too long for the encoder: cut at sentence ends, their vectors averaged.
    """

    added: int
    updated: int
    unchanged: int
    units: int
    quarantined: tuple[str, ...]
    timings: Mapping[str, float]
    split: int = 0


class Memory:
    """Banks of raw traces that can be searched, each question in one bank.

    Args:
        config: every number of the method.
        encoder: a model name ("BAAI/bge-m3", "minilm" for the offline model, any sentence-transformers
            name or path; "plain:" before a name runs the model's own library instead of the packed
            forward) or an object that follows the `Encoder` protocol.
        device: "cpu", "cuda", "cuda:N"; default ZEROMEM_DEVICE, else CUDA where there is one.
        vectors: a safetensors file of precomputed vectors that takes the encoder's place.
        cache_dir: where vectors and entities are cached; None takes the default, False caches nothing.
        extractor: replaces the spaCy entity extractor that `config.ner_model` names; a mapping from bank
            to extractor replaces it in these banks alone.

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
        extractor: EntityExtractor | Mapping[str, EntityExtractor] | None = None,
    ) -> None:
        self.config = config or Config()
        self.device = resolve_device(device)
        file = None if vectors is None else Path(vectors)
        self._toolbox = Toolbox(self.config, encoder, str(self.device), file, cache_dir, extractor)
        self._searcher = Searcher(self.device, self._toolbox)
        self._index: MemoryIndex | None = None
        self._version: str | None = None
        self._writing = threading.Lock()

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
        checked = check_traces(trace_list(traces), self.config.timezone)
        with self._writing:
            tools = self._toolbox.tools()
            index = self._index or MemoryIndex.empty(tools.encoder.dim)
            announce([one.trace for one in checked], self.config, tools.encoder.dim)
            self._index, report = ingest(index, checked, tools, self.config, progress)
        return AddReport(
            report.added, report.updated, report.unchanged, report.units,
            tuple(report.quarantined), report.timings, report.split,
        )  # fmt: skip

    def estimate(self, traces: Trace | Iterable[Trace]) -> SizeReport:
        """How large an index of these traces would be, from a sample; nothing is stored or encoded."""
        checked = check_traces(trace_list(traces), self.config.timezone)
        dim = self._toolbox.tools().encoder.dim
        return estimate_size([one.trace for one in checked], self.config, dim)

    def update(self, traces: Trace | Iterable[Trace], **options: Any) -> AddReport:
        """`add` for traces that are there: an id that its bank does not have is an `InvalidInput`."""
        given = trace_list(traces)
        banks = self._index.banks if self._index is not None else {}
        for trace in given:
            if isinstance(trace, Trace) and (
                trace.bank not in banks or trace.id not in banks[trace.bank].ids
            ):
                raise InvalidInput(
                    "traces", f"id {trace.id!r} in bank {trace.bank!r}", "an id that is there"
                )
        return self.add(given, **options)

    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        bank: str | None = None,
        sessions: str | Iterable[str] | None = None,
        before: datetime | str | None = None,
    ) -> int:
        """Forget traces: those that meet every condition given, in one bank or in all.

        No later search returns or scores them. Their text stays in memory, and in a directory saved later,
        until `compact`; `zeromem-gpu purge` does both and leaves no older version.

        Args:
            ids: trace ids; unknown ones match nothing.
            bank: only in this bank; alone, the whole bank goes.
            sessions: only of these sessions.
            before: only traces with an earlier time; a naive one is read in the configuration's zone.

        Returns:
            How many traces were forgotten. No condition at all is an `InvalidInput`.
        """
        if all(condition is None for condition in (ids, bank, sessions, before)):
            raise InvalidInput("delete", "no condition", "ids, bank, sessions or before")
        chosen = name_list("ids", ids), name_list("sessions", sessions)
        if bank is not None:
            check_bank(bank)
        instant = parse_time(before, self.config.timezone)[0] if before is not None else None
        with self._writing:
            index = self._index
            if index is None:
                return 0
            if bank is None and (ids is not None or sessions is not None) and len(index.banks) > 1:
                raise InvalidInput(
                    "bank", "None", f"one of the {len(index.banks)} banks: ids are a bank's own"
                )
            rows = {
                name: chosen_rows(index, one, *chosen, instant)
                for name, one in index.banks.items()
                if bank is None or name == bank
            }
            rows = {name: found for name, found in rows.items() if len(found)}
            left = forget(index, rows)
            if self.config.window_vectors == "encoded":
                still = [name for name in rows if name in left.banks]
                left = encode_spans(left, still, self._toolbox.tools().encoder, self.config)
            self._index = left
        return sum(len(found) for found in rows.values())

    def compact(self) -> int:
        """Drop what was deleted or replaced from every table; returns the bytes that this frees.

        Searches give what they gave before.
        """
        with self._writing:
            index = self._index
            if index is None:
                return 0
            self._index = compact(index, self.config)
            before, after = (sum(a.nbytes for a in one.arenas.values()) for one in (index, self._index))
            return before - after

    def prepare(self, banks: Sequence[str] | None = None) -> dict[str, float]:
        """Build what searches need of the banks (all by default) now instead of at the first search.

        Returns:
            Seconds spent: graph_s and bm25_s. Banks that do not exist have nothing to build.
        """
        timings = {"graph_s": 0.0, "bm25_s": 0.0}
        index = self._index
        names = self.banks if banks is None else (banks,) if isinstance(banks, str) else banks
        for name in names:
            if index is not None and name in index.banks:
                bank_view(index, index.banks[name], self.config, timings)
        return timings

    # -- searching --

    # a str is a Sequence[str] to a type checker; here it is one question
    @overload
    def search(  # type: ignore[overload-overlap]
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
            explain: fill `timings` of each result with the seconds of the batch, `rankings` with what each
                view ranked first.
            config: other numbers for this search; index fields must equal the memory's.

        Returns:
            A `SearchResult` for a string, a list of them for a sequence (empty for an empty one).
        """
        questions = question_list(query)
        config = self._search_config(config, top_k)
        check_limit(limit)
        index = self._index
        banks = one_each("bank", bank, len(questions), self._default_bank(index, bank, questions))
        boundaries = one_each("boundary", boundary, len(questions), None)
        for name in banks:
            check_bank(name)
        for one_boundary in dict.fromkeys(boundaries):
            check_boundary(one_boundary, self.config.timezone)
        results = self._searcher.search(index, questions, banks, boundaries, config, limit, explain)
        return results[0] if isinstance(query, str) else results

    @overload
    def ask(self, query: str, **options: Any) -> Answer: ...
    @overload
    def ask(self, query: Sequence[str], **options: Any) -> list[Answer]: ...
    def ask(
        self,
        query: str | Sequence[str],
        *,
        reader: ReaderSpec = "extractive",
        calibrate: bool = True,
        **options: Any,
    ) -> Answer | list[Answer]:
        """Search, let a reader answer from the evidence, and calibrate its answers.

        Args:
            query: a question, or several.
            reader: "extractive" (no model), "openai", a function from prompt to answer, or a `Reader`. A
                batch is one call of `read`, one model call a question.
            calibrate: check answers that rules can check against the evidence (see `Answer.changes`).
            options: those of `search`: bank, boundary, top_k, limit, explain, config.

        Returns:
            An `Answer` for a string, a list of them for a sequence. What fails for one question is its
            `error`; an unusable reader, and an option that there is not, raise `InvalidInput` before
            anything is searched.
        """
        from zeromem_gpu.ask import answer_all, check_options, reader_for

        check_options(options)
        zone = self.config.timezone
        chosen = reader_for(reader, zone)
        found = self.search([query] if isinstance(query, str) else query, **options)
        answers = answer_all(found, chosen, calibrate=calibrate, zone=zone)
        return answers[0] if isinstance(query, str) else answers

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of `texts` from the memory's encoder, through its cache.

        Returns:
            float32 [n, D], rows of length 1; n = 0 gives [0, D]. Rows for which the encoder gives NaN or
            zero are zero.
        """
        if isinstance(texts, str):
            raise InvalidInput("texts", "one str", "a sequence of texts")
        return checked_encode(self._toolbox.tools().encoder, [clean(text) for text in texts])[0]

    def vectors(self, ids: str | Sequence[str], *, bank: str = "default") -> np.ndarray:
        """Stored vectors of traces, to write them through to a vector store of one's own.

        Returns:
            float32 [n, D], rows of length 1; a trace of several units has the mean of theirs, one whose
            vector was unusable zeros. Ids that the bank does not have are an `InvalidInput`.
        """
        index, names = self._index, name_list("ids", ids) or []
        if index is None or bank not in index.banks:
            raise InvalidInput("bank", repr(bank), f"one of {', '.join(self.banks) or 'no banks yet'}")
        return trace_vectors(index, index.banks[bank], names)

    def _search_config(self, config: Config | None, top_k: int | None) -> Config:
        chosen = config or self.config
        if chosen.index_fields() != self.config.index_fields():
            changed = [k for k, v in chosen.index_fields().items() if v != self.config.index_fields()[k]]
            raise InvalidInput(
                "config",
                f"other values for {', '.join(changed)}",
                "the values that this memory was built with",
                "Make a new Memory with them and add the traces again.",
            )
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

    # -- files and facts --

    def save(self, directory: str | Path, *, only: bool = False) -> None:
        """Write the memory to a directory; see `store/` for the format.

        The version saved before is kept as a fallback, unless this is to be the `only` one.
        """
        from zeromem_gpu.store import save_index

        index = self._index or MemoryIndex.empty(self._toolbox.tools().encoder.dim)
        save_index(Path(directory), index, self.config, self._toolbox.fingerprint(), only=only)

    @classmethod
    def open(
        cls,
        directory: str | Path,
        *,
        encoder: str | Encoder | None = None,
        device: str | torch.device | None = None,
        vectors: str | Path | None = None,
        cache_dir: str | Path | bool | None = None,
        extractor: EntityExtractor | Mapping[str, EntityExtractor] | None = None,
    ) -> Memory:
        """Open a saved memory with the encoder that built it, or another that has the same fingerprint."""
        from zeromem_gpu.store import open_version

        version, (index, config, fingerprint) = open_version(Path(directory))
        memory = cls(
            config, encoder=encoder or fingerprint["encoder"], device=device, vectors=vectors,
            cache_dir=cache_dir, extractor=extractor,
        )  # fmt: skip
        memory._index, memory._version = index, version
        memory._toolbox.expect(fingerprint, named_by_index=encoder is None)
        return memory

    @property
    def banks(self) -> tuple[str, ...]:
        """Names of the banks, in order of arrival."""
        return tuple(self._index.banks) if self._index is not None else ()

    def info(self) -> dict[str, Any]:
        """Counts, sizes, encoder and configuration; `version` is the one that was opened, None without."""
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
            "vocabulary": count("terms"),
            "weights": count("learned"),
            "bytes": sum(arena.nbytes for arena in index.arenas.values()) if index is not None else 0,
            "device": str(self.device),
            "version": self._version,
            "fingerprint": self._toolbox.fingerprint(),
            "config": self.config.to_dict(),
        }

    def export_traces(self, path: str | Path, *, bank: str | None = None) -> int:
        """Write the raw traces of a bank, or of all, as JSON Lines that `read_traces` reads; how many."""
        from zeromem_gpu.store import live_traces

        return write_traces(path, live_traces(self._index, bank) if self._index is not None else ())

    def export_vectors(self, path: str | Path) -> int:
        """Write the encoder's cached vectors to a file that `vectors=` reads; returns how many."""
        return self._toolbox.export_vectors(Path(path))
