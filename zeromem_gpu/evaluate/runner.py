"""One evaluation: add a data set to a memory, ask all its questions at once, score the evidence."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeromem_gpu import Config
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate import metrics
from zeromem_gpu.evaluate.datasets import CATEGORIES, Dataset, Question

if TYPE_CHECKING:
    from zeromem_gpu import Memory, SearchResult

VIEWS = ("both", "graph", "hierarchy")
BUILD_TIMINGS = ("ner_s", "encode_s", "graph_s", "bm25_s")

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Ranked:
    """One trace in a ranking: its id, the fused and the raw view scores, and what put it there."""

    id: str
    score: float
    graph: float | None
    hierarchy: float | None
    rule: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one run found: `summary` is metrics.json; rankings are by view, then in question order."""

    questions: tuple[Question, ...]
    routes: tuple[str, ...]
    rankings: Mapping[str, tuple[tuple[Ranked, ...], ...]]
    summary: dict[str, Any]

    @property
    def primary(self) -> str:
        """The view that was asked for first; the headline numbers are its own."""
        return next(iter(self.rankings))


def evaluate(
    dataset: Dataset,
    memory: Memory,
    config: Config,
    *,
    views: Sequence[str] = VIEWS,
    depth: int = 12,
    latency_samples: int = 200,
    progress: Progress = lambda stage, done, total: None,
) -> Evaluation:
    """Index `dataset` in `memory` (empty, made with `config`), then ask every question in one batch.

    `views` are run in turn over the same index; the headline is the first. `depth` is how many traces
    each question keeps, at least 12 so that recall@12 means what it says; `config.top_k` is the number of
    primary units, as in any search. Up to `latency_samples` questions are then asked one by one.
    `progress` is called as (stage, done, total). A data set without questions is `InvalidInput`.
    """
    questions = tuple(dataset.questions)
    check_run(questions, views, depth, latency_samples)
    built = {**memory.add(dataset.traces, progress=progress).timings, **memory.prepare()}
    base: dict[str, Any] = {"limit": depth, "explain": True}

    # models load and device copies are made at the first search: not a cost of each question
    firsts = {question.bank: question for question in reversed(questions)}
    began = time.perf_counter()
    _search(memory, list(firsts.values()), config=config, **base)
    warmup = time.perf_counter() - began

    rankings: dict[str, tuple[tuple[Ranked, ...], ...]] = {}
    routes: tuple[str, ...] = ()
    spent: Mapping[str, float] = {}
    for number, view in enumerate(views):
        progress("questions", number * len(questions), len(views) * len(questions))
        results = _search(memory, questions, config=config.replace(views=view), **base)
        rankings[view] = tuple(_ranking(result) for result in results)
        if not routes:
            routes = tuple(result.profile.route for result in results)
            spent = results[0].timings or {}

    progress("questions", len(views) * len(questions), len(views) * len(questions))
    base |= {"config": config.replace(views=views[0]), "progress": progress}
    single = _single(memory, questions, latency_samples, **base)
    blocks = {view: _block(dataset, questions, ranking) for view, ranking in rankings.items()}
    per_query = 1000.0 / len(questions)
    timing = {name: built.get(name) for name in BUILD_TIMINGS} | {
        "encode_queries_s": spent.get("encode_queries_s"),
        "profile_ms_per_query": _scaled(spent.get("profile_s"), per_query),
        "retrieve_ms_per_query": _scaled(spent.get("retrieve_s"), per_query),
        "first_searches_s": warmup,
    }
    summary = {"dataset": dataset.name, **blocks[views[0]], "config": config.to_dict()}
    summary |= {"memory_llm_tokens": 0, "timing": timing, "views": blocks, "single_query": single}
    return Evaluation(questions, routes, rankings, summary)


def check_run(questions: Sequence[Question], views: Sequence[str], depth: int, samples: int) -> None:
    """Raise `InvalidInput` for a run that `evaluate` refuses, before anything is loaded for it."""
    if not questions:
        raise InvalidInput("dataset", "no questions", "at least one question")
    if not views or len(set(views)) < len(views) or not set(views) <= set(VIEWS):
        raise InvalidInput("views", ", ".join(views) or "none", "each at most once, of " + ", ".join(VIEWS))
    if depth < metrics.DEEPEST_CUTOFF:
        allowed = f"at least {metrics.DEEPEST_CUTOFF}, since recall@{metrics.DEEPEST_CUTOFF} is reported"
        raise InvalidInput("k", depth, allowed)
    if samples < 0:
        raise InvalidInput("latency_samples", samples, "0 or more")


def _search(memory: Memory, questions: Sequence[Question], **options: Any) -> list[SearchResult]:
    """One batch over all banks; each question sees its own conversation only."""
    texts = [question.text for question in questions]
    return list(memory.search(texts, bank=[question.bank for question in questions], **options))


def _ranking(result: SearchResult) -> tuple[Ranked, ...]:
    """The traces of a result, best first; a trace that was split counts once, where it first appears."""
    ranked: dict[str, Ranked] = {}
    for one in result:
        name = one.trace.id
        ranked.setdefault(name, Ranked(name, one.score, one.graph_score, one.hierarchy_score, one.rule))
    return tuple(ranked.values())


def _block(
    dataset: Dataset, questions: Sequence[Question], rankings: Sequence[Sequence[Ranked]]
) -> dict[str, Any]:
    """All numbers of one view: over everything, by category, and over both halves of the split."""
    gold = {question.id: question.gold for question in questions if question.scored}
    ranked = {
        question.id: [one.id for one in ranking]
        for question, ranking in zip(questions, rankings, strict=True)
    }
    values = metrics.per_question(gold, ranked)
    block = _part(questions, values)
    for name, tuned in (("reporting", False), ("tuning", True)):
        chosen = [question for question in questions if (question.bank in dataset.tuning) is tuned]
        names = list(dict.fromkeys(question.bank for question in chosen))
        block[name] = {"conversations": names, **_part(chosen, values)}
    return block


def _part(questions: Sequence[Question], values: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The averages over some questions, and over each category of them."""
    kinds = sorted({question.category for question in questions})
    by_kind = {
        CATEGORIES[kind]: _averages([one for one in questions if one.category == kind], values)
        for kind in kinds
    }
    return {**_averages(questions, values), "by_category": by_kind}


def _averages(questions: Sequence[Question], values: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    scored = [values[question.id] for question in questions if question.id in values]
    counts = {"questions": len(questions), "skipped": len(questions) - len(scored)}
    return {**counts, **metrics.mean(scored)}


def _single(
    memory: Memory, questions: Sequence[Question], samples: int, progress: Progress, **options: Any
) -> dict[str, Any] | None:
    """Wall time of whole searches of one question, evenly spread over the data set; None for none."""
    if not samples:
        return None
    import numpy as np

    count = min(samples, len(questions))
    chosen = [questions[index * len(questions) // count] for index in range(count)]
    took = []
    for number, question in enumerate(chosen, 1):
        began = time.perf_counter()
        _search(memory, [question], **options)
        took.append(1000.0 * (time.perf_counter() - began))
        progress("one at a time", number, count)
    p50, p99 = (float(value) for value in np.percentile(took, (50, 99)))
    return {"p50_ms": p50, "p99_ms": p99, "questions": count}


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
