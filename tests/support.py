"""Stand-ins for models, so that tests of everything else load none: deterministic, fast, offline."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np

from zeromem_gpu import Config, Memory
from zeromem_gpu.encoders.lexical import LexicalWeights
from zeromem_gpu.text.entities import Mention
from zeromem_gpu.text.normalize import clean, entity_name


class HashEncoder:
    """Sums a pseudo-random vector per word: texts that share words are similar. Counts what it encodes.

    Its token weights are multiples of 1/64 that depend on the text too; every fifth word has none.
    """

    name, revision, max_tokens = "hash", "1", 1 << 20

    def __init__(self, dim: int = 32) -> None:
        self.dim = dim
        self.encoded: list[str] = []
        self.weighed: list[str] = []

    @property
    def fingerprint(self) -> str:
        return f"hash@1/{self.dim}"

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        self.encoded += texts
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", clean(text).casefold()) or [text]:
                digest = blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
                seed = int.from_bytes(digest, "little")
                vectors[row] += np.random.default_rng(seed).standard_normal(self.dim).astype(np.float32)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)

    weighs = True

    def lexical_weights(self, texts: Sequence[str]) -> LexicalWeights:
        self.weighed += texts
        said = [re.findall(r"\w+", clean(text).casefold()) for text in texts]
        hashed = [
            int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=4).digest(), "little")
            for words in said
            for word in words
        ]
        token = np.array(hashed, np.int64) >> 1
        text = np.repeat(np.arange(len(said)), [len(words) for words in said])
        spread = np.repeat([1 + len(words) % 3 for words in said], [len(words) for words in said])
        weight = np.where(token % 5, (1 + token % 32) * spread, 0) / 64
        return LexicalWeights.of(text, token, weight.astype(np.float32), len(said))


class NameExtractor:
    """Every capitalised word is an entity (label PERSON); numbers are CARDINAL."""

    fingerprint = "names-of-tests/1"

    def extract(self, texts: Sequence[str]) -> list[list[Mention]]:
        names = re.compile(r"\b[A-Z]\w+|\b\d+\b")
        return [[self._mention(match) for match in names.finditer(text)] for text in texts]

    @staticmethod
    def _mention(match: re.Match[str]) -> Mention:
        label = "CARDINAL" if match[0].isdigit() else "PERSON"
        return Mention(entity_name(match[0]), match[0], label, match.start(), match.end())


def small_memory(config: Config | None = None, **options: object) -> Memory:
    """A memory with the stand-ins above and no cache; `options` go to Memory."""
    given = {"encoder": HashEncoder(), "extractor": NameExtractor(), "cache_dir": False, "device": "cpu"}
    return Memory(config, **(given | options))  # type: ignore[arg-type]
