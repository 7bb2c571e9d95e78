"""The Zero-Mem interface: the calls and shapes of the described front end without its faults."""

from __future__ import annotations

import importlib
from collections import Counter
from datetime import datetime

import numpy as np
import pytest

from tests.contracts import zero_mem_plain as plain
from zeromem_gpu import InvalidInput, MissingDependency

pytest.importorskip("spacy", reason="questions are read with spaCy: the offline extra")
zero_mem = pytest.importorskip("zeromem_gpu.compat.zero_mem")


def engine(**options):
    parts = zero_mem.HashEmbedder(64), zero_mem.InMemoryVectorStore(), zero_mem.RegexEntityExtractor()
    return zero_mem.ZeroMemEngine(*parts, **options)


def turns(*said, session="s"):
    return [
        zero_mem.Trace(f"{session}{at}", session, at, text, None, speaker)
        for at, (speaker, text) in enumerate(said)
    ]


def test_an_application_finds_the_same_shapes_behind_one_changed_import() -> None:
    theirs, ours = plain.application(plain), plain.application(zero_mem)
    assert ours == theirs


def test_description_names_are_all_there() -> None:
    names = """Trace QueryProfile Evidence Candidate Embedder HashEmbedder BGEM3Embedder EntityExtractor
        RegexEntityExtractor SpacyEntityExtractor VectorStore InMemoryVectorStore QdrantVectorStore
        ZeroMemEngine EntityContextGraph BM25Index EvidenceCalibrator build_reader_prompt
        answer_with_reader create_engine"""
    assert [name for name in names.split() if not hasattr(zero_mem, name)] == []
    used = "traces graph lexical hierarchy router calibrator vector_store embedder".split()
    assert [name for name in used if not hasattr(engine(), name)] == []


def test_users_own_embedder_extractor_and_store_are_used_and_written_through() -> None:
    class Embedder:
        dim = 16

        def encode(self, texts):
            return 3.0 * np.random.default_rng(0).standard_normal((1, 16)).repeat(
                len(texts), 0
            )  # float64, not unit

    class Extractor:
        def extract(self, text):
            return ["BISCUIT"] if "biscuit" in text.lower() else []

    class Store:
        written: dict = {}  # noqa: RUF012

        def upsert(self, ids, vectors, payloads):
            self.written |= dict(zip(ids, zip(vectors, payloads, strict=True), strict=True))

        def search(self, vector, limit=20, session_id=None):
            raise AssertionError("the engine reads its own index")

    made = zero_mem.ZeroMemEngine(Embedder(), Store(), Extractor())
    made.ingest(turns(("Ines", "my biscuit"), ("Owen", "no name here")))
    evidence, _ = made.retrieve("Where is biscuit?")
    assert evidence[0].trace.id == "s0"
    vector, payload = Store.written["s0"]
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert payload == {"session_id": "s", "turn_index": 0, "created_at": None, "speaker": "Ines"}


def test_batch_gives_what_single_calls_give() -> None:
    made = engine(top_k=3)
    made.ingest(turns(("Ines", "Biscuit eats socks."), ("Owen", "The lock opens at six."), session="one"))
    made.ingest(turns(("Ines", "Biscuit sleeps."), ("Owen", "Mara paints boats."), session="two"))
    asked = [("What does Biscuit eat?", "one"), ("Who paints boats?", None), ("Who paints boats?", "one")]
    many = made.retrieve_batch([text for text, _ in asked], [session for _, session in asked])
    for (text, session), (evidence, debug) in zip(asked, many, strict=True):
        alone, told = made.retrieve(text, session)
        assert [one.trace.id for one in evidence] == [one.trace.id for one in alone]
        assert [one.score for one in evidence] == pytest.approx([one.score for one in alone], abs=1e-5)
        assert debug["closed_trace_ids"] == told["closed_trace_ids"]
    assert made.retrieve_batch([]) == []


def test_evidence_is_bounded_by_top_k_and_three() -> None:
    made = engine(top_k=2)
    made.ingest(turns(*[("Ines", f"Biscuit story number {at}") for at in range(40)]))
    evidence, debug = made.retrieve("Tell the Biscuit story")
    assert len(debug["main_trace_ids"]) == 2
    assert len(evidence) <= 5
    assert len(debug["graph_ranking"]) == len(debug["hierarchy_ranking"]) == 10
    scores = [score for _, score in debug["graph_ranking"]]
    assert scores == sorted(scores, reverse=True)


class TestFaultsLeftBehind:
    """One test a row of the table in zeromem_gpu/compat/README.md, the plain front end beside ours."""

    def fill(self, zeromem):
        made = zeromem.ZeroMemEngine(
            zeromem.HashEmbedder(64), zeromem.InMemoryVectorStore(), zeromem.RegexEntityExtractor(), top_k=5
        )
        made.ingest([zeromem.Trace(f"l{at}", "large", at, f"the lock story {at}") for at in range(50)])
        made.ingest([zeromem.Trace("s0", "small", 0, "a boat and a lock")])
        return made

    def test_small_session_beside_a_large_one_is_found(self) -> None:
        query = "the lock story"
        assert self.fill(plain).retrieve(query, "small")[0] == []
        assert [one.trace.id for one in self.fill(zero_mem).retrieve(query, "small")[0]] == ["s0"]

    def test_empty_session_is_an_error_not_all_sessions(self) -> None:
        assert len(self.fill(plain).retrieve("the lock story", "")[0]) == 5
        with pytest.raises(InvalidInput, match="session_id: got ''; allowed: None for all sessions"):
            self.fill(zero_mem).retrieve("the lock story", "")
        with pytest.raises(InvalidInput, match="session_id"):
            zero_mem.InMemoryVectorStore().search(np.ones(4), session_id="")

    def test_unknown_session_has_no_evidence(self) -> None:
        assert self.fill(zero_mem).retrieve("the lock story", "nowhere")[0] == []

    def test_ingesting_an_id_again_replaces_it(self) -> None:
        for zeromem, copies in ((plain, 2), (zero_mem, 1)):
            made = self.fill(zeromem)
            made.ingest([zeromem.Trace("s0", "small", 0, "a ferry, no more")])
            found = made.vector_store.search(made.embedder.encode(["a ferry boat"])[0], 99, "small")
            assert len([name for name, _, _ in found if name == "s0"]) == copies
        evidence, _ = made.retrieve("ferry", "small")
        assert [one.trace.text for one in evidence] == ["a ferry, no more"]
        assert len(made.traces) == 51

    def test_qdrant_takes_plain_ids(self) -> None:
        pytest.importorskip("qdrant_client", reason="the qdrant extra")
        store = zero_mem.QdrantVectorStore(":memory:", "c", 4)
        payloads = [{"session_id": "one"}, {"session_id": "two"}]
        store.upsert(["turn 1", "turn 2"], np.eye(4)[:2], payloads)
        store.upsert(["turn 1"], np.eye(4)[2:3], payloads[:1])
        assert store.search(np.eye(4)[2], 1) == [("turn 1", pytest.approx(1), payloads[0])]
        assert [name for name, _, _ in store.search(np.eye(4)[2], 5, "two")] == ["turn 2"]

    def test_bad_trace_stores_nothing(self) -> None:
        made = self.fill(zero_mem)
        with pytest.raises(InvalidInput, match="session of trace 'y'"):
            made.ingest([zero_mem.Trace("x", "s", 0, "fine"), zero_mem.Trace("y", "", 0, "no session")])
        assert "x" not in made.traces


def test_parts_follow_the_engine_once_used() -> None:
    made = engine()
    made.ingest(turns(("Ines", "Biscuit eats socks."), ("Owen", "Nothing here.")))
    assert [name for name, _ in made.lexical.search("socks", 5)] == ["s0"]
    made.ingest(turns(("Mara", "More socks for Biscuit."), session="t"))
    assert {name for name, _ in made.lexical.search("socks", 5)} == {"s0", "t0"}
    assert made.graph.bridge_contexts(["s0"]) == ["t0"]
    ranked = [name for name, _ in made.hierarchy.search("socks", 3)]
    assert sorted(ranked) == ["s0", "s1", "t0"]
    assert ranked[2] == "s1"
    assert made.router.profile("When did Biscuit eat?").answer_type == "date"


class TestLexicalIndex:
    TEXTS = (
        "Ines sailed to the lock",
        "the lock, the lock!",
        "boats, sailing boats",
        "",
        "東京都 の boats",
    )

    def index(self):
        made = zero_mem.BM25Index(k1=1.5, b=0.75)
        for at, text in enumerate(self.TEXTS):
            made.add(f"d{at}", text)
        return made

    def test_scores_are_bm25(self) -> None:
        made, words = (
            self.index(),
            [["ine", "sail", "lock"], ["lock", "lock"], ["boat", "sail", "boat"], [], []],
        )
        words[4] = ["東京", "京都", "の", "boat"]
        average = np.mean([len(one) for one in words])
        for name, own in zip(("d0", "d1", "d2", "d3", "d4"), map(Counter, words), strict=True):
            expected = 0.0
            for word in ("sail", "lock"):
                holders = sum(word in one for one in words)
                idf = np.log1p((5 - holders + 0.5) / (holders + 0.5))
                norm = 1.5 * (0.25 + 0.75 * own.total() / average)
                expected += idf * own[word] * 2.5 / (own[word] + norm)
            assert made.score("sailing locks", name) == pytest.approx(expected, rel=1e-6)

    def test_search_ranks_by_score_and_only_what_matches(self) -> None:
        made = self.index()
        found = made.search("sailing locks", 10)
        assert [name for name, _ in found] == sorted(
            (name for name, _ in found), key=lambda name: -made.score("sailing locks", name)
        )
        assert {name for name, _ in found} == {"d0", "d1", "d2"}
        assert [score for _, score in found] == pytest.approx(
            [made.score("sailing locks", name) for name, _ in found], rel=1e-5
        )
        assert made.search("sailing locks", 10, candidate_ids=["d2", "unknown"])[0][0] == "d2"
        assert made.search_batch(["sailing locks", "zzz", "京都"], 1) == [
            found[:1],
            [],
            made.search("京都", 1),
        ]

    def test_replacing_and_removing(self) -> None:
        made = self.index()
        made.add("d0", "a ferry")
        made.remove("d2")
        made.remove("never there")
        assert [name for name, _ in made.search("sail ferry", 5)] == ["d0"]
        assert len(made) == 4
        assert zero_mem.BM25Index().search("word", 3) == []


class TestGraphObject:
    def graph(self):
        embedder = zero_mem.HashEmbedder(64)
        made = zero_mem.EntityContextGraph(embedder, zero_mem.RegexEntityExtractor())
        for one in turns(("Ines", "Biscuit met Rex."), ("Owen", "Rain."), ("Ines", "Rex left.")):
            made.add_trace(one, embedder.encode([one.text])[0])
        return made, embedder

    def test_entities_by_name_and_traces_by_pagerank(self) -> None:
        made, embedder = self.graph()
        vector = embedder.encode(["Rex"])[0]
        (name, score), *_ = made.matched_entities(vector, top_n=1)
        assert (name, round(score, 5)) == ("rex", 1.0)
        found = made.search(vector, {}, limit=2)
        assert len(found) == 2
        assert {one for one, _ in made.search(vector, {})} == {"s0", "s1", "s2"}
        prior = made.search(np.zeros(64), {"s1": 1.0})
        assert prior[0][0] == "s1"
        assert made.search(np.zeros(64), {"unknown": 1.0}) == []
        many = made.search_batch(np.stack([vector, np.zeros(64)]), [{}, {"s1": 1.0}], 2)
        for one, other in zip(many, (found, prior[:2]), strict=True):
            assert dict(one) == pytest.approx(dict(other), abs=1e-6)

    def test_bridges_leave_speakers_out_and_new_text_replaces_old(self) -> None:
        made, _ = self.graph()
        assert made.bridge_contexts(["s0"]) == ["s2"]
        made.add_trace(zero_mem.Trace("s2", "s", 2, "Nobody left.", None, "Ines"))
        assert made.bridge_contexts(["s0"]) == []

    def test_empty_graph(self) -> None:
        empty = zero_mem.EntityContextGraph(zero_mem.HashEmbedder(8), zero_mem.RegexEntityExtractor())
        assert empty.search(np.ones(8), {}) == []
        assert empty.matched_entities(np.ones(8)) == []
        assert empty.bridge_contexts(["x"]) == []


class TestVectorStore:
    def test_search_is_exact_and_batched(self) -> None:
        rng = np.random.default_rng(1)
        vectors = rng.standard_normal((300, 8))
        store = zero_mem.InMemoryVectorStore()
        payloads = [{"session_id": f"s{at % 3}", "turn_index": at} for at in range(300)]
        for first in range(0, 300, 7):  # grows by parts
            names = [f"t{at}" for at in range(first, min(first + 7, 300))]
            store.upsert(names, vectors[first : first + 7], payloads[first : first + 7])
        cosines = vectors @ vectors[5] / np.linalg.norm(vectors, axis=1) / np.linalg.norm(vectors[5])
        expected = [f"t{at}" for at in np.argsort(-cosines) if at % 3 == 1][:4]
        assert [name for name, _, _ in store.search(vectors[5], 4, "s1")] == expected
        for one, found in zip(vectors, store.search_batch(vectors[:3], 4), strict=False):
            assert [name for name, _, _ in found] == [name for name, _, _ in store.search(one, 4)]
        store.upsert(["t5"], -vectors[5:6], [{"session_id": "moved"}])
        assert len(store) == 300
        assert store.search(vectors[5], 1)[0][0] != "t5"
        assert [name for name, _, _ in store.search(vectors[5], 9, "moved")] == ["t5"]

    def test_bad_input_is_named(self) -> None:
        store = zero_mem.InMemoryVectorStore()
        with pytest.raises(InvalidInput, match="2 ids"):
            store.upsert(["a", "b"], np.ones((1, 4)), [{}])
        store.upsert(["a"], np.ones((1, 4)), [{}])
        with pytest.raises(InvalidInput, match="width 5"):
            store.upsert(["b"], np.ones((1, 5)), [{}])


class TestReading:
    def evidence(self):
        trace = zero_mem.Trace("t", "s", 0, "We painted it yesterday.", datetime(2023, 5, 10), "Mara")
        other = zero_mem.Trace("o", "other", 0, "Mara again.")
        profile = zero_mem.QueryProfile("When did Mara paint?", ["Mara"], [], "date", [], "s", "local")
        return [trace, other], profile

    def test_filter_and_rank_keeps_the_session_and_prefers_the_subject(self) -> None:
        (trace, other), profile = self.evidence()
        plain_one = zero_mem.Trace("p", "s", 1, "Rain.")
        found = zero_mem.EvidenceCalibrator().filter_and_rank(
            [plain_one, trace, other], {"p": 0.5, "t": 0.49}, profile
        )
        assert [one.trace.id for one in found] == ["t", "p"]

    def test_answers_are_calibrated_against_evidence(self) -> None:
        (trace, _), profile = self.evidence()
        evidence = [zero_mem.Evidence(trace, 1.0, [], [])]
        said = zero_mem.answer_with_reader(
            "When did Mara paint?", evidence, lambda prompt: "yesterday" if "Mara" in prompt else "",
            zero_mem.EvidenceCalibrator(), profile,
        )  # fmt: skip
        assert "9 May 2023" in said
        assert zero_mem.answer_with_reader("When?", evidence, lambda _: " on Friday ") == "on Friday"
        assert "We painted it" in zero_mem.build_reader_prompt("When?", evidence)


class TestFactory:
    def test_defaults_need_no_model_download(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("ZEROMEM_EMBEDDER", "ZEROMEM_NER", "ZEROMEM_VECTOR_BACKEND"):
            monkeypatch.delenv(name, raising=False)
        made = zero_mem.create_engine()
        assert isinstance(made.embedder, zero_mem.HashEmbedder)
        assert isinstance(made.vector_store, zero_mem.InMemoryVectorStore)

    def test_variables_choose_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("qdrant_client", reason="the qdrant extra")
        monkeypatch.setenv("ZEROMEM_VECTOR_BACKEND", "qdrant")
        monkeypatch.setenv("QDRANT_URL", ":memory:")
        monkeypatch.setenv("QDRANT_COLLECTION", "mine")
        made = zero_mem.create_engine()
        assert made.vector_store.collection == "mine"
        made.ingest([zero_mem.Trace("plain id", "s", 0, "Biscuit eats socks.")])
        assert made.vector_store.search(made.embedder.encode(["socks"])[0], 1)[0][0] == "plain id"

    def test_unknown_value_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZEROMEM_EMBEDDER", "word2vec")
        with pytest.raises(InvalidInput, match="ZEROMEM_EMBEDDER: got 'word2vec'; allowed: hash or bge-m3"):
            zero_mem.create_engine()


def test_missing_qdrant_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(importlib.import_module("sys").modules, "qdrant_client", None)
    with pytest.raises(MissingDependency, match=r"zeromem-gpu\[qdrant\]"):
        zero_mem.QdrantVectorStore(":memory:")
