"""`zeromem-gpu eval locomo | hotpotqa | jsonl`. Wiring only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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

eval_app = group("Measure on public benchmarks.")


@eval_app.command("locomo")
@guarded
def eval_locomo(
    data: Annotated[Path, typer.Option(help="Folder that holds locomo10.json.")],
    out: Annotated[Path, typer.Option(help="Folder for metrics.json, evidence.jsonl and TREC files.")],
    encoder: EncoderName = "minilm",
    views: Annotated[str, typer.Option(help="Compared over one index; the first is the headline.")] = (
        "both,graph,hierarchy"
    ),
    settings: Settings = None,
    conversations: Annotated[str | None, typer.Option(help="Only these, such as conv-26,conv-30.")] = None,
    k: Annotated[int, typer.Option("--k", help="Ranked turns kept for each question.")] = 12,
    device: Device = None,
    vectors: Vectors = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    samples: Annotated[int, typer.Option("--latency-samples", help="Questions also asked singly.")] = 200,
) -> None:
    """Evidence recall on LoCoMo: ten conversations in one index, 1,540 questions in one batch."""
    from zeromem_gpu.evaluate.datasets import load_locomo
    from zeromem_gpu.settings import parse_settings

    changes = parse_settings(settings or [])
    if "views" in changes:
        raise InvalidInput("--set", "views", "every other key", "Use --views.")
    dataset = load_locomo(data, conversations=None if conversations is None else names_of(conversations))
    from zeromem_gpu import Config, Memory
    from zeromem_gpu.evaluate import report
    from zeromem_gpu.evaluate.runner import check_run, evaluate
    from zeromem_gpu.printing import progress_bars

    check_run(dataset.questions, names_of(views), k, samples)
    folder = report.prepare(out)
    config = Config().replace(**({"top_k": k} | changes))
    memory = Memory(
        config, encoder=encoder, device=device, vectors=vectors, cache_dir=cache_of(cache, no_cache)
    )
    with progress_bars() as update:
        found = evaluate(
            dataset,
            memory,
            config,
            views=names_of(views),
            depth=k,
            latency_samples=samples,
            progress=update,
        )
    facts = memory.info()
    extra = {
        "encoder": facts["fingerprint"]["encoder_fingerprint"],
        "machine": {**report.machine(), "device": facts["device"]},
        "versions": {**report.versions(), "ner": facts["fingerprint"]["ner"]},
    }
    report.write(found, folder, extra)
    screen = console()
    screen.print(report.table(found.summary))
    screen.print(f"written to {folder}", style="dim", markup=False, highlight=False)
