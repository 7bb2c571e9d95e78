"""Closure and evidence calibration of a batch against the plain reference, question by question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.engine_runs import Asked
from tests.reference import closure, entities, views
from tests.support import HashEncoder, NameExtractor
from zeromem_gpu import Boundary, Config, Memory
from zeromem_gpu.evaluate.demo import load_demo
from zeromem_gpu.retrieve.closure import RULES

OPEN = Config(closure=False, calibrate=False)


@pytest.fixture(scope="module", params=[False, True], ids=["open", "bounded"])
def asked(request: pytest.FixtureRequest, cache_dir: Path) -> Asked:
    """The demo's questions, without and with a boundary for some of them."""
    traces, questions = load_demo()
    memory = Memory(encoder=HashEncoder(), extractor=NameExtractor(), cache_dir=cache_dir, device="cpu")
    memory.add(traces)
    banks = [question.bank for question in questions]
    profiles = memory._searcher.profiles(memory._index, [q.text for q in questions], banks, memory.config)
    hidden = None
    if request.param:
        masks = [[t.speaker == "Owen" for t in traces], None, [t.session in ("s3", "s4") for t in traces]]
        hidden = [masks[at % 3] for at in range(len(questions))]
    return Asked(memory, banks, profiles, hidden)


VARIANTS: list[dict[str, Any]] = [
    {"top_k": 5, "closure_graph": 3, "closure_neighbours": 1},
    {"top_k": 2, "closure_graph": 8, "closure_neighbours": 0},
    {"top_k": 3, "closure_graph": 0, "closure_neighbours": 3},
    {"top_k": 1000, "closure_graph": 5, "closure_neighbours": 1},
    {"top_k": 1, "closure_graph": 2, "closure_neighbours": 2, "views": "graph"},
]


@pytest.mark.parametrize("change", VARIANTS, ids=repr)
def test_closure_equals_the_reference(asked: Asked, change: dict[str, Any]) -> None:
    config = OPEN.replace(**change)
    plain = asked.engine(config)
    longest = max(config.candidates, config.top_k)
    graph = asked.engine(config.replace(views="graph", top_k=longest))
    closed = asked.engine(config.replace(closure=True))
    added = 0
    for place, bank in enumerate(asked.banks):
        facts = asked.facts[bank]
        mask = asked.queries[place].hidden
        expected = closure.close(
            [row for row in plain.rows[place].tolist() if row >= 0],
            [row for row in graph.rows[place].tolist() if row >= 0],
            [entities.entity_counts(unit, facts.speakers, facts.name_token, True) for unit in facts.units],
            [unit.speaker for unit in facts.units if unit.speaker],
            [unit.session for unit in facts.units],
            [False] * len(facts.units) if mask is None else mask,
            config.closure_graph,
            config.closure_neighbours,
        )
        pairs = zip(closed.rows[place].tolist(), closed.rules[place].tolist(), strict=True)
        found = [(row, RULES[rule]) for row, rule in pairs if row >= 0]
        assert found == expected
        added += len(found) - int((plain.rows[place] >= 0).sum())
    assert added > 0 or config.top_k >= 1000


@pytest.mark.parametrize("change", [{}, {"calibrate_subject": 3.0}, {"calibrate_type": 0.4}], ids=repr)
def test_calibration_only_orders(asked: Asked, change: dict[str, Any]) -> None:
    config = Config(closure=True, calibrate=False, closure_neighbours=2).replace(**change)
    plain, ordered = asked.engine(config), asked.engine(config.replace(calibrate=True))
    moved = 0
    for place, bank in enumerate(asked.banks):
        facts, query = asked.facts[bank], asked.queries[place]
        rows = [row for row in plain.rows[place].tolist() if row >= 0]
        fused = dict(zip(rows, plain.scores[place].tolist(), strict=False))
        units = {row: facts.units[row] for row in rows}
        counts = {
            row: entities.entity_counts(unit, facts.speakers, facts.name_token, True)
            for row, unit in units.items()
        }
        subject = {r: views.subject_consistency(query.subjects, u, counts[r]) for r, u in units.items()}
        days = config.temporal_days
        temporal = {r: views.temporal_validity(query.validity, u.time, days) for r, u in units.items()}
        kind = {r: views.type_support(query.type_bit, u.type_mask) for r, u in units.items()}
        weights = config.calibrate_subject, config.calibrate_temporal, config.calibrate_type
        signals = list(zip(weights, (subject, temporal, kind), strict=True))
        expected = closure.order(rows, fused, signals)
        found = [row for row in ordered.rows[place].tolist() if row >= 0]
        total = {row: fused[row] + sum(w * s[row] for w, s in signals) for row in rows}
        assert sorted(found) == sorted(rows)
        np.testing.assert_allclose([total[r] for r in found], [total[r] for r in expected], atol=1e-6)
        moved += found != rows
    assert moved > 0


def test_evidence_is_cut_after_it_was_ordered(asked: Asked) -> None:
    memory, bounded = asked.memory, Boundary(speakers="Ines") if asked.hidden else None
    whole = memory.search("Where did Ines go?", boundary=bounded)
    cut = memory.search("Where did Ines go?", boundary=bounded, limit=4)
    assert [one.trace.id for one in cut] == [one.trace.id for one in whole][:4]
    assert len(whole) > 5
    if bounded:
        assert {one.trace.speaker for one in whole} == {"Ines"}
