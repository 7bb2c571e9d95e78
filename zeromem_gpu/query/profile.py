"""φ(q): what a question is about, what it asks for, and which view should lead (method.md 2)."""

from __future__ import annotations

from collections.abc import Sequence

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.query import rules
from zeromem_gpu.query.answer_type import answer_type
from zeromem_gpu.query.cues import DateSpan, date_spans, temporal_cues
from zeromem_gpu.query.form import question_form
from zeromem_gpu.query.names import Name, find_names, wants_ner
from zeromem_gpu.query.options import find_options
from zeromem_gpu.query.reading import Reader, Reading
from zeromem_gpu.query.route import route
from zeromem_gpu.query.subjects import find_subjects
from zeromem_gpu.text.dates import date_interval
from zeromem_gpu.text.normalize import entity_name
from zeromem_gpu.text.tokens import Analyzer
from zeromem_gpu.types import QueryProfile

_CONTENT = frozenset("NN NNS NNP NNPS JJ JJR JJS CD FW ADD GW".split())
_VERBS = frozenset("VB VBD VBG VBN VBP VBZ".split())
_EMPTY_VERBS = rules.AUXILIARIES | rules.BE | frozenset("doing done having get got getting gotten".split())


class Profiler:
    """Turns questions into profiles.

    `model` is a spaCy pipeline with tagger, parser and NER; `zone` is the time zone in which a
    question's dates are read. One instance may be shared among threads.
    """

    def __init__(self, model: str = "en_core_web_sm", zone: str = "UTC") -> None:
        """Nothing is loaded before the first question."""
        self.zone = zone
        self._reader = Reader(model)
        self._analyzer = Analyzer("none")

    def profile(
        self, questions: Sequence[str], speakers: Sequence[Sequence[str]] | None = None
    ) -> list[QueryProfile]:
        """One profile a question, in order; equal questions are read once.

        `speakers` holds, for each question, the speakers of the bank that it is asked of (none for
        documents): with speakers the dates of a question say when something was told, without they are
        content. No questions give an empty list; an empty or unreadable question gives a profile without
        names. A profile does not depend on the other questions of the batch.

        Raises `InvalidInput` when `speakers` and `questions` differ in length, `ModelUnavailable` when the
        pipeline is not installed.
        """
        if speakers is None:
            speakers = [()] * len(questions)
        if len(speakers) != len(questions):
            raise InvalidInput("speakers", f"{len(speakers)} lists", f"{len(questions)}, one a question")
        keys = [(question, tuple(known)) for question, known in zip(questions, speakers, strict=True)]
        unique = list(dict.fromkeys(keys))
        readings = self._reader.read([key[0] for key in unique], [wants_ner(*key) for key in unique])
        read = zip(unique, readings, strict=True)
        done = {key: self._profile(key[0], reading, key[1]) for key, reading in read}
        return [done[key] for key in keys]

    def _profile(self, question: str, reading: Reading, speakers: tuple[str, ...]) -> QueryProfile:
        form = question_form(reading)
        options = find_options(reading, form)
        names = find_names(reading, speakers, [o for o in options if o.quoted or _proper(o, reading)])
        kind = answer_type(reading, form, len(options))
        subjects = find_subjects(reading, form, names, options)
        dates = date_spans(reading.text, self.zone)
        return QueryProfile(
            text=question,
            subjects=subjects,
            keywords=self._keywords(reading, names, subjects),
            answer_type=kind,
            temporal_cues=temporal_cues(reading, form, kind, dates),
            entities=_entities(subjects, names),
            phrases=_phrases(reading, names, dates),
            validity=date_interval(reading.text, self.zone) if speakers else None,
            route=route(reading, form, kind, names, subjects, options, dialogue=bool(speakers)),
            options=tuple(option.text for option in options),
        )

    def _keywords(
        self, reading: Reading, names: Sequence[Name], subjects: Sequence[str]
    ) -> tuple[str, ...]:
        """Noun phrases without the subjects, verbs, numbers; every token where English rules fail."""
        tagged = any(word.tag for word in reading.words)  # a pipeline may hold nothing but NER
        if not (reading.english and tagged):
            return tuple(dict.fromkeys(self._analyzer.tokens(reading.text)))
        found: list[str] = []
        covered = [n for n in names if (n.speaker or n.text) in subjects]
        inner = {n.start: n for n in names if n not in covered}
        run: list[int] = []

        def flush() -> None:
            words = [reading.words[i] for i in run]
            if words and any(w.tag in _CONTENT for w in words):
                found.append(reading.text[words[0].start : words[-1].end])
            run.clear()

        end = 0
        for i, word in enumerate(reading.words):
            if word.start < end:
                continue
            if any(n.start <= word.start < n.end for n in covered):
                flush()
                continue
            name = inner.get(word.start)
            joined = run and reading.words[run[-1]].end + 1 >= word.start
            if name is not None:
                last = max(j for j, w in enumerate(reading.words) if w.start < name.end)
                run.extend(range(i, last + 1))
                end = name.end
            elif _is_content(reading, i):
                if not joined:
                    flush()
                run.append(i)
            else:
                flush()
                if word.tag in _VERBS and word.lower not in _EMPTY_VERBS:
                    found.append(word.text)
        flush()
        return tuple(dict.fromkeys(word for word in found if any(map(str.isalnum, word))))


def _is_content(reading: Reading, i: int) -> bool:
    """Whether a word may stand in a keyword phrase; participles only before their noun."""
    word = reading.words[i]
    if word.tag in ("VBG", "VBN"):
        return word.dep in ("amod", "compound") and word.head > i
    return word.tag == "HYPH" or (word.tag in _CONTENT and word.lower not in ("many", "much"))


def _proper(option: Name, reading: Reading) -> bool:
    """Whether an option is a name by its capitals or by its tags."""
    return option.text[:1].isupper() or any(
        word.tag in ("NNP", "NNPS") for word in reading.words if option.start <= word.start < option.end
    )


def _entities(subjects: Sequence[str], names: Sequence[Name]) -> tuple[str, ...]:
    """Subjects, then the other names, each once by its normalised form."""
    found: dict[str, str] = {}
    for name in [*subjects, *(n.speaker or n.text for n in names)]:
        key = entity_name(name)
        if key:
            found.setdefault(key, name)
    return tuple(found.values())


def _phrases(reading: Reading, names: Sequence[Name], dates: Sequence[DateSpan]) -> tuple[str, ...]:
    """Spans to match word for word, in reading order: quotes, names of several words, dates and values."""
    spans = [(n.start, n.end) for n in names if not n.speaker and (n.quoted or len(n.text.split()) > 1)]
    spans += [(d.start, d.end) for d in dates]
    spans += [
        match.span()
        for match in rules.VALUES.finditer(reading.text)
        if not any(start < match.end() and match.start() < end for start, end in spans)
    ]
    return tuple(dict.fromkeys(reading.text[start:end] for start, end in sorted(spans)))
