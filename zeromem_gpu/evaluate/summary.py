"""From findings to the numbers of metrics.json: averages by category and by side of the split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zeromem_gpu.evaluate import metrics
from zeromem_gpu.evaluate.answers import PROTOCOLS, Scores, average
from zeromem_gpu.evaluate.datasets import Dataset, Question
from zeromem_gpu.evaluate.losses import Loss, count_losses
from zeromem_gpu.evaluate.plan import Plan
from zeromem_gpu.evaluate.reading import Reading
from zeromem_gpu.evaluate.runner import BUILD_TIMINGS, Findings, Ranking

SIDES = (("reporting", False), ("tuning", True))

Averages = Callable[[Sequence[int]], dict[str, Any]]


def summarise(
    dataset: Dataset, plan: Plan, findings: Findings, reader: str | None = None
) -> dict[str, Any]:
    """The content of metrics.json, as far as the findings say it.

    Headline evidence stands at the top level, the same for every view under `views`, then `ablations`,
    `budget`, `baselines`, `losses` (where the plan asked for them), and where `reader` names one `answers`
    (calibrated) and `answers_reader` (as it gave them): protocol → category, average or side of the split
    → scores.
    """
    questions = findings.questions
    primary = plan.primary.name
    blocks = {name: evidence_block(dataset, questions, rows) for name, rows in findings.rankings.items()}
    summary: dict[str, Any] = {"dataset": dataset.name, **blocks[primary], "config": plan.config.to_dict()}
    summary |= {"memory_llm_tokens": 0, "timing": _timing(findings), "single_query": findings.single}
    summary |= {"views": {view: blocks[view] for view in plan.views}, "about": dict(dataset.about)}
    summary |= {
        "k": plan.k,
        "limit": plan.limit,
        "reader": reader and _reader(reader, dataset, findings, primary),
    }
    summary |= _read(dataset, findings, primary, reader)
    if any(question.gold_audited is not None for question in questions):
        summary["audited"] = evidence_block(dataset, questions, findings.rankings[primary], audited=True)
    if findings.losses is not None:
        summary["losses"] = _losses_block(dataset, questions, findings.losses)
    whole = _values(dataset, findings, primary)
    summary["ablations"] = {
        name: {
            **blocks[name],
            **_read(dataset, findings, name, reader),
            "difference": _differences(whole, _values(dataset, findings, name)),
        }
        for name in plan.ablations
    }
    summary["budget"] = {str(k): _read(dataset, findings, f"top-{k}", reader) for k in plan.budget}
    summary["baselines"] = {
        name: blocks[name] | _read_flat(dataset, findings, name, reader) for name in plan.baselines
    }
    return summary


def evidence_block(
    dataset: Dataset, questions: Sequence[Question], rankings: Sequence[Ranking], *, audited: bool = False
) -> dict[str, Any]:
    """All evidence metrics of one set of rankings: over everything, by category, by side of the split."""
    gold = {one.id: ids for one in questions if (ids := gold_of(one, audited))}
    ranked = {
        one.id: [unit.id for unit in row.ranked] for one, row in zip(questions, rankings, strict=True)
    }
    values = metrics.per_question(gold, ranked)

    def averages(places: Sequence[int]) -> dict[str, Any]:
        scored = [values[questions[at].id] for at in places if questions[at].id in values]
        counts = {"questions": len(places), "skipped": len(places) - len(scored)}
        known = [rankings[at].support for at in places if rankings[at].support]
        support = {"support": _support(known)} if known else {}
        return {**counts, **metrics.mean(scored), **support}

    return _by_part(dataset, questions, averages)


def gold_of(question: Question, audited: bool = False) -> tuple[str, ...]:
    """The gold ids that count; none for a question that is left out of averages."""
    if audited:
        return question.gold_audited or ()
    return question.gold if question.scored else ()


def answer_scores(
    dataset: Dataset, questions: Sequence[Question], texts: Sequence[str], *, audited: bool = False
) -> dict[str, list[Scores | None]]:
    """Protocol → the scores of each question; None for one whose answer is not known."""
    golds = [one.answer_audited if audited else one.answer for one in questions]
    return {
        name: [
            None if gold is None else PROTOCOLS[name](gold, text, one.category)
            for one, gold, text in zip(questions, golds, texts, strict=True)
        ]
        for name in dataset.protocols
    }


def answers_block(
    dataset: Dataset, questions: Sequence[Question], texts: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Protocol → category, `average`, `reporting`, `tuning` → scores; audited labels as `NAME_audited`."""
    tables = {"": answer_scores(dataset, questions, texts)}
    if any(question.answer_audited is not None for question in questions):
        tables["_audited"] = answer_scores(dataset, questions, texts, audited=True)
    block: dict[str, dict[str, Any]] = {}
    for suffix, table in tables.items():
        for name, scores in table.items():

            def averages(places: Sequence[int], scores: Sequence[Scores | None] = scores) -> dict[str, Any]:
                return average([one for at in places if (one := scores[at]) is not None])

            parts = _by_part(dataset, questions, averages)
            sides = {side: parts[side] for side, _ in SIDES if parts[side]["questions"]}
            by_category = parts.pop("by_category")
            whole = {key: value for key, value in parts.items() if key not in ("reporting", "tuning")}
            block[name + suffix] = {
                **by_category,
                "average": whole,
                **{s: _flat(v) for s, v in sides.items()},
            }
    return block


def _flat(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in ("by_category", "conversations")}


def _read(dataset: Dataset, findings: Findings, name: str, reader: str | None) -> dict[str, Any]:
    """The evidence set of one reading and, with a reader, its answers."""
    readings = findings.readings[name]
    found: dict[str, Any] = {"evidence_set": _set_block(dataset, findings.questions, readings)}
    if reader is not None:
        texts = [one.text or "" for one in readings]
        found["answers"] = answers_block(dataset, findings.questions, texts)
        texts = [one.reader_text or "" for one in readings]
        found["answers_reader"] = answers_block(dataset, findings.questions, texts)
    return found


def _read_flat(dataset: Dataset, findings: Findings, name: str, reader: str | None) -> dict[str, Any]:
    """What the reader made of a flat baseline's evidence; {} where it was not asked."""
    if name not in findings.readings:
        return {}
    errors = sum(one.error is not None for one in findings.readings[name])
    return {**_read(dataset, findings, name, reader), "errors": errors}


def _set_block(
    dataset: Dataset, questions: Sequence[Question], readings: Sequence[Reading]
) -> dict[str, Any]:
    """What the evidence sets hold of the gold: mean recall, any of it, all of it, and their mean size."""

    def averages(places: Sequence[int]) -> dict[str, Any]:
        rows = []
        for at in places:
            gold = set(gold_of(questions[at]))
            if gold:
                share = len(gold.intersection(readings[at].ids)) / len(gold)
                rows.append({"recall": share, "hit": float(share > 0), "all": float(share == 1)})
        units = sum(readings[at].units for at in places) / len(places) if places else 0.0
        known = [readings[at].support for at in places if readings[at].support]
        support = {"support": sum(map(_share, known)) / len(known)} if known else {}
        return {**average(rows), "units": units, **support}

    return _by_part(dataset, questions, averages)


def _losses_block(
    dataset: Dataset, questions: Sequence[Question], losses: Sequence[Loss]
) -> dict[str, Any]:
    """Gold traces that are not among the headline's first K, by the stage that lost them."""
    return _by_part(dataset, questions, lambda places: count_losses(questions, losses, places))


def _values(dataset: Dataset, findings: Findings, name: str) -> dict[str, dict[str, float]]:
    """Metric → question id → value of one variant, for comparison question by question."""
    questions, readings = findings.questions, findings.readings[name]
    gold = {one.id: ids for one in questions if (ids := gold_of(one))}
    ranked = {
        one.id: [unit.id for unit in row.ranked]
        for one, row in zip(questions, findings.rankings[name], strict=True)
    }
    rows = metrics.per_question(gold, ranked)
    table = {metric: {one: row[metric] for one, row in rows.items()} for metric in metrics.METRICS}
    table["set recall"] = {
        one.id: len(set(gold[one.id]).intersection(reading.ids)) / len(gold[one.id])
        for one, reading in zip(questions, readings, strict=True)
        if one.id in gold
    }
    if any(one.text is not None for one in readings):
        protocol = dataset.protocols[0]
        scores = answer_scores(dataset, questions, [one.text or "" for one in readings])[protocol]
        table[f"{protocol} f1"] = {
            one.id: row["f1"] for one, row in zip(questions, scores, strict=True) if row is not None
        }
    return table


def _differences(
    whole: Mapping[str, Mapping[str, float]], part: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """What an ablation changes, ablation minus full: mean and paired 95 % interval of each metric."""
    from zeromem_gpu.evaluate.bootstrap import difference

    return {
        metric: difference(list(values.values()), [part[metric][one] for one in values])._asdict()
        for metric, values in whole.items()
        if values
    }


def _by_part(dataset: Dataset, questions: Sequence[Question], averages: Averages) -> dict[str, Any]:
    """Averages over all questions, over each category, and over both sides of the split in the same way."""

    def part(places: Sequence[int]) -> dict[str, Any]:
        # categories in number order, as before they had names
        kinds = {questions[at].kind: str(questions[at].category) for at in places}
        by_kind = {
            kind: averages([at for at in places if questions[at].kind == kind])
            for kind in sorted(kinds, key=lambda kind: kinds[kind])
        }
        return {**averages(places), "by_category": by_kind}

    block = part(range(len(questions)))
    tuning = set(dataset.tuning)
    for name, tuned in SIDES:
        places = [at for at, question in enumerate(questions) if (question.bank in tuning) is tuned]
        names = list(dict.fromkeys(questions[at].bank for at in places))
        block[name] = {"conversations": names, **part(places)}
    return block


def _support(ranks: Sequence[Sequence[int | None]]) -> dict[str, Any]:
    """Mean recall of supporting sentences among the first 5 and 10 units, where they are known."""
    block: dict[str, Any] = {"questions": len(ranks)}
    for cutoff in (5, 10):
        near = [[rank if rank is not None and rank <= cutoff else None for rank in row] for row in ranks]
        block[f"recall@{cutoff}"] = sum(map(_share, near)) / len(ranks)
    return block


def _share(ranks: Sequence[int | None]) -> float:
    return sum(rank is not None for rank in ranks) / len(ranks)


def _reader(name: str, dataset: Dataset, findings: Findings, primary: str) -> dict[str, Any]:
    """The reader's tokens and errors, and how its answers fared under calibration."""
    readings, questions = findings.readings[primary], findings.questions
    protocol = dataset.protocols[0]
    before, after = (
        answer_scores(dataset, questions, texts)[protocol]
        for texts in ([one.reader_text or "" for one in readings], [one.text or "" for one in readings])
    )
    gains = [
        b["f1"] - a["f1"] for a, b in zip(before, after, strict=True) if a is not None and b is not None
    ]
    return {
        "name": name,
        "prompt_tokens": sum(one.prompt_tokens for one in readings),
        "completion_tokens": sum(one.completion_tokens for one in readings),
        "errors": sum(one.error is not None for one in readings),
        "changed": sum(one.text != one.reader_text for one in readings),
        "better": sum(gain > 0 for gain in gains),
        "worse": sum(gain < 0 for gain in gains),
    }


def _timing(findings: Findings) -> dict[str, Any]:
    spent = findings.timings
    per_query = 1000.0 / len(findings.questions)
    return {name: spent.get(name) for name in (*BUILD_TIMINGS, "index_s")} | {
        "encode_queries_s": spent.get("encode_queries_s"),
        "profile_ms_per_query": _scaled(spent.get("profile_s"), per_query),
        "retrieve_ms_per_query": _scaled(spent.get("retrieve_s"), per_query),
        "first_searches_s": spent.get("first_searches_s"),
    }


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
