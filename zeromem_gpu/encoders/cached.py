"""An encoder in front of which a disk cache stands: each distinct text is encoded once, ever."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeromem_gpu.cache import DiskCache
from zeromem_gpu.encoders.lexical import LexicalWeights, Weighing, weighs
from zeromem_gpu.encoders.protocol import Encoder, Mask, Progress, Splitting, Vectors
from zeromem_gpu.encoders.vector_file import text_hash, vector_namespace, weight_namespace
from zeromem_gpu.text.normalize import clean

_STORE_AFTER = 2048  # texts; what is stored survives an interrupted run


class CachedEncoder:
    """The vectors of `encoder`, kept in `cache` by the text's hash.

    What is cached does not reach (or load) the inner encoder. The rest goes to it once for each distinct
    text, in an order that depends on the texts alone. Vectors with NaN, infinity or only zeros are not
    stored, so that a passing failure does not stay.
    """

    def __init__(self, encoder: Encoder, cache: DiskCache) -> None:
        self.inner = encoder
        self._cache = cache

    @property
    def name(self) -> str:
        """The inner encoder's name."""
        return self.inner.name

    @property
    def revision(self) -> str:
        """The inner encoder's revision."""
        return self.inner.revision

    @property
    def dim(self) -> int:
        """D, the width of a vector."""
        return self.inner.dim

    @property
    def max_tokens(self) -> int:
        """Longer texts are cut here."""
        return self.inner.max_tokens

    @property
    def fingerprint(self) -> str:
        """The inner encoder's fingerprint: the cache changes nothing."""
        return self.inner.fingerprint

    @property
    def precision(self) -> str:
        """The inner encoder's, which says under what name its vectors are kept."""
        return str(getattr(self.inner, "precision", "fp32"))

    def splits(self, texts: Sequence[str]) -> Mask:
        """Which texts the inner encoder cuts into pieces, bool [n]."""
        if isinstance(self.inner, Splitting):
            return self.inner.splits(texts)
        return np.zeros(len(texts), np.bool_)

    @property
    def weighs(self) -> bool:
        """Whether the inner encoder gives token weights."""
        return weighs(self.inner)

    def lexical_weights(self, texts: Sequence[str]) -> LexicalWeights:
        """The inner encoder's token weights of each text, kept like vectors."""
        inner = self.inner
        if not isinstance(inner, Weighing):
            raise TypeError(f"{inner.fingerprint} gives no token weights; ask `weighs` first")
        seen = [clean(text) for text in texts]
        keys = [text_hash(text, bool(cut)) for text, cut in zip(seen, self.splits(seen), strict=True)]
        distinct = dict(zip(keys, seen, strict=True))
        namespace = weight_namespace(inner)
        stored = self._cache.get_many(namespace, list(distinct))
        missing = [key for key in distinct if key not in stored]
        for start in range(0, len(missing), _STORE_AFTER):
            part = missing[start : start + _STORE_AFTER]
            found = inner.lexical_weights([distinct[key] for key in part])
            fresh = dict(zip(part, found.packed(), strict=True))
            self._cache.put_many(namespace, fresh)
            stored |= fresh
        return LexicalWeights.unpacked([stored[key] for key in keys])

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Vectors float32 [n, D] in the order of `texts`; no texts give [0, D]."""
        seen = [clean(text) for text in texts]
        keys = [text_hash(text, bool(cut)) for text, cut in zip(seen, self.splits(seen), strict=True)]
        distinct = dict(zip(keys, seen, strict=True))
        namespace = vector_namespace(self.inner)
        width = 4 * self.dim
        stored = self._cache.get_many(namespace, list(distinct))
        stored = {key: value for key, value in stored.items() if len(value) == width}
        done = sum(key in stored for key in keys)
        if progress is not None and done:
            progress(done)
        missing = sorted(
            ((key, text) for key, text in distinct.items() if key not in stored),
            key=lambda item: (-len(item[1]), item[1]),
        )
        for start in range(0, len(missing), _STORE_AFTER):
            stored.update(
                self._encode_and_store(namespace, missing[start : start + _STORE_AFTER], progress)
            )
        packed = b"".join(stored[key] for key in keys)
        return np.frombuffer(packed, dtype="<f4").astype(np.float32).reshape(len(keys), self.dim)

    def _encode_and_store(
        self, namespace: str, part: Sequence[tuple[bytes, str]], progress: Progress | None
    ) -> dict[bytes, bytes]:
        vectors = np.asarray(self.inner.encode([text for _, text in part], progress), dtype="<f4")
        usable = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
        packed = {key: row.tobytes() for (key, _), row in zip(part, vectors, strict=True)}
        keep = {key: packed[key] for (key, _), good in zip(part, usable, strict=True) if good}
        self._cache.put_many(namespace, keep)
        return packed
