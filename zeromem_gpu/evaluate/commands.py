"""`zeromem-gpu eval locomo | hotpotqa | jsonl`. Wiring only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate.options import RunOptions
from zeromem_gpu.terminal import console, group, guarded, names_of, with_options

if TYPE_CHECKING:
    from zeromem_gpu.evaluate.datasets import Dataset
    from zeromem_gpu.evaluate.plan import Plan
    from zeromem_gpu.evaluate.reading import NamedReader

_READERS = "none, extractive, openai, or recorded FILE"

eval_app = group("Measure on public benchmarks, or on data of your own.")


@eval_app.command("locomo")
@guarded
@with_options(RunOptions, latency_samples=200)
def eval_locomo(
    options: RunOptions,
    data: Annotated[Path, typer.Option(help="Folder that holds locomo10.json.")],
    conversations: Annotated[str | None, typer.Option(help="Only these, such as conv-26,conv-30.")] = None,
) -> None:
    """LoCoMo: ten conversations in one index, 1,540 questions in one batch."""
    from zeromem_gpu.evaluate.datasets import load_locomo

    _evaluate(lambda: load_locomo(data, conversations=conversations and names_of(conversations)), options)


@eval_app.command("hotpotqa")
@guarded
@with_options(RunOptions, chunk=16_000)
def eval_hotpotqa(
    options: RunOptions,
    data: Annotated[Path, typer.Option(help="Folder that holds dev500.jsonl and corpus.jsonl.")],
    documents: Annotated[int, typer.Option("--docs", help="Documents a question: 400, 1600, 3200.")] = 400,
    questions: Annotated[int | None, typer.Option(help="Only the first N; all otherwise.")] = None,
    split: Annotated[str, typer.Option(help="reporting (dev 0-199) or tuning (the rest).")] = "reporting",
    seed: Annotated[int, typer.Option(help="Of the distractors and their order.")] = 0,
) -> None:
    """HotpotQA as a memory: one bank a question, its documents among seeded distractors."""
    from zeromem_gpu.evaluate.hotpotqa import load_hotpotqa

    _evaluate(
        lambda: load_hotpotqa(data, documents=documents, questions=questions, split=split, seed=seed),
        options,
    )


@eval_app.command("jsonl")
@guarded
@with_options(RunOptions)
def eval_jsonl(
    options: RunOptions,
    traces: Annotated[Path, typer.Option(help="JSON Lines; one Trace a line.")],
    questions: Annotated[Path, typer.Option(help="JSON Lines: question, bank, answer, gold, category.")],
) -> None:
    """Traces and questions of your own."""
    from zeromem_gpu.evaluate.jsonl import load_jsonl

    _evaluate(lambda: load_jsonl(traces, questions), options)


def _evaluate(load: Callable[[], Dataset], options: RunOptions) -> None:
    """Check everything, then run, resume or refuse; results are written, then shown."""
    from zeromem_gpu import Memory
    from zeromem_gpu.evaluate import report
    from zeromem_gpu.evaluate.answer_tables import loss_table, protocol_table, stage_table
    from zeromem_gpu.evaluate.html import write_html
    from zeromem_gpu.evaluate.journal import Journal
    from zeromem_gpu.evaluate.runner import run
    from zeromem_gpu.evaluate.summary import summarise
    from zeromem_gpu.evaluate.tables import tables
    from zeromem_gpu.printing import progress_bars

    plan, memory = options.plan(), options.memory()
    dataset = load()
    reader = _reader(options, plan, dataset)
    folder = report.prepare(options.out)

    def empty() -> Memory:
        return Memory(plan.config, **memory)

    facts = empty().info()
    what = {
        "dataset": dataset.name, **dataset.about, "questions": dataset.digest(), "plan": plan.to_dict(),
        "reader": reader and getattr(reader, "fingerprint", reader.name), "models": facts["fingerprint"],
    }  # fmt: skip
    journal = Journal(folder, what, resume=options.resume)
    report.forget(folder)
    with progress_bars() as update:
        findings = run(dataset, plan, empty, reader=reader, journal=journal, progress=update)
    summary = summarise(dataset, plan, findings, None if reader is None else reader.name)
    summary |= {
        "encoder": facts["fingerprint"]["encoder_fingerprint"],
        "machine": {**report.machine(), "device": facts["device"]},
        "versions": {**report.versions(), "ner": facts["fingerprint"]["ner"]},
    }
    report.write(dataset, findings, summary, folder, answers=reader is not None)
    page = write_html(folder)
    screen = console()
    for table in (protocol_table(summary), loss_table(summary), stage_table(summary)):
        if table is not None:
            screen.print(table)
    screen.print(tables(summary))
    unread = sum(one.error is not None for rows in findings.readings.values() for one in rows)
    if unread:
        screen.print(f"{unread:,} answers failed; --resume asks for them again", style="yellow")
    screen.print(
        f"written to {folder}; {page.name} is for people", style="dim", markup=False, highlight=False
    )


def _reader(options: RunOptions, plan: Plan, dataset: Dataset) -> NamedReader | None:
    """The reader that was asked for, ready before anything is indexed."""
    name, file = options.reader, options.answers
    if (name == "recorded") is not (file is not None):
        got = f"{name} {'without a file' if file is None else 'with a file'}"
        raise InvalidInput("--reader", got, _READERS)
    if name not in ("none", "extractive", "openai", "recorded"):
        raise InvalidInput("--reader", name, _READERS)
    if plan.baseline_answers and name in ("none", "recorded"):
        raise InvalidInput("--baseline-answers", f"it with --reader {name}", "it with extractive or openai")
    if name == "none":
        return None
    if file is not None:
        from zeromem_gpu.evaluate.recorded import RecordedReader

        return RecordedReader.load(file, dataset)
    from zeromem_gpu.ask import reader_for

    return reader_for(name, plan.config.timezone)
