"""Vectors made elsewhere: a safetensors file that knows texts by hash and stands in for an encoder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from zeromem_gpu.cache import DiskCache
from zeromem_gpu.encoders.lexical import LexicalWeights, fault_of
from zeromem_gpu.encoders.protocol import Encoder, Progress, Vectors, fingerprint, vector_form
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.text.normalize import clean

_FORMAT = "zeromem-vectors-1"
_HASH_BYTES = 16
# of texts with token weights: absent where no text has any
_WEIGHTS = ("weights.hashes", "weights.indptr", "weights.ids", "weights.weights")


def text_hash(text: str, split: bool = False) -> bytes:
    """BLAKE2b-16 of the cleaned text: the key of its vector in files and caches.

    A text that its encoder `split` has another key, as the same model's plain form only reads its start.
    """
    person = b"split" if split else b""
    return blake2b(clean(text).encode(), digest_size=_HASH_BYTES, person=person).digest()


def vector_namespace(encoder: Encoder) -> str:
    """The cache namespace that holds an encoder's vectors."""
    return f"vectors/{vector_form(encoder)}"


def weight_namespace(encoder: Encoder) -> str:
    """The cache namespace that holds an encoder's token weights."""
    return f"weights/{vector_form(encoder)}"


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
    """Write all vectors of `encoder` that the cache holds; returns how many. The texts are not needed.

    Token weights that it holds go into the same file.
    """
    items = list(cache.items(vector_namespace(encoder)))
    packed = b"".join(value for _, value in items)
    vectors = np.frombuffer(packed, dtype="<f4").astype(np.float32).reshape(len(items), encoder.dim)
    weighed = dict(cache.items(weight_namespace(encoder)))
    _write(path, (key for key, _ in items), vectors, encoder, weighed)
    return len(items)


class VectorFile:
    """An encoder that looks its vectors up in a file which `write_vectors` or `export_vectors` made.

    It gives token weights where the file has some. Name, revision, width and so the fingerprint are those
    of the encoder that made the vectors. Raises `InvalidInput` when the file is not one of these.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        facts, hashes, self._vectors, weighed, self._weights = _read(self.path)
        self.name = facts["encoder"]
        self.revision = facts["revision"]
        self.dim = int(facts["dim"])
        self.max_tokens = int(facts["max_tokens"])
        self._rows, self._weighed = _rows_of(hashes), _rows_of(weighed)

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
        rows = self._find(texts, self._rows, "texts that")
        if progress is not None and len(rows):
            progress(len(rows))
        found: Vectors = self._vectors[rows]
        return found

    @property
    def weighs(self) -> bool:
        """Whether the file has token weights."""
        return len(self._weighed) > 0

    def lexical_weights(self, texts: Sequence[str]) -> LexicalWeights:
        """The stored token weights of each text; raises as `encode`."""
        return self._weights.take(self._find(texts, self._weighed, "texts whose token weights"))

    def _find(self, texts: Sequence[str], known: Mapping[bytes, int], what: str) -> np.ndarray:
        """The row of each text, int64 [n]."""
        keys = [_key(text, known) for text in texts]
        missing = list(dict.fromkeys(key for key in keys if key not in known))
        if missing:
            shown = ", ".join(key.hex() for key in missing[:3])
            raise InvalidInput(
                "vectors",
                f"{len(missing)} of {len(set(keys))} {what} are not in {self.path} (first: {shown})",
                f"texts that {self.name} {self.revision} has encoded into this file",
                f"Where {self.name} runs, index and search the same data with a cache, then write "
                f"the file: `zeromem-gpu vectors export --encoder {self.name} --out FILE`.",
            )
        return np.fromiter((known[key] for key in keys), dtype=np.int64, count=len(keys))


def _key(text: str, known: Mapping[bytes, int]) -> bytes:
    whole = text_hash(text, split=True)
    return whole if whole in known else text_hash(text)


def _rows_of(hashes: np.ndarray) -> dict[bytes, int]:
    """The row of each hash, uint8 [n, 16]."""
    packed = hashes.tobytes()
    cuts = range(0, len(packed), _HASH_BYTES)
    return {packed[cut : cut + _HASH_BYTES]: row for row, cut in enumerate(cuts)}


def _as_rows(hashes: Iterable[bytes]) -> np.ndarray:
    """Hashes as uint8 [n, 16]."""
    return np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, _HASH_BYTES).copy()


def _write(
    path: Path | str, hashes: Iterable[bytes], vectors: Vectors, encoder: Encoder,
    weighed: Mapping[bytes, bytes] | None = None,
) -> None:  # fmt: skip
    from safetensors.numpy import save_file

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
        arrays = {"hashes": _as_rows(hashes), "vectors": np.ascontiguousarray(vectors, dtype=np.float32)}
        if weighed:
            weights = LexicalWeights.unpacked(list(weighed.values()))
            arrays |= dict(zip(_WEIGHTS, (_as_rows(weighed), *weights), strict=True))
        save_file(arrays, partial, metadata=facts)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _read(path: Path) -> tuple[dict[str, str], np.ndarray, Vectors, np.ndarray, LexicalWeights]:
    """Metadata, hashes and vectors; hashes and token weights of texts that have these."""
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
            weighed, weights = _as_rows(()), LexicalWeights.none(0)
            if set(_WEIGHTS) <= set(file.keys()):
                weighed, *arrays = map(file.get_tensor, _WEIGHTS)
                weights = LexicalWeights(*arrays)
    except (OSError, SafetensorError) as error:
        raise refuse(str(error)) from error
    if hashes.shape != (len(vectors), _HASH_BYTES) or vectors.shape[1:] != (int(facts["dim"]),):
        raise refuse(f"hashes {list(hashes.shape)} and vectors {list(vectors.shape)}")
    if weighed.shape[1:] != (_HASH_BYTES,) or (wrong := fault_of(weights, len(weighed))):
        raise refuse(f"token weights that {wrong or 'have other hashes'}")
    return facts, hashes, vectors, weighed, weights
