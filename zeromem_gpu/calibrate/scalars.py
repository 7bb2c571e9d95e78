"""Counts, numbers, ages, lengths of time and frequencies held against those of the evidence."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from zeromem_gpu.calibrate.amounts import READERS, Amount, length_in_days, numbers
from zeromem_gpu.calibrate.pool import Passage, Pool
from zeromem_gpu.calibrate.words import words

Outcome = tuple[str, tuple[str, ...]]

_ASKED = re.compile(r"\b(?:how many|number of)\s+(.+)", re.IGNORECASE)
_PLURAL = re.compile(r"(?<!s)s\Z|\A(?:children|people|men|women|feet|teeth|mice|geese|\w+men)\Z")
_QUALIFIER = re.compile(
    r"\b(?:about|around|almost|nearly|roughly|approximately|over|under|at least|at most|up to|more than"
    r"|less than|fewer than|only|just|not|never|no|every|since|\w+n't)(?: for)? ?\Z",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?:not|never|no|\w+n't)\b", re.IGNORECASE)
_AGO = re.compile(r" (?:ago|earlier|later|before|after)\b", re.IGNORECASE)


def amount_rules(kind: str) -> list[tuple[str, Callable[[str, Pool], Outcome]]]:
    """The rules of a type of amount, in order."""
    rules: list[tuple[str, Callable[[str, Pool], Outcome]]] = [("only-number", partial(only_amount, kind))]
    if kind in ("duration", "frequency"):
        rules.append((f"{kind}-form", partial(amount_form, kind)))
    return rules


def only_amount(kind: str, answer: str, pool: Pool) -> Outcome:
    """The one amount of an answer, in no passage, gives way to the one that all of them together have.

    A candidate fits the type: a count goes with what was counted, a number with the unit of the answer, an
    age is said to be one. A length of time or an age that may have been counted from dates stays.
    """
    own = READERS[kind](answer) or (numbers(answer) if kind == "age" else [])
    if len(own) != 1 or any(_holds(kind, own[0], passage) for passage in pool.passages):
        return answer, ()
    if kind in ("duration", "age") and _counted(kind, own[0], pool):
        return answer, ()
    counted = _counted_thing(pool)
    found: dict[tuple[str, float], list[tuple[Amount, Passage]]] = {}
    for passage in pool.passages:
        for one in READERS[kind](passage.text):
            if _fits(kind, one, own[0], counted):
                found.setdefault(one.worth, []).append((one, passage))
    if len(found) != 1:
        return answer, ()
    holders = next(iter(found.values()))
    text = answer[: own[0].start] + holders[0][0].text + answer[own[0].end :]
    return text, tuple(dict.fromkeys(passage.trace for _, passage in holders))[:3]


def amount_form(kind: str, answer: str, pool: Pool) -> Outcome:
    """Nothing but the length of time, or the frequency, with what qualifies it ("about", "at least")."""
    own = READERS[kind](answer)
    if len(own) != 1 or _AGO.match(answer[own[0].end :]):
        return answer, ()
    before = _QUALIFIER.search(answer[: own[0].start])
    if before and _DENIED.match(before.group()):
        return answer, ()
    text = (before.group() if before else "") + own[0].text
    traces = tuple(passage.trace for passage in pool.passages if _holds(kind, own[0], passage))
    return (text, traces[:3]) if traces and text != answer.rstrip(".! ") else (answer, ())


def _holds(kind: str, own: Amount, passage: Passage) -> bool:
    """Whether a passage has the amount, written in whichever way."""
    if any(one.worth == own.worth for one in READERS[kind](passage.text)):
        return True
    return kind in ("count", "age") and own.text.lower() in (word.lower for word in words(passage.text))


def _fits(kind: str, one: Amount, own: Amount, counted: str) -> bool:
    if kind == "count":
        return counted in one.noun
    return kind != "number" or one.unit == own.unit


def _counted_thing(pool: Pool) -> str:
    """The stem of what "how many" asks for: its first plural; "" where nothing is counted."""
    asked = _ASKED.search(pool.question)
    plurals = (word for word in words(asked[1] if asked else "") if _PLURAL.search(word.lower))
    return next((word.stem for word in plurals if word.stem), "")


def _counted(kind: str, own: Amount, pool: Pool) -> bool:
    """Whether two days that the evidence names or was told on lie as far apart as an answer says."""
    days = {passage.told for passage in pool.passages if passage.told}
    days |= {one.first for passage in pool.passages for _, one in passage.moments}
    value, unit = (own.worth[1] * 365.25, 365.25) if kind == "age" else length_in_days(own)
    return any(abs(abs((a - b).days) - value) < unit for a in days for b in days if a < b)
