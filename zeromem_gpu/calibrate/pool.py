"""The evidence of one question as passages that answers are checked against."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property

from zeromem_gpu.calibrate.times import Moment, moments
from zeromem_gpu.calibrate.words import stem_set
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.text.dates import parse_time
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

    `question` is its text, `asked` are its stems without those of its subjects; a rare one weighs more.
    `options` are what it offers to choose from.
    """

    question: str
    passages: tuple[Passage, ...]
    asked: frozenset[str]
    subjects: frozenset[str]
    weights: dict[str, float] = field(compare=False)
    options: tuple[str, ...] = ()

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of all passages."""
        return frozenset().union(*(passage.stems for passage in self.passages))

    def holders(self, text: str) -> tuple[str, ...]:
        """Up to three passages that hold what a text says: all its words, else at least half of them.

        A list draws on several passages, and a reader has its own words; none where less than half of the
        content words are in the evidence.
        """
        wanted = stem_set(text)
        if 2 * len(wanted & self.stems) < len(wanted) or not wanted:
            return ()
        ranked = sorted(self.passages, key=lambda one: (-len(wanted & one.stems), one.rank))
        whole = [one.trace for one in ranked if wanted <= one.stems]
        return tuple((whole or [one.trace for one in ranked if wanted & one.stems])[:3])

    def best(self) -> tuple[str, ...]:
        """The passage that meets the question best, if one has a word of it."""
        for _, passage in self.ranked():
            return (passage.trace,) if (self.asked | self.subjects) & passage.stems else ()
        return ()

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
        """How well a passage meets the question with its best sentence."""
        return max((self.fit(one, passage) for one in ("", *passage.sentences)), default=0.0)

    def fit(self, sentence: str, passage: Passage) -> float:
        """How well a sentence of a passage meets the question, 0 to about 1.3: words, speaker and rank."""
        about = 0.2 * self.spoken_by_subject(passage) + 0.1 / (1 + passage.rank)
        return self.coverage(sentence, passage) + about


def make_pool(result: SearchResult, zone: str) -> Pool:
    """Read the evidence of a result; times without an offset are of `zone`, an IANA name."""
    time_zone(zone)
    passages = tuple(_passage(one, rank, zone) for rank, one in enumerate(result))
    subjects = frozenset().union(*(stem_set(name) for name in result.profile.subjects))
    asked = stem_set(result.query) - subjects
    count = len(passages)
    weights = {}
    for one in sorted(asked):
        holders = sum(one in passage.stems for passage in passages)
        weights[one] = math.log(1 + (count + 1) / (holders + 1))
    return Pool(clean(result.query), passages, asked, subjects, weights, result.profile.options)


def _passage(one: Evidence, rank: int, zone: str) -> Passage:
    text = clean(one.text)
    caption = clean(one.trace.caption or "")
    whole = f"{text}\n{caption}" if caption else text
    return Passage(one.trace.id, whole, clean(one.trace.speaker or ""), _day(one.trace.time, zone), rank)


def _day(time: datetime | str | None, zone: str) -> date | None:
    """The calendar day of an instant: in the offset that it came with, a naive one in `zone`."""
    try:
        text = parse_time(time, zone)[1]
    except InvalidInput:  # a time that cannot be read tells no day
        return None
    return None if text is None else datetime.fromisoformat(text).date()
