"""Evidence metrics over ranked ids, computed by ir-measures, and the TREC files that repeat them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zeromem_gpu.errors import MissingDependency

Gold = Mapping[str, Sequence[str]]
Runs = Mapping[str, Sequence[str]]

METRICS = ("recall@5", "recall@10", "recall@12", "hit@5", "all@5", "all@10", "ndcg@10", "mrr")
DEEPEST_CUTOFF = 12


def per_question(gold: Gold, ranked: Runs) -> dict[str, dict[str, float]]:
    """Every metric of every question that has gold ids.

    `gold`: question id → relevant ids; `ranked`: question id → ids, best first, none twice. Questions
    with gold and no ranking score 0; questions without gold are left out. `all@k` says that no relevant id
    is missing among the first k, `mrr` is the reciprocal rank of the first over the whole ranking.

    >>> per_question({"q": ["a", "b"]}, {"q": ["x", "a"]})["q"]["mrr"]
    0.5
    """
    gold = {question: ids for question, ids in gold.items() if ids}
    if not gold:
        return {}
    try:
        import ir_measures
        from ir_measures import RR, R, Success, nDCG
    except ImportError as error:
        raise MissingDependency(
            "ir-measures is not installed: pip install 'zeromem-gpu[evaluate]'"
        ) from error

    names = {
        R @ 5: "recall@5", R @ 10: "recall@10", R @ 12: "recall@12",
        Success @ 5: "hit@5", nDCG @ 10: "ndcg@10", RR: "mrr",
    }  # fmt: skip
    qrels = [ir_measures.Qrel(question, one, 1) for question, ids in gold.items() for one in ids]
    run = [
        ir_measures.ScoredDoc(question, one, float(score))
        for question, ids in ranked.items()
        if question in gold
        for one, score in zip(ids, _descending(ids), strict=True)
    ]
    values = {question: dict.fromkeys(METRICS, 0.0) for question in gold}
    # an empty run makes the provider yield nothing at all
    for metric in ir_measures.iter_calc(list(names), qrels, run) if run else ():
        values[metric.query_id][names[metric.measure]] = float(metric.value)
    for row in values.values():
        for cutoff in (5, 10):
            row[f"all@{cutoff}"] = float(row[f"recall@{cutoff}"] >= 1.0)
    return values


def mean(values: Iterable[Mapping[str, float]]) -> dict[str, float | None]:
    """The mean of each metric over questions (micro); None for each where there are no questions."""
    rows = list(values)
    return {name: sum(row[name] for row in rows) / len(rows) if rows else None for name in METRICS}


def trec_run(ranked: Runs, tag: str) -> str:
    """A TREC run file: `question Q0 id rank score tag`, one line for each ranked id.

    Ids are written as `trec_name` gives them.
    """
    return "".join(
        f"{trec_name(question)} Q0 {trec_name(one)} {rank} {score} {tag}\n"
        for question, ids in ranked.items()
        for rank, (one, score) in enumerate(zip(ids, _descending(ids), strict=True), 1)
    )


def trec_qrels(gold: Gold) -> str:
    """A TREC qrels file: `question 0 id 1`, one line for each relevant id."""
    return "".join(
        f"{trec_name(question)} 0 {trec_name(one)} 1\n" for question, ids in gold.items() for one in ids
    )


def trec_name(name: str) -> str:
    """An id as TREC files can hold it: white space becomes "_"."""
    return "_".join(name.split()) or "_"


def _descending(ids: Sequence[str]) -> range:
    # trec_eval sorts by score and breaks ties by id; falling whole numbers keep our order exactly
    return range(len(ids), 0, -1)
