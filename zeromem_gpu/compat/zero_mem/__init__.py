"""The names and shapes of the public pure-Python Zero-Mem front end, served by this engine.

    from zeromem_gpu.compat.zero_mem import Trace, ZeroMemEngine

Calls, arguments and results are the front end's; scores are this engine's. `retrieve_batch` and the other
`..._batch` methods answer many questions at once.
"""

from zeromem_gpu.compat.zero_mem.calibrator import (
    EvidenceCalibrator,
    answer_with_reader,
    build_reader_prompt,
)
from zeromem_gpu.compat.zero_mem.embedders import BGEM3Embedder, HashEmbedder
from zeromem_gpu.compat.zero_mem.engine import ZeroMemEngine
from zeromem_gpu.compat.zero_mem.extractors import RegexEntityExtractor, SpacyEntityExtractor
from zeromem_gpu.compat.zero_mem.factory import create_engine
from zeromem_gpu.compat.zero_mem.graph import EntityContextGraph
from zeromem_gpu.compat.zero_mem.lexical import BM25Index
from zeromem_gpu.compat.zero_mem.protocols import Embedder, EntityExtractor, VectorStore
from zeromem_gpu.compat.zero_mem.qdrant import QdrantVectorStore
from zeromem_gpu.compat.zero_mem.records import Candidate, Evidence, QueryProfile, Trace
from zeromem_gpu.compat.zero_mem.stores import InMemoryVectorStore

__all__ = [
    "BGEM3Embedder",
    "BM25Index",
    "Candidate",
    "Embedder",
    "EntityContextGraph",
    "EntityExtractor",
    "Evidence",
    "EvidenceCalibrator",
    "HashEmbedder",
    "InMemoryVectorStore",
    "QdrantVectorStore",
    "QueryProfile",
    "RegexEntityExtractor",
    "SpacyEntityExtractor",
    "Trace",
    "VectorStore",
    "ZeroMemEngine",
    "answer_with_reader",
    "build_reader_prompt",
    "create_engine",
]
