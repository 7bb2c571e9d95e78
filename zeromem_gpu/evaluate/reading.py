"""Evidence sets and what a reader makes of them, the engine's and the flat baselines' alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from zeromem_gpu.evaluate.datasets import Dataset, Question
from zeromem_gpu.evaluate.plan import Plan, Variant, reading_groups

if TYPE_CHECKING:
    from zeromem_gpu import Answer, Memory, SearchResult

Rows = list[dict[str, Any]]
# the readings of some questions of one group
ReadSome = Callable[["Memory", Sequence[Question]], Rows]


class NamedReader(Protocol):
    """What answers from evidence; see `zeromem_gpu.reader`."""

    name: str

    def read(self, results: Sequence[SearchResult]) -> Sequence[Any]:
        """One reply a result, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """The evidence set of one question and what a reader made of it.

    `ids` are its traces in order, `units` how many units it has. Without a reader the rest stays empty;
    `reader_text` is the answer before calibration and `changes` what calibration did.
    """

    ids: tuple[str, ...]
    units: int
    support: tuple[int | None, ...] = ()
    text: str | None = None
    reader_text: str | None = None
    changes: tuple[Mapping[str, Any], ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    error: str | None = None


def groups(questions: Sequence[Question], reader: NamedReader | None) -> list[list[int]]:
    """Questions that are read together; without a reader nothing is slow enough to keep in pieces."""
    return [list(range(len(questions)))] if reader is None else reading_groups(questions)


def failed(value: Any) -> list[int]:
    """Places of the questions for which the reader failed in the kept value of a step."""
    rows = value if isinstance(value, list) else []
    return [at for at, row in enumerate(rows) if row.get("error") is not None]


def read_step(
    questions: Sequence[Question], read: ReadSome, before: Rows | None
) -> Callable[[Memory], Rows]:
    """A step that reads all questions, or of a reading of `before` only those that failed there."""

    def step(memory: Memory) -> Rows:
        if before is None:
            return read(memory, questions)
        places, rows = failed(before), list(before)
        again = read(memory, [questions[at] for at in places])
        for at, row in zip(places, again, strict=True):
            rows[at] = row
        return rows

    return step


def read_engine(variant: Variant, k: int, limit: int | None, reader: NamedReader | None) -> ReadSome:
    """Readings of the evidence that a variant finds."""

    def read(memory: Memory, questions: Sequence[Question]) -> Rows:
        options: dict[str, Any] = {"config": variant.config, "top_k": k, "limit": limit}
        if reader is None:
            found = search(memory, questions, **options)
            return [
                asdict(_evidence_set(one, question)) for one, question in zip(found, questions, strict=True)
            ]
        answers = memory.ask(
            [question.text for question in questions], bank=[question.bank for question in questions],
            reader=reader, calibrate=variant.calibrate, **options,
        )  # fmt: skip
        return _rows(answers, questions)

    return read


def read_flat(
    dataset: Dataset, plan: Plan, ranked: Callable[[], Sequence[Mapping[str, Any]]], reader: NamedReader
) -> ReadSome:
    """Readings of the first K traces of a flat ranking, whole, under the profiles of the same questions.

    `ranked` gives a packed ranking for each of the data set's questions.
    """

    def read(memory: Memory, questions: Sequence[Question]) -> Rows:
        from zeromem_gpu import Evidence
        from zeromem_gpu.ask import answer_all

        place = {question.id: at for at, question in enumerate(dataset.questions)}
        needed = {question.bank for question in questions}
        traces = {
            one.id: {trace.id: trace for trace in one.traces}
            for one in dataset.conversations
            if one.id in needed
        }
        rankings, count = ranked(), plan.k if plan.limit is None else min(plan.k, plan.limit)
        results = []
        for result, question in zip(
            search(memory, questions, config=plan.primary.config, top_k=1, limit=1), questions, strict=True
        ):
            evidence = []
            for name, score, _, _, rule in rankings[place[question.id]]["ranked"][:count]:
                trace = traces[question.bank][name]
                evidence.append(Evidence(trace, score, None, None, rule, 0, len(trace.text)))
            results.append(replace(result, evidence=tuple(evidence)))
        zone = memory.config.timezone
        answers = answer_all(results, reader, calibrate=plan.primary.calibrate, zone=zone)  # type: ignore[arg-type]
        return _rows(answers, questions)

    return read


def search(memory: Memory, questions: Sequence[Question], **options: Any) -> list[SearchResult]:
    """One batch over all banks; each question sees its own conversation only."""
    texts = [question.text for question in questions]
    return list(memory.search(texts, bank=[question.bank for question in questions], **options))


def support(result: SearchResult, question: Question) -> tuple[int | None, ...]:
    """The rank of the first unit that holds the whole of each supporting span."""

    def rank(name: str, start: int, end: int) -> int | None:
        places = (
            place
            for place, one in enumerate(result, 1)
            if one.trace.id == name and one.start <= start and end <= one.end
        )
        return next(places, None)

    return tuple(rank(*span) for span in question.support)


def unpacked(row: Mapping[str, Any]) -> Reading:
    """A reading from its JSON values."""
    lists = {name: tuple(row[name]) for name in ("ids", "support", "changes")}
    return Reading(**{**row, **lists})


def _evidence_set(result: SearchResult, question: Question) -> Reading:
    ids = tuple(dict.fromkeys(one.trace.id for one in result))
    return Reading(ids, len(result), support(result, question))


def _rows(answers: Sequence[Answer], questions: Sequence[Question]) -> Rows:
    rows = []
    for answer, question in zip(answers, questions, strict=True):
        reading = replace(
            _evidence_set(answer.result, question),
            text=answer.text,
            reader_text=answer.reader_text,
            changes=tuple(asdict(change) for change in answer.changes),
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            error=answer.error,
        )
        rows.append(asdict(reading))
    return rows
