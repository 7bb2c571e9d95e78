"""The engine gives what the formulas say: on the demonstration, on odd histories, on real conversations."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.engine_runs import Asked, assert_agree
from tests.pipeline.odd import odd_memory, odd_questions
from tests.support import HashEncoder
from zeromem_gpu import Boundary, Config, Memory
from zeromem_gpu.evaluate.datasets import load_locomo
from zeromem_gpu.evaluate.demo import load_demo
from zeromem_gpu.types import Trace

SEARCH_VARIANTS: list[dict[str, Any]] = [
    {"activation": "literal"},
    {"activation": "literal", "exclude_self": True},
    {"exclude_self": True, "activation_steps": 3},
    {"activation_steps": 0, "align_floor": 0.2},
    {"solver": "power"},
    {"gamma": 0.9, "chain_weight": 0.3},
    {"gamma": 0.0, "chain_weight": 0.0},
    {"views": "graph"},
    {"views": "hierarchy"},
    {"episode_beam": 2, "window_beam": 5},
    {"window_beam": 1, "candidates": 5},
    {"candidates": 7, "rho": 0.3},
    {"candidates": 200},
    {"prior_power": 0.0, "entity_share": 0.9},
    {"prior_power": 1.5, "entity_share": 0.0, "sentence_share": 0.0},
    {"prior_power": 4.0, "entity_share": 0.5, "sentence_share": 0.3, "sentence_floor": 0.4},
    {"bm25_k1": 2.0, "bm25_b": 1.0, "lexical": 0.2, "graph_lexical": 2.0},
    {"graph_bridge": 0.0, "graph_reply": 2.0, "reply": 0.0},
    {"reply": 3.0, "graph_reply": 0.0, "neighbour_share": 0.4},
    {"graph_bridge": 5.0, "bridge_power": 0.5},
    {"graph_related": 3.0, "related_floor": 0.1},
    {"graph_related": 0.0},
    {"episode_share": 1.0, "window_share": 0.0, "neighbour_share": 0.7},
    {
        "phrase": 1.0,
        "graph_phrase": 2.0,
        "subject": 2.0,
        "temporal": 1.0,
        "temporal_days": 2.0,
        "answer_type": 1.0,
    },
]
INDEX_VARIANTS: list[dict[str, Any]] = [
    {"window_vectors": "encoded"},
    {"speaker_entities": False},
    {"window_size": 5, "window_stride": 3, "local_radius": 2},
    {"window_size": 1, "window_stride": 1, "local_radius": 0},
    {"episode_sigma": -0.5, "episode_gap_hours": 0.05},
    {"unit_chars": 60, "stemmer": "none", "drop_labels": ("PERSON",)},
    {"learned_weights": True, "learned": 1.5, "graph_learned": 0.7},
    {"learned_weights": True, "learned": 4.0, "views": "hierarchy"},
    {"learned_weights": True, "graph_learned": 3.0, "views": "graph", "window_vectors": "encoded"},
]


def ask(memory: Memory, questions: list[str], banks: list[str], **given: Any) -> Asked:
    profiles = memory._searcher.profiles(memory._index, questions, banks, memory.config)
    return Asked(memory, banks, profiles, **given)


def demo_memory(cache_dir: Path, config: Config) -> Memory:
    memory = Memory(config, encoder=HashEncoder(), cache_dir=cache_dir, device="cpu")
    memory.add(load_demo()[0])
    return memory


@pytest.fixture(scope="module")
def demo(cache_dir: Path) -> Asked:
    questions = load_demo()[1]
    memory = demo_memory(cache_dir, Config())
    return ask(memory, [q.text for q in questions], [q.bank for q in questions])


class TestDemo:
    def test_facts_are_told_in_full(self, demo: Asked) -> None:
        facts = demo.facts["demo"]
        traces = load_demo()[0]
        assert [unit.trace_id for unit in facts.units] == [trace.id for trace in traces]
        assert set(facts.speakers) == {"ines", "owen"}
        assert all(np.linalg.norm(unit.vector) > 0 for unit in facts.units)
        assert sum(len(unit.parts[2]) > 0 for unit in facts.units) == 9
        assert any(query.entities for query in demo.queries)
        assert any(query.subjects for query in demo.queries)

    def test_default(self, demo: Asked) -> None:
        assert_agree(demo, Config())

    @pytest.mark.parametrize("change", SEARCH_VARIANTS, ids=str)
    def test_variants(self, demo: Asked, change: dict[str, Any]) -> None:
        assert_agree(demo, Config().replace(**change))

    @pytest.mark.parametrize("change", INDEX_VARIANTS, ids=str)
    def test_index_variants(self, demo: Asked, cache_dir: Path, change: dict[str, Any]) -> None:
        memory = demo_memory(cache_dir, Config().replace(**change))
        other = Asked(memory, demo.banks, demo.profiles)
        assert_agree(other, memory.config)

    def test_boundaries(self, demo: Asked) -> None:
        traces = load_demo()[0]

        def instant(trace: Trace) -> datetime:
            return datetime.fromisoformat(str(trace.time))

        middle, late = datetime(2024, 5, 16, 20, 21), datetime(2024, 9, 1)
        kinds = [
            (Boundary(sessions=("s3", "s7", "no such")), lambda t: t.session in ("s3", "s7")),
            (Boundary(speakers=("Owen",)), lambda t: t.speaker == "Owen"),
            (Boundary(after=middle), lambda t: instant(t) >= middle),
            (
                Boundary(before=late, after="2024-05-16T20:21:00", speakers="ines"),
                lambda t: middle <= instant(t) <= late and t.speaker == "Ines",
            ),
            (Boundary(sessions="nowhere"), lambda t: False),
        ]
        given = [kinds[at % 6] if at % 6 < 5 else None for at in range(len(demo.profiles))]
        hidden = [None if kind is None else [not kind[1](t) for t in traces] for kind in given]
        asked = Asked(demo.memory, demo.banks, demo.profiles, hidden)
        for config in (
            Config(),
            Config(activation="literal", window_beam=7),
            Config(views="graph", gamma=0.9),
        ):
            assert_agree(asked, config)
        # and through the front door
        texts = [profile.text for profile in demo.profiles]
        found = demo.memory.search(
            texts, bank="demo", boundary=[None if k is None else k[0] for k in given], top_k=64
        )
        ranked = asked.engine(Config(top_k=64))
        ids = [unit.trace_id for unit in demo.facts["demo"].units]
        for result, rows in zip(found, ranked.rows, strict=True):
            assert [e.trace.id for e in result] == [ids[row] for row in rows if row >= 0]

    def test_pagerank(self, demo: Asked) -> None:
        for config in (Config(), Config(solver="power"), Config(activation="literal", gamma=0.9)):
            found, _ = demo.pagerank(config)
            for place, pi in enumerate(found):
                truth = demo.oracle(place, config)
                assert np.abs(pi - truth.pi).sum() <= 4e-6 + 4e-7 * config.prior_power


class TestOddHistories:
    """Late turns, updates, blank and long traces, captions, caller's entities, vectors of zero."""

    @pytest.mark.parametrize("seed", range(6))
    def test_default_and_variants(self, seed: int) -> None:
        memory = odd_memory(seed)
        asked = Asked(memory, *odd_questions(memory, seed))
        assert_agree(asked, memory.config)
        for change in SEARCH_VARIANTS[seed::6]:
            assert_agree(asked, memory.config.replace(**change))

    @pytest.mark.parametrize("change", INDEX_VARIANTS, ids=str)
    def test_index_variants(self, change: dict[str, Any]) -> None:
        memory = odd_memory(7, Config().replace(**change))
        assert_agree(Asked(memory, *odd_questions(memory, 7)), memory.config)

    def test_boundaries(self) -> None:
        memory = odd_memory(8, Config(learned_weights=True))
        banks, profiles = odd_questions(memory, 8)
        rng = np.random.default_rng(8)
        sizes = {name: len(facts.units) for name, facts in Asked(memory, banks, profiles).facts.items()}
        hidden = [
            None if share is None else (rng.random(sizes[bank]) < share).tolist()
            for bank, share in zip(banks, (None, 0.3, 0.9, 1.0) * len(banks), strict=False)
        ]
        asked = Asked(memory, banks, profiles, hidden)
        for change in (
            {"activation": "literal", "exclude_self": True},
            {"learned": 2.0, "graph_learned": 1.0},
        ):
            assert_agree(asked, memory.config.replace(**change))
        assert_agree(asked, memory.config)


@pytest.fixture(scope="module")
def asked(data_dir: Path, cache_dir: Path) -> Asked:
    data = load_locomo(data_dir, conversations=["conv-26", "conv-30", "conv-41"])
    memory = Memory(encoder="minilm", cache_dir=cache_dir, device="cpu")
    memory.add(data.traces)
    return ask(memory, [q.text for q in data.questions], [q.bank for q in data.questions])


class TestLocomo:
    def test_default(self, asked: Asked) -> None:
        assert len(asked.profiles) == 385
        assert_agree(asked, Config())

    @pytest.mark.parametrize(("start", "change"), list(enumerate(SEARCH_VARIANTS)), ids=str)
    def test_variants(self, asked: Asked, start: int, change: dict[str, Any]) -> None:
        assert_agree(asked.every(16, start % 16), Config().replace(**change))

    def test_pagerank(self, asked: Asked) -> None:
        some = asked.every(8)
        for config in (Config(), Config(solver="power")):
            found, _ = some.pagerank(config)
            for place, pi in enumerate(found):
                assert np.abs(pi - some.oracle(place, config).pi).sum() <= 4e-6 + 4e-7 * config.prior_power
