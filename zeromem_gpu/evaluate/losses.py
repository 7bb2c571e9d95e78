"""Where gold evidence is lost: for each gold trace past rank K, the stage that dropped it and its ranks.

Every rank comes from an ordinary search: one of each view alone, one of the fusion without closure and
evidence order, one of the whole method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from zeromem_gpu.evaluate.datasets import Question
from zeromem_gpu.evaluate.reading import search

if TYPE_CHECKING:
    from zeromem_gpu import Config, Memory, SearchResult

# the rank past which a view's list is not read
VIEW_DEPTH = 1000

STAGES: Mapping[str, str] = {
    "no candidate": "neither view returned it",
    "low in both": "a view returned it, none in its first K",
    "graph low": "in the hierarchy's first K, not in the graph's; the fusion left it out",
    "hierarchy low": "in the graph's first K, not in the hierarchy's; the fusion left it out",
    "fusion": "in the first K of both views, not in the fusion's",
    "order": "in the fusion's first K; closure and evidence order put it behind them",
}


@dataclass(frozen=True, slots=True)
class Loss:
    """A gold trace that is not among the first K: its stage (of `STAGES`) and its rank in each list.

    Ranks count traces from 1. `graph` and `hierarchy` are ranks in the whole view, whether the view
    returned the trace as a candidate or not (None: not ranked, past `VIEW_DEPTH`, or the view did not run);
    `fused` and `final` are None where the list ended before it.
    """

    question: str
    gold: str
    stage: str
    graph: int | None
    hierarchy: int | None
    fused: int | None
    final: int | None


def find_losses(
    memory: Memory, questions: Sequence[Question], config: Config, k: int, depth: int
) -> list[Loss]:
    """The losses of every scored question at rank `k` of rankings that are made with `top_k=depth`."""
    asked = [question for question in questions if question.scored and question.gold]
    final = _ranks(search(memory, asked, config=config, top_k=depth))
    asked, final = _missing(asked, final, k)
    plain = config.replace(closure=False, calibrate=False)
    returned = max(config.candidates, depth)
    # as many as a view returns: a longer answer would lengthen the views' lists and so scale them anew
    fused = _ranks(search(memory, asked, config=plain, top_k=returned))
    views: dict[str, list[dict[str, int]]] = {}
    candidates: list[set[str]] = [set() for _ in asked]
    for view in ("graph", "hierarchy") if config.views == "both" else (config.views,):
        results = search(memory, asked, config=plain.replace(views=view), top_k=VIEW_DEPTH)
        views[view] = _ranks(results)
        for mine, result in zip(candidates, results, strict=True):
            mine.update(one.trace.id for one in result[:returned])
    losses = []
    for at, question in enumerate(asked):
        for gold in dict.fromkeys(question.gold):
            ranks = {view: rows[at].get(gold) for view, rows in views.items()}
            ranks |= {"fused": fused[at].get(gold), "final": final[at].get(gold)}
            if not _within(ranks["final"], k):
                stage = _stage(ranks, gold in candidates[at], k)
                losses.append(Loss(question.id, gold, stage, **{"graph": None, "hierarchy": None} | ranks))
    return losses


def count_losses(
    questions: Sequence[Question], losses: Sequence[Loss], places: Sequence[int]
) -> dict[str, Any]:
    """Over the questions at `places`: how many gold traces there are, how many were lost, and by stage."""
    chosen = {questions[at].id for at in places}
    mine = [loss.stage for loss in losses if loss.question in chosen]
    gold = sum(len(set(questions[at].gold)) for at in places if questions[at].scored)
    stages = {stage: mine.count(stage) for stage in STAGES}
    return {"gold": gold, "lost": len(mine), "stages": stages}


def loss_line(question: Question, loss: Loss) -> dict[str, Any]:
    """A loss as a row of `losses.jsonl`."""
    about = {"bank": question.bank, "qa_index": question.index, "category": question.category}
    rest = {name: value for name, value in asdict(loss).items() if name != "question"}
    return {**about, "question": question.text, **rest}


def _missing(
    questions: Sequence[Question], final: Sequence[dict[str, int]], k: int
) -> tuple[list[Question], list[dict[str, int]]]:
    """The questions, with their final ranks, that lack one of their gold traces."""
    kept = [
        (question, ranks)
        for question, ranks in zip(questions, final, strict=True)
        if not all(_within(ranks.get(gold), k) for gold in question.gold)
    ]
    return [question for question, _ in kept], [ranks for _, ranks in kept]


def _stage(ranks: Mapping[str, int | None], candidate: bool, k: int) -> str:
    """The first stage, in the order of the method, at which the trace was not among the first K."""
    if not candidate:
        return "no candidate"
    if _within(ranks["fused"], k):
        return "order"
    low = [view for view in ("graph", "hierarchy") if view in ranks and not _within(ranks[view], k)]
    if not low:
        return "fusion"
    # the only view of a run is low where it lost a candidate
    return f"{low[0]} low" if len(low) == 1 else "low in both"


def _ranks(results: Sequence[SearchResult]) -> list[dict[str, int]]:
    """Trace id → rank, a trace of several units where its best one stands."""
    return [
        {name: rank for rank, name in enumerate(dict.fromkeys(one.trace.id for one in result), 1)}
        for result in results
    ]


def _within(rank: int | None, k: int) -> bool:
    return rank is not None and rank <= k
