"""Time expressions in a text, each resolved against the day on which the text was said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import NamedTuple

from zeromem_gpu.text.intervals import MONTH, month_number
from zeromem_gpu.text.normalize import clean

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

_DAY = r"(?:mon|tue(?:s)?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?"
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR = r"(?:1[5-9]|20)\d\d"
_COUNT = (
    r"(?:\d{1,3}|(?:a |the (?:last |past )?)?couple(?: of)?|(?:a |the past )?few|several|many|an?|one|two|three|four"
    r"|five|six|seven|eight|nine|ten|eleven|twelve)"
)
_UNIT = r"(?:day|night|week|weekend|month|year)s?"
_PAST = r"(?:last|this past|the past|past|the last|the previous|previous)"
_PATTERN = re.compile(
    rf"(?<![\w-])(?:"
    rf"(?P<iso>{_YEAR}-\d\d-\d\d)"
    rf"|(?P<dmy>{_NTH}(?: of)? {MONTH},? {_YEAR})|(?P<mdy>{MONTH} (?:the )?{_NTH},? {_YEAR})"
    rf"|(?P<my>{MONTH},? (?:of )?{_YEAR})"
    rf"|(?P<dm>{_NTH}(?: of)? {MONTH})|(?P<md>{MONTH} (?:the )?{_NTH}(?!\d))"
    rf"|(?P<season>(?:(?P<sway>last|this past|this|next|the past) (?P<s>winter|spring|summer|autumn|fall)"
    rf"|(?P<s_2>winter|spring|summer|autumn|fall)(?: of|,)? (?P<sy>{_YEAR})))"
    rf"|(?P<month>(?P<mway>last|this past|this|next) {MONTH}(?! \d))"
    rf"|(?P<ago>(?P<n>{_COUNT}) (?P<unit>{_UNIT})(?: (?P<back>ago|back|earlier|before)|(?P<on> from now)))"
    rf"|(?P<weekday>(?P<wway>{_PAST}|this coming|this|next|on) (?P<wd>{_DAY})(?: night| morning| afternoon| evening)?)"
    rf"|(?P<period>(?P<pway>{_PAST}|this|next|the coming|the next|over the|during the|the other) (?P<p>week|weekend|month|year))"
    rf"|(?P<before>the day before yesterday)|(?P<after>the day after tomorrow)"
    rf"|(?P<day>yesterday|last night|tonight|today|tomorrow|this (?:morning|afternoon|evening))"
    rf"|(?P<y>(?:in|since|of|during|from|until|by|early|late|mid|around|year|back in|,|\() ?(?:the year )?(?P<yy>{_YEAR}))"
    rf"|(?P<yonly>\A{_YEAR}\.?\Z)"
    rf")(?!\w)",
    re.IGNORECASE,
)  # fmt: skip


class Moment(NamedTuple):
    """A stretch of days [first, last]: `text` is how it is written out, `phrase` what was read.

    `days` is how exactly it is known: 1 for a day, 7 for a week, 31 for a month, 366 for a year.
    `relative` says whether it was counted from the day of telling.
    """

    first: date
    last: date
    text: str
    phrase: str
    start: int
    end: int
    days: int
    relative: bool

    def meets(self, other: Moment) -> bool:
        """Whether the two have a day in common."""
        return self.first <= other.last and other.first <= self.last

    def same(self, other: Moment) -> bool:
        """Whether both stand for the same days."""
        return (self.first, self.last) == (other.first, other.last)


def say_day(day: date) -> str:
    """A day, written so that no country reads it otherwise: 7 May 2023."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def moments(text: str, told: date | None) -> list[Moment]:
    """The time expressions of `text` in order; relative ones need the day `told`, without it they are left out.

    Days that no calendar has are left out.

    >>> [m.text for m in moments("We met last week, on May 3 and in 2021.", date(2023, 5, 9))]
    ['the week before 9 May 2023', '3 May 2023', '2021']
    """
    seen = clean(text).replace("’", "'")
    return [found for match in _PATTERN.finditer(seen) if (found := _moment(match, told)) is not None]


def _moment(match: re.Match[str], told: date | None) -> Moment | None:
    kind = next(name for name in _READERS if match[name])
    try:
        found = _READERS[kind](match, told)
    except (ValueError, OverflowError):
        return None
    if found is None:
        return None
    first, last, text, days, relative = found
    start = match.start("yy") if kind == "y" else match.start()
    phrase = match.string[start : match.end()]
    return Moment(first, last, text, phrase, start, match.end(), days, relative)


_Found = tuple[date, date, str, int, bool] | None


def _one_day(day: date, relative: bool) -> _Found:
    return day, day, say_day(day), 1, relative


def _whole_month(year: int, month: int, relative: bool) -> _Found:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    first = date(year, month, 1)
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return first, last, f"{_MONTHS[month - 1]} {year}", 31, relative


def _whole_year(year: int, relative: bool) -> _Found:
    return date(year, 1, 1), date(year, 12, 31), str(year), 366, relative


def _absolute(match: re.Match[str], told: date | None) -> _Found:
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


def _year(match: re.Match[str], told: date | None) -> _Found:
    return _whole_year(int(re.sub(r"\D", "", match["yy"] or match["yonly"])), False)


def _day(match: re.Match[str], told: date | None) -> _Found:
    if told is None:
        return None
    found = match.group().lower()
    shifts = {"yesterday": -1, "last night": -1, "tomorrow": 1}
    shift = -2 if match["before"] else 2 if match["after"] else shifts.get(found, 0)
    return _one_day(told + timedelta(days=shift), True)


def _weekday(match: re.Match[str], told: date | None) -> _Found:
    if told is None:
        return None
    number = [name[:3].lower() for name in _DAYS].index(match["wd"][:3].lower())
    way = match["wway"].lower()
    if way == "on" or (way == "this" and number == told.weekday()):
        return None  # either side may be meant
    if way in ("next", "this coming", "this"):
        shift, side = (number - told.weekday() - 1) % 7 + 1, "after"
    else:
        shift, side = -((told.weekday() - number - 1) % 7 + 1), "before"
    day = told + timedelta(days=shift)
    # "last Friday" may be this week's or the one before: the words are kept, only the anchor is added
    return day, day, f"the {_DAYS[number]} {side} {say_day(told)}", 1, True


def _period(match: re.Match[str], told: date | None) -> _Found:
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
        return first, last, f"the week {word} {say_day(told)}", 7, True
    saturday = monday + timedelta(days=5)
    if shift < 0 and told.weekday() < 6:
        saturday -= timedelta(days=7)
    if shift > 0:
        saturday += timedelta(days=7 if told.weekday() >= 5 else 0)
    return (
        saturday - timedelta(days=1),
        saturday + timedelta(days=1),
        f"the weekend {word} {say_day(told)}",
        3,
        True,
    )


def _ago(match: re.Match[str], told: date | None) -> _Found:
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
        return day - timedelta(days=6), day + timedelta(days=6), f"the week {side} {say_day(told)}", 7, True
    day = told + timedelta(days=7 * number * sign)
    words = f"{counted} {match['unit'].lower()} {side} {say_day(told)}"
    return day - timedelta(days=6), day + timedelta(days=6), words, 7, True


def _vague(counted: str, unit: str, sign: int, side: str, told: date) -> _Found:
    """A few of a unit: kept in words, from two to nine of them."""
    length = {"day": 1, "night": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}[unit]
    ends = sorted((told + timedelta(days=sign * 2 * length), told + timedelta(days=sign * 9 * length)))
    anchor = {"month": f"{_MONTHS[told.month - 1]} {told.year}", "year": str(told.year)}.get(
        unit, say_day(told)
    )
    return ends[0], ends[1], f"{counted} {unit}s {side} {anchor}", 7 * length, True


def _season(match: re.Match[str], told: date | None) -> _Found:
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
    return first, first + timedelta(days=91), f"the {name} of {year}", 92, not match["sy"]


def _named_month(match: re.Match[str], told: date | None) -> _Found:
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


_READERS: dict[str, Callable[[re.Match[str], date | None], _Found]] = {
    **dict.fromkeys(("iso", "dmy", "mdy", "my", "dm", "md"), _absolute),
    "season": _season, "month": _named_month, "ago": _ago, "weekday": _weekday, "period": _period,
    **dict.fromkeys(("before", "after", "day"), _day),
    **dict.fromkeys(("y", "yonly"), _year),
}  # fmt: skip


def months_named(text: str) -> Iterator[int]:
    """The months that a text names, written as names are; "may" the verb is none."""
    for match in re.finditer(rf"\b(?:in|of|during|since|until|by|early|late) (?P<m>{MONTH})", text):
        if match["m"][0].isupper():
            yield month_number(match["m"])
