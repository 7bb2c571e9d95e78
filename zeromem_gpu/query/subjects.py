"""Who or what a question is about, among the names that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from zeromem_gpu.query.form import Form
from zeromem_gpu.query.names import Name
from zeromem_gpu.query.reading import Reading

_SUBJECT = frozenset(("nsubj", "nsubjpass", "csubj"))
_INSIDE = frozenset("compound appos conj nmod flat nummod amod det".split())


def find_subjects(
    reading: Reading, form: Form, names: Sequence[Name], options: Sequence[Name]
) -> tuple[str, ...]:
    """The subjects in reading order, speakers under their own name; empty when the question names nobody.

    Options that are named are the subjects. Else a name that a statement is ascribed to ("according to
    X"), the grammatical subjects and who owns them, the names joined to one by "and", and speakers that
    own something elsewhere. Failing all, the speakers named, else every name.
    """
    chosen = [n for n in names if any(n.start < o.end and o.start < n.end for o in options)]
    if len(chosen) < 2:
        # "which Olympic sport": a name inside the noun that is asked for is no subject
        words = reading.words
        low, high = (words[form.at].end, words[form.noun_at].end) if form.noun_at > form.at >= 0 else (0, 0)
        asked = [n for n in names if low <= n.start < high and not form.across]
        chosen = [n for n in names if _ascribed(reading, n) or (n not in asked and _is_subject(reading, n))]
        chosen = _with_coordinates(reading, names, chosen)
        if chosen:
            chosen += [n for n in names if n.speaker and n not in chosen and _owns(reading, n)]
        else:
            chosen = [n for n in names if n.speaker] or [n for n in names if n not in asked] or list(names)
    ordered = sorted(chosen, key=lambda name: name.start)
    return tuple(dict.fromkeys(name.speaker or name.text for name in ordered))


def _rows(reading: Reading, name: Name) -> list[int]:
    return [i for i, w in enumerate(reading.words) if w.start < name.end and name.start < w.end]


def _root(reading: Reading, name: Name) -> int:
    """The row of the name's word whose head lies outside, -1 for none."""
    rows = _rows(reading, name)
    outside = [i for i in rows if reading.words[i].head not in rows or reading.words[i].head == i]
    return outside[-1] if outside else -1


def _is_subject(reading: Reading, name: Name) -> bool:
    """Whether the name is a subject, or owns one, outside relative and other attached clauses."""
    words, row = reading.words, _root(reading, name)
    if row < 0:
        return False
    for _ in range(6):
        word = words[row]
        if word.dep in _SUBJECT:
            verb = word.head
            return words[verb].dep not in ("advcl", "pcomp") and not reading.relative(verb)
        if word.dep in _INSIDE or word.dep == "poss":
            row = word.head
        else:
            return False
    return False


def _owns(reading: Reading, name: Name) -> bool:
    """Whether a possessive mark follows the name."""
    return reading.text[name.end : name.end + 2] in ("'s", "’s") or (
        name.text.endswith("s") and reading.text[name.end : name.end + 1] in ("'", "’")
    )


def _ascribed(reading: Reading, name: Name) -> bool:
    """Whether the name follows "according to"."""
    return reading.text[: name.start].lower().endswith("according to ")


def _with_coordinates(reading: Reading, names: Sequence[Name], chosen: Sequence[Name]) -> list[Name]:
    """The chosen names and those joined to one of them by "and" or a comma before one."""
    kept = list(chosen)
    for _ in names:
        size = len(kept)
        for left, right in pairwise(names):
            between = reading.text[left.end : right.start].strip().lower()
            joined = between in ("and", "&", ", and", "and the") or (between == "," and len(names) > 2)
            if joined and (left in kept) != (right in kept):
                kept.append(right if left in kept else left)
        if len(kept) == size:
            break
    return kept
