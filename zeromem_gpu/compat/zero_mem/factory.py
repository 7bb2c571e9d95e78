"""An engine from environment variables."""

from __future__ import annotations

import os

from zeromem_gpu import InvalidInput
from zeromem_gpu.compat.zero_mem.embedders import BGEM3Embedder, HashEmbedder
from zeromem_gpu.compat.zero_mem.engine import ZeroMemEngine
from zeromem_gpu.compat.zero_mem.extractors import RegexEntityExtractor, SpacyEntityExtractor
from zeromem_gpu.compat.zero_mem.protocols import Embedder, EntityExtractor, VectorStore
from zeromem_gpu.compat.zero_mem.qdrant import QdrantVectorStore
from zeromem_gpu.compat.zero_mem.stores import InMemoryVectorStore


def create_engine() -> ZeroMemEngine:
    """The engine that the environment describes.

    ZEROMEM_EMBEDDER (hash, bge-m3) with BGE_MODEL, ZEROMEM_NER (regex, spacy) with SPACY_MODEL,
    ZEROMEM_VECTOR_BACKEND (memory, qdrant) with QDRANT_URL and QDRANT_COLLECTION. What is not set takes the
    first of each; another value is an `InvalidInput`.
    """
    embedder: Embedder = HashEmbedder()
    extractor: EntityExtractor = RegexEntityExtractor()
    store: VectorStore = InMemoryVectorStore()
    if _choice("ZEROMEM_EMBEDDER", "hash", "bge-m3") == "bge-m3":
        embedder = BGEM3Embedder(os.environ.get("BGE_MODEL") or "BAAI/bge-m3")
    if _choice("ZEROMEM_NER", "regex", "spacy") == "spacy":
        extractor = SpacyEntityExtractor(os.environ.get("SPACY_MODEL") or "xx_ent_wiki_sm")
    if _choice("ZEROMEM_VECTOR_BACKEND", "memory", "qdrant") == "qdrant":
        url = os.environ.get("QDRANT_URL") or "http://localhost:6333"
        store = QdrantVectorStore(url, os.environ.get("QDRANT_COLLECTION") or "zeromem", embedder.dim)
    return ZeroMemEngine(embedder, store, extractor)


def _choice(name: str, *allowed: str) -> str:
    value = os.environ.get(name) or allowed[0]
    if value not in allowed:
        raise InvalidInput(name, repr(value), " or ".join(allowed))
    return value
