"""a = Calibrate(a_0, q, A(q), R(q), φ(q)): deterministic corrections of checkable answers (method.md 6)."""

from __future__ import annotations

from collections.abc import Callable

from zeromem_gpu.calibrate import shorten
from zeromem_gpu.calibrate.items import prune
from zeromem_gpu.calibrate.pool import Pool, make_pool
from zeromem_gpu.calibrate.amounts import calibrate_amount
from zeromem_gpu.calibrate.when import calibrate_when
from zeromem_gpu.types import Change, SearchResult

CHECKABLE = frozenset(
    "date duration frequency count number age yes/no choice list person place title entity".split()
)
_AMOUNTS = frozenset("duration frequency count number age".split())
MAX_CHARS = 600  # a longer answer is an essay, not a date or a name


def calibrate_answer(answer: str, result: SearchResult, zone: str = "UTC") -> tuple[str, tuple[Change, ...]]:
    """The calibrated answer and what was changed, in order.

    Args:
        answer: what the reader said; empty, blank or very long answers stay as they are.
        result: the question's profile and evidence, which alone decide.
        zone: the time zone of times without an offset.

    Answers to open questions (reason, description, inference) stay. So does every checkable answer that is
    well formed and supported. The words of a calibrated answer are the reader's or the evidence's; a date
    may be counted from the day on which the evidence was told.
    """
    kind = result.profile.answer_type
    if kind not in CHECKABLE or not answer.strip() or len(answer) > MAX_CHARS:
        return answer, ()
    log = _Log(answer)
    question = result.query
    log.step("announcement", shorten.drop_lead)
    pool = make_pool(result, zone)
    if kind in ("date", "person", "place", "list", "entity", "title", *_AMOUNTS):
        log.step("restated question", lambda text: shorten.drop_restated(text, question))
    _by_kind(kind, log, question, pool)
    return log.text, tuple(log.changes)


def _by_kind(kind: str, log: _Log, question: str, pool: Pool) -> None:
    if kind == "date":
        log.put(*calibrate_when(log.text, question, pool))
    elif kind in _AMOUNTS:
        if kind == "count":
            log.step("counted noun", lambda text: shorten.bare_count(text, question))
        log.put(*calibrate_amount(log.text, question, kind, pool))
    elif kind == "yes/no":
        log.step("yes or no", lambda text: shorten.bare_yes(text, question))
    elif kind == "person":
        log.step("restated end", lambda text: shorten.drop_tail(text, question))
        log.step("remark", shorten.drop_remark)
    elif kind == "place":
        log.step("preposition", shorten.bare_place)
        log.step("remark", shorten.drop_remark)
    elif kind == "title":
        log.step("quoted title", shorten.quoted_title)
    elif kind == "choice":
        log.step("remark", shorten.drop_remark)
    elif kind == "list":
        log.put(*prune(log.text, pool))


class _Log:
    """The answer so far and the changes that led to it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.changes: list[Change] = []

    def step(self, rule: str, change: Callable[[str], str]) -> None:
        self.put(change(self.text), rule, ())

    def put(self, after: str, rule: str, evidence: tuple[str, ...]) -> None:
        if after != self.text:
            self.changes.append(Change(rule, self.text, after, evidence))
            self.text = after
