"""Named workloads of the measurements: seeded, the same in every run, none of them needs a download.

LoCoMo and HotpotQA are read from the folder in ZEROMEM_DATA (default ../shared/data). Where it is absent,
invented text of the same shape stands in, and every figure taken from it says so (`Workload.stand_in`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stand_ins import CapitalisedNames, HashEncoder, Invented, dialogue, documents
from zeromem_gpu import Config, Memory, Trace
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate.datasets import load_locomo
from zeromem_gpu.evaluate.hotpotqa import load_hotpotqa
from zeromem_gpu.search import Prepared

NAMES = ("locomo-1", "locomo-10", "hotpot-400", "hotpot-3200", "synthetic-300k")
# turns and questions (categories 1 to 4) of LoCoMo's ten conversations
LOCOMO_SHAPE = (
    (419, 152), (369, 81), (663, 152), (629, 199), (680, 178),
    (675, 123), (689, 150), (681, 191), (509, 156), (568, 158),
)  # fmt: skip
HOTPOT_BANKS = {400: 16, 3200: 2}


@dataclass(frozen=True)
class Workload:
    """Texts of one measurement: `banks[i]` is the bank of `questions[i]`."""

    name: str
    traces: Sequence[Trace]
    questions: Sequence[str]
    banks: Sequence[str]
    stand_in: bool

    @property
    def about(self) -> dict[str, Any]:
        """What a figure from this workload must say beside itself."""
        return {
            "workload": self.name,
            "stand_in": self.stand_in,
            "traces": len(self.traces),
            "questions": len(self.questions),
            "input": self.digest,
        }

    @cached_property
    def digest(self) -> str:
        """A hash of all texts: figures with different digests are not comparable."""
        told = blake2b(digest_size=8)
        for trace in self.traces:
            told.update(f"{trace.bank}\0{trace.id}\0{trace.text}\0".encode("utf-8", "replace"))
        for bank, question in zip(self.banks, self.questions, strict=True):
            told.update(f"{bank}\0{question}\0".encode("utf-8", "replace"))
        return told.hexdigest()

    def part(self, name: str, questions: int) -> Workload:
        """The same banks with a seeded sample of the questions (repeated where there are too few)."""
        rng = np.random.default_rng(questions)
        count = len(self.questions)
        places = rng.permutation(count)[:questions] if questions <= count else np.arange(questions) % count
        asked = [self.questions[int(at)] for at in places]
        return Workload(name, self.traces, asked, [self.banks[int(at)] for at in places], self.stand_in)


def data_dir() -> Path | None:
    """The folder with LoCoMo and HotpotQA, or None."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("ZEROMEM_DATA") or root.parent / "shared" / "data")
    return folder if folder.is_dir() else None


def load(name: str, data: Path | None = None) -> Workload:
    """A text workload by name; `data` None takes the invented stand-in."""
    kind, _, size = name.partition("-")
    if kind == "locomo" and size in ("1", "10"):
        return _locomo(name, int(size), data)
    if kind == "hotpot" and size in ("400", "3200"):
        return _hotpot(name, int(size), data)
    raise InvalidInput("workload", repr(name), ", ".join(NAMES[:4]))


def _locomo(name: str, size: int, data: Path | None) -> Workload:
    if data is not None and (data / "locomo" / "locomo10.json").is_file():
        dataset = load_locomo(data)
        kept = dataset.conversations[:size]
        questions = [one for conversation in kept for one in conversation.questions]
        traces = [trace for conversation in kept for trace in conversation.traces]
        texts, banks = [one.text for one in questions], [one.bank for one in questions]
        return Workload(name, traces, texts, banks, False)
    parts = [
        dialogue(f"talk-{at}", turns, count, 7 + at)
        for at, (turns, count) in enumerate(LOCOMO_SHAPE[:size])
    ]
    return _stand_in(name, parts)


def _hotpot(name: str, size: int, data: Path | None) -> Workload:
    banks = HOTPOT_BANKS[size]
    if data is not None and (data / "hotpotqa" / "dev500.jsonl").is_file():
        dataset = load_hotpotqa(data / "hotpotqa", documents=size, questions=banks)
        questions = dataset.questions
        texts, names = [one.text for one in questions], [one.bank for one in questions]
        return Workload(name, dataset.traces, texts, names, False)
    return _stand_in(name, [documents(banks, size, 11)])


def _stand_in(name: str, parts: Sequence[Invented]) -> Workload:
    traces = [trace for part in parts for trace in part.traces]
    questions = [question for part in parts for question in part.questions]
    return Workload(name, traces, questions, [bank for part in parts for bank in part.banks], True)


def hash_memory(config: Config | None = None, **options: Any) -> Memory:
    """An empty memory with the stand-in encoder and entities and no cache, on the CPU by default."""
    given = {"encoder": HashEncoder(), "extractor": CapitalisedNames(), "cache_dir": False, "device": "cpu"}
    return Memory(config, **(given | options))


def prepared(memory: Memory, questions: Sequence[str], banks: Sequence[str]) -> Prepared:
    """Questions profiled, encoded and put into arrays: what retrieval alone begins with."""
    index = memory._index
    if index is None:
        raise InvalidInput("memory", "an empty one", "one with traces")
    profiles = memory._searcher.profiles(index, questions, banks, memory.config)
    return memory._searcher.prepare(index, profiles, banks, memory.config)


def evidence_digest(results: Sequence[Sequence[str]]) -> str:
    """A hash of the evidence ids of every question, in order."""
    told = blake2b(digest_size=8)
    for ids in results:
        told.update(("\0".join(ids) + "\n").encode("utf-8", "replace"))
    return told.hexdigest()
