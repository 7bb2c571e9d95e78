"""The type of answer that a question expects, read from its form."""

from __future__ import annotations

from itertools import pairwise

from zeromem_gpu.query import rules
from zeromem_gpu.query.form import Form, noun_phrase, singular
from zeromem_gpu.query.reading import Reading


def answer_type(reading: Reading, form: Form, options: int) -> str:
    """The expected answer type, from the form and the number of options that the question offers."""
    if options >= 2:
        return "choice"
    if form.command:
        return _command_type(form)
    wh, _, detail = form.wh.partition(" ")
    if wh == "how" and detail:
        return _how_type(reading, form, detail)
    if wh == "when":
        return "date"
    if wh == "why" or form.noun in ("reason", "cause", "motive"):
        return "reason"
    if wh in ("what", "which", "whatever", "whichever") and _noun_type(form) in _SCALAR:
        return _noun_type(form)
    if form.hypothetical and wh:
        return "inference"
    if wh == "where":
        return "place"
    if wh in ("who", "whom", "whose"):
        return "list" if form.plural else "person"
    if wh == "how":
        return _manner_type(reading, form)
    if wh:
        return _what_type(reading, form)
    return "yes/no" if form.polar else "entity"


_SCALAR = frozenset(("date", "duration", "frequency", "age", "number"))


def _noun_type(form: Form) -> str:
    """The type of answer that the asked noun names; several of anything but times are a list."""
    kind = rules.NOUNS.get(form.noun, "entity")
    if form.plural and kind != "date":
        return "list"
    return kind if form.across else rules.DETERMINED.get(form.noun, kind)


def _how_type(reading: Reading, form: Form, detail: str) -> str:
    """The word "how" with a second one."""
    kind = rules.HOW[detail]
    rest = [word.lower for word in reading.words[form.at : reading.bounds[1]]]
    if detail in ("many", "much") and form.noun:
        if any(lower == "old" for lower in rest) and form.noun == "year":
            return "age"
        if form.noun in rules.TIME_UNITS or f"{form.noun}s" in rules.TIME_UNITS:
            repeated = form.noun == "time" and detail == "many"
            if not repeated:
                return "duration"
            pairs = pairwise(rest)
            per = any(a in ("a", "per", "each", "every") and b in rules.TIME_UNITS for a, b in pairs)
            return "frequency" if per else "count"
    if detail == "long":
        return _long_type(reading, form, rest)
    return kind


def _long_type(reading: Reading, form: Form, rest: list[str]) -> str:
    """The words "how long": a length for what has one, else a duration."""
    if any(lower in rules.LENGTH_UNITS for lower in rest):
        return "number"
    if len(rest) < 4 or rest[2] not in rules.BE or rest[3] in ("it", "ago", "he", "she", "they"):
        return "duration"
    head, end = noun_phrase(reading, form.at + 3, reading.bounds[1])
    if head < 0 or reading.words[head].tag in ("NNP", "NNPS"):
        after = reading.words[end].lower if end < len(reading.words) else "?"
        return "number" if head >= 0 and after in ("?", ".") and end - form.at > 4 else "duration"
    noun = singular(reading.words[head].lower, reading.words[head].tag)[0]
    lasts = noun in rules.LASTING or noun.endswith(rules.LASTING_ENDINGS) or noun in rules.TIME_UNITS
    # "how long was the dog a part …" says something of the subject: a state lasts
    follows = reading.words[end] if end < reading.bounds[1] else reading.words[head]
    states = follows.tag in ("DT", "JJ", "RB", "VBG", "VBN") and follows.dep not in ("acl", "relcl")
    return "duration" if lasts or states or rules.NOUNS.get(noun) == "person" else "number"


def _manner_type(reading: Reading, form: Form) -> str:
    """The word "how" alone: told in words, except the thing that somebody likes to do."""
    words = reading.words[form.at : reading.bounds[1]]
    for word, following in pairwise(words):
        if word.lower in rules.PREFERRING and word.tag.startswith("VB") and following.lower == "to":
            return "entity"
    return "description"


def _what_type(reading: Reading, form: Form) -> str:
    """The words "what" and "which": by the noun asked for, else by the verb."""
    last = reading.bounds[1]
    rest = reading.words[form.at + 1 : last]
    if form.noun:
        return _noun_type(form)
    lowers = [word.lower for word in rest]
    if lowers and lowers[0] in rules.CAUSING:
        return "reason"
    verbs = [
        word.lower
        for before, word in zip([reading.words[form.at], *rest], rest, strict=False)
        if word.tag.startswith("VB") and before.tag != "TO" and word.lower not in rules.AUXILIARIES
    ]
    acts = any(w.lower == "do" for w in rest[1:])  # "what did she do to feel better"
    # the tagger takes some verbs at the end for nouns
    telling = any(verb in rules.TELLING for verb in verbs or lowers)
    return "description" if telling and not acts else "entity"


def _command_type(form: Form) -> str:
    """A request without a question word."""
    kind = rules.COMMANDS[form.command]
    if form.command in ("name", "tell", "list") and form.noun:
        return "list" if form.plural or kind == "list" else rules.NOUNS.get(form.noun, kind)
    return kind
