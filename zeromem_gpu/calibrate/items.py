"""Lists, choices, yes and no: which of the possible items an answer names, which the evidence knows."""

from __future__ import annotations

import re

from zeromem_gpu.calibrate.pool import Pool
from zeromem_gpu.calibrate.words import stem_set, words

Outcome = tuple[str, tuple[str, ...]]

_JOINT = re.compile(r"\s*(?:,\s*(?:and|or)\s+|,|;|\band\b)\s*")
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»")
_LONGEST = 6  # words; a longer item is a clause
_POLAR = re.compile(r"\A\s*(?P<said>yes|no)\b(?P<rest>.*)\Z", re.IGNORECASE | re.DOTALL)
# what makes a yes or a no less than one, or says that nothing is known
_HEDGED = re.compile(
    r"\b(?:likely|probably|perhaps|maybe|possibly|might|may|could|somewhat|sort of|kind of|partly|partially"
    r"|unclear|unknown|unsure|uncertain|evidence|mention\w*|information|specif\w+|but|although|though|however"
    r"|except|unless|if|only|yet|until|depends|and no|or no|and yes|or yes|seems?|appears?)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:not|no|never|neither|nor|rather than|instead of|than)\b|n['’]t\b", re.IGNORECASE
)


def once(answer: str, pool: Pool) -> Outcome:
    """Leave out items that an earlier one already says, in order."""
    items = split_items(answer)
    first = {stem_set(item) or item: item for item in reversed(items)}
    kept = [item for item in items if first[stem_set(item) or item] is item]
    return _kept(answer, items, kept, pool)


def prune(answer: str, pool: Pool) -> Outcome:
    """Leave out items of which the evidence has no word, in order.

    Where more than a third would go, or one that stays is there in part, the evidence is short.
    """
    items = split_items(answer)
    kept = [item for item in items if not stem_set(item) or stem_set(item) & pool.stems]
    short = 3 * len(kept) < 2 * len(items) or not all(stem_set(item) <= pool.stems for item in kept)
    return (answer, ()) if short else _kept(answer, items, kept, pool)


def _kept(answer: str, items: list[str], kept: list[str], pool: Pool) -> Outcome:
    """The items that are kept, if any is dropped, none is a clause, and the evidence has them."""
    if len(kept) == len(items) or any(len(words(item)) > _LONGEST for item in items):
        return answer, ()
    traces = pool.holders(" ".join(kept))
    return (", ".join(kept), traces) if traces else (answer, ())


def split_items(answer: str) -> list[str]:
    """The items of a list in order; what stands in quotes is not cut.

    >>> split_items('Rex, Luna and "Pride and Prejudice".')
    ['Rex', 'Luna', '"Pride and Prejudice"']
    """
    text = answer.strip().rstrip(".")
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    cuts = [match.span() for match in _JOINT.finditer(text)]
    cuts = [cut for cut in cuts if not any(start < cut[1] and cut[0] < end for start, end in quoted)]
    starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(text)]
    items = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    return [item for item in items if words(item)]


def choose(answer: str, pool: Pool) -> Outcome:
    """The option that an answer names, if it names exactly one, in the words of the question.

    An option is named by every word that the others do not share ("national" of "national park or theme
    park"); an answer that denies anything may name the one that it is not, and stays.
    """
    every = [stem_set(option) for option in pool.options]
    own = [
        one - frozenset().union(*(o for k, o in enumerate(every) if k != at))
        for at, one in enumerate(every)
    ]
    said = stem_set(answer)
    touched = [at for at, one in enumerate(own) if one & said]
    if len(touched) != 1 or not own[touched[0]] <= said or _DENIED.search(answer):
        return answer, ()
    option = pool.options[touched[0]]
    if len(words(answer)) <= len(words(option)):
        return answer, ()
    traces = tuple(passage.trace for passage in pool.passages if own[touched[0]] <= passage.stems)
    return (option, traces[:3]) if traces else (answer, ())


def polar(answer: str, pool: Pool) -> Outcome:
    """A plain yes or no without its reason; one that is hedged, qualified or unknown stays as it is."""
    found = _POLAR.match(answer)
    if found is None or not words(found["rest"]) or _HEDGED.search(answer):
        return answer, ()
    rest = found["rest"]
    # "no one", "yes men": the word must stand alone
    if not re.match(r"\s*(?:[,.;:!–—-]|(?:because|since|as)\b)", rest, re.IGNORECASE):
        return answer, ()
    turned = found["said"].lower() == "yes" and re.search(r"\bno\b", rest, re.IGNORECASE)
    if turned or re.search(r"\byes\b", rest, re.IGNORECASE):
        return answer, ()
    traces = pool.holders(rest) or pool.best()
    return (found["said"], traces) if traces else (answer, ())
