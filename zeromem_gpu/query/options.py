"""What a question offers to choose from: "A or B", "A, B or C", "between A and B"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from zeromem_gpu.query import rules
from zeromem_gpu.query.form import Form
from zeromem_gpu.query.names import Name, capitalised_runs, quoted_names
from zeromem_gpu.query.reading import Reading


def find_options(reading: Reading, form: Form) -> tuple[Name, ...]:
    """What the question offers to choose from ("A or B", "A, B or C"); empty when it offers nothing.

    The options are cut out as written. A question that begins with its auxiliary offers them by "or" alone;
    one with a question word needs a comma, colon or dash before them, or a word that compares.
    """
    if not reading.english:
        return ()
    text, words = reading.text, reading.words
    first, last = reading.bounds
    if first >= last:
        return ()
    covered = [(name.start, name.end) for name in quoted_names(text)]
    rows = [i for i in range(first + 1, last - 1) if words[i].lower == "or"]
    rows = [i for i in rows if not _inside(words[i].start, covered)]
    if not rows or words[rows[-1] + 1].lower in ("not", "more", "less", "so", "what", "who", "how", "when"):
        return _between(reading, form)
    row = rows[-1]
    masked = _mask(text, covered)
    polar = form.polar or not form.wh
    end = _option_end(reading, row, last, polar, masked)
    start, marked = _option_start(reading, form, row, first, masked)
    if start < 0:
        return ()
    if not polar:
        if form.wh.partition(" ")[0] not in ("which", "who", "what", "where", "whose", "when"):
            return ()
        compared = any(
            w.tag in rules.COMPARING_TAGS or w.lower in rules.COMPARING for w in words[first:row]
        )
        at_end = not any(char.isalnum() for char in masked[end : words[last - 1].end])
        opens = form.at <= first + 3 and (at_end or _nameish(text[words[row].end : end]))
        if not (marked and opens) and not (compared and at_end):
            return ()
    pieces = [*_split(text, masked, start, words[row].start), (words[row].end, end)]
    names = [_trimmed(text, *piece) for piece in pieces]
    return (
        tuple(name for name in names if name.text) if len(names) > 1 and all(n.text for n in names) else ()
    )


def _between(reading: Reading, form: Form) -> tuple[Name, ...]:
    """The two of "between A and B, which …", else nothing."""
    if form.wh.partition(" ")[0] not in ("which", "who", "what", "where"):
        return ()
    words = reading.words
    first, _ = reading.bounds
    rows = [i for i in range(first, min(first + 3, form.at)) if words[i].lower in ("between", "of")]
    ands = [i for i in range(first, form.at) if words[i].lower == "and"]
    if not rows or not ands or (words[rows[0]].lower == "of" and words[form.at - 1].text != ","):
        return ()
    left = _trimmed(reading.text, words[rows[0]].end, words[ands[-1]].start)
    right = _trimmed(reading.text, words[ands[-1]].end, words[form.at].start)
    return (left, right) if left.text and right.text and left.text[0].isupper() else ()


def _option_end(reading: Reading, row: int, last: int, polar: bool, masked: str) -> int:
    """Where the last option stops: the end of the sentence, or a comma before a lower-case word."""
    words = reading.words
    name_at = row + 1 + (words[row + 1].tag == "DT")
    if polar and name_at < last and words[name_at].text[:1].isupper():
        at = words[name_at].start
        run = [name for name in capitalised_runs(reading) if name.start <= at < name.end]
        if run and masked[at] != "\x00":
            return run[0].end
    for i in range(row + 1, last):
        comma = words[i].text in (",", ";") and i + 1 < last
        if comma and words[i + 1].text[:1].islower():
            return words[i].start
        goes_on = words[i].tag in ("IN", "VB", "VBN", "VBG", "TO", "WDT") and words[i].text.islower()
        if polar and i > row + 1 and goes_on and words[i].lower not in rules.JOINERS:
            return words[i].start
    return words[last - 1].start if not words[last - 1].text[:1].isalnum() else words[last - 1].end


def _option_start(reading: Reading, form: Form, row: int, first: int, masked: str) -> tuple[int, bool]:
    """Where the first option starts (-1: nowhere), and whether a comma, colon or dash precedes it."""
    words, text = reading.words, reading.text
    lower_bound = words[form.at].end if form.wh and form.at < row else words[first].end
    before = masked[lower_bound : words[row].start] if form.wh else ""
    marks = [m.end() for m in re.finditer(r",(?=\s)|:|;|--+|[–—]", before)]
    starts = [lower_bound + mark for mark in marks]
    # "A, B, or C": the comma right before "or" starts nothing
    starts = [s for s in starts if any(c.isalnum() for c in text[s : words[row].start])]
    if starts:
        chosen = starts[-1]
        for earlier in reversed(starts[:-1]):
            piece = text[earlier:chosen].strip(' ,:;-–—"“')
            if not _nameish(piece) or not _nameish(text[chosen:].lstrip(' "“')):
                break
            chosen = earlier
        return chosen, True
    i = row - 1
    while i > first and words[i].text in ('"', "”", "''", "``", "’", "'", ","):
        i -= 1
    if words[i].text[:1].isupper() or words[i].text[:1] in "\"“”'" or words[i].text[:1].isdigit():
        run = _run_back(reading, row, first, masked)
        return run, False
    # lower-case options: the noun phrase or the bare word before "or"
    while (
        i > first
        and words[i - 1].tag in ("JJ", "NN", "NNS", "HYPH", "JJR", "VBN")
        and words[i].tag
        in (
            "NN",
            "NNS",
            "JJ",
            "HYPH",
        )
    ):
        i -= 1
    return (words[i].start, False) if i > first else (-1, False)


def _run_back(reading: Reading, row: int, first: int, masked: str) -> int:
    """The start of the capitalised or quoted run that ends before "or"."""
    words, i = reading.words, row - 1
    if masked[words[i].start] == "\x00":
        start = words[i].start
        while start > 0 and masked[start - 1] == "\x00":
            start -= 1
        return start
    best = row
    while i > first:
        word = words[i]
        if word.text[:1].isupper() or word.text[:1].isdigit() or word.tag == "POS":
            best = i if word.tag != "POS" else best
        elif word.lower not in rules.JOINERS and word.text not in ("-", ".", "'", "&"):
            break
        i -= 1
    if (
        i == first
        and words[first].text[:1].isupper()
        and words[first].lower not in rules.AUXILIARIES | rules.WH
    ):
        best = first
    return words[best].start if best < row else -1


def _split(text: str, masked: str, start: int, end: int) -> list[tuple[int, int]]:
    """The options before "or", separated by commas."""
    cuts = [start, *(start + m.start() for m in re.finditer(r",(?=\s+\S)", masked[start:end])), end]
    return list(pairwise(cuts))


def _trimmed(text: str, start: int, end: int) -> Name:
    """The name inside [start, end) without outer blanks, commas, quotes and leading article."""
    raw = text[start:end]
    lead = len(raw) - len(raw.lstrip(" ,:;-–—\"“”„«‘'\n\t"))
    article = re.match(r"(?:either\s+|both\s+)?(?:the|a|an)\s+", raw[lead:])
    lead += article.end() if article else 0
    tail = len(raw.rstrip(" ,;:?!\"“”»’'\n\t-–—"))
    quoted = any(mark in raw for mark in '"“”«„')
    return (
        Name(raw[lead:tail], start + lead, start + max(tail, lead), "", quoted)
        if tail > lead
        else Name("", start, start)
    )


def _inside(position: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= position < end for start, end in spans)


def _mask(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with NUL in place of the covered characters, so that no mark inside them is seen."""
    for start, end in spans:
        text = text[:start] + "\x00" * (end - start) + text[end:]
    return text


def _nameish(piece: str) -> bool:
    piece = re.sub(r"^(?:either\s+)?(?:the|a|an)\s+", "", piece.strip())
    return piece[:1].isupper() or piece[:1].isdigit()
