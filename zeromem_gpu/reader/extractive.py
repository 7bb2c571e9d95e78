"""The offline reader: answers in the evidence's own words, by rules, without a model.

It takes the passage that meets the question best and from it what fits the expected form. It is a floor
to compare readers with, and what demos and tests run on; it does not infer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from zeromem_gpu.calibrate.pool import Passage, Pool, make_pool
from zeromem_gpu.calibrate.times import say_day
from zeromem_gpu.calibrate.words import stem_set, words
from zeromem_gpu.reader.base import ReaderReply
from zeromem_gpu.types import QueryProfile, SearchResult

_NUMBER = re.compile(
    r"(?<![\w.])(?:\d[\d,]*(?:\.\d+)?%?|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twice|once)\b)",
    re.IGNORECASE,
)
_DURATION = re.compile(
    r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|several|a few|a couple of)[\s-]+"
    r"(?:and a half )?(?:second|minute|hour|day|week|month|year|decade)s?\b",
    re.IGNORECASE,
)
_FREQUENCY = re.compile(
    r"\b(?:every (?:\w+ )?\w+|(?:once|twice|\w+ times) (?:a|per|each) \w+|daily|weekly|monthly|yearly|"
    r"never|rarely|sometimes|often|always)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Z][\w'’.-]+(?:\s+(?:of |the |de )?[A-Z][\w'’.-]+)*")
_QUOTED = re.compile(r"[\"“]([^\"“”]{2,80})[\"”]")
_REASON = re.compile(r"\b(?:because|since|so that|in order to|due to)\b\s*(.+)", re.IGNORECASE | re.DOTALL)
_NO = re.compile(r"\b(?:no|not|never|none|n't|nobody|nothing)\b|n['’]t\b", re.IGNORECASE)
_LIST_PASSAGES = 4


class ExtractiveReader:
    """Answers by rules from the text of the evidence; `zone` is where naive times are days."""

    name = "extractive"

    def __init__(self, zone: str = "UTC") -> None:
        self._zone = zone

    def read(self, results: Sequence[SearchResult]) -> list[ReaderReply]:
        """One reply a result, in order; without evidence the answer is empty."""
        return [ReaderReply(self._answer(result)) for result in results]

    def _answer(self, result: SearchResult) -> str:
        pool = make_pool(result, self._zone)
        ranked = [passage for _, passage in pool.ranked() if words(passage.text)]
        if not ranked:
            return ""
        best = ranked[0]
        sentence = max(
            best.sentences, key=lambda one: (pool.coverage(one, best), -best.sentences.index(one))
        )
        form = _FORMS.get(result.profile.answer_type)
        found = form(pool, ranked, sentence, result.profile) if form else ""
        return found or " ".join(sentence.split())


_Form = Callable[[Pool, list[Passage], str, QueryProfile], str]


def _date(pool: Pool, ranked: list[Passage], sentence: str, profile: QueryProfile) -> str:
    """A time in the best sentence, else in its passage, else the day on which it was told."""
    best = ranked[0]
    here = [moment.text for one, moment in best.moments if one == sentence]
    here += [moment.text for _, moment in best.moments]
    return here[0] if here else say_day(best.told) if best.told else ""


def _pattern(pattern: re.Pattern[str]) -> _Form:
    def first(pool: Pool, ranked: list[Passage], sentence: str, profile: QueryProfile) -> str:
        texts = [sentence, *(passage.text for passage in ranked[:3])]
        return next((match.group().strip() for text in texts if (match := pattern.search(text))), "")

    return first


def _names(text: str, pool: Pool) -> list[str]:
    """Capitalised names that the question does not already hold; a lone first word is no name."""
    found = []
    for match in _NAME.finditer(text):
        name = match.group().strip(" .'’")
        stems = stem_set(name)
        opens = match.start() == 0 or text[: match.start()].rstrip()[-1:] in (".", "!", "?", "\n", "")
        if stems and not stems <= (pool.asked | pool.subjects) and not (opens and " " not in name):
            found.append(name)
    return found


def _name(pool: Pool, ranked: list[Passage], sentence: str, profile: QueryProfile) -> str:
    texts = [sentence, *(passage.text for passage in ranked[:3])]
    return next((name for text in texts for name in _names(text, pool)), "")


def _title(pool: Pool, ranked: list[Passage], sentence: str, profile: QueryProfile) -> str:
    texts = [sentence, *(passage.text for passage in ranked[:3])]
    quoted = next((match[1] for text in texts if (match := _QUOTED.search(text))), "")
    return quoted or _name(pool, ranked, sentence, profile)


def _yes_no(pool: Pool, ranked: list[Passage], sentence: str, profile: QueryProfile) -> str:
    return "No" if _NO.search(sentence) else "Yes"


def _choice(pool: Pool, ranked: list[Passage], sentence: str, profile: QueryProfile) -> str:
    """The named option that the best passages speak of most."""
    options = list(profile.options or profile.subjects or profile.entities)
    support = [
        sum(pool.support(passage) for passage in ranked if stem_set(option) <= passage.stems)
        for option in options
    ]
    return options[support.index(max(support))] if options and max(support) > 0 else ""


def _list(pool: Pool, ranked: list[Passage], sentence: str, profile: QueryProfile) -> str:
    """The names of the best passages, each once, in the order of the evidence."""
    names = (name for passage in ranked[:_LIST_PASSAGES] for name in _names(passage.text, pool))
    return ", ".join(dict.fromkeys(names))


def _reason(pool: Pool, ranked: list[Passage], sentence: str, profile: QueryProfile) -> str:
    texts = [sentence, ranked[0].text]
    return next((" ".join(match[1].split()) for text in texts if (match := _REASON.search(text))), "")


_FORMS: dict[str, _Form] = {
    "date": _date,
    "duration": _pattern(_DURATION),
    "frequency": _pattern(_FREQUENCY),
    "count": _pattern(_NUMBER),
    "number": _pattern(_NUMBER),
    "age": _pattern(_NUMBER),
    "person": _name,
    "place": _name,
    "title": _title,
    "yes/no": _yes_no,
    "choice": _choice,
    "list": _list,
    "reason": _reason,
}
