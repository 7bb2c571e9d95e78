"""The offline reader: answers in the evidence's own words, by rules, without a model.

It takes the sentence that meets the question best (`lines.py`) and from it what fits the expected form. It
is a floor to compare readers with, and what demos and tests run on; it does not infer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from zeromem_gpu.calibrate.times import say_day
from zeromem_gpu.calibrate.words import stem_set, words
from zeromem_gpu.reader.base import ReaderReply
from zeromem_gpu.reader.lines import Lines, read_lines
from zeromem_gpu.reader.spans import asked_noun, described, names, quoted, trimmed
from zeromem_gpu.text.answer_types import type_spans
from zeromem_gpu.types import QueryProfile, SearchResult

_NO = re.compile(r"\b(?:no|not|never|none|nobody|nothing|neither|nor|without)\b|n['’]t\b", re.IGNORECASE)
_REASON = re.compile(
    r"\b(?:because|so that|in order to|due to|thanks to)\b\s*(.+)", re.IGNORECASE | re.DOTALL
)
# a candidate of the right form may stand this much below the best line
_NEAR = 0.6
# evidence that holds less of a yes/no question does not speak of it
_ENOUGH = 0.5
_LIST_LINES = 4


class ExtractiveReader:
    """Answers by rules from the text of the evidence; `zone` is where naive times are days."""

    name = "extractive"

    def __init__(self, zone: str = "UTC") -> None:
        self._zone = zone

    def read(self, results: Sequence[SearchResult]) -> list[ReaderReply]:
        """One reply a result, in order; without evidence that says something the answer is empty."""
        return [ReaderReply(self._answer(result)) for result in results]

    def _answer(self, result: SearchResult) -> str:
        lines = read_lines(result, self._zone)
        if not lines.ranked:
            return ""
        form = _FORMS.get(result.profile.answer_type, _phrase)
        return " ".join((form(lines, result.profile) or _phrase(lines, result.profile)).split())


_Form = Callable[[Lines, QueryProfile], str]


def _phrase(lines: Lines, profile: QueryProfile) -> str:
    """The best line without a beginning that says nothing new."""
    return trimmed(lines.ranked[0].text, lines.known)


def _entity(lines: Lines, profile: QueryProfile) -> str:
    """Which one of the asked kind the best line speaks of."""
    noun = asked_noun(profile.text, profile.keywords)
    return described(lines.ranked[0].text, noun, lines.known) if noun else ""


def _told(lines: Lines, profile: QueryProfile) -> str:
    """The two best lines: what is told in words seldom fits one sentence."""
    return " ".join(trimmed(line.text, lines.known) for line in lines.ranked[:2])


def _date(lines: Lines, profile: QueryProfile) -> str:
    """A time in the best line, else in its passage, else the day on which it was told."""
    best = lines.ranked[0]
    here = [moment.text for one, moment in best.passage.moments if one == best.text]
    here += [moment.text for _, moment in best.passage.moments]
    return here[0] if here else say_day(best.passage.told) if best.passage.told else ""


def _typed(lines: Lines, profile: QueryProfile) -> str:
    """The first candidate of the expected type."""
    return next(
        (span for line in lines.near(_NEAR) for span in type_spans(line.text, profile.answer_type)), ""
    )


def _count(lines: Lines, profile: QueryProfile) -> str:
    """The number beside the counted thing, without the thing; where there is none, the first number."""
    found = [span for line in lines.near(_NEAR) for span in type_spans(line.text, "count")]
    beside = next((span for span in found if stem_set(span) & lines.pool.asked), next(iter(found), ""))
    kept = [word.text for word in words(beside) if word.stem not in lines.pool.asked]
    return " ".join(kept) or beside


def _person(lines: Lines, profile: QueryProfile) -> str:
    return next((one for line in lines.near(_NEAR) for one in names(line.text, lines.known)), "")


def _place(lines: Lines, profile: QueryProfile) -> str:
    """A name behind a preposition, else any name."""
    found = [line.text for line in lines.near(_NEAR)]
    placed = (one for text in found for one in names(text, lines.known, placed=True))
    return next(placed, "") or _person(lines, profile)


def _title(lines: Lines, profile: QueryProfile) -> str:
    titles = (one for line in lines.near(_NEAR) for one in quoted(line.text))
    return next(titles, "") or _person(lines, profile)


def _yes_no(lines: Lines, profile: QueryProfile) -> str:
    """Yes or no by the best line of a turn that speaks of the question; what no evidence says is a no."""
    best = next(
        (
            line
            for line in lines.ranked
            if line.held >= _ENOUGH and lines.pool.spoken_by_subject(line.passage)
        ),
        None,
    )
    return "No" if best is None or _NO.search(best.text) else "Yes"


def _choice(lines: Lines, profile: QueryProfile) -> str:
    """The option that the lines speak of most."""
    offered = profile.options or profile.entities
    support = [
        sum(line.score for line in lines.ranked if stem_set(one) <= line.passage.stems) for one in offered
    ]
    return offered[support.index(max(support))] if support and max(support) > 0 else ""


def _list(lines: Lines, profile: QueryProfile) -> str:
    """The titles and names of the best lines, each once."""
    found = (
        one
        for line in lines.ranked[:_LIST_LINES]
        for one in quoted(line.text) or names(line.text, lines.known)
    )
    return ", ".join(dict.fromkeys(found))


def _reason(lines: Lines, profile: QueryProfile) -> str:
    """What follows a word such as "because", else the best lines."""
    said = (match[1] for line in lines.near(_NEAR) if (match := _REASON.search(line.text)))
    return next(said, "") or _told(lines, profile)


_FORMS: dict[str, _Form] = {
    "date": _date,
    **dict.fromkeys(("duration", "frequency", "number", "age"), _typed),
    "count": _count,
    "person": _person,
    "place": _place,
    "title": _title,
    "yes/no": _yes_no,
    "choice": _choice,
    "list": _list,
    "entity": _entity,
    "reason": _reason,
    "description": _told,
}
