"""Embedders to begin with: a hash that needs no model, and BGE-M3."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from zeromem_gpu import Analyzer, InvalidInput, Memory
from zeromem_gpu.compat.zero_mem.protocols import unit_rows


class HashEmbedder:
    """A pseudo-random vector for every word, summed: texts that share words are similar. Needs no model."""

    def __init__(self, dim: int = 384) -> None:
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
            raise InvalidInput("dim", repr(dim), "a whole number from 1")
        self.dim = dim
        self._analyzer = Analyzer("english")

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors float32 [n, dim], rows of length 1; stop words count where there is nothing else."""
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            tokens = self._analyzer.tokens(text)
            words = list(filter(None, self._analyzer.stems(tokens)))
            for word in words or tokens or [text]:
                vectors[row] += _word_vector(word, self.dim)
        return unit_rows(vectors)


class BGEM3Embedder:
    """BGE-M3 as the engine loads it: half precision on a GPU, float32 without one.

    `max_length` and `use_fp16` are taken for the sake of the call. The engine's model reads up to 8,192
    tokens and chooses its precision by the device.
    """

    def __init__(
        self, model_name: str = "BAAI/bge-m3", use_fp16: bool = True, max_length: int = 2048
    ) -> None:
        self.model_name, self.use_fp16, self.max_length = model_name, use_fp16, max_length
        self._memory = Memory(encoder=model_name)

    @property
    def dim(self) -> int:
        """The width of a vector; loads nothing but the model's description."""
        return int(self._memory.encode([]).shape[1])

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors float32 [n, D], rows of length 1, through the engine's cache."""
        return self._memory.encode(list(texts))


@lru_cache(maxsize=1 << 16)
def _word_vector(word: str, dim: int) -> np.ndarray:
    digest = blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    generator = np.random.default_rng(int.from_bytes(digest, "little"))
    return generator.standard_normal(dim, dtype=np.float32)
