"""The names in a question: speakers, quoted titles, options, NER mentions and capitalised runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zeromem_gpu.query import rules
from zeromem_gpu.query.reading import Reading, Word
from zeromem_gpu.query.speakers import Directory, directory, pattern
from zeromem_gpu.text.normalize import entity_name

# what the NER model takes along at the start of a name
_LEAD = re.compile(
    r"(?:(?:the|a|an|this|that|his|her|their|its|is|are|was|were|do|did|does)\s+)+", re.IGNORECASE
)


class Name(NamedTuple):
    """A name in the question: its text, character span, and the speaker it stands for ("" for none)."""

    text: str
    start: int
    end: int
    speaker: str = ""
    quoted: bool = False


def wants_ner(question: str, speakers: Sequence[str]) -> bool:
    """Whether the NER model could find a name that capitals and speakers do not give.

    Always for documents; in a dialogue only where a further word has a capital, or none has. Leaving it out
    elsewhere changed none of 385 dialogue questions and saves 0.9 ms each.
    """
    if not speakers or not any(map(str.isupper, question)):
        return True
    known = directory(tuple(speakers)).words
    return any(
        word[0].isupper() and word.casefold() not in known and word.casefold() not in rules.NOT_NAMES
        for word in re.findall(r"\w+", question)[1:]
    )


def find_names(reading: Reading, speakers: Sequence[str], options: Sequence[Name]) -> tuple[Name, ...]:
    """All names in reading order, none inside another; the longer wins, quotes and options first."""
    titles = quoted_names(reading.text)
    runs = [*capitalised_runs(reading), *_mentions(reading)]
    known = directory(tuple(speakers))
    heard = _speakers(reading, known)
    # a speaker's first name inside a longer name is somebody else ("Mary Shelley"), unless it owns the rest
    found: list[Name] = []
    for group in (titles, options, sorted([*heard, *runs], key=_length), _pronouns(reading, known)):
        found.extend(name for name in _free(group, found))
    return tuple(sorted(found, key=lambda name: name.start))


def quoted_names(text: str) -> list[Name]:
    """Quoted spans, without their marks."""
    found = []
    for match in rules.QUOTED.finditer(text):
        group = next(i for i, value in enumerate(match.groups(), 1) if value is not None)
        inner = match.group(group)
        kept = inner.strip(" ,.?!;:") or inner.strip()
        if kept and any(map(str.isalnum, kept)):
            start = match.start(group) + inner.index(kept)
            found.append(Name(kept, start, start + len(kept), "", True))
    return found


def capitalised_runs(reading: Reading) -> list[Name]:
    """Runs of capitalised words, joined across "of the", "van", "v." and the like."""
    words, found, i = reading.words, [], 0
    begins = _sentence_starts(reading)
    # where nearly every word has a capital only the tagger tells names
    letters = [word.text[:1].isupper() for word in words if word.text[:1].isalpha()]
    shouting = len(words) > 5 and sum(letters) > 0.7 * len(letters)
    while i < len(words):
        inside_word = i > 0 and words[i - 1].end == words[i].start and words[i - 1].text[-1:].isalnum()
        if inside_word or not _namely(reading, i, i in begins, shouting):
            i += 1
            continue
        last, j = i, i + 1
        while j < len(words):
            word, before = words[j], words[j - 1]
            touching = word.start == before.end
            named = _namely(reading, j, False, shouting) and (not touching or before.text in "-–&/")
            hyphen = touching and word.text in ("-", "–", "&", "/") and _next_upper(words, j)
            number = word.tag == "CD" and word.text.isdigit() and len(word.text) <= 3
            if named or hyphen or number:
                last, j = j, j + 1
            elif word.lower in rules.JOINERS or word.tag == "POS":
                step = j + 1 + (j + 1 < len(words) and words[j + 1].lower in rules.JOINERS)
                if step >= len(words) or not _namely(reading, step, False, shouting):
                    break
                last, j = step, step + 1
            else:
                break
        run = words[i : last + 1]
        proper = any(w.tag in ("NNP", "NNPS", "FW") for w in run)
        if (proper or len(run) > 1 or not reading.english) and run[-1].end - run[0].start > 1:
            found.append(Name(reading.text[run[0].start : run[-1].end], run[0].start, run[-1].end))
        i = last + 1
    return found


def _namely(reading: Reading, i: int, begins: bool, shouting: bool) -> bool:
    """Whether a word may be part of a name by its capital; at a sentence's start the tagger decides."""
    word = reading.words[i]
    if not any(map(str.isupper, word.text)) or word.lower in rules.NOT_NAMES or word.tag in ("PRP", "MD"):
        return False
    if begins:
        if word.lower in rules.WH or word.lower in rules.AUXILIARIES or word.lower in rules.COMMANDS:
            return False
        if word.tag in ("NNP", "NNPS", "FW") or not reading.english:
            return True
        return word.tag in ("NN", "NNS", "VB", "JJ", "VBN", "VBG", "VBD") and _next_upper(reading.words, i)
    if shouting or word.lower in rules.WH:
        return word.tag in ("NNP", "NNPS")
    return True


def _mentions(reading: Reading) -> list[Name]:
    """NER spans that name something, without their article and possessive."""
    found = []
    typed = any(map(str.isupper, reading.text))  # whoever writes capitals writes names with one
    for span in reading.spans:
        text = reading.text[span.start : span.end]
        if span.label in rules.VALUE_LABELS or not any(map(str.isalnum, text)):
            continue
        plain = any(w.isalpha() and w.islower() and w not in rules.JOINERS for w in text.split())
        listed = re.search(r"\band\b|,", text) is not None
        if re.search(r"\bor\b|\band (?:the|a)\b", text, re.IGNORECASE) or (
            span.label not in rules.LONG_LABELS and (listed or (typed and plain))
        ):
            continue
        if not any(map(str.isupper, text)) and (typed or span.label not in ("PERSON", "GPE")):
            continue
        if all(w.tag == "JJ" for w in reading.words if span.start <= w.start < span.end):
            continue  # "Polish" alone names nobody
        lead = _LEAD.match(text)
        start = span.start + (lead.end() if lead else 0)
        end = span.start + len(re.sub(r"(?:['’]s|['’])$", "", text.rstrip(' ,.;:?!"')))
        name = reading.text[start:end]
        if end > start and entity_name(name) not in rules.NOT_NAMES and name.lower() not in rules.WH:
            found.append(Name(name, start, end))
    return found


def _speakers(reading: Reading, known: Directory) -> list[Name]:
    """Places where a speaker is named in full, by first name or by a short form of it."""
    found: list[Name] = []
    tags = {word.start: word.tag for word in reading.words}
    begins = {reading.words[i].start for i in _sentence_starts(reading)}
    for speaker, form, short in known.spelt_in(reading.text):
        for match in pattern(form).finditer(reading.text):
            written = match.group()
            lower = form.lower()
            plain = short or lower in rules.WORD_NAMES or lower in rules.NOT_NAMES or len(form) < 2
            opens = match.start() in begins and tags.get(match.start(), "") in ("MD", "IN", "VB", "VBP")
            if plain and (opens or not written[:1].isupper()):
                continue
            found.append(Name(written, match.start(), match.end(), speaker))
    for word in reading.words:
        nick = known.nickname(word.text) if word.tag in ("NNP", "NNPS") else ""
        if nick:
            found.append(Name(word.text, word.start, word.end, nick))
    return found


def _pronouns(reading: Reading, known: Directory) -> list[Name]:
    """The words "I" and "you" where the bank's speakers are roles such as "user" and "assistant"."""
    found: list[Name] = []
    if not known.roles:
        return found
    for word in reading.words:
        for pronouns, names in (
            (rules.FIRST_PERSON, rules.SELF_NAMES),
            (rules.SECOND_PERSON, rules.OTHER_NAMES),
        ):
            if word.lower in pronouns:
                roles = sorted(names & known.roles.keys())
                found += [Name(word.text, word.start, word.end, known.roles[role]) for role in roles[:1]]
    return found


def _free(group: Iterable[Name], taken: Sequence[Name]) -> list[Name]:
    """The names of a group that overlap neither taken ones nor each other, earlier ones first."""
    kept: list[Name] = []
    for name in group:
        others = (*taken, *kept)
        if name.end > name.start and not any(name.start < t.end and t.start < name.end for t in others):
            kept.append(name)
    return kept


def _length(name: Name) -> tuple[int, int, str]:
    """Longer names first, then earlier ones; the same span as a speaker first."""
    return (name.start - name.end, name.start, "" if name.speaker else "name")


def _sentence_starts(reading: Reading) -> set[int]:
    """Rows of the words that open a sentence, its quotes and dashes skipped."""
    starts, opening = set(), True
    for i, word in enumerate(reading.words):
        if opening and word.text[:1].isalnum():
            starts.add(i)
            opening = False
        elif word.tag == "." and word.text in ".?!":
            opening = True
    return starts


def _next_upper(words: Sequence[Word], i: int) -> bool:
    return i + 1 < len(words) and words[i + 1].text[:1].isupper()
