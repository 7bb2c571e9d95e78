"""Sentences and encoder-sized units as character spans, by rule: no model, the same for any batch."""

from __future__ import annotations

import re
import unicodedata

from zeromem_gpu.text.normalize import clean

Span = tuple[int, int]

# A sentence may end after closing marks, with its quotes and brackets; CJK marks need no blank behind them.
_END = re.compile(
    r"""(?P<wide>[。！？｡]+["'”’」』）】》]*)"""
    r"""|(?P<mark>(?:[.!?…‼⁇⁈⁉؟۔।॥]+)["'”’»)\]}*]*)(?=\s|$)"""
    r"""|(?P<line>[\n\r\u2028\u2029\x85]+)"""
)
_WORD_BEFORE = re.compile(r"[^\W_](?:[\w.’'-]*\w)?$|[^\W_]$")
_ABBREVIATION_TEXT = """
    adm al approx apt aug ave blvd capt cf col dec dept dr e.g eg est etc feb fig ft gen gov hon i.e ie inc
    jan jr lt ltd messrs mr mrs ms mt nov oct op p pp prof rep rev sen sept sgt sr st v vol vs
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_TEXT.split())
# these end a sentence as often as not: a capital letter after them decides
_EITHER = frozenset(["approx", "apt", "ave", "blvd", "dept", "etc", "inc", "jr", "ltd", "sr", "a.m", "p.m"])
_NEXT = re.compile(r"""\s*["'“‘«(\[{*]*(?P<first>\S)""")
_QUESTION = re.compile(r"[?？؟][!！…]*[\"'”’»」』)\]]*\s*\Z")
_LOOK_BACK = 24  # characters; longer than any abbreviation


def split_sentences(text: str) -> list[Span]:
    """Sentences of `text` as [start, end) spans, ascending, without outer blanks.

    They cover every character that is not blank. Ends are `. ! ? …`, their CJK, Arabic and Indic
    counterparts, and line breaks; abbreviations, initials, decimals and "v." do not end a sentence.
    Blank text gives no span.

    >>> text = "Dr. J. Smith paid 3.50. Really? 好。是！"
    >>> [text[start:end] for start, end in split_sentences(text)]
    ['Dr. J. Smith paid 3.50.', 'Really?', '好。', '是！']
    """
    seen = clean(text)
    spans: list[Span] = []
    start = 0
    for match in _END.finditer(seen):
        if match.lastgroup != "mark" or _ends_sentence(seen, start, match.start(), match.end()):
            _append(spans, seen, start, match.end())
            start = match.end()
    _append(spans, seen, start, len(seen))
    return spans


def asks(text: str) -> bool:
    """Whether a text ends with a question, closing quotes and exclamation marks left aside.

    >>> asks("Really?! "), asks("“Who?”"), asks("Why? Because.")
    (True, True, False)
    """
    return _QUESTION.search(text) is not None


def split_units(text: str, limit: int) -> list[Span]:
    """Spans of at most `limit` (at least 1) characters that hold every character that is not blank.

    Cut at sentence ends, else at blanks, else hard, but not before a combining mark. A text within the
    limit, the empty one too, is one span: the whole.

    >>> split_units("", 10), split_units("One two. Three four.", 12)
    ([(0, 0)], [(0, 8), (9, 20)])
    """
    if len(text) <= limit:
        return [(0, len(text))]
    units: list[Span] = []
    for start, end in split_sentences(text):
        if units and end - units[-1][0] <= limit:
            units[-1] = (units[-1][0], end)
            continue
        while end - start > limit:
            cut = _cut(text, start, start + limit)
            _append(units, text, start, cut)
            start = cut
        _append(units, text, start, end)
    return units or [(0, limit)]


def _append(spans: list[Span], text: str, start: int, end: int) -> None:
    """Add [start, end) without its outer blanks, unless nothing is left."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        spans.append((start, end))


def _ends_sentence(text: str, start: int, mark: int, after: int) -> bool:
    """Whether the marks in text[mark:after], before a blank or the end, end the sentence from `start`."""
    following = _NEXT.match(text, after)
    first = following["first"] if following else ""
    if text[mark] != "." or text[mark + 1 : mark + 2] in (".", "!", "?", "…"):
        # "Really?! no", "well… maybe": a lower-case letter goes on, except after a plain ! or ?
        return text[mark] not in ".…" or not first.islower()
    before = _WORD_BEFORE.search(text[max(start, mark - _LOOK_BACK) : mark])
    word = before.group() if before else ""
    folded = word.casefold()
    if folded in _EITHER:
        return not first or first.isupper()
    if folded in _ABBREVIATIONS:
        return not first
    if len(word) == 1 and word.isalpha() and word.isupper() and word != "I":
        return not first  # an initial
    if "." in word and all(len(part) == 1 for part in word.split(".")):
        return not first or first.isupper()  # U.S.
    if word.isdigit() and mark - start <= _LOOK_BACK and text[start:mark].strip() == word:
        return not first  # the number of a list item
    return after == mark + 1 or not first.islower()  # chat begins sentences in lower case too


def _cut(text: str, start: int, end: int) -> int:
    """The last good place to cut text[start:end], always behind `start`."""
    for at in range(end, start, -1):
        if text[at - 1].isspace() or text[at].isspace():
            return at
    while end > start + 1 and _joins(text[end]):
        end -= 1
    return end


def _joins(character: str) -> bool:
    """Whether a character belongs to the one before it: marks, joiners, selectors, skin tones."""
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf") or "🏻" <= character <= "🏿"
