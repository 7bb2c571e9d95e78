"""`zeromem-gpu eval locomo | hotpotqa | jsonl`. Wiring only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.terminal import (
    Cache,
    Device,
    EncoderName,
    NoCache,
    Settings,
    Vectors,
    cache_of,
    console,
    group,
    guarded,
    names_of,
)

if TYPE_CHECKING:
    from zeromem_gpu.evaluate.datasets import Dataset
    from zeromem_gpu.evaluate.runner import NamedReader

eval_app = group("Measure on public benchmarks, or on data of your own.")

Out = Annotated[Path, typer.Option(help="Folder for metrics.json, evidence, answers and TREC files.")]
Views = Annotated[str, typer.Option(help="Compared over one index; the first is the headline.")]
K = Annotated[int, typer.Option("--k", help="Primary units of a reader's evidence.")]
Limit = Annotated[int | None, typer.Option(help="Most units of it, after closure.")]
Ablate = Annotated[
    str, typer.Option(help="graph-only, hierarchy-only, no-closure, no-calibration; commas between.")
]
Budget = Annotated[str, typer.Option(help="Other K to repeat the headline with, such as 1,2,3,5,10,20.")]
Baselines = Annotated[str, typer.Option(help="Flat rankings beside it: bm25, dense, hybrid, strong.")]
ReaderName = Annotated[str, typer.Option("--reader", help="none, extractive, openai, or recorded FILE.")]
ReaderFile = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="Answers of `--reader recorded`.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a killed run in the same folder.")]
Samples = Annotated[int, typer.Option("--latency-samples", help="Questions also asked singly.")]
Chunk = Annotated[int, typer.Option(help="Most traces in one index; 0 for all in one.")]


@eval_app.command("locomo")
@guarded
def eval_locomo(
    data: Annotated[Path, typer.Option(help="Folder that holds locomo10.json.")],
    out: Out,
    answers: ReaderFile = None,
    encoder: EncoderName = "minilm",
    reader: ReaderName = "none",
    views: Views = "both,graph,hierarchy",
    ablate: Ablate = "",
    budget: Budget = "",
    baselines: Baselines = "",
    k: K = 5,
    limit: Limit = None,
    settings: Settings = None,
    conversations: Annotated[str | None, typer.Option(help="Only these, such as conv-26,conv-30.")] = None,
    resume: Resume = False,
    device: Device = None,
    vectors: Vectors = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    samples: Samples = 200,
) -> None:
    """LoCoMo: ten conversations in one index, 1,540 questions in one batch."""
    from zeromem_gpu.evaluate.datasets import load_locomo

    _evaluate(
        lambda: load_locomo(data, conversations=conversations and names_of(conversations)),
        out, reader, answers, settings, resume,
        plan={"views": views, "ablate": ablate, "budget": budget, "baselines": baselines,
              "k": k, "limit": limit, "latency_samples": samples},
        memory=_models(encoder, device, vectors, cache, no_cache),
    )  # fmt: skip


@eval_app.command("hotpotqa")
@guarded
def eval_hotpotqa(
    data: Annotated[Path, typer.Option(help="Folder that holds dev500.jsonl and corpus.jsonl.")],
    out: Out,
    answers: ReaderFile = None,
    documents: Annotated[int, typer.Option("--docs", help="Documents a question: 400, 1600, 3200.")] = 400,
    questions: Annotated[int | None, typer.Option(help="Only the first N; all otherwise.")] = None,
    split: Annotated[str, typer.Option(help="reporting (dev 0-199) or tuning (the rest).")] = "reporting",
    seed: Annotated[int, typer.Option(help="Of the distractors and their order.")] = 0,
    encoder: EncoderName = "minilm",
    reader: ReaderName = "none",
    views: Views = "both,graph,hierarchy",
    ablate: Ablate = "",
    budget: Budget = "",
    baselines: Baselines = "",
    k: K = 5,
    limit: Limit = None,
    settings: Settings = None,
    resume: Resume = False,
    device: Device = None,
    vectors: Vectors = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    samples: Samples = 0,
    chunk: Chunk = 16_000,
) -> None:
    """HotpotQA as a memory: one bank a question, its documents among seeded distractors."""
    from zeromem_gpu.evaluate.hotpotqa import load_hotpotqa

    _evaluate(
        lambda: load_hotpotqa(data, documents=documents, questions=questions, split=split, seed=seed),
        out, reader, answers, settings, resume,
        plan={"views": views, "ablate": ablate, "budget": budget, "baselines": baselines,
              "k": k, "limit": limit, "latency_samples": samples, "chunk": chunk},
        memory=_models(encoder, device, vectors, cache, no_cache),
    )  # fmt: skip


@eval_app.command("jsonl")
@guarded
def eval_jsonl(
    traces: Annotated[Path, typer.Option(help="JSON Lines; one Trace a line.")],
    questions: Annotated[Path, typer.Option(help="JSON Lines: question, bank, answer, gold, category.")],
    out: Out,
    answers: ReaderFile = None,
    encoder: EncoderName = "minilm",
    reader: ReaderName = "none",
    views: Views = "both,graph,hierarchy",
    ablate: Ablate = "",
    budget: Budget = "",
    baselines: Baselines = "",
    k: K = 5,
    limit: Limit = None,
    settings: Settings = None,
    resume: Resume = False,
    device: Device = None,
    vectors: Vectors = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    samples: Samples = 0,
    chunk: Chunk = 0,
) -> None:
    """Traces and questions of your own."""
    from zeromem_gpu.evaluate.jsonl import load_jsonl

    _evaluate(
        lambda: load_jsonl(traces, questions),
        out, reader, answers, settings, resume,
        plan={"views": views, "ablate": ablate, "budget": budget, "baselines": baselines,
              "k": k, "limit": limit, "latency_samples": samples, "chunk": chunk},
        memory=_models(encoder, device, vectors, cache, no_cache),
    )  # fmt: skip


def _models(
    encoder: str, device: str | None, vectors: Path | None, cache: Path | None, no_cache: bool
) -> dict[str, Any]:
    """The options of a memory."""
    return {
        "encoder": encoder,
        "device": device,
        "vectors": vectors,
        "cache_dir": cache_of(cache, no_cache),
    }


def _evaluate(
    load: Callable[[], Dataset],
    out: Path,
    reader_name: str,
    answers: Path | None,
    settings: Sequence[str] | None,
    resume: bool,
    *,
    plan: dict[str, Any],
    memory: dict[str, Any],
) -> None:
    """One run from its options to its files."""
    from zeromem_gpu.settings import parse_settings

    changes = parse_settings(settings or [])
    for key, option in (("views", "--views"), ("top_k", "--k")):
        if key in changes:
            raise InvalidInput("--set", key, "every other key", f"Use {option}.")
    from zeromem_gpu import Config, Memory
    from zeromem_gpu.evaluate import report
    from zeromem_gpu.evaluate.answer_tables import loss_table, protocol_table
    from zeromem_gpu.evaluate.html import write_html
    from zeromem_gpu.evaluate.journal import Journal
    from zeromem_gpu.evaluate.plan import Plan
    from zeromem_gpu.evaluate.runner import run
    from zeromem_gpu.evaluate.summary import summarise
    from zeromem_gpu.evaluate.tables import tables
    from zeromem_gpu.printing import progress_bars

    k = plan["k"]
    checked = Plan(
        config=Config().replace(**changes, top_k=k),
        views=tuple(names_of(plan["views"])),
        ablations=tuple(names_of(plan["ablate"])),
        budget=tuple(_number("budget", one) for one in names_of(plan["budget"])),
        baselines=tuple(names_of(plan["baselines"])),
        depth=max(12, k),
        **{name: plan[name] for name in ("k", "limit", "latency_samples", "chunk") if name in plan},
    )
    dataset = load()
    reader = _reader(reader_name, answers, dataset)
    folder = report.prepare(out)

    def empty() -> Memory:
        return Memory(checked.config, **memory)

    facts = empty().info()
    what = {
        "dataset": dataset.name, **dataset.about, "questions": dataset.digest(), "plan": checked.to_dict(),
        "reader": reader and getattr(reader, "fingerprint", reader.name), "models": facts["fingerprint"],
    }  # fmt: skip
    journal = Journal(folder, what, resume=resume)
    report.forget(folder)
    with progress_bars() as update:
        findings = run(dataset, checked, empty, reader=reader, journal=journal, progress=update)
    summary = summarise(dataset, checked, findings, None if reader is None else reader.name)
    summary |= {
        "encoder": facts["fingerprint"]["encoder_fingerprint"],
        "machine": {**report.machine(), "device": facts["device"]},
        "versions": {**report.versions(), "ner": facts["fingerprint"]["ner"]},
    }
    report.write(dataset, findings, summary, folder, answers=reader is not None)
    page = write_html(folder)
    screen = console()
    for table in (protocol_table(summary), loss_table(summary)):
        if table is not None:
            screen.print(table)
    screen.print(tables(summary))
    screen.print(
        f"written to {folder}; {page.name} is for people", style="dim", markup=False, highlight=False
    )


def _reader(name: str, file: Path | None, dataset: Dataset) -> NamedReader | None:
    """The reader that was asked for, ready before anything is indexed."""
    if (name == "recorded") is not (file is not None):
        got = f"{name} {'without a file' if file is None else 'with a file'}"
        raise InvalidInput("--reader", got, "none, extractive, openai, or recorded FILE")
    if name == "none":
        return None
    if file is not None:
        from zeromem_gpu.evaluate.recorded import RecordedReader

        return RecordedReader.load(file, dataset)
    if name not in ("extractive", "openai"):
        raise InvalidInput("--reader", name, "none, extractive, openai, or recorded FILE")
    from zeromem_gpu.reader import make_reader

    return make_reader(name)


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(name, repr(text), "whole numbers with commas between") from None
