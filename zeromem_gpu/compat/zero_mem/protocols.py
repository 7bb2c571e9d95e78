"""What a front end brings: embedder, entity extractor and vector store, and how the engine uses them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from zeromem_gpu import InvalidInput, Mention, entity_name


@runtime_checkable
class Embedder(Protocol):
    """Texts to vectors [n, dim] of any length and precision."""

    @property
    def dim(self) -> int:
        """The width of a vector."""
        ...

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """A row for each text."""
        ...


@runtime_checkable
class EntityExtractor(Protocol):
    """Names in a text."""

    def extract(self, text: str) -> list[str]:
        """The names that a text mentions."""
        ...


@runtime_checkable
class VectorStore(Protocol):
    """Keeps vectors with payloads (session_id, turn_index, created_at, speaker) under ids."""

    def upsert(self, ids: list[str], vectors: np.ndarray, payloads: list[dict[str, Any]]) -> None:
        """Store or replace."""
        ...

    def search(
        self, vector: np.ndarray, limit: int = 20, session_id: str | None = None
    ) -> list[tuple[str, float, dict[str, Any]]]:
        """The nearest (id, score, payload), the best first."""
        ...


class EmbedderEncoder:
    """A front end's embedder as the engine's encoder: rows are scaled to length 1, unusable ones stay."""

    revision, max_tokens = "1", 1 << 30

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name = type(embedder).__qualname__
        self.dim = int(embedder.dim)
        self.fingerprint = f"{self.name}@{self.revision}/{self.dim}"

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Vectors float32 [n, D]; no texts do not reach the embedder."""
        if not len(texts):
            return np.zeros((0, self.dim), np.float32)
        given: Any = self._embedder.encode(list(texts))
        try:
            found = np.asarray(given, np.float32)
        except (TypeError, ValueError) as error:
            got = f"{type(given).__name__} that is no array of numbers"
            raise InvalidInput("embedder", got, f"numbers [{len(texts)}, {self.dim}]") from error
        if found.shape != (len(texts), self.dim):
            raise InvalidInput("embedder", f"shape {list(found.shape)}", f"[{len(texts)}, {self.dim}]")
        return unit_rows(found)


class ExtractorMentions:
    """A front end's extractor as the engine's: each name is looked for in its text, longer names first.

    A name that the text does not contain as such counts as said at its beginning.
    """

    def __init__(self, extractor: EntityExtractor) -> None:
        self._extractor = extractor
        self.fingerprint = f"{type(extractor).__qualname__}/1"

    def extract(self, texts: Sequence[str]) -> list[list[Mention]]:
        """The mentions of each text by position, without overlaps."""
        return [sorted(self._mentions(text), key=lambda one: one.start) for text in texts]

    def _mentions(self, text: str) -> list[Mention]:
        names = dict.fromkeys(name.strip() for name in names_in(self._extractor, text))
        found: list[Mention] = []
        for name in sorted(filter(None, names), key=len, reverse=True):
            key = entity_name(name)
            pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
            spans = [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]
            free = [span for span in spans if all(span[1] <= m.start or m.end <= span[0] for m in found)]
            if key and not spans:
                free = [(0, 0)]
            found += [
                Mention(key, text[start:end] or name, "ENTITY", start, end) for start, end in free if key
            ]
        return found


def names_in(extractor: EntityExtractor, text: str) -> list[str]:
    """What an extractor finds; anything but names is an `InvalidInput`, a str not taken for its letters."""
    found: Any = extractor.extract(text)
    names = list(found) if isinstance(found, Iterable) and not isinstance(found, str) else [found]
    if isinstance(found, str) or not all(isinstance(name, str) for name in names):
        raise InvalidInput("entity_extractor", f"{found!r:.60}", "a list of names, each a str")
    return names


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows [n, D] scaled to length 1 as float32; what is zero or not finite stays as it is."""
    rows = np.asarray(vectors, np.float32)
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
    usable = np.isfinite(lengths) & (lengths > 0)
    return (rows / np.where(usable, lengths, 1.0)[:, None]).astype(np.float32)
