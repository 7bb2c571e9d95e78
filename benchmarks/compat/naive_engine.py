"""The naive implementation behind the front end's calls; vectors and entities that both sides share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.peers.locomo import naive_bank, stems_of
from zeromem_gpu import Config, Memory
from zeromem_gpu import Trace as NativeTrace
from zeromem_gpu.compat.zero_mem import SpacyEntityExtractor, Trace
from zeromem_gpu.query.profile import Profiler
from zeromem_gpu.text.tokens import Analyzer


class TimedEmbedder:
    """The encoder of a memory with its cache; `seconds` is what it took, to be left out of a figure."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._known, self.seconds = memory, dict[str, np.ndarray](), 0.0
        self.dim = int(memory.encode([]).shape[1])

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors; each text is encoded once."""
        begin = time.perf_counter()
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known |= dict(zip(fresh, self._memory.encode(fresh), strict=True))
        found = np.array([self._known[text] for text in texts], np.float32).reshape(-1, self.dim)
        self.seconds += time.perf_counter() - begin
        return found


class KnownEntities(SpacyEntityExtractor):
    """spaCy's entities through the cache of a memory."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory.config.ner_model)
        self.native = memory._toolbox.tools().extractor


class NaiveEngine:
    """`ingest` and `retrieve` over `peers.naive`: one question at a time, profile and ranking."""

    def __init__(self, memory: Memory, top_k: int = 5) -> None:
        self._memory, self._top_k, self._analyzer = memory, top_k, Analyzer(memory.config.stemmer)
        self._profiler = Profiler(memory.config.ner_model)
        self._speakers: tuple[str, ...] = ()
        self._bank: Any = None

    def ingest(self, traces: Sequence[Trace]) -> None:
        """Build the bank, once."""
        native = [
            NativeTrace(
                one.id, one.text, session=one.session_id, turn=one.turn_index, time=one.created_at,
                speaker=one.speaker,
            )
            for one in traces
        ]  # fmt: skip
        config: Config = self._memory.config
        self._speakers = tuple(dict.fromkeys(one.speaker for one in traces if one.speaker))
        self._bank = naive_bank(self._memory, native, self._analyzer, config)

    def retrieve(self, query: str, vector: np.ndarray) -> list[str]:
        """The ids of the best traces of a question whose vector is known."""
        (profile,) = self._profiler.profile([query], [self._speakers])
        found: list[str] = self._bank.search(profile, stems_of(self._analyzer, query), vector, self._top_k)
        return found
