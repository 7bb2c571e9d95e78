"""The loss report: each missed gold trace is charged to the stage that dropped it, with its ranks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support import small_memory
from zeromem_gpu import Config, Evidence, Memory, QueryProfile, SearchResult, Trace
from zeromem_gpu.evaluate import report
from zeromem_gpu.evaluate.answer_tables import stage_rows, stage_table
from zeromem_gpu.evaluate.datasets import Conversation, Dataset, Question
from zeromem_gpu.evaluate.html import render
from zeromem_gpu.evaluate.journal import NAME, Journal
from zeromem_gpu.evaluate.losses import STAGES, find_losses
from zeromem_gpu.evaluate.plan import Plan
from zeromem_gpu.evaluate.runner import run
from zeromem_gpu.evaluate.summary import summarise


def asked(text: str, *gold: str, index: int = 0, category: int = 4, scored: bool = True) -> Question:
    return Question("b", index, category, text, None, gold, scored)


class Listed:
    """A memory whose four lists are given: what the final, fused and both views' searches return."""

    def __init__(self, **lists: str) -> None:
        self.lists = lists

    def search(
        self, query: Sequence[str], *, config: Config, top_k: int, bank: object
    ) -> list[SearchResult]:
        plain = not (config.closure or config.calibrate)
        name = config.views if config.views != "both" else "fused" if plain else "final"
        found = tuple(
            Evidence(Trace(one, one), 1.0, None, None, "primary", 0, 1) for one in self.lists[name][:top_k]
        )
        return [SearchResult(text, "b", QueryProfile(text), found) for text in query]


@pytest.mark.parametrize(
    ("stage", "graph", "hierarchy", "fused", "final"),
    [
        ("no candidate", "abcdefhijklmnog", "abcdefhijklmnog", "abcdefhijklmno", "abcdefhijklm"),
        ("low in both", "abcg", "abdg", "abcdg", "abcdg"),
        ("low in both", "abcdefhijklmnog", "abcg", "abcdg", "abcdg"),
        ("graph low", "abcg", "ga", "abg", "abg"),
        ("hierarchy low", "ga", "abcg", "abg", "abg"),
        ("fusion", "ag", "bg", "abg", "abg"),
        ("order", "agb", "agb", "agb", "abg"),
    ],
)
def test_every_stage(stage: str, graph: str, hierarchy: str, fused: str, final: str) -> None:
    """g is gold and K is 2; a view returns 12 units, and its rank is known past them."""
    memory = Listed(graph=graph, hierarchy=hierarchy, fused=fused, final=final)
    config = Config(candidates=12)
    (loss,) = find_losses(cast("Memory", memory), [asked("q", "g")], config, k=2, depth=12)
    assert loss.stage == stage
    ranks = [lists.find("g") + 1 or None for lists in (graph, hierarchy, fused, final)]
    assert [loss.graph, loss.hierarchy, loss.fused, loss.final] == ranks


def test_what_is_no_loss() -> None:
    """Gold among the first K, gold of unscored questions; a gold id that stands twice is lost once."""
    memory = cast("Memory", Listed(graph="ab", hierarchy="ab", fused="ab", final="ab"))
    questions = [
        asked("q", "a"),
        asked("q", "z", index=1, scored=False),
        asked("q", "z", "a", "z", index=2),
    ]
    losses = find_losses(memory, questions, Config(), k=2, depth=12)
    assert [(loss.question, loss.gold, loss.stage) for loss in losses] == [("b/2", "z", "no candidate")]
    assert find_losses(memory, questions[:1], Config(), k=2, depth=12) == []


# Ada says everything but the answer; Bob's one turn names what is asked for
SAID = [
    *(
        ("Ada", f"{thing} for {at} coins")
        for at, thing in enumerate(("loom", "hive", "boat", "drum", "vine", "coat", "bell", "rope", "lamp"))
    ),
    ("Bob", "the old kiln was sold"),
    *(("Ada", f"{thing} and nothing else") for thing in ("salt", "wool", "iron", "clay", "corn", "milk")),
]
PLAIN = {
    "lexical": 1.0, "phrase": 0.0, "temporal": 0.0, "answer_type": 0.0, "local_share": 0.0,
    "window_share": 0.0, "episode_share": 0.0, "graph_phrase": 0.0, "graph_temporal": 0.0,
    "graph_type": 0.0, "closure": False, "chain_weight": 0.0, "candidates": 12,
}  # fmt: skip


def data() -> Dataset:
    traces = tuple(
        Trace(id=f"t{at}", text=text, bank="b", speaker=who, turn=at) for at, (who, text) in enumerate(SAID)
    )
    questions = (
        asked("What did Ada say about the old kiln?", "t9"),
        asked("What did Ada say about the old kiln?", "t9", "t15", index=1, category=1),
        asked("What did Ada say about the loom?", "t0", index=2),
    )
    return Dataset("small", (Conversation("b", traces, questions),), ())


@pytest.mark.parametrize(
    ("stage", "numbers"),
    [
        (None, {"subject": 0.0, "graph_subject": 0.0, "graph_lexical": 5.0}),
        # the fusion listens to one view alone, which prefers what Ada said
        ("hierarchy low", {"subject": 9.0, "graph_subject": 0.0, "graph_lexical": 9.0, "rho": 1.0}),
        ("graph low", {"subject": 0.0, "graph_subject": 9.0, "lexical": 9.0, "rho": 0.0}),
        ("low in both", {"subject": 9.0, "graph_subject": 9.0, "candidates": 16}),
        ("no candidate", {"subject": 9.0, "graph_subject": 9.0}),
        ("order", {"subject": 0.0, "graph_subject": 0.0, "graph_lexical": 5.0, "calibrate_subject": 9.0}),
    ],
    ids=str,
)
def test_stages_of_the_engine(stage: str | None, numbers: dict[str, Any]) -> None:
    """One number at a time drives Bob's turn out of the first K at a known stage."""
    config = Config(**(PLAIN | {"rho": 0.5} | numbers))
    memory = small_memory(config)
    memory.add(data().traces)
    question = data().questions[0]
    assert memory.search(question.text, top_k=12).profile.route == "local"
    losses = find_losses(memory, [question], config, k=2, depth=12)
    assert [loss.stage for loss in losses] == ([stage] if stage else [])
    for loss in losses:
        assert loss.graph is not None, "a rank in the whole view, past its candidates"
        assert loss.hierarchy is not None
        assert loss.fused is None or loss.fused > 2 or stage == "order"


def test_one_view_has_no_rank_in_the_other() -> None:
    config = Config(**(PLAIN | {"subject": 9.0, "views": "hierarchy", "candidates": 16}))
    memory = small_memory(config)
    memory.add(data().traces)
    (loss,) = find_losses(memory, [data().questions[0]], config, k=2, depth=12)
    assert loss.graph is None
    assert loss.hierarchy is not None
    assert loss.stage == "hierarchy low"


def test_files_tables_and_resume(tmp_path: Path) -> None:
    """Counts agree with recall@5, stand in every place, and a resumed run has them again."""
    config = Config(**(PLAIN | {"subject": 9.0, "graph_subject": 9.0}))
    plan = Plan(config=config, losses=True, latency_samples=0)
    journal = Journal(tmp_path, {})
    findings = run(data(), plan, lambda: small_memory(config), journal=journal)
    summary = summarise(data(), plan, findings)
    lost = summary["losses"]
    assert lost["gold"] == 4
    assert sum(lost["stages"].values()) == lost["lost"] > 0
    assert set(lost["stages"]) == set(STAGES)
    assert {kind: one["gold"] for kind, one in lost["by_category"].items()} == {
        "multi-hop": 2, "single-hop": 2,
    }  # fmt: skip
    single = summary["by_category"]["single-hop"]
    assert lost["by_category"]["single-hop"]["lost"] == round(2 * (1 - single["recall@5"]))

    report.write(data(), findings, summary, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "losses.jsonl").read_text().splitlines()]
    assert len(rows) == lost["lost"]
    assert list(rows[0]) == [
        "bank", "qa_index", "category", "question", "gold", "stage", "graph", "hierarchy", "fused", "final",
    ]  # fmt: skip
    assert json.loads((tmp_path / "metrics.json").read_text())["losses"] == lost
    parts, counts = stage_rows(summary)
    assert parts == ["all", "multi-hop", "single-hop"]
    assert counts[0] == ["gold", "4", "2", "2"]
    table = stage_table(summary)
    assert table is not None
    assert list(table.columns[0].cells) == ["gold", "lost", *STAGES]
    page = render(tmp_path)
    assert "Where gold evidence is lost" in page
    assert "neither view returned it" in page

    def none_needed() -> Memory:
        raise AssertionError("a finished run indexes nothing")

    assert (tmp_path / NAME).is_file()
    assert run(data(), plan, none_needed, journal=Journal(tmp_path, {}, resume=True)) == findings


def test_without_losses_nothing_is_said(tmp_path: Path) -> None:
    config = Config()
    plan = Plan(config=config, latency_samples=0)
    findings = run(data(), plan, lambda: small_memory(config))
    summary = summarise(data(), plan, findings)
    assert findings.losses is None
    assert "losses" not in summary
    assert stage_table(summary) is None
    report.write(data(), findings, summary, tmp_path)
    assert not (tmp_path / "losses.jsonl").exists()
    assert "evidence is lost" not in render(tmp_path)
    none = replace(findings, losses=())
    assert summarise(data(), plan, none)["losses"]["lost"] == 0
