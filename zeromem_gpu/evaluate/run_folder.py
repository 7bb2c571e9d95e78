"""What an evaluation left in its folder, read back question by question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate import metrics
from zeromem_gpu.evaluate.datasets import CATEGORIES
from zeromem_gpu.traces import read_json_lines

Scores = dict[str, dict[str, float]]

_REMEDY = "Give the --out folder of a finished `zeromem-gpu eval`."


@dataclass(frozen=True)
class Asked:
    """One question of a run: its text, the name of its category, the gold ids that count."""

    text: str
    bank: str
    kind: str
    gold: tuple[str, ...]


@dataclass(frozen=True)
class RunFolder:
    """A run: `questions` by id, `scores` metric → question id → value, `summary` its metrics.json.

    Evidence metrics cover the questions with gold ids, answer metrics those whose answer is known;
    `reader_scores` are answer metrics before calibration.
    """

    path: Path
    questions: Mapping[str, Asked]
    scores: Scores
    reader_scores: Scores = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reporting(self) -> frozenset[str]:
        """The banks that nothing was tuned on, where the run has both sides of a split; else none."""
        sides = [self.summary.get(name) or {} for name in ("reporting", "tuning")]
        if not all(isinstance(side, Mapping) and side.get("questions") for side in sides):
            return frozenset()
        return frozenset(sides[0].get("conversations", ()))


def read_run(folder: str | Path) -> RunFolder:
    """Read a run folder; `evidence.jsonl` must be there, `answers.jsonl` and `metrics.json` may be.

    A missing, torn or foreign file is `InvalidInput` that names it.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InvalidInput("run", str(path), "a folder", _REMEDY)
    questions: dict[str, Asked] = {}
    ranked: dict[str, list[str]] = {}
    for where, row in _rows(path / "evidence.jsonl"):
        try:
            name = f"{row['bank']}/{row['qa_index']}"
            gold = tuple(map(str, row["gold"])) if row["scored"] else ()
            asked = Asked(row["question"], str(row["bank"]), _kind(row["category"]), gold)
            ids = [str(one["id"]) for one in row["ranked"]]
        except (KeyError, TypeError) as error:
            raise InvalidInput(
                where, f"another schema ({error!r})", "a row of `zeromem-gpu eval`"
            ) from error
        if name in questions:
            raise InvalidInput(where, f"question {name} a second time", "each question once", _REMEDY)
        questions[name], ranked[name] = asked, list(dict.fromkeys(ids))
    if not questions:
        raise InvalidInput(str(path / "evidence.jsonl"), "no questions", "one row a question", _REMEDY)
    after, before = _answer_scores(path / "answers.jsonl", questions)
    scores = evidence_scores(questions, ranked) | after
    return RunFolder(path, questions, scores, before, read_summary(path))


def read_summary(folder: Path) -> dict[str, Any]:
    """`metrics.json` of a run; empty where there is none (a run that was killed)."""
    file = folder / "metrics.json"
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(str(file), f"no JSON ({error})", "a whole JSON file", _REMEDY) from error
    if not isinstance(found, dict):
        raise InvalidInput(str(file), type(found).__name__, "a JSON object", _REMEDY)
    return found


def read_trec_run(file: Path) -> dict[str, list[str]]:
    """Question id → ranked ids of a TREC run file, in its order of ranks."""
    found: dict[str, list[tuple[int, str]]] = {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InvalidInput(str(file), error.strerror or error, "a readable file") from error
    for number, line in enumerate(lines, 1):
        # an id may hold blanks: a document's title does
        parts = line.split(" ")
        if len(parts) < 6 or not parts[-3].isdigit():
            raise InvalidInput(f"{file}:{number}", repr(line[:60]), "question Q0 id rank score tag")
        found.setdefault(parts[0], []).append((int(parts[-3]), " ".join(parts[2:-3])))
    return {question: [one for _, one in sorted(rows)] for question, rows in found.items()}


def named_as_in_trec(questions: Mapping[str, Asked]) -> dict[str, Asked]:
    """The same questions, with their gold ids as TREC files write them."""
    return {
        name: replace(one, gold=tuple(map(metrics.trec_name, one.gold))) for name, one in questions.items()
    }


def evidence_scores(questions: Mapping[str, Asked], ranked: Mapping[str, Sequence[str]]) -> Scores:
    """Evidence metric → question id → value, for the questions with gold ids."""
    values = metrics.per_question({name: one.gold for name, one in questions.items()}, ranked)
    return {metric: {name: row[metric] for name, row in values.items()} for metric in metrics.METRICS}


def _answer_scores(file: Path, questions: Mapping[str, Asked]) -> tuple[Scores, Scores]:
    """Metric (`gam f1`) → question id → value, after calibration and before it; {} without the file."""
    after: Scores = {}
    before: Scores = {}
    for where, row in _rows(file) if file.is_file() else ():
        try:
            name = f"{row['bank']}/{row['qa_index']}"
            for found, key in ((after, "scores"), (before, "reader_scores")):
                for protocol, values in row[key].items():
                    # None where the question has no known answer
                    for metric, value in (values or {}).items():
                        found.setdefault(f"{protocol} {metric}", {})[name] = float(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(
                where, f"another schema ({error!r})", "a row of `zeromem-gpu eval`"
            ) from error
        if name not in questions:
            raise InvalidInput(where, f"question {name}", "the questions of evidence.jsonl", _REMEDY)
    return after, before


def _rows(file: Path) -> list[tuple[str, dict[str, Any]]]:
    if not file.is_file():
        raise InvalidInput(str(file), "no such file", "a file of `zeromem-gpu eval`", _REMEDY)
    return [(f"{file}:{number}", row) for number, row in read_json_lines(file)]


def _foreign(where: str, error: Exception) -> InvalidInput:
    return InvalidInput(where, f"another schema ({error!r})", "a row of `zeromem-gpu eval`")


def _kind(category: Any) -> str:
    return CATEGORIES.get(category, str(category)) if isinstance(category, int) else str(category)
