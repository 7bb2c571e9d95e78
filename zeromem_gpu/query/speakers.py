"""The speakers of a bank by the words of their names, so that a question need not try each of them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from zeromem_gpu.query import rules

_WORD = re.compile(r"\w+")


class Spelling(NamedTuple):
    """A way to write a speaker; a `short` one counts only with a capital."""

    speaker: str
    form: str
    short: bool


class Directory:
    """What questions ask of a bank's speakers: who is spelt by a text, who a short name means.

    Made once for a tuple of speakers; see `directory`.
    """

    def __init__(self, speakers: tuple[str, ...]) -> None:
        self.words = frozenset(word.casefold() for one in speakers for word in one.split())
        self.roles = {
            name: one
            for one in speakers
            if (name := one.lower()) in rules.SELF_NAMES or name in rules.OTHER_NAMES
        }
        self._spellings = _spellings(speakers)
        self._runs = [frozenset(_runs(one.form)) for one in self._spellings]
        self._by_run: dict[str, list[int]] = defaultdict(list)
        for place, runs in enumerate(self._runs):
            self._by_run[max(runs, key=lambda run: (len(run), run))].append(place)
        firsts = [(one.split()[0].lower(), one) for one in speakers if one.split()]
        self._firsts = sorted(firsts, key=lambda pair: pair[0])

    def spelt_in(self, text: str) -> list[Spelling]:
        """The spellings whose words all stand in `text`, full ones before short ones."""
        runs = set(_runs(text))
        places = (place for run in runs for place in self._by_run.get(run, ()))
        return [self._spellings[place] for place in sorted(places) if self._runs[place] <= runs]

    def nickname(self, word: str) -> str:
        """The one speaker whose first name begins with this shorter capitalised word, else ""."""
        lower = word.lower()
        plain = lower in rules.WORD_NAMES or lower in rules.NOT_NAMES
        if len(lower) < 3 or not word[:1].isupper() or plain:
            return ""
        fits: list[str] = []
        first = bisect_left(self._firsts, lower, key=lambda pair: pair[0])
        for name, speaker in islice(self._firsts, first, None):
            # an equal name comes first among those that begin with it
            if not name.startswith(lower) or name == lower or len(fits) > 1:
                break
            if len(name) >= len(lower) + 2:
                fits.append(speaker)
        return fits[0] if len(fits) == 1 else ""


@lru_cache(maxsize=1024)
def directory(speakers: tuple[str, ...]) -> Directory:
    """The directory of some speakers."""
    return Directory(speakers)


@lru_cache(maxsize=4096)
def pattern(form: str) -> re.Pattern[str]:
    """Where a form stands as whole words, in any case."""
    return re.compile(rf"(?<!\w){re.escape(form)}(?!\w)", re.IGNORECASE)


def _spellings(speakers: Sequence[str]) -> list[Spelling]:
    """Full names, then first names; a first name that is shared is left out."""
    full = [Spelling(one, one.strip(), False) for one in speakers if any(map(str.isalnum, one))]
    full = [one for one in full if one.form.lower() not in rules.SELF_NAMES]
    taken = {one.form.lower() for one in full}
    parts = [(one.speaker, one.speaker.split()) for one in full]
    firsts = Counter(names[0] for _, names in parts if len(names) > 1)
    short = [
        Spelling(speaker, names[0], True)
        for speaker, names in parts
        if len(names) > 1 and firsts[names[0]] == 1 and names[0].lower() not in taken
    ]
    # a first name such as "@" holds no word that a text could be searched for
    return [one for one in full + short if _WORD.search(one.form)]


def _runs(text: str) -> list[str]:
    """The words of a text in one case; words that `re.IGNORECASE` takes for equal are equal here."""
    return [word.lower() if word.isascii() else "".join(map(_fold, word)) for word in _WORD.findall(text)]


def _fold(character: str) -> str:
    # one character for one: "İ" and "ı" meet "i", "ſ" meets "s"
    return character.lower()[0].upper()[0].lower()[0]
