"""What reading a text gives, once for each distinct text: sentences, words, mentions, answer types.

Banks may share texts by the thousand (the same passages under many questions); only what depends on a
bank is left to `ingest.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from zeromem_gpu.build.facts import CAPTION_PART, SPEAKER_PART
from zeromem_gpu.text.entities import EntityExtractor, Mention, type_mask
from zeromem_gpu.text.sentences import split_sentences
from zeromem_gpu.text.tokens import Analyzer, term_key, term_keys

logger = logging.getLogger(__name__)

_NER_STEP = 1024
_SURELY_SOME = 100  # texts; among so many a model that fits names at least one entity


@dataclass(frozen=True)
class Words:
    """Raw and stem keys of some words, int64 each; a stop word has stem 0.

    `terms` are the stems that consist of letters: those have a vector, by which others find them.
    """

    raw: np.ndarray
    stem: np.ndarray
    terms: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, analyzer: Analyzer) -> Words:
        """The words of a text."""
        tokens = analyzer.tokens(text)
        stems = analyzer.stems(tokens)
        keys = [term_key(stem) if stem else 0 for stem in stems]
        return cls(term_keys(tokens), np.array(keys, np.int64), tuple(filter(str.isalpha, stems)))


@dataclass(frozen=True)
class TextFacts:
    """Spans of the sentences, their words, entity mentions, and bits of the answer types held."""

    sentences: list[tuple[int, int]]
    words: list[Words]
    mentions: list[Mention]
    types: int


def read_texts(
    texts: Iterable[str],
    extractor: EntityExtractor,
    analyzer: Analyzer,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, TextFacts]:
    """Read every distinct text; `progress("entities", done, total)` is called now and then.

    Warns when there are 100 texts or more and not one entity in them.
    """
    distinct = list(dict.fromkeys(texts))
    facts: dict[str, TextFacts] = {}
    for first in range(0, len(distinct), _NER_STEP):
        part = distinct[first : first + _NER_STEP]
        for text, mentions in zip(part, extractor.extract(part), strict=True):
            sentences = split_sentences(text)
            words = [Words.of(text[start:end], analyzer) for start, end in sentences]
            facts[text] = TextFacts(sentences, words, mentions, type_mask(text, mentions))
        if progress:
            progress("entities", first + len(part), len(distinct))
    if len(facts) >= _SURELY_SOME and not any(one.mentions for one in facts.values()):
        logger.warning(
            "%s found no entity in %d texts: the graph view has nothing to go by. Is it a model of their "
            "language? Name another with ner_model= or extractor=.",
            extractor.fingerprint, len(facts),
        )  # fmt: skip
    return facts


class WordRows:
    """Collects the word rows of new units: speaker, sentences, caption, each part closed by key 0."""

    def __init__(self) -> None:
        self._parts: list[tuple[Words, int, int]] = []

    def add(self, row: int, sentence0: int, speaker: Words, text: list[Words], caption: Words) -> None:
        """Add one unit; without words of its own it must not match by its speaker's name."""
        if not len(caption.raw) and not any(len(words.raw) for words in text):
            return
        self._parts += [(speaker, SPEAKER_PART, row), (_END, SPEAKER_PART, row)]
        self._parts += [(words, sentence0 + at, row) for at, words in enumerate(text)]
        self._parts += [(_END, CAPTION_PART, row), (caption, CAPTION_PART, row), (_END, CAPTION_PART, row)]

    def columns(self) -> dict[str, np.ndarray]:
        """The collected rows as the columns of the tokens table."""
        counts = [len(words.raw) for words, _, _ in self._parts]
        sentence = np.array([part for _, part, _ in self._parts], np.int32)
        unit = np.array([row for _, _, row in self._parts], np.int32)
        empty = np.empty(0, np.int64)
        return {
            "raw": np.concatenate([empty, *(words.raw for words, _, _ in self._parts)]),
            "stem": np.concatenate([empty, *(words.stem for words, _, _ in self._parts)]),
            "unit": np.repeat(unit, counts),
            "sentence": np.repeat(sentence, counts),
        }


_END = Words(np.zeros(1, np.int64), np.zeros(1, np.int64))
