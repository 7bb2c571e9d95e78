"""Explicit dates and date ranges in a question, by rule."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.text.normalize import clean

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# an English month name or its abbreviation, for a case-insensitive pattern
MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_YEAR = r"(?:1\d|20)\d\d"
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_PIECE = re.compile(
    rf"(?<![\w.$€£#])(?:"
    rf"(?P<iso>{_YEAR}-\d\d(?:-\d\d)?(?![\d-]))"
    rf"|(?P<numeric>\d{{1,2}}([/.])\d{{1,2}}\3{_YEAR})"
    rf"|(?P<dmy>{_NTH}\s+(?:of\s+)?{MONTH}(?:\s*,?\s+(?:of\s+|in\s+)?{_YEAR})?)"
    rf"|(?P<mdy>{MONTH}\s+(?:the\s+)?{_NTH}(?!\d)(?:\s*,?\s+(?:of\s+|in\s+)?{_YEAR})?)"
    rf"|(?P<my>{MONTH}\s*,?\s*(?:of\s+|in\s+)?{_YEAR})"
    rf"|(?P<dy>{_NTH}\s*,\s*{_YEAR})"
    rf"|(?P<decade>{_YEAR[:-2]}0['’]?s)"
    rf"|(?P<y>{_YEAR})"
    rf"|(?P<m>{MONTH})"
    rf"|(?P<d>{_NTH})"
    rf")(?!\w)",
    re.IGNORECASE,
)
_TO = re.compile(r"\s*(?:to|through|thru|until|till|up to|[-–—])\s*(?:the\s+)?", re.IGNORECASE)
_AND = re.compile(r"\s+and\s+(?:the\s+)?", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\s+(?:the\s+)?$", re.IGNORECASE)
# a bare number of four digits is a year only behind one of these
_BEFORE_YEAR = re.compile(
    r"\b(?:in|of|during|since|before|after|by|from|until|till|through|throughout|around|circa|year|early|mid"
    r"|late|spring|summer|autumn|fall|winter|between|to|and|or|end|start|beginning)\s+(?:the\s+)?(?:year\s+)?$",
    re.IGNORECASE,
)
_LOOK_BACK = 24  # characters before a piece that decide what it is
_TICK = 1e-3  # intervals are closed: they end this many seconds before the next day


class _Piece(NamedTuple):
    start: int
    end: int
    year: int | None
    month: int | None
    day: int | None
    years: int = 1  # ten for a decade


def date_interval(text: str, zone: str) -> tuple[float, float] | None:
    """The explicit dates in a question as one closed interval of UTC seconds, None without any.

    Read are days, months with a year, years, decades and ranges of them; several dates give the smallest
    interval that holds all. A date without its year is none, since no clock is asked. Days begin and end
    in `zone`; an unknown one raises `InvalidInput`.

    >>> start, end = date_interval("What happened between 5 and 8 May 2023?", "UTC")
    >>> start, round(end - start) / 86400
    (1683244800.0, 4.0)
    >>> date_interval("What may Ann do in May?", "UTC") is None
    True
    """
    info = time_zone(zone)
    if not any(character.isdigit() for character in text):
        return None
    seen = clean(text)
    bounds = [_days(piece) for piece in _complete(seen, list(_pieces(seen)))]
    known = [bound for bound in bounds if bound is not None]
    if not known:
        return None
    first, last = min(start for start, _ in known), max(end for _, end in known)
    return first.replace(tzinfo=info).timestamp(), last.replace(tzinfo=info).timestamp() - _TICK


def month_number(name: str) -> int:
    """1 to 12 for an English month name or its abbreviation, in any case."""
    return _MONTHS.index(name[:3].lower()) + 1


@lru_cache(maxsize=64)
def time_zone(zone: str) -> ZoneInfo:
    """The IANA time zone of that name; `InvalidInput` for any other text."""
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError, TypeError) as error:
        raise InvalidInput("timezone", repr(zone), "an IANA name such as 'Europe/Berlin'") from error


def _pieces(text: str) -> Iterator[_Piece]:
    for match in _PIECE.finditer(text):
        kind, found = str(match.lastgroup), match.group()
        numbers = [int(number) for number in re.findall(r"\d+", found)]
        name = re.search(MONTH, found, re.IGNORECASE)
        month = month_number(name.group()) if name else None
        year = next((number for number in numbers if number > 99), None)
        small = [number for number in numbers if number <= 99]
        day: int | None = small[0] if small else None
        if kind == "iso":
            month, day = small[0], (small[1] if len(small) > 1 else None)
        elif kind == "numeric":  # month first, as dateparser reads English, unless that cannot be
            month, day = (small[0], small[1]) if small[0] <= 12 else (small[1], small[0])
        yield _Piece(match.start(), match.end(), year, month, day, 10 if kind == "decade" else 1)


def _complete(text: str, pieces: list[_Piece]) -> Iterator[_Piece]:
    """The pieces that stand for days: alone when they have a year, or as both ends of a range."""
    at = 0
    while at < len(pieces):
        left = pieces[at]
        right = pieces[at + 1] if at + 1 < len(pieces) else None
        if right is not None and _is_range(text, left, right):
            right = right._replace(month=right.month or (left.month if right.day else None))
            left = left._replace(
                year=left.year or right.year,
                month=left.month or (right.month if left.day else None),
            )
            if left.year and right.year:
                yield left
                yield right
                at += 2
                continue
        if left.year and (
            left.month or _BEFORE_YEAR.search(text, max(0, left.start - _LOOK_BACK), left.start)
        ):
            yield left
        at += 1


def _is_year(text: str, start: int) -> bool:
    return _BEFORE_YEAR.search(text, max(0, start - _LOOK_BACK), start) is not None


def _is_range(text: str, left: _Piece, right: _Piece) -> bool:
    if _TO.fullmatch(text, left.end, right.start):
        return True
    between = _BETWEEN.search(text, max(0, left.start - _LOOK_BACK), left.start)
    return between is not None and _AND.fullmatch(text, left.end, right.start) is not None


def _days(piece: _Piece) -> tuple[datetime, datetime] | None:
    """The first moment of a piece and the first one after it, without a zone; None if no such day."""
    if piece.year is None or (piece.day is not None and piece.month is None):
        return None
    try:
        start = datetime(piece.year, piece.month or 1, piece.day or 1)
    except ValueError:
        return None
    if piece.day is not None:
        return start, start + timedelta(days=1)
    if piece.month is None:
        return start, start.replace(year=piece.year + piece.years)
    return start, (start + timedelta(days=31)).replace(day=1)
