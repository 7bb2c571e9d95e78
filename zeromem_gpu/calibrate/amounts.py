"""Numbers, lengths of time, frequencies and ages in a text, in digits or words, with what they are worth."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from zeromem_gpu.calibrate.times import CLOCK, moments
from zeromem_gpu.calibrate.words import stem

_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen""".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {name: float(at) for at, name in enumerate(_ONES)} | {
    name: 10.0 * (at + 2) for at, name in enumerate(_TENS)
}
_TIMES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "dozen": 12.0, "k": 1e3}
_UNITS = {
    "second": ("s", 1.0), "sec": ("s", 1.0), "minute": ("s", 60.0), "min": ("s", 60.0), "hour": ("s", 3600.0),
    "hr": ("s", 3600.0), "day": ("s", 86400.0), "night": ("night", 1.0), "week": ("s", 604800.0),
    "weekend": ("weekend", 1.0), "month": ("m", 1.0), "year": ("m", 12.0), "yr": ("m", 12.0), "decade": ("m", 120.0),
}  # fmt: skip
_EACH = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "annually": "year"}
_SOME_DAY = date(2000, 2, 1)

_WORD = rf"(?:(?:{'|'.join(_TENS)})(?:[- ](?:{'|'.join(_ONES[1:10])}))?|{'|'.join(_ONES)})"
_DIGITS = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_SCALE = r"hundred|thousand|million|billion|dozen"
_N = rf"(?:(?:{_DIGITS})(?:k\b| (?:{_SCALE}))?|(?:an? )?(?:{_SCALE})|{_WORD}(?: (?:{_SCALE}))?)"
_SOME = r"(?:a )?few|several|many|(?:a )?couple(?: of)?"
# "one" that counts nothing: "the one", "one of them"
_PRONOUN = re.compile(
    r"(?:\b(?:the|this|that|which|each|every|no|any|another|\w+(?:st|nd|rd|th)) |\A)one\Z", re.I
)
_UNIT = r"(?:second|sec|minute|min|hour|hr|day|night|weekend|week|month|year|yr|decade)"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_NUMBER = re.compile(
    rf"(?<![\w.,$€£-])(?P<mark>[$€£]?)(?P<n>{_N}|once|twice)(?!\w|[.,]\d|-\d)(?P<after>%?)", re.I
)
_DURATION = re.compile(
    rf"(?<![\w.])(?:(?P<n>{_N}|an?|(?:a )?couple(?: of)?)(?P<half> and a half)?[ -](?P<unit>{_UNIT})s?(?P<half_2> and a half)?"
    rf"|half an? (?P<half_of>{_UNIT}))(?!\w|-old| old| of age)",
    re.IGNORECASE,
)
_FREQUENCY = re.compile(
    rf"(?<!\w)(?:(?:(?P<once>once|twice|thrice)|(?P<n>{_N}) times?|(?P<some>{_SOME}) times)(?P<more> or (?:once|twice|{_N} times?|more))?"
    rf" (?:a|an|per|each|every) (?P<unit>{_UNIT}|{_WEEKDAY})"
    rf"|(?:every|each) (?P<gap>other |{_N} )?(?P<unit_2>{_UNIT}|{_WEEKDAY})s?|(?P<adverb>{'|'.join(_EACH)}))(?!\w)",
    re.IGNORECASE,
)
_AGE = re.compile(
    rf"(?<!\w)(?:(?P<n>{_N})[ -](?:years?|yrs?)[ -](?:old|of age)|(?:aged|turn(?:s|ed|ing)?|age of|age is) (?P<n_2>{_N})"
    r"|(?P<n_3>\d{1,3})(?:st|nd|rd|th) birthday)(?!\w)",
    re.IGNORECASE,
)  # fmt: skip


class Amount(NamedTuple):
    """What is counted: equal `worth` means the same amount. `text` spans [start, end).

    `unit` is the mark or the stem of the word that a plain number goes with, "" without one; `noun` are the
    stems of the two words behind it.
    """

    worth: tuple[str, float]
    text: str
    start: int
    end: int
    unit: str = ""
    noun: frozenset[str] = frozenset()


def number_value(text: str) -> float:
    """What a number is worth, in digits or words: "1,200", "twenty-one", "two hundred", "twice"."""
    seen = text.lower().replace(",", "")
    if seen in ("once", "twice", "thrice"):
        return ("once", "twice", "thrice").index(seen) + 1.0
    total, known = 0.0, False
    for part in re.findall(r"\d+(?:\.\d+)?|[a-z]+", seen):
        if part in _TIMES:
            total = (total if known else 1.0) * _TIMES[part]
        elif part not in ("a", "an"):
            total += _WORDS.get(part, 0.0) if part[0].isalpha() else float(part)
        known = known or part not in ("a", "an")
    return total


def numbers(text: str) -> list[Amount]:
    """Plain numbers: no part of a date, no year, no clock time, no ordinal.

    >>> [(one.worth[1], one.unit) for one in numbers("On 3 May 2023 at 5:30 two children paid $1,200")]
    [(2.0, 'children'), (1200.0, '$')]
    """
    taken = [(one.start, one.end) for one in moments(text, _SOME_DAY)]
    taken += [match.span() for match in CLOCK.finditer(text)]
    found = []
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        if any(first < end and start < last for first, last in taken) or _is_year(match["n"]):
            continue
        if _PRONOUN.search(text[max(0, start - 12) : end]) and text.strip(". ").lower() != "one":
            continue
        following = re.match(r"[ -](\w+)(?: (\w+))?", text[match.end() :])
        behind = [word.lower() for word in following.groups() if word] if following else []
        unit = match["mark"] or match["after"] or (behind[0] if behind else "")
        noun = frozenset(filter(None, (stem(word) for word in behind)))
        if match["n"].lower() in ("once", "twice"):
            unit, noun = "time", frozenset((stem("time"),))
        found.append(Amount(("", number_value(match["n"])), match.group(), start, end, _unit(unit), noun))
    return found


def durations(text: str) -> list[Amount]:
    """Lengths of time; "a week" in "twice a week" is none, "ten years ago" is a day.

    >>> [one.text for one in durations("It took two and a half hours, twice a week, since ten years ago.")]
    ['two and a half hours']
    """
    taken = [(one.start, one.end) for one in frequencies(text)]
    taken += [(one.start, one.end) for one in moments(text, _SOME_DAY)]
    found = []
    for match in _DURATION.finditer(text):
        if any(first < match.end() and match.start() < last for first, last in taken):
            continue
        half = 0.5 if match["half"] or match["half_2"] or match["half_of"] else 0.0
        base, factor = _UNITS[(match["unit"] or match["half_of"]).lower()]
        counted = (match["n"] or "").lower()
        if counted in ("a", "an") and base == "s" and factor < 3600:
            continue  # "a second dance", "wait a minute"
        whole = 2.0 if "couple" in counted else 1.0 if counted in ("a", "an") else number_value(counted)
        found.append(Amount((base, (whole + half) * factor), match.group(), *match.span()))
    return found


def frequencies(text: str) -> list[Amount]:
    """How often: "twice a week", "every other day", "daily"."""
    found = []
    for match in _FREQUENCY.finditer(text):
        unit = (match["unit"] or match["unit_2"] or _EACH.get((match["adverb"] or "").lower(), "")).lower()
        gap = (match["gap"] or "").strip().lower()
        every = 2.0 if gap == "other" else number_value(gap) if gap else 1.0
        times = number_value(match["once"] or match["n"] or "one") / (every or 1.0)
        more = (match["more"] or match["some"] or "").lower()
        found.append(Amount((unit + more, times), match.group(), *match.span()))
    return found


def ages(text: str) -> list[Amount]:
    """Ages: a number of years that the text calls one."""
    found = []
    for match in _AGE.finditer(text):
        at = next(name for name in ("n", "n_2", "n_3") if match[name])
        found.append(Amount(("", number_value(match[at])), match[at], match.start(at), match.end(at)))
    return found


READERS: dict[str, Callable[[str], list[Amount]]] = {
    "count": numbers, "number": numbers, "duration": durations, "frequency": frequencies, "age": ages,
}  # fmt: skip


def length_in_days(amount: Amount) -> tuple[float, float]:
    """A length of time in days, and the days of a unit of it (a month has 30.44)."""
    base, value = amount.worth
    day = {"s": 1 / 86400, "m": 30.44, "night": 1.0, "weekend": 7.0}[base]
    unit = (
        365.25
        if base == "m" and value >= 12
        else 30.44
        if base == "m"
        else 7.0
        if value * day >= 7
        else 1.0
    )
    return value * day, unit


def _is_year(digits: str) -> bool:
    return len(digits) == 4 and digits.isdigit() and 1500 <= int(digits) < 2100


def _unit(word: str) -> str:
    """The unit as it is compared: marks as they are, words without their ending."""
    return stem(word) or word
