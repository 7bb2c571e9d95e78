"""The command line: `zeromem-gpu index | search | info | vectors | eval | demo`. Wiring only."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer
from rich.console import Console

from zeromem_gpu.errors import InvalidInput, ZeroMemError

P = ParamSpec("P")


def _guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Errors as one red line on stderr: exit 2 for those raised on purpose, 1 for faults of ours."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except ZeroMemError as error:
            message, code = str(error), 2
        except Exception as error:
            hint = "set ZEROMEM_DEBUG=1 to see the trace, and please report it"
            message, code = f"unexpected {type(error).__name__}: {error} ({hint})", 1
            if os.environ.get("ZEROMEM_DEBUG"):
                raise
        else:
            return
        from zeromem_gpu.printing import print_error

        print_error(message)
        raise typer.Exit(code)

    return run


_OPTIONS: dict[str, Any] = {"no_args_is_help": True, "add_completion": False}
app = typer.Typer(
    help="Memory for agents without an LLM: index what was said, find the evidence for a question.",
    pretty_exceptions_enable=False,
    **_OPTIONS,
)
vectors_app = typer.Typer(help="Vectors made elsewhere, or for elsewhere.", **_OPTIONS)
eval_app = typer.Typer(help="Measure on public benchmarks.", **_OPTIONS)
app.add_typer(vectors_app, name="vectors")
app.add_typer(eval_app, name="eval")

_ENCODER = typer.Option("--encoder", help="minilm, BAAI/bge-m3, or a sentence-transformers name or path.")
EncoderName = Annotated[str, _ENCODER]
EncoderChoice = Annotated[str | None, _ENCODER]
Vectors = Annotated[Path | None, typer.Option(help="Take vectors from this file (see `vectors export`).")]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or cuda:N; else ZEROMEM_DEVICE, else the best.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A field of Config; repeatable.")
]
Cache = Annotated[Path | None, typer.Option(help="Folder of the encoder and NER cache.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Compute everything anew.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show profile, view scores, rules, stage times.")]


@app.command()
@_guarded
def index(
    traces: Annotated[Path, typer.Argument(help="JSON Lines; one Trace a line.")],
    out: Annotated[Path, typer.Option(help="Index folder; traces are added where it is one.")],
    encoder: EncoderChoice = None,
    vectors: Vectors = None,
    device: Device = None,
    settings: Settings = None,
    cache: Cache = None,
    no_cache: NoCache = False,
) -> None:
    """Index traces, or add them to an index."""
    from zeromem_gpu.printing import added_view, progress_bars
    from zeromem_gpu.settings import parse_settings
    from zeromem_gpu.traces import read_traces

    changes = parse_settings(settings or [])
    rows = list(read_traces(traces))
    from zeromem_gpu import Config, Memory

    options: dict[str, Any] = {"device": device, "vectors": vectors, "cache_dir": _cache(cache, no_cache)}
    if out.is_dir() and any(out.iterdir()):  # Memory.open refuses what is no index
        if changes:
            raise InvalidInput("--set", ", ".join(changes), "nothing where --out is an index already")
        memory = Memory.open(out, encoder=encoder, **options)
    else:
        _make_folder(out)
        options |= {} if encoder is None else {"encoder": encoder}
        memory = Memory(Config().replace(**changes), **options)
    with progress_bars() as update:
        report = memory.add(rows, progress=update)
    memory.save(out)
    _console().print(added_view(report))


@app.command()
@_guarded
def search(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Index folder.")],
    questions: Annotated[list[str], typer.Argument(metavar="QUESTION", help="Asked as one batch.")],
    bank: Annotated[str | None, typer.Option(help="The bank to ask.")] = None,
    session: Annotated[list[str] | None, typer.Option(help="Only this session; repeatable.")] = None,
    speaker: Annotated[list[str] | None, typer.Option(help="Only this speaker; repeatable.")] = None,
    after: Annotated[str | None, typer.Option(help="Only from this time on.")] = None,
    before: Annotated[str | None, typer.Option(help="Only up to this time.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Primary units.")] = None,
    limit: Annotated[int | None, typer.Option(help="Most units returned.")] = None,
    explain: Explain = False,
    as_json: AsJson = False,
    encoder: EncoderChoice = None,
    vectors: Vectors = None,
    device: Device = None,
    cache: Cache = None,
    no_cache: NoCache = False,
) -> None:
    """Find the evidence for questions."""
    from zeromem_gpu import Boundary, Config, Memory
    from zeromem_gpu.printing import result_value, result_view, timings_line

    for question in questions:
        if not question.strip():
            raise InvalidInput("question", repr(question), "a text that is not blank")
    if top_k is not None:
        Config().replace(top_k=top_k)
    if limit is not None and limit < 1:
        raise InvalidInput("limit", limit, "a whole number from 1")
    boundary = None
    if session or speaker or after is not None or before is not None:
        sessions, speakers = tuple(session or ()) or None, tuple(speaker or ()) or None
        boundary = Boundary(sessions, speakers, after, before)
    memory = Memory.open(
        directory, encoder=encoder, device=device, vectors=vectors, cache_dir=_cache(cache, no_cache)
    )
    results = memory.search(
        list(questions), bank=bank, boundary=boundary, top_k=top_k, limit=limit, explain=explain
    )
    if as_json:
        _print_json([result_value(result) for result in results])
        return
    console = _console()
    for result in results:
        console.print(result_view(result, explain=explain))
    if explain and results[0].timings:
        console.print(timings_line(results[0].timings, len(results)))


@app.command()
@_guarded
def info(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Index folder.")],
    as_json: AsJson = False,
) -> None:
    """Show what an index holds and how it was made."""
    from zeromem_gpu import Memory
    from zeromem_gpu.printing import info_view

    facts = Memory.open(directory).info()
    if as_json:
        _print_json(facts)
    else:
        _console().print(info_view(facts))


@vectors_app.command("export")
@_guarded
def vectors_export(
    encoder: EncoderName,
    out: Annotated[Path, typer.Option(help="The safetensors file to write.")],
    cache: Cache = None,
) -> None:
    """Write an encoder's cached vectors to a file that `--vectors` reads on any machine."""
    from zeromem_gpu import Memory

    memory = Memory(encoder=encoder, device="cpu", cache_dir=cache)
    try:
        count = memory.export_vectors(out)
    except OSError as error:
        raise InvalidInput("--out", f"{out} ({error.strerror})", "a file that can be written") from error
    _console().print(
        f"{count:,} vectors of {memory.info()['fingerprint']['encoder_fingerprint']} in {out}", markup=False
    )


@eval_app.command("locomo")
@_guarded
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
    dataset = load_locomo(data, conversations=None if conversations is None else _names(conversations))
    from zeromem_gpu import Config, Memory
    from zeromem_gpu.evaluate import report
    from zeromem_gpu.evaluate.runner import check_run, evaluate
    from zeromem_gpu.printing import progress_bars

    check_run(dataset.questions, _names(views), k, samples)
    folder = report.prepare(out)
    config = Config().replace(**({"top_k": k} | changes))
    memory = Memory(
        config, encoder=encoder, device=device, vectors=vectors, cache_dir=_cache(cache, no_cache)
    )
    with progress_bars() as update:
        found = evaluate(
            dataset, memory, config, views=_names(views), depth=k, latency_samples=samples, progress=update
        )
    facts = memory.info()
    extra = {
        "encoder": facts["fingerprint"]["encoder_fingerprint"],
        "machine": {**report.machine(), "device": facts["device"]},
        "versions": {**report.versions(), "ner": facts["fingerprint"]["ner"]},
    }
    report.write(found, folder, extra)
    console = _console()
    console.print(report.table(found.summary))
    console.print(f"written to {folder}", style="dim", markup=False, highlight=False)


@app.command()
@_guarded
def demo(
    encoder: EncoderName = "minilm",
    device: Device = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Index an invented conversation and ask it a handful of questions; needs no network and no data."""
    from zeromem_gpu import Memory
    from zeromem_gpu.evaluate.demo import load_demo
    from zeromem_gpu.printing import added_view, progress_bars, result_value, result_view, timings_line

    traces, questions = load_demo()
    memory = Memory(encoder=encoder, device=device, cache_dir=_cache(cache, no_cache))
    with progress_bars() as update:
        report = memory.add(traces, progress=update)
    banks = [question.bank for question in questions]
    results = memory.search([question.text for question in questions], bank=banks, explain=True)
    if as_json:
        _print_json([result_value(result) for result in results])
        return
    console = _console()
    some = whole = 0
    for question, result in zip(questions, results, strict=True):
        hits = {one.trace.id for one in result}.intersection(question.expected)
        some, whole = some + bool(hits), whole + (len(hits) == len(question.expected))
        view = result_view(result, explain=True, expected=question.expected, answer=question.answer)
        console.print(view)
    console.print(added_view(report))
    console.print(timings_line(results[0].timings or {}, len(results)))
    text = f"{some} of {len(questions)} questions found evidence of their answer, {whole} all of it"
    console.print(f"{text}; 0 LLM tokens", style="bold")


def _make_folder(folder: Path) -> None:
    """Find an unusable --out before the work, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            "--out", f"{folder} ({error.strerror})", "a folder that can be written"
        ) from error


def _console() -> Console:
    return Console(highlight=False)


def _print_json(value: Any) -> None:
    # ASCII escapes: lone surrogates in a trace must not break the pipe
    typer.echo(json.dumps(value, indent=2, default=str))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _cache(cache: Path | None, no_cache: bool) -> Path | bool | None:
    if cache is not None and no_cache:
        raise InvalidInput("--cache", f"{cache} with --no-cache", "one of them")
    return False if no_cache else cache


def main() -> None:
    """The installed command."""
    app()


if __name__ == "__main__":
    main()
