"""The reader's answer held against the evidence: supported answers stay, checkable ones are corrected.

Only types that text rules can check are touched: dates, lengths of time, frequencies, numbers, names,
choices, lists, yes and no. Every change names its rule and the traces that it rests on; only a lead-in and
a remark in brackets go without, where no passage has the words that are left.
"""

from __future__ import annotations

from collections.abc import Callable

from zeromem_gpu.calibrate.items import choose, once, polar, prune
from zeromem_gpu.calibrate.pool import Pool, make_pool
from zeromem_gpu.calibrate.scalars import amount_rules
from zeromem_gpu.calibrate.shorten import without_aside, without_lead, without_question
from zeromem_gpu.calibrate.when import as_told, date_form, only_date, resolved
from zeromem_gpu.calibrate.words import words
from zeromem_gpu.text.answer_types import CHECKED_TYPES
from zeromem_gpu.text.normalize import clean
from zeromem_gpu.types import Change, SearchResult

# an answer longer than this is prose, whatever was asked
_LONGEST = 400
# rounds of the rules; more than three were never seen
_ROUNDS = 8

_Work = Callable[[str, Pool], tuple[str, tuple[str, ...]]]


def calibrate_answer(
    answer: str, result: SearchResult, zone: str = "UTC"
) -> tuple[str, tuple[Change, ...]]:
    """Calibrate an answer to the question of `result` against its evidence.

    The rules run until none changes anything: a calibrated answer, calibrated again, stays as it is.

    Args:
        answer: what the reader said; any text.
        result: the question's profile and evidence.
        zone: IANA name of the zone of times without an offset; `InvalidInput` for any other.

    Returns:
        The answer and its changes, in the order in which they were made; none for an open-ended
        question, an empty answer or prose.
    """
    kind = result.profile.answer_type
    seen = clean(answer).strip()
    if kind not in CHECKED_TYPES or not words(seen) or len(seen) > _LONGEST:
        return answer, ()
    pool = make_pool(result, zone)
    changes: list[Change] = []
    for _ in range(_ROUNDS):
        made = _round(seen, pool, _rules(kind))
        if not made:
            return (seen, tuple(changes)) if changes else (answer, ())
        changes += made
        seen = made[-1].after
    return answer, ()  # rules that undo each other decide nothing


def _round(answer: str, pool: Pool, rules: list[tuple[str, _Work]]) -> list[Change]:
    """The changes that each rule makes, in turn."""
    changes = []
    for rule, work in rules:
        changed, traces = work(answer, pool)
        changed = changed.strip()
        if changed != answer and words(changed):
            changes.append(Change(rule, answer, changed, traces))
            answer = changed
    return changes


def _rules(kind: str) -> list[tuple[str, _Work]]:
    """The rules for a type of answer, in order."""
    rules: list[tuple[str, _Work]] = [("lead-in", _lead)]
    if kind == "yes/no":
        return [*rules, ("yes-no", polar)]
    if kind == "date":
        return [
            *rules,
            ("date-as-told", as_told),
            ("date-resolved", resolved),
            ("only-date", only_date),
            ("date-form", date_form),
        ]
    if kind == "choice":
        rules.append(("choice", choose))
    rules.append(("restated-question", _restated))
    if kind in ("count", "number", "age", "duration", "frequency"):
        return [*rules, *amount_rules(kind)]
    if kind == "list":
        rules += [("repeated-item", once), ("unsupported-item", prune)]
    return [*rules, ("aside", _aside)]


def _lead(answer: str, pool: Pool) -> tuple[str, tuple[str, ...]]:
    rest = without_lead(answer)
    return rest, pool.holders(rest)


def _aside(answer: str, pool: Pool) -> tuple[str, tuple[str, ...]]:
    rest = without_aside(answer)
    return rest, pool.holders(rest)


def _restated(answer: str, pool: Pool) -> tuple[str, tuple[str, ...]]:
    """Leave out the restated question when what is left is in the evidence."""
    rest = without_question(answer, pool.question, pool.asked, pool.subjects)
    traces = pool.holders(rest)
    return (rest, traces) if traces else (answer, ())
