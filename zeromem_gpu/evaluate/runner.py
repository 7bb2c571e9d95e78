"""One evaluation: index a data set part by part, rank and read all its questions, keep every step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate.datasets import Conversation, Dataset, Question
from zeromem_gpu.evaluate.journal import Journal
from zeromem_gpu.evaluate.losses import Loss, find_losses
from zeromem_gpu.evaluate.plan import Plan
from zeromem_gpu.evaluate.reading import (
    NamedReader,
    Reading,
    ReadSome,
    failed,
    groups,
    read_engine,
    read_flat,
    read_step,
    search,
    support,
    unpacked,
)
from zeromem_gpu.evaluate.recorded import RecordedReader

if TYPE_CHECKING:
    from zeromem_gpu import Config, Memory, SearchResult

BUILD_TIMINGS = ("ner_s", "encode_s", "graph_s", "bm25_s")

Progress = Callable[[str, int, int], None]
Step = Callable[["Memory"], Any]


@dataclass(frozen=True, slots=True)
class Ranked:
    """One trace in a ranking: its id, the fused and the raw view scores, and what put it there."""

    id: str
    score: float
    graph: float | None
    hierarchy: float | None
    rule: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """The traces found for one question, best first, and its route.

    `support` is the rank (from 1) of each supporting span of the question, None where it was not returned.
    """

    route: str
    ranked: tuple[Ranked, ...]
    support: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Findings:
    """What a run found, by variant, in the order of `questions`; `timings` in seconds over all parts.

    `rankings` begins with the headline; flat baselines are among them by name. `losses` are None where the
    plan did not ask for them.
    """

    questions: tuple[Question, ...]
    rankings: Mapping[str, tuple[Ranking, ...]]
    readings: Mapping[str, tuple[Reading, ...]]
    timings: Mapping[str, float]
    single: Mapping[str, Any] | None
    losses: tuple[Loss, ...] | None = None


def run(
    dataset: Dataset,
    plan: Plan,
    make_memory: Callable[[], Memory],
    *,
    reader: NamedReader | None = None,
    journal: Journal | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Findings:
    """Do what `plan` says, part by part; each part has an empty memory of `make_memory` to itself.

    Steps that `journal` holds are not done again, but for the questions for which the reader failed: they
    are asked again. A part of which every step is there is not indexed.
    `progress` is called as (stage, done, total). A data set without questions is `InvalidInput`.
    """
    journal = journal or Journal(None, {})
    if not dataset.questions:
        raise InvalidInput("dataset", "no questions", "at least one question")
    parts = plan.chunks(dataset.conversations)
    total = sum(len(one.questions) for one in dataset.conversations)
    done = 0
    for number, part in enumerate(parts):
        _part(
            number,
            replace(dataset, conversations=tuple(part)),
            plan,
            make_memory,
            reader,
            journal,
            progress,
        )
        done += sum(len(one.questions) for one in part)
        progress("questions", done, total)
    return _gather(dataset, plan, parts, journal, reader)


def _part(
    number: int,
    dataset: Dataset,
    plan: Plan,
    make_memory: Callable[[], Memory],
    reader: NamedReader | None,
    journal: Journal,
    progress: Progress,
) -> None:
    """Every missing step of one part."""
    steps = {
        name: step
        for name, step in _steps(number, dataset, plan, reader, journal, progress)
        if name not in journal or _asks_again(journal[name], reader)
    }
    if not steps:
        return
    memory = make_memory()
    began = time.perf_counter()
    built = {**memory.add(dataset.traces, progress=progress).timings, **memory.prepare()}
    built["index_s"] = time.perf_counter() - began
    # models load and device copies are made at the first search: not a cost of each question
    firsts = {question.bank: question for question in reversed(dataset.questions)}
    began = time.perf_counter()
    search(memory, list(firsts.values()), config=plan.primary.config, top_k=plan.depth, limit=plan.depth)
    built["first_searches_s"] = time.perf_counter() - began
    if f"{number}/built" not in journal:
        journal.put(f"{number}/built", built)
    for at, (name, step) in enumerate(steps.items()):
        progress(f"steps of part {number + 1}", at, len(steps))
        journal.put(name, step(memory))
    progress(f"steps of part {number + 1}", len(steps), len(steps))


def _asks_again(value: Any, reader: NamedReader | None) -> bool:
    """Whether a kept step holds failures that another call of the reader may mend."""
    return bool(failed(value)) and not isinstance(reader, RecordedReader)


def _steps(
    number: int,
    dataset: Dataset,
    plan: Plan,
    reader: NamedReader | None,
    journal: Journal,
    progress: Progress,
) -> Iterator[tuple[str, Step]]:
    """The steps of one part by name, in their order."""

    def reading(name: str, read: ReadSome) -> Iterator[tuple[str, Step]]:
        for at, group in enumerate(groups(questions, reader)):
            step = f"{number}/read/{name}/{at}"
            yield step, read_step([questions[place] for place in group], read, journal.get(step))

    questions = dataset.questions
    for variant in plan.variants:
        yield f"{number}/rank/{variant.name}", _ranking_step(questions, variant.config, plan.depth)
    if plan.losses:
        yield f"{number}/losses", _losses_step(questions, plan)
    for name, variant, k in plan.readings:
        yield from reading(name, read_engine(variant, k, plan.limit, reader))
    if plan.baselines:
        yield f"{number}/flat", _flat_step(dataset, plan)
    if plan.baseline_answers and reader is not None:
        for name in plan.baselines:

            def ranked(name: str = name) -> Any:
                return journal[f"{number}/flat"][name]

            yield from reading(name, read_flat(dataset, plan, ranked, reader))
    if number == 0 and plan.latency_samples:

        def single(memory: Memory) -> Any:
            options: dict[str, Any] = {"top_k": plan.depth, "limit": plan.depth}
            return _single(
                memory, questions, plan.latency_samples, progress, config=plan.primary.config, **options
            )

        yield "single", single


def _ranking_step(questions: Sequence[Question], config: Config, depth: int) -> Step:
    def step(memory: Memory) -> Any:
        results = search(memory, questions, config=config, top_k=depth, limit=depth, explain=True)
        rows = [_ranking(result, question) for result, question in zip(results, questions, strict=True)]
        return {"rows": [_packed(row) for row in rows], "timings": dict(results[0].timings or {})}

    return step


def _losses_step(questions: Sequence[Question], plan: Plan) -> Step:
    def step(memory: Memory) -> Any:
        found = find_losses(memory, questions, plan.primary.config, plan.k, plan.depth)
        return [asdict(loss) for loss in found]

    return step


def _flat_step(dataset: Dataset, plan: Plan) -> Step:
    def step(memory: Memory) -> Any:
        from zeromem_gpu.evaluate.flat import rank_flat_all

        found = rank_flat_all(plan.baselines, dataset, memory, plan.depth)
        return {
            name: [_packed(Ranking("flat", tuple(ranked))) for ranked in rows]
            for name, rows in found.items()
        }

    return step


def _ranking(result: SearchResult, question: Question) -> Ranking:
    """The traces of a result, best first; a trace that was split counts once, where it first appears."""
    ranked: dict[str, Ranked] = {}
    for one in result:
        name = one.trace.id
        ranked.setdefault(name, Ranked(name, one.score, one.graph_score, one.hierarchy_score, one.rule))
    return Ranking(result.profile.route, tuple(ranked.values()), support(result, question))


def _packed(row: Ranking) -> dict[str, Any]:
    return {"route": row.route, "ranked": [astuple(one) for one in row.ranked], "support": row.support}


def _unpacked(row: Mapping[str, Any]) -> Ranking:
    return Ranking(row["route"], tuple(Ranked(*one) for one in row["ranked"]), tuple(row["support"]))


def _gather(
    dataset: Dataset,
    plan: Plan,
    parts: Sequence[Sequence[Conversation]],
    journal: Journal,
    reader: NamedReader | None,
) -> Findings:
    """The journal's steps as one result; a resumed run and a whole one come out the same."""
    rankings: dict[str, list[Ranking]] = {}
    for at in range(len(parts)):
        found = {one.name: journal[f"{at}/rank/{one.name}"]["rows"] for one in plan.variants}
        found |= journal[f"{at}/flat"] if plan.baselines else {}
        for name, rows in found.items():
            rankings.setdefault(name, []).extend(map(_unpacked, rows))
    readings: dict[str, list[Reading]] = {}
    flat = plan.baselines if plan.baseline_answers and reader is not None else ()
    for name in (*(name for name, _, _ in plan.readings), *flat):
        readings[name] = []
        for at, part in enumerate(parts):
            asked = [question for one in part for question in one.questions]
            for group in range(len(groups(asked, reader))):
                readings[name] += map(unpacked, journal[f"{at}/read/{name}/{group}"])
    timings: dict[str, float] = {}
    for at in range(len(parts)):
        for laps in (journal[f"{at}/built"], journal[f"{at}/rank/{plan.primary.name}"]["timings"]):
            for lap, seconds in laps.items():
                timings[lap] = timings.get(lap, 0.0) + seconds
    return Findings(
        questions=tuple(dataset.questions),
        rankings={name: tuple(rows) for name, rows in rankings.items()},
        readings={name: tuple(rows) for name, rows in readings.items()},
        timings=timings,
        single=journal["single"] if plan.latency_samples else None,
        losses=_losses(parts, journal) if plan.losses else None,
    )


def _losses(parts: Sequence[Any], journal: Journal) -> tuple[Loss, ...]:
    return tuple(Loss(**row) for at in range(len(parts)) for row in journal[f"{at}/losses"])


def _single(
    memory: Memory, questions: Sequence[Question], samples: int, progress: Progress, **options: Any
) -> dict[str, Any]:
    """Wall time of whole searches of one question, evenly spread over the part."""
    import numpy as np

    count = min(samples, len(questions))
    chosen = [questions[index * len(questions) // count] for index in range(count)]
    took = []
    for number, question in enumerate(chosen, 1):
        began = time.perf_counter()
        search(memory, [question], **options)
        took.append(1000.0 * (time.perf_counter() - began))
        progress("one at a time", number, count)
    p50, p99 = (float(value) for value in np.percentile(took, (50, 99)))
    return {"p50_ms": p50, "p99_ms": p99, "questions": count}
