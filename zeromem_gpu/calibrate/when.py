"""Dates in answers: in one form, resolved as the evidence tells them, and nothing but the date."""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

from zeromem_gpu.calibrate.pool import Passage, Pool
from zeromem_gpu.calibrate.times import CLOCK, Moment, moments, unreal
from zeromem_gpu.text.intervals import MONTH

Outcome = tuple[str, tuple[str, ...]]

# what stands before a date and is part of what it says
_QUALIFIER = re.compile(
    r"\b(?:before|after|since|until|till|by|from|around|about|circa|approximately|roughly|early(?: in)?"
    r"|late(?: in)?|mid[ -]?|(?:the )?(?:beginning|start|middle|end)(?: of)?|not|never|between|\w+n't)"
    r"(?: on| in)?(?: the)? ?\Z",
    re.IGNORECASE,
)
_DENIED = re.compile(r"not\b|never\b|n't\b", re.IGNORECASE)
# a time that is no date, or part of one
_TIMELY = re.compile(
    rf"\d|{MONTH}|(?:mon|tues|wednes|thurs|fri|satur|sun)day|{CLOCK.pattern}"
    r"|\b(?:ago|day|night|week|weekend|month|year|spring|summer|autumn|fall|winter|morning|afternoon|evening"
    r"|yesterday|today|tonight|tomorrow|now|soon|when|while|after|before|during|since)s?\b",
    re.IGNORECASE,
)
_LONGEST = 366  # days; what is vaguer than a year dates nothing
_SOME_DAY = date(2000, 2, 1)


class _Telling(NamedTuple):
    """A time expression of a passage, and how well the passage meets the question."""

    fit: float
    passage: Passage
    moment: Moment


def as_told(answer: str, pool: Pool) -> Outcome:
    """A day that the evidence does not name gives way to the expression that it was taken from.

    That is so for the day of telling, and for a day inside a stretch ("last week"), where the answer is
    more exact than what was told. What any expression of the evidence resolves to stays, and so does a
    qualified date ("before 3 May 2023").
    """
    own = _own(answer)
    if own is None or _speaking(own, pool) or _QUALIFIER.search(answer[: own.start]):
        return answer, ()
    near = [passage for passage in pool.passages if _touches(own, passage)]
    source = max(near, key=pool.support, default=None)
    moment = _said(source, pool) if source else None
    if source is None or moment is None or not moment.relative or not _misread(own, moment, source):
        return answer, ()
    clock = CLOCK.search(answer) is not None  # only the day of it is in question
    text = answer[: own.start] + moment.text + answer[own.end :] if clock else moment.text
    return text, (source.trace,)


def _said(passage: Passage, pool: Pool) -> Moment | None:
    """The only time expression of the sentence that meets the question best, else of the passage."""
    sentence = max(passage.sentences, key=lambda one: pool.fit(one, passage), default="")
    here = [moment for one, moment in passage.moments if one == sentence]
    here = here or [moment for _, moment in passage.moments]
    return here[0] if len(here) == 1 and pool.spoken_by_subject(passage) else None


def resolved(answer: str, pool: Pool) -> Outcome:
    """An expression relative to a day that the answer does not name, as the evidence resolves its words."""
    here = [moment for moment in moments(answer, _SOME_DAY) if moment.relative]
    own = _own(answer)
    if len(here) != 1 or (own is None and moments(answer, None)):
        return answer, ()
    phrase = _plain(here[0].phrase)
    best = _best([one for one in _tellings(pool) if _plain(one.moment.phrase) == phrase])
    if best is None:
        return answer, ()
    if own is not None:  # "last summer (2022)"
        known = own.holds(best.moment) and not own.same(best.moment)
        return (best.moment.text, (best.passage.trace,)) if known else (answer, ())
    return answer[: here[0].start] + best.moment.text + answer[here[0].end :], (best.passage.trace,)


def only_date(answer: str, pool: Pool) -> Outcome:
    """No date, or one of which no evidence knows, gives way to the only one of the evidence."""
    own = _own(answer)
    if own is None and not unreal(answer) and (_TIMELY.search(answer) or pool.holders(answer)):
        return answer, ()
    if own is not None and any(_touches(own, passage) for passage in pool.passages):
        return answer, ()
    found = {(one.moment.first, one.moment.last): one for one in _tellings(pool)}
    if len(found) != 1:
        return answer, ()
    only = next(iter(found.values()))
    return only.moment.text, tuple(p.trace for p in pool.passages if p.moments)[:3]


def date_form(answer: str, pool: Pool) -> Outcome:
    """The only date of an answer, with what qualifies it ("before"); a clock time stays."""
    own = _own(answer)
    if own is None or CLOCK.search(answer):
        return answer, ()
    before = _QUALIFIER.search(answer[: own.start])
    if before and _DENIED.search(before.group()):
        return answer, ()
    text = (before.group() if before else "") + own.text
    named = _speaking(own, pool) or tuple(p.trace for p in pool.passages if _touches(own, p))
    return (text, named[:3]) if named else (answer, ())


def _own(answer: str) -> Moment | None:
    """The one date that an answer gives; None for several, for a part of one and beside other numbers."""
    found = [moment for moment in moments(answer, None) if moment.days <= _LONGEST]
    every = [moment for moment in moments(answer, _SOME_DAY) if not moment.relative]
    if len(every) != len(found):  # a day without its year
        return None
    exact = [one for one in found if not any(one.holds(other) and not one.same(other) for other in found)]
    if not exact or any(not one.same(exact[0]) for one in exact):
        return None
    rest = answer
    for moment in moments(answer, _SOME_DAY):
        rest = rest[: moment.start] + " " * (moment.end - moment.start) + rest[moment.end :]
    return None if re.search(r"\d", CLOCK.sub("", rest)) else exact[0]


def _tellings(pool: Pool) -> list[_Telling]:
    """The time expressions of all evidence, each with the fit of its sentence."""
    return [
        _Telling(pool.fit(sentence, passage), passage, moment)
        for passage in pool.passages
        for sentence, moment in passage.moments
    ]


def _best(found: list[_Telling]) -> _Telling | None:
    """The telling that meets the question best, if there is one."""
    return max(found, key=lambda one: (one.fit, -one.passage.rank), default=None)


def _misread(own: Moment, moment: Moment, passage: Passage) -> bool:
    """Whether an answer may have been taken from an expression that says something else, or less."""
    told = own.days == 1 and own.first == passage.told
    return told or (own.days < moment.days and moment.holds(own))


def _speaking(own: Moment, pool: Pool) -> tuple[str, ...]:
    """The passages in which an expression resolves to the days of the answer."""
    return tuple(p.trace for p in pool.passages if any(one.same(own) for _, one in p.moments))[:3]


def _touches(own: Moment, passage: Passage) -> bool:
    """Whether a passage was told on a day of the answer or speaks of one."""
    told = passage.told is not None and own.first <= passage.told <= own.last
    return told or any(one.meets(own) or one.same(own) for _, one in passage.moments)


def _plain(phrase: str) -> str:
    return " ".join(re.sub(r"\b(?:the|a|an|on|over) ", "", phrase.lower().replace("’", "'")).split())
