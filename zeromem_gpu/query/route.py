"""Which view leads: relational (graph first) or local (hierarchy first).

Deterministic, from the question's form, its need to relate or to aggregate, and its anchors; the route
only weights the fusion, both views always run (method.md 2).
"""

from __future__ import annotations

from collections.abc import Sequence

from zeromem_gpu.query import rules
from zeromem_gpu.query.form import Form
from zeromem_gpu.query.names import Name
from zeromem_gpu.query.reading import Reading
from zeromem_gpu.types import Route


def route(
    reading: Reading,
    form: Form,
    kind: str,
    names: Sequence[Name],
    subjects: Sequence[str],
    options: Sequence[Name],
    *,
    dialogue: bool,
) -> Route:
    """The route of one question.

    `kind` is the answer type, `subjects` who it is about, `dialogue` whether the bank has speakers. In a
    dialogue a speaker is everywhere, so only other names bridge. A question without any anchor is local.
    """
    why = reason(reading, form, kind, names, subjects, options, dialogue=dialogue)
    return "relational" if why else "local"


def reason(
    reading: Reading,
    form: Form,
    kind: str,
    names: Sequence[Name],
    subjects: Sequence[str],
    options: Sequence[Name],
    *,
    dialogue: bool,
) -> str:
    """Why the graph leads, "" where it does not: the rules in their order."""
    distinct = {name.speaker or name.text.casefold() for name in names}
    if not distinct:
        return ""
    lowers = {word.lower for word in reading.words}
    if kind == "choice" and sum(_named(option, names) for option in options) >= 2:
        return "compares named options"
    shared = any(word.lower == "shared" and word.dep == "amod" for word in reading.words)
    if len(distinct) >= 2 and (shared or lowers & rules.SHARING) and not form.hypothetical:
        return "what several names share"
    if len(set(subjects)) >= 2:
        return "relates two subjects"
    if kind == "list" and not form.hypothetical:
        return "gathers several answers"
    if kind == "count" and (lowers & rules.AGGREGATING or _perfect(reading)):
        return "counts over the history"
    others = {name.text.casefold() for name in names if not name.speaker}
    if others and _bridges(reading, form) and not (dialogue and len(others) < len(distinct)):
        return "describes what it asks about through another name"
    if not dialogue and len(distinct) >= 2:
        return "connects several names"
    return ""


def _named(option: Name, names: Sequence[Name]) -> bool:
    """Whether an option is, or holds, a name."""
    return any(name.start < option.end and option.start < name.end for name in names)


def _perfect(reading: Reading) -> bool:
    """Whether the perfect ("has adopted", "have been") asks about everything so far."""
    words = reading.words
    first, last = reading.bounds
    has = [i for i in range(first, last) if words[i].lower in ("has", "have", "had")]
    return any(word.tag == "VBN" for i in has for word in words[i + 1 : last])


def _bridges(reading: Reading, form: Form) -> bool:
    """Whether a clause describes a thing that is not named, or the question asks inside a statement."""
    first, last = reading.bounds
    described = any(word.dep in ("relcl", "acl") for word in reading.words[first:last])
    inside = bool(form.wh) and form.at > first + 2
    return described or inside
