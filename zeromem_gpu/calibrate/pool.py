"""The evidence of one question as passages that answers are checked against."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from zoneinfo import ZoneInfo

from zeromem_gpu.calibrate.times import Moment, moments
from zeromem_gpu.calibrate.words import stem_set
from zeromem_gpu.text.intervals import time_zone
from zeromem_gpu.text.normalize import clean
from zeromem_gpu.text.sentences import split_sentences
from zeromem_gpu.types import Evidence, SearchResult


@dataclass(frozen=True)
class Passage:
    """One unit of evidence: its text with its caption, who said it and on which day (None: unknown)."""

    trace: str
    text: str
    speaker: str
    told: date | None
    rank: int

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of its words."""
        return stem_set(self.text)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Its sentences in order."""
        return tuple(self.text[start:end] for start, end in split_sentences(self.text))

    @cached_property
    def moments(self) -> tuple[tuple[str, Moment], ...]:
        """Its time expressions, each with the sentence that holds it."""
        return tuple((one, moment) for one in self.sentences for moment in moments(one, self.told))


@dataclass(frozen=True)
class Pool:
    """The passages of a result, best first, and how well each of them meets the question.

    `asked` are the stems of the question without those of its subject; a rare one weighs more.
    """

    passages: tuple[Passage, ...]
    asked: frozenset[str]
    subjects: frozenset[str]
    weights: dict[str, float] = field(compare=False)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of all passages."""
        return frozenset().union(*(passage.stems for passage in self.passages))

    def coverage(self, text: str, passage: Passage) -> float:
        """The share of the question, 0 to 1, that a part of a passage meets; the rest of it counts half."""
        if not self.weights:
            return 0.0
        near, far = stem_set(text), passage.stems
        met = sum(w if s in near else 0.5 * w if s in far else 0.0 for s, w in self.weights.items())
        return met / sum(self.weights.values())

    def spoken_by_subject(self, passage: Passage) -> bool:
        """Whether the question is about the speaker; also where it is about nobody in particular."""
        return not self.subjects or not passage.speaker or bool(stem_set(passage.speaker) & self.subjects)

    def ranked(self) -> Iterator[tuple[float, Passage]]:
        """The passages with their support of the question, best first, ties by rank."""
        scored = [(self.support(passage), passage) for passage in self.passages]
        yield from sorted(scored, key=lambda pair: (-pair[0], pair[1].rank))

    def support(self, passage: Passage) -> float:
        """How well a passage meets the question, 0 to about 1.3: words, speaker and rank."""
        best = max((self.coverage(one, passage) for one in passage.sentences), default=0.0)
        return best + 0.2 * self.spoken_by_subject(passage) + 0.1 / (1 + passage.rank)


def make_pool(result: SearchResult, zone: str) -> Pool:
    """Read the evidence of a result; times without an offset are days of `zone`."""
    passages = tuple(_passage(one, rank, time_zone(zone)) for rank, one in enumerate(result))
    subjects = frozenset().union(*(stem_set(name) for name in result.profile.subjects))
    asked = stem_set(result.query) - subjects
    count = len(passages)
    weights = {}
    for one in sorted(asked):
        holders = sum(one in passage.stems for passage in passages)
        weights[one] = math.log(1 + (count + 1) / (holders + 1))
    return Pool(passages, asked, subjects, weights)


def _passage(one: Evidence, rank: int, zone: ZoneInfo) -> Passage:
    text = clean(one.text)
    caption = clean(one.trace.caption or "")
    whole = f"{text}\n{caption}" if caption else text
    return Passage(one.trace.id, whole, clean(one.trace.speaker or ""), _day(one.trace.time, zone), rank)


def _day(time: datetime | str | None, zone: ZoneInfo) -> date | None:
    """The calendar day in the offset that the time was given with."""
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        return None
    return None if moment is None else moment.date()
