"""A LangChain retriever over a `Memory`: a batch of questions is one batch of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from zeromem_gpu import Boundary, Evidence, InvalidInput, Memory, MissingDependency, Trace

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables.config import get_config_list, run_in_executor
except ImportError as error:
    raise MissingDependency(
        "langchain-core is needed for zeromem_gpu.compat.langchain: pip install 'zeromem-gpu[langchain]'."
    ) from error

# metadata of a document that are fields of a trace
_FIELDS = ("session", "turn", "time", "speaker", "role", "source", "caption")


class ZeroMemRetriever(BaseRetriever):
    """Documents of one bank by a `Memory`'s ranking.

    `k` documents come back where the bank holds as many, one a unit: a long document is returned in the
    part that answers. `Document.id` is the trace id; metadata are the document's own, with `score`,
    `graph_score`, `hierarchy_score`, `rule`, `bank`, `start`, `end` and, where known, session, turn, time
    and speaker.
    """

    memory: Memory
    bank: str = "default"
    k: int = 5
    boundary: Boundary | None = None

    def add_documents(self, documents: Sequence[Document], ids: Sequence[str] | None = None) -> list[str]:
        """Add documents, or replace those whose id is there; returns their ids.

        Ids are those given here, else each document's own, else new ones. Metadata named session, turn,
        time, speaker, role, source or caption become the trace's; a document without a session is one of
        its own.
        """
        if ids is not None and len(ids) != len(documents):
            raise InvalidInput("ids", f"{len(ids)} ids", f"{len(documents)}, one a document")
        given_ids: Sequence[str | None] = [None] * len(documents) if ids is None else ids
        names = [
            given or document.id or str(uuid4())
            for document, given in zip(documents, given_ids, strict=True)
        ]
        self.memory.add([_trace(name, one, self.bank) for name, one in zip(names, documents, strict=True)])
        return names

    async def aadd_documents(
        self, documents: Sequence[Document], ids: Sequence[str] | None = None
    ) -> list[str]:
        """`add_documents` in a thread."""
        names: list[str] = await run_in_executor(None, self.add_documents, documents, ids)
        return names

    def batch(
        self, inputs: list[str], config: Any = None, *, return_exceptions: bool = False, **kwargs: Any
    ) -> list[Any]:
        """All questions in one batch of the engine; callbacks hear of each."""
        found = self._search_all(inputs, kwargs.get("k"), return_exceptions)
        told: list[Any] = []
        for text, one, own in zip(inputs, found, get_config_list(config, len(inputs)), strict=True):
            try:
                told.append(self.invoke(text, own, **kwargs, found=one))
            except Exception as error:
                if not return_exceptions:
                    raise
                told.append(error)
        return told

    async def abatch(
        self, inputs: list[str], config: Any = None, *, return_exceptions: bool = False, **kwargs: Any
    ) -> list[Any]:
        """As `batch`, the search in a thread."""
        found = await run_in_executor(None, self._search_all, inputs, kwargs.get("k"), return_exceptions)
        told: list[Any] = []
        for text, one, own in zip(inputs, found, get_config_list(config, len(inputs)), strict=True):
            try:
                told.append(await self.ainvoke(text, own, **kwargs, found=one))
            except Exception as error:
                if not return_exceptions:
                    raise
                told.append(error)
        return told

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, k: int | None = None,
        found: list[Document] | Exception | None = None,
    ) -> list[Document]:  # fmt: skip
        if isinstance(found, Exception):
            raise found
        return self._search([query], k)[0] if found is None else found

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any, k: int | None = None,
        found: list[Document] | Exception | None = None,
    ) -> list[Document]:  # fmt: skip
        if isinstance(found, Exception):
            raise found
        if found is None:
            results: list[list[Document]] = await run_in_executor(None, self._search, [query], k)
            return results[0]
        return found

    def _search_all(
        self, queries: Sequence[str], k: int | None, apart: bool
    ) -> list[list[Document] | Exception]:
        """The documents of each question; with `apart`, what fails for one question is its own error."""
        try:
            return list(self._search(queries, k))
        except InvalidInput:
            if not apart:
                raise
        found: list[list[Document] | Exception] = []
        for query in queries:
            try:
                found += self._search([query], k)
            except InvalidInput as error:
                found.append(error)
        return found

    def _search(self, queries: Sequence[str], k: int | None) -> list[list[Document]]:
        count = self.k if k is None else k
        results = self.memory.search(
            list(queries), bank=self.bank, boundary=self.boundary, top_k=count, limit=count
        )
        return [[_document(one) for one in result] for result in results]


def _trace(name: str, document: Document, bank: str) -> Trace:
    own = dict(document.metadata)
    fields = {key: own.pop(key) for key in _FIELDS if own.get(key) is not None}
    return Trace(name, document.page_content, bank, **{"session": name, **fields}, metadata=own)


def _document(one: Evidence) -> Document:
    trace = one.trace
    known = {key: getattr(trace, key) for key in _FIELDS if getattr(trace, key) is not None}
    scores = {
        "score": one.score, "graph_score": one.graph_score, "hierarchy_score": one.hierarchy_score,
        "rule": one.rule, "bank": trace.bank, "start": one.start, "end": one.end,
    }  # fmt: skip
    return Document(page_content=one.text, metadata={**trace.metadata, **known, **scores}, id=trace.id)
