"""Vectors made elsewhere: a safetensors file that knows texts by hash and stands in for an encoder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from zeromem_gpu.cache import DiskCache
from zeromem_gpu.encoders.protocol import Encoder, Progress, Vectors, fingerprint, vector_form
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.text.normalize import clean

_FORMAT = "zeromem-vectors-1"
_HASH_BYTES = 16


def text_hash(text: str, split: bool = False) -> bytes:
    """BLAKE2b-16 of the cleaned text: the key of its vector in files and caches.

    A text that its encoder `split` has another key, as the same model's plain form only reads its start.
    """
    person = b"split" if split else b""
    return blake2b(clean(text).encode(), digest_size=_HASH_BYTES, person=person).digest()


def vector_namespace(encoder: Encoder) -> str:
    """The cache namespace that holds an encoder's vectors."""
    return f"vectors/{vector_form(encoder)}"


def write_vectors(path: Path | str, texts: Sequence[str], vectors: Vectors, encoder: Encoder) -> None:
    """Write the vectors float32 [n, D] that `encoder` gave for `texts`; the file is replaced as a whole.

    Texts themselves are not stored. A text that occurs twice is kept once; no texts give a valid file.
    Raises `InvalidInput` when the shapes do not fit.
    """
    if vectors.shape != (len(texts), encoder.dim):
        raise InvalidInput("vectors", list(vectors.shape), str([len(texts), encoder.dim]))
    rows = {text_hash(text): row for row, text in enumerate(texts)}
    _write(path, rows.keys(), vectors[list(rows.values())], encoder)


def export_vectors(path: Path | str, cache: DiskCache, encoder: Encoder) -> int:
    """Write all vectors of `encoder` that the cache holds; returns how many. The texts are not needed."""
    items = list(cache.items(vector_namespace(encoder)))
    packed = b"".join(value for _, value in items)
    vectors = np.frombuffer(packed, dtype="<f4").astype(np.float32).reshape(len(items), encoder.dim)
    _write(path, (key for key, _ in items), vectors, encoder)
    return len(items)


class VectorFile:
    """An encoder that looks its vectors up in a file which `write_vectors` or `export_vectors` made.

    Name, revision, width and so the fingerprint are those of the encoder that made the vectors. Raises
    `InvalidInput` when the file is not one of these.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        facts, hashes, self._vectors = _read(self.path)
        self.name = facts["encoder"]
        self.revision = facts["revision"]
        self.dim = int(facts["dim"])
        self.max_tokens = int(facts["max_tokens"])
        packed = hashes.tobytes()
        cuts = range(0, len(packed), _HASH_BYTES)
        self._rows = {packed[cut : cut + _HASH_BYTES]: row for row, cut in enumerate(cuts)}

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder that made the vectors."""
        return fingerprint(self.name, self.revision, self.dim)

    def __len__(self) -> int:
        """How many texts have a vector."""
        return len(self._rows)

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """The stored vectors float32 [n, D]; no texts give [0, D].

        Raises `InvalidInput` when texts are missing; it gives their number and hashes, never a text.
        """
        keys = [self._key(text) for text in texts]
        missing = list(dict.fromkeys(key for key in keys if key not in self._rows))
        if missing:
            shown = ", ".join(key.hex() for key in missing[:3])
            raise InvalidInput(
                "vectors",
                f"{len(missing)} of {len(set(keys))} texts that are not in {self.path} (first: {shown})",
                f"texts that {self.name} {self.revision} has encoded into this file",
                f"Where {self.name} runs, index and search the same data with a cache, then write "
                f"the file: `zeromem-gpu vectors export --encoder {self.name} --out FILE`.",
            )
        rows = np.fromiter((self._rows[key] for key in keys), dtype=np.int64, count=len(keys))
        if progress is not None and len(keys):
            progress(len(keys))
        return self._vectors[rows]

    def _key(self, text: str) -> bytes:
        whole = text_hash(text, split=True)
        return whole if whole in self._rows else text_hash(text)


def _write(path: Path | str, hashes: Iterable[bytes], vectors: Vectors, encoder: Encoder) -> None:
    from safetensors.numpy import save_file

    packed = np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, _HASH_BYTES)
    facts = {
        "format": _FORMAT,
        "encoder": encoder.name,
        "revision": encoder.revision,
        "dim": str(encoder.dim),
        "max_tokens": str(encoder.max_tokens),
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        save_file({"hashes": np.ascontiguousarray(packed), "vectors": rows}, partial, metadata=facts)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _read(path: Path) -> tuple[dict[str, str], np.ndarray[tuple[int, int], np.dtype[np.uint8]], Vectors]:
    from safetensors import SafetensorError, safe_open

    def refuse(got: str) -> InvalidInput:
        return InvalidInput(
            "vectors", f"{path}: {got}", "a file that zeromem_gpu.encoders.write_vectors wrote"
        )

    try:
        with safe_open(path, framework="numpy") as file:
            facts = dict(file.metadata() or {})
            if facts.get("format") != _FORMAT:
                raise refuse(f"format {facts.get('format')!r}")
            hashes, vectors = file.get_tensor("hashes"), file.get_tensor("vectors")
    except (OSError, SafetensorError) as error:
        raise refuse(str(error)) from error
    if hashes.shape != (len(vectors), _HASH_BYTES) or vectors.shape[1:] != (int(facts["dim"]),):
        raise refuse(f"hashes {list(hashes.shape)} and vectors {list(vectors.shape)}")
    return facts, hashes, vectors
