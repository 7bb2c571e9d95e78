"""An in-memory vector store: exact, a session filtered before anything is ranked, many vectors at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zeromem_gpu import InvalidInput
from zeromem_gpu.compat.zero_mem.protocols import unit_rows
from zeromem_gpu.compat.zero_mem.records import check_session

_FIRST_ROOM = 64
# questions whose scores are held at once
_AT_ONCE = 256


class InMemoryVectorStore:
    """Vectors under ids, searched by cosine; an id that is stored again is replaced."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._ids: list[str] = []
        self._payloads: list[dict[str, Any]] = []
        self._sessions: dict[Any, set[int]] = {}
        self._vectors = np.zeros((0, 0), np.float32)

    def __len__(self) -> int:
        """How many vectors are stored."""
        return len(self._ids)

    def upsert(self, ids: list[str], vectors: np.ndarray, payloads: list[dict[str, Any]]) -> None:
        """Store or replace vectors [n, D] with their payloads."""
        given = np.asarray(vectors, np.float32)
        if given.ndim != 2 or not len(ids) == len(given) == len(payloads):
            got = f"{len(ids)} ids, vectors {list(given.shape)}, {len(payloads)} payloads"
            raise InvalidInput("ids", got, "one vector [D] and one payload an id")
        if len(self._ids) and given.shape[1] != self._vectors.shape[1]:
            raise InvalidInput("vectors", f"width {given.shape[1]}", f"{self._vectors.shape[1]}, as stored")
        for name, row, payload in zip(ids, unit_rows(given), payloads, strict=True):
            place = self._rows.setdefault(name, len(self._ids))
            if place == len(self._ids):
                self._ids.append(name)
                self._payloads.append(payload)
                self._grow(given.shape[1])
            else:
                self._sessions[self._payloads[place].get("session_id")].remove(place)
                self._payloads[place] = payload
            self._vectors[place] = row
            self._sessions.setdefault(payload.get("session_id"), set()).add(place)

    def search(
        self, vector: np.ndarray, limit: int = 20, session_id: str | None = None
    ) -> list[tuple[str, float, dict[str, Any]]]:
        """The nearest (id, cosine, payload) of a session, or of all; ties in the order of arrival."""
        return self.search_batch(one_query(vector), limit, session_id)[0]

    def search_batch(
        self, vectors: np.ndarray, limit: int = 20, session_id: str | None = None
    ) -> list[list[tuple[str, float, dict[str, Any]]]]:
        """`search` for vectors [k, D]."""
        check_session(session_id)
        count = len(self._ids)
        rows = np.arange(count) if session_id is None else np.sort([*self._sessions.get(session_id, ())])
        rows = rows.astype(np.int64)
        if not len(rows):
            return [[] for _ in vectors]
        kept = self._vectors[:count] if session_id is None else self._vectors[rows]
        queries = query_rows(vectors, kept.shape[1])
        return [
            found
            for first in range(0, len(queries), _AT_ONCE)
            for found in self._best(queries[first : first + _AT_ONCE] @ kept.T, rows, limit)
        ]

    def _best(
        self, scores: np.ndarray, rows: np.ndarray, limit: int
    ) -> list[list[tuple[str, float, dict[str, Any]]]]:
        return [
            [
                (self._ids[rows[at]], float(one[at]), self._payloads[rows[at]])
                for at in best_places(one, limit)
            ]
            for one in scores
        ]

    def _grow(self, width: int) -> None:
        if len(self._ids) > len(self._vectors):
            room = np.zeros((max(2 * len(self._vectors), _FIRST_ROOM), width), np.float32)
            room[: len(self._vectors)] = self._vectors.reshape(-1, width)
            self._vectors = room


def one_query(vector: Any) -> np.ndarray:
    """One vector as the only row."""
    return np.asarray(vector)[None]


def query_rows(vectors: Any, width: int) -> np.ndarray:
    """Vectors of questions, float32 [k, width], of length 1; another shape is an `InvalidInput`."""
    rows = np.asarray(vectors)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise InvalidInput("vector", f"shape {list(rows.shape[1:])}", f"[{width}], as the vectors stored")
    return unit_rows(rows)


def best_places(scores: np.ndarray, limit: int) -> Sequence[int]:
    """Places of the `limit` best scores, the best first, equal ones in their order; NaN is none of them."""
    if np.isnan(scores).any():
        usable = np.flatnonzero(~np.isnan(scores))
        return [int(usable[at]) for at in best_places(scores[usable], limit)]
    if limit < len(scores):
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit] if limit > 0 else np.inf
        near = np.flatnonzero(scores >= least)
    else:
        near = np.arange(len(scores))
    order: list[int] = near[np.argsort(-scores[near], kind="stable")][: max(limit, 0)].tolist()
    return order
