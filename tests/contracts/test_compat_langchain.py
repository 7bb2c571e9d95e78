"""The LangChain retriever: LangChain's own suite, one engine batch for many questions, provenance, ids."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from tests.support import small_memory
from zeromem_gpu import Boundary, InvalidInput

pytest.importorskip("spacy", reason="questions are read with spaCy: the offline extra")
documents = pytest.importorskip("langchain_core.documents", reason="the langchain extra")
callbacks = pytest.importorskip("langchain_core.callbacks")
suite = pytest.importorskip(
    "langchain_tests.integration_tests", reason="the test extra brings langchain-tests"
)
ZeroMemRetriever = pytest.importorskip("zeromem_gpu.compat.langchain").ZeroMemRetriever

SAID = [
    (
        "Biscuit eats socks.",
        {"session": "feb", "speaker": "Ines", "turn": 0, "time": "2024-02-01T10:00:00"},
    ),
    ("The lock opens at six.", {"session": "feb", "speaker": "Owen", "turn": 1}),
    ("Mara paints boats.", {"page": 7, "source": "boats.pdf"}),
    ("Biscuit sleeps in the boat.", {}),
]


def some_documents():
    return [documents.Document(page_content=text, metadata=dict(meta)) for text, meta in SAID]


def filled(**options: Any):
    made = ZeroMemRetriever(memory=small_memory(), **options)
    made.add_documents(some_documents(), ids=["a", "b", "c", "d"])
    return made


class Recorder(callbacks.BaseCallbackHandler):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_retriever_start(self, serialized, query, **kwargs):
        self.heard.append(query)

    def on_retriever_end(self, found, **kwargs):
        self.heard.append([one.id for one in found])

    def on_retriever_error(self, error, **kwargs):
        self.heard.append(type(error))


@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore:.*is not an async function")
class TestStandardSuite(suite.RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return ZeroMemRetriever

    @property
    def retriever_constructor_params(self):
        return {"memory": filled().memory, "k": 2}

    @property
    def retriever_query_example(self):
        return "What does Biscuit eat?"


def test_provenance_and_scores_are_in_the_metadata() -> None:
    found = {one.id: one for one in filled(k=4).invoke("What does Biscuit eat?")}
    first = found["a"].metadata
    assert found["a"].page_content == "Biscuit eats socks."
    assert (first["session"], first["speaker"], first["turn"]) == ("feb", "Ines", 0)
    assert first["time"].startswith("2024-02-01T10:00")
    assert (first["bank"], first["start"], first["end"], first["rule"]) == ("default", 0, 19, "primary")
    assert first["score"] == max(one.metadata["score"] for one in found.values())
    assert {"graph_score", "hierarchy_score"} <= set(first)
    assert (found["c"].metadata["page"], found["c"].metadata["source"]) == (7, "boats.pdf")


def test_ids_are_kept_given_or_made() -> None:
    made = ZeroMemRetriever(memory=small_memory(), k=9)
    own = documents.Document(page_content="Mara again.", id="mine")
    assert made.add_documents([own, *some_documents()[:1]])[0] == "mine"
    assert len(set(made.add_documents(some_documents()[1:3]))) == 2
    made.add_documents([documents.Document(page_content="Mara at last.")], ids=["mine"])
    assert [one.page_content for one in made.invoke("Mara") if one.id == "mine"] == ["Mara at last."]
    with pytest.raises(InvalidInput, match="1 ids"):
        made.add_documents(some_documents(), ids=["x"])


@pytest.mark.parametrize("form", ["batch", "abatch"])
def test_a_batch_is_one_search_of_the_engine(form, monkeypatch: pytest.MonkeyPatch) -> None:
    made, calls = filled(k=2), []
    search = made.memory.search
    monkeypatch.setattr(
        made.memory, "search", lambda query, **more: calls.append(len(query)) or search(query, **more)
    )
    asked = ["What does Biscuit eat?", "Who paints boats?", "When does the lock open?"]
    heard = Recorder()
    config = {"callbacks": [heard]}
    found = made.batch(asked, config) if form == "batch" else asyncio.run(made.abatch(asked, config))
    assert calls == [3]
    assert [[one.id for one in part] for part in found] == heard.heard[1::2]
    assert heard.heard[::2] == asked
    assert [[one.id for one in made.invoke(text)] for text in asked] == heard.heard[1::2]
    assert made.batch([]) == []


@pytest.mark.parametrize("form", ["batch", "abatch"])
def test_what_fails_is_returned_where_asked_for(form) -> None:
    made, heard = filled(k=1), Recorder()

    def run(**options):
        asked = ["What does Biscuit eat?", "  "]
        config = {"callbacks": [heard]}
        if form == "batch":
            return made.batch(asked, config, **options)
        return asyncio.run(made.abatch(asked, config, **options))

    first, second = run(return_exceptions=True)
    assert [one.id for one in first] == ["a"]
    assert isinstance(second, InvalidInput)
    assert heard.heard == ["What does Biscuit eat?", ["a"], "  ", InvalidInput]
    with pytest.raises(InvalidInput):
        run()


def test_k_bank_and_boundary_hold() -> None:
    made = filled(k=4)
    assert len(made.batch(["Biscuit", "boats"], k=1)[0]) == 1
    within = filled(k=4, boundary=Boundary(sessions="feb"))
    assert {one.id for one in within.invoke("Biscuit and the lock")} == {"a", "b"}
    other = ZeroMemRetriever(memory=made.memory, bank="other")
    assert other.invoke("Biscuit") == []
    assert asyncio.run(other.aadd_documents(some_documents()[:1], ["a"])) == ["a"]
    assert [one.metadata["bank"] for one in other.invoke("Biscuit")] == ["other"]


def test_without_langchain_the_extra_is_named() -> None:
    code = "import sys; sys.modules['langchain_core'] = None; import zeromem_gpu.compat.langchain"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingDependency: langchain-core is needed" in done.stderr
    assert "zeromem-gpu[langchain]" in done.stderr
