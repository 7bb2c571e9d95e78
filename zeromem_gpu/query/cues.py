"""Temporal cues: what a question says about time, and the interval in which it looks for its answer."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from zeromem_gpu.query import rules
from zeromem_gpu.query.form import Form
from zeromem_gpu.query.reading import Reading
from zeromem_gpu.text.dates import date_interval


class DateSpan(NamedTuple):
    """A date or range as written: character span and its cue value ("2023-10-13", "1865..1868")."""

    start: int
    end: int
    value: str


_ASKS = {"date": "asks_time", "duration": "asks_duration", "frequency": "asks_frequency"}
_STOPS = frozenset(("TO", "WDT", "WP", "MD", ".", ",", ":", "VBD", "VBZ", "VBP"))


def date_spans(text: str, zone: str) -> tuple[DateSpan, ...]:
    """Explicit dates of a text in order, each with the day, month, year or range that it names."""
    found = []
    for match in rules.DATES.finditer(text):
        start, end = match.start("first"), match.end()
        written = re.sub(r"\s(?:and|until|till)\s", " to ", text[start:end])
        # a bare year is read as one only behind a preposition
        interval = date_interval(f"in {written}" if written.isdigit() else written, zone)
        if interval is not None:
            found.append(DateSpan(start, end, _interval_value(*interval, zone)))
    return tuple(found)


def temporal_cues(reading: Reading, form: Form, kind: str, dates: tuple[DateSpan, ...]) -> tuple[str, ...]:
    """The cues of one question without repeats, in the order of the rules below."""
    cues: list[str] = [_ASKS[kind]] if kind in _ASKS else []
    cues += [f"explicit:{date.value}" for date in dates]
    cues += [
        f"explicit:XXXX-{rules.MONTHS.index(m.group('month').lower()) + 1:02d}"
        for m in rules.BARE_MONTH.finditer(reading.text)
        if not any(date.start <= m.start("month") < date.end for date in dates)
    ]
    relative = rules.RELATIVE.finditer(reading.text)
    cues += [f"relative:{' '.join(match.group().lower().split())}" for match in relative]
    if reading.english:
        cues += _links(reading, form, dates)
        cues += _order(reading, kind)
    if form.hypothetical:
        cues.append("hypothetical")
    return tuple(dict.fromkeys(cues))


def _links(reading: Reading, form: Form, dates: tuple[DateSpan, ...]) -> list[str]:
    """The words "before", "after" and "around" with a date, or the event that gives the time."""
    words, cues = reading.words, []
    first, last = reading.bounds
    for i in range(first, last):
        link, step = words[i].lower, 1
        if link == "prior" and i + 1 < last and words[i + 1].lower == "to":
            link, step = "before", 2
        if link not in rules.LINKS or i == form.at or i + step >= last:
            continue
        if link == "since" and "explicit" in words[i + 1].lower:
            continue
        if link == "after" and i > first and words[i - 1].lower in ("named", "called", "modelled"):
            continue
        if link in ("following", "upon", "around") and words[i].tag not in ("IN", "VBG"):
            continue
        start = words[i + step].start
        if any(date.start <= start < date.end or 0 <= date.start - start < 5 for date in dates):
            cues.append(link)
            continue
        event = _event(reading, i + step, last, clause=link in ("when", "while", "once", "until", "till"))
        if words[i + step].lower in rules.WH or link == "around":
            cues += [link] if link in ("around", "before", "after") else []
        elif event and words[i + step].lower.capitalize() not in map(str.capitalize, rules.MONTHS):
            cues.append(f"event:{link} {event}")
        elif event:
            cues.append(link)
    return cues


def _event(reading: Reading, start: int, last: int, clause: bool) -> str:
    """The words of the event that begins at `start`, its article or possessive left out; "" for none."""
    words, kept = reading.words, list[int]()
    has_verb = False
    for i in range(start, min(last, start + 10)):
        word = words[i]
        if word.tag in (".", ":", ",", "``", "''") or word.text in ",?!":
            break
        verb = word.tag in ("VBD", "VBZ", "VBP", "MD")
        # without a clause ("after the race") the first finite verb or infinitive belongs to the question
        stops = word.tag in _STOPS or (word.tag in ("CC", "IN") and word.lower != "of")
        if kept and not clause and stops:
            subject = verb and not has_verb and word.dep in ("advcl", "pcomp", "aux")
            if not subject:
                break
        has_verb = has_verb or verb
        if not kept and word.tag in ("DT", "PRP$"):
            continue
        kept.append(i)
    return " ".join(reading.text[words[kept[0]].start : words[kept[-1]].end].split()) if kept else ""


def _order(reading: Reading, kind: str) -> list[str]:
    """Words such as "first" and "latest" as order cues; "last week" is a time, not an order."""
    words = reading.words
    taken = [(m.start(), m.end()) for m in rules.RELATIVE.finditer(reading.text)]
    cues = []
    for i, word in enumerate(words):
        side = rules.ORDER.get(word.lower)
        if side is None or word.tag in ("NNP", "VB", "VBD", "VBP", "VBZ") or word.text[:1].isupper():
            continue
        if any(start <= word.start < end for start, end in taken):
            continue
        # "later adapted" orders nothing; "which came later" does
        if word.lower in ("earlier", "later", "sooner") and kind != "choice":
            continue
        if i + 1 < len(words) and words[i + 1].lower in ("name", "names"):
            continue
        cues.append(f"order:{side}")
    return cues


def _interval_value(start: float, end: float, zone: str) -> str:
    """A day, month, year or range in ISO form for UTC seconds [start, end]."""
    try:
        place = ZoneInfo(zone)
        low, high = datetime.fromtimestamp(start, place), datetime.fromtimestamp(max(start, end - 1), place)
    except (OverflowError, OSError, ValueError):
        return f"{start:.0f}..{end:.0f}"
    next_day = datetime.fromtimestamp(max(start, end - 1) + 86_400, place)
    if low.date() == high.date():
        return low.date().isoformat()
    starts_year, ends_year = (low.month, low.day) == (1, 1), (high.month, high.day) == (12, 31)
    if starts_year and ends_year:
        return f"{low.year:04d}" if low.year == high.year else f"{low.year:04d}..{high.year:04d}"
    if low.day == 1 and next_day.month != high.month:
        a, b = f"{low.year:04d}-{low.month:02d}", f"{high.year:04d}-{high.month:02d}"
        return a if a == b else f"{a}..{b}"
    return f"{low.date().isoformat()}..{high.date().isoformat()}"
