"""Times of traces and dates in questions, as UTC seconds. The machine's clock is never consulted."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.text.intervals import MONTH, date_interval, month_number, time_zone
from zeromem_gpu.text.normalize import clean

__all__ = ["date_interval", "parse_time"]

_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?:\s*(?P<half>[ap])\.?m\.?)?"
_DATE = (
    rf"(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month>{MONTH})"
    rf"|(?P<month_2>{MONTH})\s+(?P<day_2>\d{{1,2}})(?:st|nd|rd|th)?)\s*,?\s+(?P<year>\d{{4}})"
)
# the two orders in which English writes a clock time and a date; the rest goes to dateparser
_SPOKEN = (
    re.compile(rf"(?:{_CLOCK}\s*,?\s+(?:on\s+)?)?{_DATE}", re.IGNORECASE),
    re.compile(rf"{_DATE}\s*,?\s+(?:at\s+)?{_CLOCK}", re.IGNORECASE),
)
_ALLOWED = "a datetime, ISO 8601, or a full date that dateparser reads, such as '1:56 pm on 8 May, 2023'"
_DATEPARSER_SETTINGS = {
    "PARSERS": ["absolute-time"],  # "yesterday" would be read from the machine's clock
    "REQUIRE_PARTS": ["day", "month", "year"],
}


def parse_time(value: datetime | str | None, zone: str) -> tuple[float | None, str | None]:
    """A trace's time as UTC seconds and as ISO 8601 text with the offset it was given in.

    Naive values are read in `zone`, an IANA name. `None` gives `(None, None)`. Raises `InvalidInput`
    for an unknown zone and for a value that names no full date.

    >>> parse_time("1:56 pm on 8 May, 2023", "UTC")
    (1683554160.0, '2023-05-08T13:56:00+00:00')
    """
    if value is None:
        return None, None
    if isinstance(value, str):
        return _parse_text(value, zone)
    if isinstance(value, datetime):
        return _instant(value, zone, value)
    raise InvalidInput("time", repr(value)[:80], _ALLOWED)


@lru_cache(maxsize=1 << 14)
def _parse_text(text: str, zone: str) -> tuple[float, str]:
    seen = clean(text).strip()
    try:
        return _instant(datetime.fromisoformat(seen), zone, text)
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
    return _instant(_spoken(seen) or _any_form(seen), zone, text)


def _instant(time: datetime | None, zone: str, given: datetime | str) -> tuple[float, str]:
    if time is None:
        raise InvalidInput("time", repr(given)[:80], _ALLOWED)
    if time.tzinfo is None or time.utcoffset() is None:
        time = time.replace(tzinfo=time_zone(zone))
    try:
        return time.timestamp(), time.isoformat()
    except (OverflowError, ValueError) as error:
        raise InvalidInput("time", repr(given)[:80], "a time within the years 1 to 9999") from error


def _spoken(text: str) -> datetime | None:
    """A day with an optional clock time, in either order of writing."""
    for pattern in _SPOKEN:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        part = match.groupdict()
        hour, half = int(part["hour"] or 0), (part["half"] or "").lower()
        if half and not 1 <= hour <= 12:
            return None
        if half:
            hour = hour % 12 + (12 if half == "p" else 0)
        try:
            return datetime(
                int(part["year"]),
                month_number(part["month"] or part["month_2"]),
                int(part["day"] or part["day_2"]),
                hour,
                int(part["minute"] or 0),
                int(part["second"] or 0),
            )
        except ValueError:
            return None
    return None


def _any_form(text: str) -> datetime | None:
    """What dateparser reads; it wants all of day, month and year. It is slow (1 ms and more)."""
    import dateparser

    try:
        found: datetime | None = dateparser.parse(text, languages=["en"], settings=_DATEPARSER_SETTINGS)
    except (ValueError, OverflowError, RecursionError, TypeError):
        return None
    return found
