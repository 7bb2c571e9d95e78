"""Qdrant as a vector store; its points take UUIDs, so an id becomes one and goes along in the payload."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from zeromem_gpu import MissingDependency
from zeromem_gpu.compat.zero_mem.records import check_session

_ID = "trace_id"
_AT_ONCE = 256


class QdrantVectorStore:
    """A collection of a Qdrant server, made when it is not there.

    Args:
        url: of the server; ":memory:" keeps everything in this process.
        collection: its name.
        vector_size: the width of vectors.

    Raises `MissingDependency` without qdrant-client.
    """

    def __init__(
        self, url: str = "http://localhost:6333", collection: str = "zeromem", vector_size: int = 1024
    ) -> None:
        try:
            from qdrant_client import QdrantClient, models
        except ImportError as error:
            raise MissingDependency(
                "qdrant-client is needed for QdrantVectorStore: pip install 'zeromem-gpu[qdrant]'."
            ) from error
        self.collection, self._models = collection, models
        self._client = QdrantClient(":memory:") if url == ":memory:" else QdrantClient(url=url)
        if not self._client.collection_exists(collection):
            size = models.VectorParams(size=vector_size, distance=models.Distance.COSINE)
            self._client.create_collection(collection, vectors_config=size)

    def upsert(self, ids: list[str], vectors: np.ndarray, payloads: list[dict[str, Any]]) -> None:
        """Store or replace vectors [n, D] with their payloads."""
        points = [
            self._models.PointStruct(
                id=str(uuid5(NAMESPACE_URL, name)), vector=vector.tolist(), payload={**payload, _ID: name}
            )
            for name, vector, payload in zip(ids, np.asarray(vectors), payloads, strict=True)
        ]
        for first in range(0, len(points), _AT_ONCE):
            self._client.upsert(self.collection, points[first : first + _AT_ONCE], wait=True)

    def search(
        self, vector: np.ndarray, limit: int = 20, session_id: str | None = None
    ) -> list[tuple[str, float, dict[str, Any]]]:
        """The nearest (id, cosine, payload) of a session, or of all."""
        check_session(session_id)
        only = None
        if session_id is not None:
            match = self._models.MatchValue(value=session_id)
            only = self._models.Filter(must=[self._models.FieldCondition(key="session_id", match=match)])
        found = self._client.query_points(
            self.collection, query=np.asarray(vector).tolist(), limit=limit, query_filter=only
        )
        points = [(dict(point.payload or {}), float(point.score)) for point in found.points]
        return [(str(payload.pop(_ID)), score, payload) for payload, score in points]
