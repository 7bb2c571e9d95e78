"""Capitalised names in running text, beside a NER model that misses some of them; by rule, per text."""

from __future__ import annotations

import re
from typing import NamedTuple

from zeromem_gpu.text.sentences import split_sentences

_LETTER = r"[^\W\d_][\u0300-\u036f]*"
_WORD = re.compile(rf"(?<![\w@#/\\.])(?:{_LETTER}|\d)+(?:[’'.-](?:{_LETTER}|\d)+)*")
# a point that ends no sentence is one of an abbreviation; quote, colon, dash or emoji may begin a sentence
_PLAIN_GAP = re.compile(r"\.?[\s,;&/]*")
_OPENING = "\"“‘«'"
_MOST_CAPITALS = 6  # a longer word in capitals alone is emphasis more often than an acronym

# words that are written with a capital and name nobody: calendar, pronouns, function words, address
_SKIPPED_TEXT = """
    monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun
    mondays tuesdays wednesdays thursdays fridays saturdays sundays
    january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec
    i me my mine myself you your yours he him his she her hers it its we us our ours they them their theirs
    who what when where why how which whose whom this that these those here there
    a an the and or but nor so yet if then than as at by for from in into of off on onto out over to up with
    without is am are was were be been being do does did done have has had can could will would shall should
    might must not no yes let all any both each every some such too very just also only even still again
    one two three four five six seven eight nine ten
    man dude guys buddy bro sis mom mum dad mr mrs ms miss dr prof sir madam
    tv pc diy asap fyi btw imo imho aka etc am pm ps
"""
EXCLAMATIONS = """
    oh ah aw aww hey hi hello bye goodbye wow yay yeah yep yup nope nah hmm hm huh ok okay lol omg haha ha
    thanks thank please sorry congrats congratulations well woohoo whoa glad sure right great good nice
    cool awesome amazing absolutely definitely really totally exactly true indeed maybe perhaps
    happy dear cheers welcome gosh
"""
_EXCLAMATIONS = frozenset(EXCLAMATIONS.split())
_SKIPPED = frozenset(_SKIPPED_TEXT.split()) | _EXCLAMATIONS


class _Word(NamedTuple):
    start: int
    end: int
    core: str  # without a possessive or contracted ending
    first: bool  # may stand at the beginning of a sentence or quotation


def capitalised_names(text: str, taken: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of runs of capitalised words of cleaned `text` that touch none of `taken`, ascending.

    A run is one or more capitalised words in a row, with "of" or "of the" allowed between two. The first
    word of a sentence or quotation counts only when the same text has it capitalised elsewhere too, or when
    the whole quotation is a run of several words. Calendar words, pronouns, function words, exclamations
    and neighbouring words in capitals alone are no names.

    >>> text = "Hey Melanie! We met Jo in the Lake of Stars on Monday."
    >>> [text[start:end] for start, end in capitalised_names(text, [])]
    ['Melanie', 'Jo', 'Lake of Stars']
    """
    sentences = [_words(text, start, end) for start, end in split_sentences(text)]
    inner = {w.core for words in sentences for w in words if not w.first}
    lower = {core for core in inner if core[0].islower()}
    found: list[tuple[int, int]] = []
    for words in sentences:
        names = [_is_name(words, at, inner, lower) for at in range(len(words))]
        _open_quotations(text, words, names)
        found += _runs(text, words, names)
    return [
        (start, end)
        for start, end in found
        if not any(start < other_end and other_start < end for other_start, other_end in taken)
    ]


def is_exclamation(surface: str) -> bool:
    """Whether a mention is nothing but exclamations, which NER models take for names in chat.

    >>> is_exclamation("Wow"), is_exclamation("Hey Jude")
    (True, False)
    """
    words = _WORD.findall(surface)
    return bool(words) and all(word.casefold() in _EXCLAMATIONS for word in words)


def _words(text: str, start: int, end: int) -> list[_Word]:
    words: list[_Word] = []
    before = start
    for match in _WORD.finditer(text, start, end):
        plain = bool(words) and _PLAIN_GAP.fullmatch(text, before, match.start()) is not None
        core = _core(match.group())
        words.append(_Word(match.start(), match.start() + len(core), core, not plain))
        before = match.end()
    return words


def _core(word: str) -> str:
    """`word` without a possessive or contracted ending ('s, 'll); other apostrophes are of the name."""
    head, apostrophe, tail = word.replace("’", "'").rpartition("'")
    return head if apostrophe and len(tail) <= 2 and tail.islower() else word


def _is_name(words: list[_Word], at: int, inner: set[str], lower: set[str]) -> bool:
    word = words[at]
    core, folded = word.core, word.core.casefold()
    if len(core) < 2 or not core[0].isupper() or folded in _SKIPPED:
        return False
    if core.isupper():
        shouted = any(
            0 <= other < len(words) and len(words[other].core) > 1 and words[other].core.isupper()
            for other in (at - 1, at + 1)
        )
        if shouted or len(core) > _MOST_CAPITALS:
            return False
    if folded in lower:
        return False
    return not word.first or core in inner


def _open_quotations(text: str, words: list[_Word], names: list[bool]) -> None:
    """Let the first word of a quotation be a name when the quotation is a title of several words."""
    for at, word in enumerate(words[:-1]):
        quoted = word.start > 0 and text[word.start - 1] in _OPENING
        if quoted and at > 0 and word.core[0].isupper() and names[at + 1]:
            names[at] = True


def _runs(text: str, words: list[_Word], names: list[bool]) -> list[tuple[int, int]]:
    """Join neighbouring names that only blanks separate, over "of" and "of the" too."""
    runs: list[tuple[int, int]] = []
    at = 0
    while at < len(words):
        if not names[at]:
            at += 1
            continue
        last = at
        while (following := _next_in_run(text, words, names, last)) is not None:
            last = following
        runs.append((words[at].start, words[last].end))
        at = last + 1
    return runs


def _next_in_run(text: str, words: list[_Word], names: list[bool], at: int) -> int | None:
    for step, between in ((1, ()), (2, ("of",)), (3, ("of", "the"))):
        after = at + step
        if after >= len(words) or not names[after]:
            continue
        if tuple(word.core for word in words[at + 1 : after]) != between:
            continue
        edges = zip(words[at:after], words[at + 1 : after + 1], strict=True)
        if all(text[left.end : right.start].isspace() for left, right in edges):
            return after
    return None
