"""The reader's answer held against the evidence: supported answers stay, checkable ones are corrected.

Only forms that text rules can check are touched: dates, numbers, names, choices, lists. Every change names
its rule and the traces that support it. A second pass changes nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from zeromem_gpu.calibrate.pool import Passage, Pool, make_pool
from zeromem_gpu.calibrate.shorten import without_aside, without_lead, without_question
from zeromem_gpu.calibrate.times import Moment, moments
from zeromem_gpu.calibrate.words import stem_set, words
from zeromem_gpu.text.normalize import clean
from zeromem_gpu.types import Change, SearchResult

# an answer longer than this is prose, whatever was asked
_LONGEST = 400
_SHORT_FORMS = frozenset(
    (
        "date",
        "duration",
        "frequency",
        "count",
        "number",
        "age",
        "choice",
        "list",
        "person",
        "place",
        "title",
        "entity",
    )
)
_SCALARS = frozenset(("count", "number", "age"))
_ITEMS = re.compile(r"\s*(?:,\s*(?:and|or)\s+|,|;|\band\b)\s*")
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w%])")


def calibrate_answer(
    answer: str, result: SearchResult, zone: str = "UTC"
) -> tuple[str, tuple[Change, ...]]:
    """Calibrate an answer to the question of `result` against its evidence.

    Args:
        answer: what the reader said; any text.
        result: the question's profile and evidence.
        zone: IANA name of the zone in which naive times are days.

    Returns:
        The answer and its changes, in the order in which they were made; none for an open-ended
        question, an empty answer or prose.
    """
    kind = result.profile.answer_type
    seen = clean(answer).strip()
    if kind not in _SHORT_FORMS or not words(seen) or len(seen) > _LONGEST:
        return answer, ()
    pool = make_pool(result, zone)
    changes: list[Change] = []
    for rule, work in _rules(kind):
        changed, traces = work(seen, pool)
        changed = changed.strip()
        if changed != seen and words(changed):
            changes.append(Change(rule, seen, changed, traces))
            seen = changed
    return (seen, tuple(changes)) if changes else (answer, ())


_Work = Callable[[str, Pool], tuple[str, tuple[str, ...]]]


def _rules(kind: str) -> list[tuple[str, _Work]]:
    """The rules for a form, in order."""
    rules: list[tuple[str, _Work]] = [("lead-in", _lead)]
    if kind == "date":
        return [*rules, ("date", _date)]
    rules.append(("restated-question", _restated))
    if kind in _SCALARS:
        rules.append(("only-number", _scalar))
    if kind == "list":
        rules.append(("unsupported-item", _prune))
    if kind in ("person", "place", "title", "entity", "list", "choice"):
        rules.append(("aside", _aside))
    return rules


def _lead(answer: str, pool: Pool) -> tuple[str, tuple[str, ...]]:
    return without_lead(answer), ()


def _restated(answer: str, pool: Pool) -> tuple[str, tuple[str, ...]]:
    """Leave out the restated question when what is left is in the evidence."""
    rest = without_question(answer, pool.asked | pool.subjects)
    traces = _holders(rest, pool)
    return (rest, traces) if traces else (answer, ())


def _aside(answer: str, pool: Pool) -> tuple[str, tuple[str, ...]]:
    rest = without_aside(answer)
    return rest, _holders(rest, pool)


def _scalar(answer: str, pool: Pool) -> tuple[str, tuple[str, ...]]:
    """A number that no evidence has gives way to the only one of the best passage."""
    own = _NUMBER.findall(answer)
    if len(own) != 1 or any(own[0] in _NUMBER.findall(passage.text) for passage in pool.passages):
        return answer, ()
    best = next((passage for _, passage in pool.ranked()), None)
    found = set(_NUMBER.findall(best.text)) if best else set()
    if best is None or len(found) != 1:
        return answer, ()
    return answer.replace(own[0], found.pop()), (best.trace,)


def _prune(answer: str, pool: Pool) -> tuple[str, tuple[str, ...]]:
    """Leave out items of which the evidence has no word, in order; two thirds of them must stay."""
    items = [item for item in _ITEMS.split(answer.rstrip(".")) if words(item)]
    kept = [item for item in items if not stem_set(item) or stem_set(item) & pool.stems]
    # where much is missing, it is the evidence that is short
    if len(kept) == len(items) or 3 * len(kept) < 2 * len(items):
        return answer, ()
    return ", ".join(kept), _holders(" ".join(kept), pool)


def _date(answer: str, pool: Pool) -> tuple[str, tuple[str, ...]]:
    """Dates as the evidence has them: resolved from its own day, and nothing but the date.

    An answer that names the day of telling, or a day inside a stretch that the passage names relative to
    it ("last week"), takes the passage's own words with the day that they count from.
    """
    own = [moment for moment in moments(answer, None) if moment.days <= 366]
    said = _said(pool)
    if said is not None:
        passage, moment = said
        if moment.text in answer:
            return moment.text, (passage.trace,)
        told = passage.told
        near = any(one.meets(moment) or (told is not None and one.first == told == one.last) for one in own)
        if moment.relative and (near or not own):
            return moment.text, (passage.trace,)
    if len(own) == 1 and own[0].text != answer:
        return own[0].text, tuple(p.trace for p in pool.passages if p.told and _covers(own[0], p))[:3]
    return answer, ()


def _covers(moment: Moment, passage: Passage) -> bool:
    """Whether a passage was told on a day of the moment, or speaks of it."""
    told = passage.told is not None and moment.first <= passage.told <= moment.last
    return told or any(one.meets(moment) for _, one in passage.moments)


def _said(pool: Pool) -> tuple[Passage, Moment] | None:
    """The only time expression of the sentence that meets the question best, in the best passage."""
    best = next((passage for _, passage in pool.ranked()), None)
    if best is None or not best.moments or not pool.spoken_by_subject(best):
        return None
    sentence = max(best.sentences, key=lambda one: pool.coverage(one, best))
    here = [moment for one, moment in best.moments if one == sentence]
    if not here and len(best.moments) == 1:
        here = [best.moments[0][1]]
    return (best, here[0]) if len(here) == 1 else None


def _holders(text: str, pool: Pool) -> tuple[str, ...]:
    """The passages that hold every content word of a text."""
    wanted = stem_set(text)
    if not wanted:
        return ()
    whole = tuple(passage.trace for passage in pool.passages if wanted <= passage.stems)
    if whole:
        return whole[:3]
    # a list draws on several: each of its words must be somewhere
    parts = [passage.trace for passage in pool.passages if wanted & passage.stems]
    return tuple(parts[:3]) if wanted <= pool.stems else ()
