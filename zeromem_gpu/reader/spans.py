"""Candidate answers inside a sentence: names, quotations, and the sentence without what it need not say."""

from __future__ import annotations

import re

from zeromem_gpu.calibrate.words import Word, stem_set, words
from zeromem_gpu.text.capitalised import capitalised_names

_QUOTED = re.compile(r"[\"“«]([^\"“”«»\n]{2,80})[\"”»]")
_PLACING = re.compile(
    r"\b(?:in|at|to|from|near|around|through|across|of|via|for)\s+(?:the\s+)?\Z", re.IGNORECASE
)
_ASKED_NOUN = re.compile(
    r"\b(?:what|which)\s+(?:(?:kind|type|sort|style)s?\s+of\s+)?(?P<noun>[^\W\d_]\S*)", re.IGNORECASE
)
_OPENING = "\"'“‘«(#$€£"


def names(text: str, known: frozenset[str], *, placed: bool = False) -> list[str]:
    """The capitalised names of a sentence with a stem that is neither known nor short for a known one.

    `placed` ones follow a preposition.

    >>> names("Ann met Rex in Oslo.", frozenset(["ann"]))
    ['Rex', 'Oslo']
    >>> names("Ann met Rex in Oslo.", frozenset(), placed=True)
    ['Oslo']
    """
    return [
        text[start:end]
        for start, end in capitalised_names(text, [])
        if not all(_is_known(one, known) for one in stem_set(text[start:end]))
        and (not placed or _PLACING.search(text[:start]))
    ]


def quoted(text: str) -> list[str]:
    """What stands in quotation marks."""
    return [match[1].strip(" ,.") for match in _QUOTED.finditer(text)]


def trimmed(text: str, known: frozenset[str]) -> str:
    """A sentence from its first word that is neither a stop word nor known; all of it where there is none.

    >>> trimmed("Hey Bob, I bought a red kayak.", frozenset(["hey", "bob"]))
    'bought a red kayak.'
    """
    start = next((word.start for word in words(text) if word.stem and word.stem not in known), 0)
    while start and text[start - 1] in _OPENING:
        start -= 1
    return text[start:]


def asked_noun(question: str, keywords: tuple[str, ...]) -> frozenset[str]:
    """The stems of the thing that a question asks the kind of; none for "what did …".

    >>> sorted(asked_noun("What kind of red boat did Bob buy?", ("kind", "red boat", "buy")))
    ['boat', 'red']
    """
    match = _ASKED_NOUN.search(question)
    if not match:
        return frozenset()
    phrase = next((one for one in keywords if question.startswith(one, match.start("noun"))), match["noun"])
    return stem_set(phrase)


def described(text: str, noun: frozenset[str], known: frozenset[str]) -> str:
    """The first phrase of `text` that says something new before words of `noun`; "" where there is none.

    >>> described("We saw the old fishing boat of Ann.", frozenset(["boat"]), frozenset())
    'old fishing boat'
    """
    found = words(text)
    for at, word in enumerate(found):
        first = last = at
        if word.stem not in noun:
            continue
        while first and found[first - 1].stem not in known | {""} and _joined(text, found, first - 1):
            first -= 1
        while last + 1 < len(found) and found[last + 1].stem in noun and _joined(text, found, last):
            last += 1
        if first < at:
            return text[found[first].start : found[last].end]
    return ""


def _joined(text: str, found: list[Word], at: int) -> bool:
    """Whether nothing but blanks, hyphens and plus signs stand behind a word and its next."""
    return not text[found[at].end : found[at + 1].start].strip("-+ ")


def _is_known(one: str, known: frozenset[str]) -> bool:
    return one in known or (len(one) > 2 and any(other.startswith(one) for other in known))
