"""Extractive shortening: what an answer says beyond the answer. Words are only ever left out."""

from __future__ import annotations

import re

from zeromem_gpu.calibrate.words import Word, words

_LEAD = re.compile(
    r"\A\s*(?:(?:based on|according to|from) [^,:]{1,80}[,:]\s*|(?:the )?(?:short )?answer(?: is)?[:,]?\s+"
    r"|it (?:seems|appears|looks like)(?: that)? )+",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\s*\([^()]*\)\s*\.?\s*\Z")
_ARTICLES = frozenset(("a", "an", "the"))
# words that carry a restated question without saying anything of their own
_CARRIERS = frozenset(
    "he she it they we you i his her their its who which that there "
    "be been being have has had do does did".split()
)


def without_lead(answer: str) -> str:
    """The answer without "The answer is", "Based on the conversation," and the like."""
    rest = _LEAD.sub("", answer, count=1)
    return rest if rest.strip() else answer


def without_question(answer: str, asked: frozenset[str]) -> str:
    """The answer without a beginning that only restates the question.

    The longest prefix is dropped whose words are stop words or words of the question (`asked` holds their
    stems), if at least one is of the question and at least one other word is left. An article stays with
    what follows it.
    """
    found = words(answer)
    said, restated = 0, False
    for word in found:
        known = word.stem in asked
        if not (known or word.stem == "" or word.lower in _CARRIERS):
            break
        restated = restated or known
        said += 1
    if not restated or said == len(found):
        return answer
    while said and found[said - 1].lower in _ARTICLES:
        said -= 1
    return answer[_start(answer, found[said]) :]


def without_aside(answer: str) -> str:
    """The answer without a closing remark in brackets."""
    rest = _ASIDE.sub("", answer)
    return rest if words(rest) else answer


def first_clause(answer: str) -> str:
    """Up to the first comma, dash or "because": the answer proper of a yes or a no."""
    return re.split(r"[,;.!–—]|\bbecause\b|\bsince\b|\bas\b", answer, maxsplit=1)[0].strip() or answer


def _start(answer: str, word: Word) -> int:
    """Where a word begins, with an opening quote or bracket before it."""
    start = word.start
    while start and answer[start - 1] in "\"'“‘(#$€£":
        start -= 1
    return start
