"""The Zero-Mem interface: the calls and shapes of the described front end without its faults."""

from __future__ import annotations

import importlib
import threading
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


def test_search_between_index_and_traces_of_an_ingest_waits_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, found = engine(), []
    made.ingest(turns(("Ines", "Biscuit sleeps.")))
    made.retrieve("Biscuit")  # models are loaded from here on
    add = made._memory.add

    def add_and_let_another_search(traces):
        add(traces)
        other = threading.Thread(target=lambda: found.append(made.retrieve("Biscuit", "t")[0][0].trace.id))
        other.start()
        other.join(0.5)
        started.append(other)

    started: list[threading.Thread] = []
    monkeypatch.setattr(made._memory, "add", add_and_let_another_search)
    made.ingest(turns(("Ines", "Biscuit eats socks."), session="t"))
    started[0].join()
    assert found == ["t0"]


def test_turn_without_a_place_does_not_break_the_graph() -> None:
    made = engine()
    made.ingest([*turns(("Ines", "Biscuit.")), zero_mem.Trace("later", "s", None, "Rain.")])
    assert {name for name, _ in made.graph.search(np.zeros(64), {"later": 1.0})} == {"later", "s0"}


def test_subclass_of_the_spacy_extractor_is_asked() -> None:
    class Pets(zero_mem.SpacyEntityExtractor):
        def extract(self, text):
            return ["sock"] if "sock" in text else []

    parts = zero_mem.HashEmbedder(64), zero_mem.InMemoryVectorStore(), Pets("en_core_web_sm")
    made = zero_mem.ZeroMemEngine(*parts)
    made.ingest([zero_mem.Trace("a", "s", 0, "A sock!"), zero_mem.Trace("b", "t", 0, "One sock more.")])
    assert made.graph.bridge_contexts(["a"]) == ["b"]
    (mentions,) = made._memory._toolbox.tools().extractor.extract(["A sock!"])
    assert [one.name for one in mentions] == ["sock"]


class Says:
    """An embedder or extractor that answers with what it was given."""

    dim = 4

    def __init__(self, answer):
        self.answer = answer

    def encode(self, texts):
        return self.answer

    def extract(self, text):
        return self.answer


class TestBadParts:
    @pytest.mark.parametrize(
        "answer", ["Biscuit", None, [("Biscuit", "PET")]], ids=["str", "None", "pairs"]
    )
    def test_extractor_that_gives_no_names_stores_nothing(self, answer) -> None:
        parts = zero_mem.HashEmbedder(8), zero_mem.InMemoryVectorStore(), Says(answer)
        made = zero_mem.ZeroMemEngine(*parts)
        with pytest.raises(InvalidInput, match=r"entity_extractor: got .*; allowed: a list of names"):
            made.ingest(turns(("Ines", "Biscuit eats.")))
        assert made.traces == {}
        with pytest.raises(InvalidInput, match="entity_extractor"):
            zero_mem.EntityContextGraph(*parts[::2]).add_trace(turns(("Ines", "Biscuit eats."))[0])

    @pytest.mark.parametrize(
        "answer", [[[1.0], [1.0, 2.0]], [["a"] * 4], np.ones((9, 4))], ids=["ragged", "words", "nine"]
    )
    def test_embedder_that_gives_no_vectors_is_named(self, answer) -> None:
        parts = Says(answer), zero_mem.InMemoryVectorStore(), zero_mem.RegexEntityExtractor()
        with pytest.raises(InvalidInput, match="embedder: got "):
            zero_mem.ZeroMemEngine(*parts).ingest(turns(("Ines", "Biscuit eats.")))
        graph = zero_mem.EntityContextGraph(*parts[::2])
        graph.add_trace(turns(("Ines", "Biscuit eats."))[0])
        with pytest.raises(InvalidInput, match="embedder: got "):
            graph.search(np.ones(4), {})

    def test_what_is_no_list_of_traces_or_no_session_is_named(self) -> None:
        made = engine()
        with pytest.raises(InvalidInput, match="traces: got one Trace"):
            made.ingest(turns(("Ines", "Biscuit."))[0])
        with pytest.raises(InvalidInput, match=r"traces\[0\]: got type"):
            made.ingest([type("Half", (), {"session_id": "s"})])
        with pytest.raises(InvalidInput, match="session_id: got 3"):
            made.retrieve("Biscuit?", 3)


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

    def test_str_is_not_taken_for_a_list_of_letters(self) -> None:
        with pytest.raises(InvalidInput, match="queries: got 'lock'"):
            self.index().search_batch("lock", 3)
        with pytest.raises(InvalidInput, match="candidate_ids: got 'd0'"):
            self.index().search("lock", 3, "d0")


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

    def test_vectors_of_another_shape_are_named(self) -> None:
        made, _ = self.graph()
        for call in (made.matched_entities, lambda vector: made.search(vector, {})):
            with pytest.raises(InvalidInput, match=r"vector: got shape \[8\]; allowed: \[64\]"):
                call(np.ones(8))
        with pytest.raises(InvalidInput, match="dense_priors: got 1 for 2 vectors"):
            made.search_batch(np.ones((2, 64)), [{}])

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

    def test_nan_vector_is_not_found_and_hides_no_other(self) -> None:
        store = zero_mem.InMemoryVectorStore()
        store.upsert(["a", "bad", "b"], [[1, 0], [np.nan, 1], [0.8, 0.6]], [{}, {}, {}])
        assert [name for name, _, _ in store.search([1, 0], 1)] == ["a"]
        assert [name for name, _, _ in store.search([1, 0], 9)] == ["a", "b"]

    def test_bad_input_is_named(self) -> None:
        store = zero_mem.InMemoryVectorStore()
        with pytest.raises(InvalidInput, match="2 ids"):
            store.upsert(["a", "b"], np.ones((1, 4)), [{}])
        store.upsert(["a"], np.ones((1, 4)), [{}])
        with pytest.raises(InvalidInput, match="width 5"):
            store.upsert(["b"], np.ones((1, 5)), [{}])
        for vector, shape in ((np.ones(5), r"\[5\]"), (np.ones((1, 4)), r"\[1, 4\]")):
            with pytest.raises(InvalidInput, match=f"vector: got shape {shape}; allowed: .4."):
                store.search(vector)


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
