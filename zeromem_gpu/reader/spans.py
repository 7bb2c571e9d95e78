"""Candidate answers inside a sentence: names, quotations, and the sentence without what it need not say."""

from __future__ import annotations

import re

from zeromem_gpu.calibrate.words import stem_set, words
from zeromem_gpu.text.capitalised import capitalised_names

_QUOTED = re.compile(r"[\"“«]([^\"“”«»\n]{2,80})[\"”»]")
_PLACING = re.compile(
    r"\b(?:in|at|to|from|near|around|through|across|of|via|for)\s+(?:the\s+)?\Z", re.IGNORECASE
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


def options(text: str, phrases: tuple[str, ...]) -> list[str]:
    """Those of `phrases` that stand on either side of an "or" of the question.

    >>> options("Would Bob rather have tea or strong coffee?", ("Bob", "tea", "strong coffee"))
    ['tea', 'strong coffee']
    """
    found = []
    for phrase in phrases:
        side = rf"\b{re.escape(phrase)}['’\"”]?,? or\b|\bor (?:an? |the |to )?['‘\"“]?{re.escape(phrase)}\b"
        if re.search(side, text, re.IGNORECASE):
            found.append(phrase)
    return found


def _is_known(one: str, known: frozenset[str]) -> bool:
    return one in known or (len(one) > 2 and any(other.startswith(one) for other in known))
