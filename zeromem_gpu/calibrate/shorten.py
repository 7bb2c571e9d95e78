"""Extractive shortening: what an answer says beyond the answer. Words are only ever left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from zeromem_gpu.calibrate.words import Word, words

_LEAD = re.compile(
    r"\A\s*(?:(?:based on|according to|from) [^,:]{1,80}[,:]\s*|(?:the )?(?:short )?answer(?: is)?[:,]?\s+"
    r"|it (?:seems|appears|looks like)(?: that)? )+",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\s*\([^()]*\)\s*\.?\s*\Z")
_OWNERS = frozenset("a an the my your his her its our their this that these those".split())
# words that carry a restated question without saying anything of their own
_CARRIERS = frozenset(
    "he she it they we you i his her their its who which that there "
    "be been being have has had having do does did done doing".split()
)
_ACTORS = frozenset("he she it they we you i there this that is are was were".split())
# "what did she do": the verb is the answer
_DOING = re.compile(
    r"\b(?:do|does|did|has|have|had|is|are|was|were|will|would|could|should|can|to)\b.*\b(?:do|done|doing)\b",
    re.IGNORECASE,
)
_WHO = re.compile(r"\A\W*who\s+(?:has |have |had )?(?P<verb>[a-z]+)\b", re.IGNORECASE)


def without_lead(answer: str) -> str:
    """The answer without "The answer is", "Based on the conversation," and the like."""
    rest = _LEAD.sub("", answer, count=1)
    return rest if words(rest) else answer


def without_aside(answer: str) -> str:
    """The answer without a closing remark in brackets."""
    rest = _ASIDE.sub("", answer)
    return rest if words(rest) else answer


def without_question(answer: str, question: str, asked: frozenset[str], subjects: frozenset[str]) -> str:
    """The answer without a beginning, or an end, that only restates the question.

    The longest prefix is dropped whose words are stop words or words of the question (`asked` and
    `subjects` hold their stems), if it names who or what the question is about, or stands for it ("she",
    "there were"), has a word of the question, and leaves something. No noun phrase is cut: its article or
    owner and what follows stay together. Where the question asks what somebody does, the verb stays.
    Where it asks who did something ("who inspired Ann"), an end that begins with that verb is dropped.
    """
    found = words(answer)
    known = subjects if _DOING.search(question) else asked | subjects
    said = 0
    while said < len(found) and _restates(found[said], known):
        said += 1
    if said < len(found):
        said = _phrase_start(answer, found, said)
        about = any(word.stem in subjects or word.lower in _ACTORS for word in found[:said])
        if about and any(word.stem in asked | subjects for word in found[:said]):
            return answer[_start(answer, found[said]) :]
    return _without_end(answer, found, question, asked | subjects)


def _without_end(answer: str, found: Sequence[Word], question: str, known: frozenset[str]) -> str:
    """The answer up to the verb of a question that asks who did something."""
    match = _WHO.match(question)
    verb = words(match["verb"])[0].stem if match else ""
    at = next((i for i, word in enumerate(found) if verb and word.stem == verb), 0)
    named = any(word.stem for word in found[:at])
    if not named or not all(_restates(word, known) for word in found[at:]):
        return answer
    return answer[: found[at].start].rstrip(" ,")


def _restates(word: Word, known: frozenset[str]) -> bool:
    return word.stem in known or word.stem == "" or word.lower in _CARRIERS


def _phrase_start(answer: str, found: Sequence[Word], said: int) -> int:
    """Where the noun phrase begins that a cut before word `said` would split, else `said`."""
    at = said
    while at and found[at - 1].stem and found[at - 1].lower not in _CARRIERS and not _owner(found[at - 1]):
        at -= 1
    while at and _owner(found[at - 1]):
        at -= 1
        said = at
    return said


def _owner(word: Word) -> bool:
    """An article, or whose something is: "the", "her", "Ann's"."""
    return word.lower in _OWNERS or word.text.lower().endswith(("'s", "’s", "s'", "s’"))


def _start(answer: str, word: Word) -> int:
    """Where a word begins, with an opening quote or bracket before it."""
    start = word.start
    while start and answer[start - 1] in "\"'“‘(#$€£":
        start -= 1
    return start
