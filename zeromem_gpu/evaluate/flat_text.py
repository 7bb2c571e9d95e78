"""What the flat rankings read of a trace, and its words."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zeromem_gpu import Trace

# function and question words, and what is left of contractions once the apostrophe is gone
STOP_WORDS = frozenset(
    """
    a about am an and are as at be been being but by d did do does for from had has have he her here him
    his how i if in into is it its ll m me my no not of on or our out re s she so t than that the their
    them then there these they this those to up ve was we were what when where which who whom why with you
    your
    """.split()
)
_MONTHS = ("January February March April May June July August September October November December").split()


def flat_text(trace: Trace) -> str:
    """`[8 May 2023] Ann: text [shares caption]`, the same as the engine encodes; "" where nothing was said.

    >>> flat_text(Trace("1", "I won!", speaker="Ann", time="2023-05-08T13:56", caption="a cup"))
    '[8 May 2023] Ann: I won! [shares a cup]'
    """
    body, caption = (" ".join((text or "").split()) for text in (trace.text, trace.caption))
    if not body and not caption:
        return ""
    said = f"{trace.speaker}: {body}" if trace.speaker else body
    return " ".join(filter(None, (_stamp(trace), said, caption and f"[shares {caption}]")))


def _stamp(trace: Trace) -> str:
    if not trace.time:
        return ""
    try:
        day = datetime.fromisoformat(str(trace.time))
    except ValueError:
        return f"[{trace.time}]"
    return f"[{day.day} {_MONTHS[day.month - 1]} {day.year}]"


class Words:
    """Turns texts into words, and into the numbers of their stems; every text is read once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._stems: dict[str, NDArray[np.int64]] = {}
        self._find, self._stem = _word_pattern().findall, _stemmer()

    def plain(self, text: str) -> list[str]:
        """All words of `text`, folded: runs of letters and digits.

        >>> Words().plain("Ann's 2 cups")
        ['ann', 's', '2', 'cups']
        """
        return list(self._find(unicodedata.normalize("NFKC", text).casefold()))

    def stems(self, text: str) -> NDArray[np.int64]:
        """A number for each word that is no stop word, equal for words of one stem."""
        known = self._stems.get(text)
        if known is None:
            words = [word for word in self.plain(text) if word not in STOP_WORDS]
            numbers = [self._numbers.setdefault(self._stem(word), len(self._numbers)) for word in words]
            known = self._stems[text] = np.array(numbers, np.int64)
        return known


@cache
def _word_pattern() -> Any:
    import regex

    return regex.compile(r"[\p{L}\p{N}]+")


def _stemmer() -> Callable[[str], str]:
    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer("english").stemWord
    return stem
