"""Stand-ins that need no model and no download: an encoder, an entity extractor, invented conversations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from zeromem_gpu import Trace
from zeromem_gpu.text.entities import Mention
from zeromem_gpu.text.normalize import clean, entity_name

WIDTH = 384  # MiniLM's


class HashEncoder:
    """A pseudo-random vector per word, summed: texts that share words are similar."""

    name, revision, max_tokens, dim = "benchmark-hash", "1", 1 << 20, WIDTH
    fingerprint = f"benchmark-hash@1/{WIDTH}"

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Vectors float32 [n, 384], rows of length 1; no texts give [0, 384]."""
        vectors = np.zeros((len(texts), WIDTH), np.float32)
        for row, text in enumerate(texts):
            words = re.findall(r"\w+", clean(text).casefold()) or [text]
            vectors[row] = np.sum([_word_vector(word) for word in words], axis=0)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)


@lru_cache(maxsize=1 << 17)
def _word_vector(word: str) -> np.ndarray:
    digest = blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    generator = np.random.default_rng(int.from_bytes(digest, "little"))
    return generator.standard_normal(WIDTH, dtype=np.float32)


class CapitalisedNames:
    """Capitalised words that do not begin a sentence: entities in about the number that spaCy finds."""

    fingerprint = "benchmark-capitalised/1"

    def extract(self, texts: Sequence[str]) -> list[list[Mention]]:
        """The mentions of each text."""
        found = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]\w+")
        return [
            [
                Mention(entity_name(one[0]), one[0], "PERSON", one.start(), one.end())
                for one in found.finditer(text)
            ]
            for text in texts
        ]


class Invented(NamedTuple):
    """Banks of invented turns, and questions with the bank of each."""

    traces: list[Trace]
    questions: list[str]
    banks: list[str]


def dialogue(bank: str, turns: int, questions: int, seed: int) -> Invented:
    """An invented conversation of LoCoMo's shape: two speakers, about 22 turns a session, 24 words a turn.

    Words are drawn by a Zipf law from a vocabulary that grows with the conversation, and so are the names:
    the degrees of the entity graph have LoCoMo's long tail at every size.
    """
    rng = np.random.default_rng([seed, turns])
    speakers = ("Mirela", "Tadeo")
    vocabulary = _Zipf(rng, _made_up(rng, 1500 + turns // 2))
    names = _Zipf(rng, [word.capitalize() for word in _made_up(rng, 40 + turns // 4, syllables=3)])
    traces: list[Trace] = []
    when, session, left = datetime(2024, 1, 5, 18, 30), 0, 0
    for turn in range(turns):
        if left == 0:
            left, session = int(rng.integers(15, 30)), session + 1
            when += timedelta(days=int(rng.integers(1, 12)))
        left -= 1
        words = vocabulary.draw(int(rng.integers(8, 41)))
        for name in names.draw(int(rng.integers(0, 3))):
            words.insert(int(rng.integers(1, len(words))), name)
        text = " ".join(words).capitalize() if turn % 7 else f"{speakers[turn % 2]}, " + " ".join(words)
        # capitalize() would lower the names
        text = text if turn % 7 == 0 else words[0].capitalize() + " " + " ".join(words[1:])
        traces.append(
            Trace(
                f"{session}:{turn}", text + ".", bank, str(session), time=when, speaker=speakers[turn % 2]
            )
        )
    return Invented(traces, _questions(rng, traces, questions, "did"), [bank] * questions)


def documents(banks: int, size: int, seed: int) -> Invented:
    """Banks of invented paragraphs of HotpotQA's shape: 90 words and some names, one question a bank."""
    rng = np.random.default_rng([seed, size])
    vocabulary = _Zipf(rng, _made_up(rng, 6000 + 2 * size))
    names = _Zipf(rng, [word.capitalize() for word in _made_up(rng, 300 + 2 * size, syllables=3)])
    traces: list[Trace] = []
    questions: list[str] = []
    for bank in range(banks):
        own: list[Trace] = []
        for place in range(size):
            words = vocabulary.draw(int(rng.integers(60, 121)))
            for name in names.draw(int(rng.integers(3, 9))):
                words.insert(int(rng.integers(1, len(words))), name)
            title = f"{words[0]} {words[1]} {place}"
            own.append(
                Trace(
                    title, f"{title}: " + " ".join(words) + ".", f"hotpot-{bank}", title, entities=(title,)
                )
            )
        traces += own
        questions += _questions(rng, own, 1, "was")
    return Invented(traces, questions, [f"hotpot-{bank}" for bank in range(banks)])


def _questions(rng: np.random.Generator, traces: Sequence[Trace], count: int, verb: str) -> list[str]:
    """Questions from the words of some traces: an asking word, a name where there is one, content words."""
    asked = []
    for at in rng.integers(0, len(traces), count):
        trace = traces[int(at)]
        words = [word.strip(".,:") for word in trace.text.split()]
        names = [word for word in words[1:] if word.istitle() and len(word) > 2][:1]
        content = [words[int(place)].casefold() for place in rng.integers(0, len(words), 4)]
        who = names or [trace.speaker or "it"]
        start = ("When", "What", "Where", "Who", "Which place")[int(at) % 5]
        asked.append(f"{start} {verb} {who[0]} {' '.join(content)}?")
    return asked


class _Zipf:
    """Draws words; the i-th most frequent has a weight of 1/(i + 2)^0.9."""

    def __init__(self, rng: np.random.Generator, words: Sequence[str]) -> None:
        weights = (np.arange(len(words)) + 2.0) ** -0.9
        self._rng, self._words, self._up_to = rng, words, np.cumsum(weights / weights.sum())

    def draw(self, count: int) -> list[str]:
        """Some words."""
        places = np.searchsorted(self._up_to, self._rng.random(count))
        return [self._words[min(int(place), len(self._words) - 1)] for place in places]


def _made_up(rng: np.random.Generator, count: int, syllables: int = 2) -> list[str]:
    """Distinct pronounceable words."""
    onsets, rimes = "b d f g k l m n p r s t v z br dr st tr".split(), "a e i o u an el ir on us".split()
    found: dict[str, None] = {}
    while len(found) < count:
        size = syllables + (len(found) > 20_000) + int(rng.integers(0, 2))
        parts = [
            onsets[int(rng.integers(len(onsets)))] + rimes[int(rng.integers(len(rimes)))]
            for _ in range(size)
        ]
        found["".join(parts)] = None
    return list(found)
