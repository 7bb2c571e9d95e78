"""What each kind of time expression stands for, counted from the day on which it was told.

Three ways of writing the outcome, each the most exact one that is still true:

- one day ("yesterday", "three days ago"): that day, 7 May 2023;
- a stretch ("last week", "two weeks ago"): its words with the day that they count from, "the week before 9
  May 2023". A single day inside it would be invented, and both its ends would be: "last week" may be the
  calendar week or the last seven days;
- "last Friday", told on a Sunday, may be two days ago or the Friday of the week before: where the two
  readings differ it is kept in words as a stretch is, where they agree it is a day. So is "next Friday".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from zeromem_gpu.text.intervals import MONTH, month_number

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SEASONS = {"winter": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9}
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "couple": 2, "couple of": 2,
}  # fmt: skip


class Found(NamedTuple):
    """The days [first, last], how they are written, how exactly they are known in days.

    `relative` says whether they were counted from the day of telling, `also` is the other day that the
    words may mean.
    """

    first: date
    last: date
    text: str
    days: int
    relative: bool
    also: date | None = None


def say_day(day: date) -> str:
    """A day, written so that no country reads it otherwise: 7 May 2023."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def _one_day(day: date, relative: bool) -> Found:
    return Found(day, day, say_day(day), 1, relative)


def _whole_month(year: int, month: int, relative: bool) -> Found:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    first = date(year, month, 1)
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return Found(first, last, f"{_MONTHS[month - 1]} {year}", 31, relative)


def _whole_year(year: int, relative: bool) -> Found:
    return Found(date(year, 1, 1), date(year, 12, 31), str(year), 366, relative)


def _absolute(match: re.Match[str], told: date | None) -> Found | None:
    found = match.group()
    numbers = [int(number) for number in re.findall(r"\d+", found)]
    year = next((number for number in numbers if number > 99), None)
    small = [number for number in numbers if number < 100]
    if match["iso"]:
        return _one_day(date(numbers[0], numbers[1], numbers[2]), False)
    name = re.search(MONTH, found, re.IGNORECASE)
    month = month_number(name.group()) if name else 1
    if year is None:
        return None if told is None else _one_day(_nearest(told, month, small[0]), False)
    if not small:
        return _whole_month(year, month, False)
    return _one_day(date(year, month, small[0]), False)


def _nearest(told: date, month: int, day: int) -> date:
    """The day and month of the year that brings them closest to the day of telling."""
    days = [date(told.year + shift, month, day) for shift in (-1, 0, 1)]
    return min(days, key=lambda one: abs((one - told).days))


def _year(match: re.Match[str], told: date | None) -> Found | None:
    return _whole_year(int(re.sub(r"\D", "", match["yy"] or match["yonly"])), False)


def _day(match: re.Match[str], told: date | None) -> Found | None:
    if told is None:
        return None
    found = match.group().lower()
    shifts = {"yesterday": -1, "last night": -1, "tomorrow": 1}
    shift = -2 if match["before"] else 2 if match["after"] else shifts.get(found, 0)
    return _one_day(told + timedelta(days=shift), True)


def _weekday(match: re.Match[str], told: date | None) -> Found | None:
    if told is None:
        return None
    number = [name[:3].lower() for name in _DAYS].index(match["wd"][:3].lower())
    way = match["wway"].lower()
    if way == "on" or (way == "this" and number == told.weekday()):
        return None  # either side may be meant
    ahead = way in ("next", "this coming", "this")
    shift = (number - told.weekday() - 1) % 7 + 1 if ahead else -((told.weekday() - number - 1) % 7 + 1)
    day = told + timedelta(days=shift)
    if way not in ("next", "last", "previous") or abs(shift) == 7 or not _one_week(day, told):
        return _one_day(day, True)
    also = day + timedelta(days=7 if ahead else -7)
    text = f"the {_DAYS[number]} {'after' if ahead else 'before'} {say_day(told)}"
    return Found(day, day, text, 1, True, also)


def _one_week(a: date, b: date) -> bool:
    """Whether two days fall in one week, be it one that begins on Monday or on Sunday."""
    return any((a.toordinal() - first) // 7 == (b.toordinal() - first) // 7 for first in (0, 1))


def _period(match: re.Match[str], told: date | None) -> Found | None:
    if told is None:
        return None
    unit, way = match["p"].lower(), match["pway"].lower()
    shift = 1 if way in ("next", "the coming", "the next") else 0 if way in ("this", "during the") else -1
    if way == "the other" or (way in ("over the", "during the") and unit != "weekend"):
        return None
    if unit == "year":
        return _whole_year(told.year + shift, True)
    if unit == "month":
        return _whole_month(told.year, told.month + shift, True)
    monday = told - timedelta(days=told.weekday())
    word = ("before", "of", "after")[shift + 1]
    if unit == "week":
        spans = {
            -1: (told - timedelta(days=13), told - timedelta(days=1)),
            0: (monday, monday + timedelta(days=6)),
        }
        first, last = spans.get(shift, (told + timedelta(days=1), told + timedelta(days=13)))
        return Found(first, last, f"the week {word} {say_day(told)}", 7, True)
    saturday = monday + timedelta(days=5)
    if shift < 0 and told.weekday() < 6:
        saturday -= timedelta(days=7)
    if shift > 0:
        saturday += timedelta(days=7 if told.weekday() >= 5 else 0)
    friday, sunday = saturday - timedelta(days=1), saturday + timedelta(days=1)
    return Found(friday, sunday, f"the weekend {word} {say_day(told)}", 3, True)


def _ago(match: re.Match[str], told: date | None) -> Found | None:
    if told is None or (match["back"] or "").lower() in ("earlier", "before"):
        return None
    counted, unit = match["n"].lower(), match["unit"].lower().rstrip("s")
    bare = re.sub(r"^(?:a|the(?: last| past)?) ", "", counted)
    number = int(bare) if bare.isdigit() else _NUMBERS.get(bare)
    sign = 1 if match["on"] else -1
    side = "after" if sign > 0 else "before"
    if number is None:  # a few, several, many
        return _vague(counted, unit, sign, side, told)
    if unit in ("day", "night"):
        return _one_day(told + timedelta(days=sign * number), True)
    if unit == "month":
        return _whole_month(told.year, told.month + sign * number, True)
    if unit == "year":
        return _whole_year(told.year + sign * number, True)
    if number == 1 and unit == "week":
        day = told + timedelta(days=7 * sign)
        return _around(day, f"the week {side} {say_day(told)}")
    day = told + timedelta(days=7 * number * sign)
    words = f"{counted} {match['unit'].lower()} {side} {say_day(told)}"
    return _around(day, words)


def _around(day: date, text: str) -> Found:
    """Weeks are counted roughly: six days to either side."""
    return Found(day - timedelta(days=6), day + timedelta(days=6), text, 7, True)


def _vague(counted: str, unit: str, sign: int, side: str, told: date) -> Found | None:
    """A few of a unit: kept in words, from two to nine of them."""
    length = {"day": 1, "night": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}[unit]
    ends = sorted((told + timedelta(days=sign * 2 * length), told + timedelta(days=sign * 9 * length)))
    anchor = {"month": f"{_MONTHS[told.month - 1]} {told.year}", "year": str(told.year)}.get(
        unit, say_day(told)
    )
    return Found(ends[0], ends[1], f"{counted} {unit}s {side} {anchor}", 7 * length, True)


def _season(match: re.Match[str], told: date | None) -> Found | None:
    name = (match["s"] or match["s_2"]).lower()
    month, way = _SEASONS[name], (match["sway"] or "").lower()
    if match["sy"]:
        year = int(match["sy"])
    elif told is None:
        return None
    else:
        year = told.year
        ended = date(year, month, 1) + timedelta(days=91)
        if way != "this" and way != "next" and (name == "winter" or ended > told):
            year -= 1
        if way == "next" and date(year, month, 1) <= told:
            year += 1
    first = date(year, month, 1)
    return Found(first, first + timedelta(days=91), f"the {name} of {year}", 92, not match["sy"])


def _part(match: re.Match[str], told: date | None) -> Found | None:
    """A week or a weekend of a month: the first seven days, the next seven …, the last seven."""
    month = _absolute(match, None)
    if month is None:
        return None
    nth, unit = match["nth"].lower(), match["pu"].lower()
    text = f"the {nth} {unit} of {month.text}"
    if nth == "last":
        return Found(month.last - timedelta(days=6), month.last, text, 7, False)
    first = month.first + timedelta(days=7 * ("first", "second", "third", "fourth").index(nth))
    return Found(first, first + timedelta(days=6), text, 7, False)


def _named_month(match: re.Match[str], told: date | None) -> Found | None:
    if told is None:
        return None
    name = re.search(MONTH, match.group(), re.IGNORECASE)
    month, way = month_number(name.group()) if name else 1, match["mway"].lower()
    year = told.year
    if way in ("last", "this past") and month >= told.month:
        year -= 1
    if way == "next" and month <= told.month:
        year += 1
    return _whole_month(year, month, True)


READERS: dict[str, Callable[[re.Match[str], date | None], Found | None]] = {
    "part": _part,
    **dict.fromkeys(("iso", "dmy", "mdy", "my", "dm", "md"), _absolute),
    "season": _season, "month": _named_month, "ago": _ago, "weekday": _weekday, "period": _period,
    **dict.fromkeys(("before", "after", "day"), _day),
    **dict.fromkeys(("y", "yonly"), _year),
}  # fmt: skip
