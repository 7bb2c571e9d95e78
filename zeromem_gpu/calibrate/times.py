"""Time expressions in a text, each resolved against the day on which the text was said."""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

from zeromem_gpu.calibrate.resolve import READERS, Found, say_day
from zeromem_gpu.text.intervals import MONTH
from zeromem_gpu.text.normalize import clean

__all__ = ["CLOCK", "Moment", "moments", "say_day", "unreal"]

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
    rf"(?P<anchored>(?:the )?(?P<head>{_DAY}|day|night|week|weekend|{_COUNT} {_UNIT}) (?P<side>before|after|of)"
    rf" (?P<anchor>{_NTH} {MONTH},? {_YEAR}|{MONTH} {_NTH},? {_YEAR}|{_YEAR}-\d\d-\d\d|{MONTH} {_YEAR}|{_YEAR}))"
    rf"|(?P<part>(?:the )?(?P<nth>first|second|third|fourth|last) (?P<pu>week|weekend) (?:of|in) {MONTH},? {_YEAR})"
    rf"|(?P<iso>{_YEAR}-\d\d-\d\d)"
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


CLOCK = re.compile(
    r"\d{1,2}:\d\d(?: ?[ap]\.?m\b)?|\b\d{1,2} ?[ap]\.?m\b|\b\d{1,2} o'?clock\b|\b(?:noon|midday|midnight)\b",
    re.IGNORECASE,
)
# "the week before 9 May 2023" is what "last week" is, told on 9 May 2023
_HEADS = {
    "before": {"week": "last week", "weekend": "last weekend", "day": "yesterday", "night": "yesterday"},
    "after": {"week": "next week", "weekend": "next weekend", "day": "tomorrow", "night": "tomorrow"},
    "of": {"week": "this week", "weekend": "this weekend"},
}


class Moment(NamedTuple):
    """A stretch of days [first, last]: `text` is how it is written out, `phrase` what was read.

    `days` is how exactly it is known: 1 for a day, 7 for a week, 31 for a month, 366 for a year.
    `relative` says whether it was counted from the day of telling. `also` is another day that the words may
    mean: "last Friday" on a Sunday.
    """

    first: date
    last: date
    text: str
    phrase: str
    start: int
    end: int
    days: int
    relative: bool
    also: date | None = None

    def meets(self, other: Moment) -> bool:
        """Whether the two have a day in common."""
        return self.first <= other.last and other.first <= self.last

    def holds(self, other: Moment) -> bool:
        """Whether every day of the other is in this one."""
        return self.first <= other.first and other.last <= self.last

    def same(self, other: Moment) -> bool:
        """Whether both stand, or may stand, for the same days."""
        if (self.first, self.last) == (other.first, other.last):
            return True
        return (self.days == 1 and self.first == other.also) or (
            other.days == 1 and other.first == self.also
        )


def moments(text: str, told: date | None) -> list[Moment]:
    """The time expressions of `text` in order; relative ones need the day `told`, without it they are left out.

    Days that no calendar has are left out.

    >>> [m.text for m in moments("We met last week, on May 3 and in 2021.", date(2023, 5, 9))]
    ['the week before 9 May 2023', '3 May 2023', '2021']
    >>> [m.text for m in moments("the week before May 9, 2023, the Friday before 17 May 2023", None)]
    ['the week before 9 May 2023', '12 May 2023']
    """
    seen = clean(text).replace("’", "'")
    return [found for match in _PATTERN.finditer(seen) if (found := _moment(match, told)) is not None]


def unreal(text: str) -> bool:
    """Whether a text gives a date that no calendar has, such as 31 February 2024."""
    seen = clean(text)
    full = (match for match in _PATTERN.finditer(seen) if match["iso"] or match["dmy"] or match["mdy"])
    return any(_moment(match, None) is None for match in full)


def _moment(match: re.Match[str], told: date | None) -> Moment | None:
    kind = "anchored" if match["anchored"] else next(name for name in READERS if match[name])
    try:
        found = _anchored(match) if kind == "anchored" else READERS[kind](match, told)
    except (ValueError, OverflowError):
        return None
    if found is None:
        return None
    start = match.start("yy") if kind == "y" else match.start()
    phrase = match.string[start : match.end()]
    first, last, text, days, relative, also = found
    return Moment(first, last, text, phrase, start, match.end(), days, relative, also)


def _anchored(match: re.Match[str]) -> Found | None:
    """An expression that names the day it counts from: what its words would mean on that day."""
    head, side = match["head"].lower(), match["side"].lower()
    anchor = moments(match["anchor"] if len(match["anchor"]) > 4 else f"in {match['anchor']}", None)
    if re.fullmatch(rf"{_COUNT} {_UNIT}", head, re.IGNORECASE):
        phrase = {"before": f"{head} ago", "after": f"{head} from now"}.get(side, "")
    elif re.fullmatch(_DAY, head, re.IGNORECASE):
        phrase = {"before": f"last {head}", "after": f"next {head}"}.get(side, "")
    else:
        phrase = _HEADS[side].get(head, "")
    again = _PATTERN.fullmatch(phrase)
    if not anchor or again is None:
        return None
    kind = next(name for name in READERS if again[name])
    found = READERS[kind](again, anchor[0].first)
    return None if found is None else found._replace(relative=False)
