"""The command line: index, export, purge, search, ask, info, doctor, vectors, eval, compare, demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zeromem_gpu.errors import InvalidInput, StoreError
from zeromem_gpu.evaluate.commands import eval_app
from zeromem_gpu.evaluate.compare import compare_command
from zeromem_gpu.terminal import (
    AsJson,
    Bank,
    Cache,
    Device,
    EncoderChoice,
    EncoderName,
    Explain,
    IndexFolder,
    Limit,
    NoCache,
    Questions,
    Settings,
    TopK,
    Vectors,
    cache_of,
    console,
    group,
    guarded,
    print_json,
)

if TYPE_CHECKING:
    from zeromem_gpu import Memory

app = group("Memory for agents without an LLM: index what was said, find the evidence for a question.")
vectors_app = group("Vectors made elsewhere, or for elsewhere.")
app.add_typer(vectors_app, name="vectors")
app.add_typer(eval_app, name="eval")
app.command("compare")(guarded(compare_command))


@app.command()
@guarded
def index(
    traces: Annotated[Path, typer.Argument(help="JSON Lines; one Trace a line.")],
    out: Annotated[Path, typer.Option(help="Index folder; traces are added where it is one.")],
    encoder: EncoderChoice = None,
    vectors: Vectors = None,
    device: Device = None,
    settings: Settings = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how large the index would be.")
    ] = False,
) -> None:
    """Index traces, or add them to an index."""
    from dataclasses import asdict

    from zeromem_gpu.printing import added_view, info_view, progress_bars
    from zeromem_gpu.settings import parse_settings
    from zeromem_gpu.traces import read_traces

    changes = parse_settings(settings or [])
    rows = list(read_traces(traces))
    from zeromem_gpu import Config, Memory

    options: dict[str, Any] = {"device": device, "vectors": vectors, "cache_dir": cache_of(cache, no_cache)}
    if out.is_dir() and any(out.iterdir()):  # Memory.open refuses what is no index
        if changes:
            raise InvalidInput("--set", ", ".join(changes), "nothing where --out is an index already")
        memory = Memory.open(out, encoder=encoder, **options)
    else:
        if not dry_run:
            _make_folder(out)
        options |= {} if encoder is None else {"encoder": encoder}
        memory = Memory(Config().replace(**changes), **options)
    if dry_run:
        console().print(info_view(asdict(memory.estimate(rows))))
        return
    with progress_bars() as update:
        report = memory.add(rows, progress=update)
    memory.save(out)
    console().print(added_view(report))


@app.command()
@guarded
def export(
    directory: IndexFolder,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The JSON Lines file to write.")],
    bank: Annotated[str | None, typer.Option(help="Only this bank.")] = None,
) -> None:
    """Write an index's raw traces with all their fields, as `index` reads them.

    Needs no model, and works where other files of the index are damaged.
    """
    from zeromem_gpu.store import stored_traces
    from zeromem_gpu.traces import write_traces

    traces = (trace for trace in stored_traces(directory) if bank is None or trace.bank == bank)
    try:
        count = write_traces(out, traces)
    except StoreError:
        raise
    except OSError as error:
        raise InvalidInput("FILE", f"{out} ({error.strerror})", "a file that can be written") from error
    console().print(f"{count:,} traces in {out}", markup=False)


@app.command()
@guarded
def purge(
    directory: IndexFolder,
    trace: Annotated[list[str] | None, typer.Option("--id", help="Only this trace id; repeatable.")] = None,
    bank: Bank = None,
    session: Annotated[list[str] | None, typer.Option(help="Only this session; repeatable.")] = None,
    before: Annotated[str | None, typer.Option(help="Only traces with an earlier time.")] = None,
    encoder: EncoderChoice = None,
    vectors: Vectors = None,
) -> None:
    """Forget traces for good: out of the index, its files, and the version before.

    Conditions add up; --bank alone forgets the whole bank. Traces without a time stay with --before.
    """
    memory = _open(directory, encoder, vectors, "cpu", None, no_cache=True)
    gone = memory.delete(trace, bank=bank, sessions=session, before=before)
    if gone:
        memory.compact()
        memory.save(directory, only=True)
    left = memory.info()["traces"]
    console().print(f"{gone:,} traces forgotten, {left:,} left in {directory}")


@app.command()
@guarded
def search(
    directory: IndexFolder,
    questions: Questions,
    bank: Bank = None,
    session: Annotated[list[str] | None, typer.Option(help="Only this session; repeatable.")] = None,
    speaker: Annotated[list[str] | None, typer.Option(help="Only this speaker; repeatable.")] = None,
    after: Annotated[str | None, typer.Option(help="Only from this time on.")] = None,
    before: Annotated[str | None, typer.Option(help="Only up to this time.")] = None,
    top_k: TopK = None,
    limit: Limit = None,
    explain: Explain = False,
    as_json: AsJson = False,
    encoder: EncoderChoice = None,
    vectors: Vectors = None,
    device: Device = None,
    cache: Cache = None,
    no_cache: NoCache = False,
) -> None:
    """Find the evidence for questions."""
    from zeromem_gpu import Boundary
    from zeromem_gpu.printing import result_value, result_view, timings_line

    asked = _asked(questions, bank, top_k, limit, explain)
    boundary = None
    if session or speaker or after is not None or before is not None:
        sessions, speakers = tuple(session or ()) or None, tuple(speaker or ()) or None
        boundary = Boundary(sessions, speakers, after, before)
    memory = _open(directory, encoder, vectors, device, cache, no_cache)
    results = memory.search(list(questions), boundary=boundary, **asked)
    if as_json:
        print_json([result_value(result) for result in results])
        return
    screen = console()
    for result in results:
        screen.print(result_view(result, explain=explain))
    if explain and results[0].timings:
        screen.print(timings_line(results[0].timings, len(results)))


@app.command()
@guarded
def ask(
    directory: IndexFolder,
    questions: Questions,
    reader: Annotated[str, typer.Option(help="extractive (no model) or openai.")] = "extractive",
    model: Annotated[str | None, typer.Option(help="Model of the openai reader.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Server of the openai reader.")] = None,
    bank: Bank = None,
    top_k: TopK = None,
    limit: Limit = None,
    no_calibrate: Annotated[bool, typer.Option("--no-calibrate", help="Keep the reader's words.")] = False,
    explain: Explain = False,
    as_json: AsJson = False,
    encoder: EncoderChoice = None,
    vectors: Vectors = None,
    device: Device = None,
    cache: Cache = None,
    no_cache: NoCache = False,
) -> None:
    """Answer questions from their evidence; the reader is the only step that may call a model.

    Exit code 3 where the reader failed for every question; each failure is shown in place of its answer.
    """
    from zeromem_gpu.printing import answer_value, answer_view
    from zeromem_gpu.reader import make_reader

    asked = _asked(questions, bank, top_k, limit, explain)
    options = {"model": model, "base_url": base_url}
    chosen = make_reader(reader, **{name: value for name, value in options.items() if value is not None})
    memory = _open(directory, encoder, vectors, device, cache, no_cache)
    # by its name the extractive reader gets the time zone of the index
    answers = memory.ask(
        list(questions),
        reader=reader if reader == "extractive" else chosen,
        calibrate=not no_calibrate,
        **asked,
    )
    if as_json:
        print_json([answer_value(answer) for answer in answers])
    else:
        for answer in answers:
            console().print(answer_view(answer, explain=explain))
    if all(answer.error is not None for answer in answers):
        raise typer.Exit(3)


@app.command()
@guarded
def doctor(
    directory: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="Index folder.")] = None,
    vectors: Vectors = None,
    as_json: AsJson = False,
) -> None:
    """Say what works here, and the command that repairs what does not; exit code 2 with a fault.

    With `--vectors` that file is checked, and it stands for the encoder of the index.
    """
    from dataclasses import asdict

    from zeromem_gpu.doctor import examine
    from zeromem_gpu.printing import checks_view

    checks = examine(directory, vectors=vectors)
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        console().print(checks_view(checks))
    if any(check.fatal and not check.ok for check in checks):
        raise typer.Exit(2)


@app.command()
@guarded
def info(
    directory: IndexFolder,
    as_json: AsJson = False,
) -> None:
    """Show what an index holds and how it was made."""
    from zeromem_gpu import Memory
    from zeromem_gpu.printing import info_view
    from zeromem_gpu.store import file_sizes

    facts = Memory.open(directory).info()
    facts["files"] = file_sizes(directory / facts["version"])
    facts["file_bytes"] = sum(facts["files"].values())
    if as_json:
        print_json(facts)
    else:
        console().print(info_view(facts))


@vectors_app.command("export")
@guarded
def vectors_export(
    encoder: EncoderName,
    out: Annotated[Path, typer.Option(help="The safetensors file to write.")],
    device: Device = None,
    cache: Cache = None,
) -> None:
    """Write what the cache holds of an encoder to a file that `--vectors` reads on any machine.

    Vectors made on a GPU are kept apart from those of a CPU: they are exported for the device given.
    """
    from zeromem_gpu import Memory

    memory = Memory(encoder=encoder, device=device, cache_dir=cache)
    try:
        count = memory.export_vectors(out)
    except OSError as error:
        raise InvalidInput("--out", f"{out} ({error.strerror})", "a file that can be written") from error
    console().print(
        f"{count:,} vectors of {memory.info()['fingerprint']['encoder_fingerprint']} in {out}", markup=False
    )


@app.command()
@guarded
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
    from zeromem_gpu.printing import (
        added_view,
        answer_line,
        answer_value,
        progress_bars,
        result_view,
        timings_line,
    )

    traces, questions = load_demo()
    memory = Memory(encoder=encoder, device=device, cache_dir=cache_of(cache, no_cache))
    with progress_bars() as update:
        report = memory.add(traces, progress=update)
    banks = [question.bank for question in questions]
    answers = memory.ask([question.text for question in questions], bank=banks, limit=10, explain=True)
    if as_json:
        print_json([answer_value(answer) for answer in answers])
        return
    screen = console()
    some = turns = 0
    for question, answer in zip(questions, answers, strict=True):
        result = answer.result
        hits = {one.trace.id for one in result}.intersection(question.expected)
        some, turns = some + bool(hits), turns + len(hits)
        view = result_view(result, explain=True, expected=question.expected, answer=question.answer)
        screen.print(view, answer_line(answer), "", sep="\n")
    screen.print(added_view(report))
    screen.print(timings_line(answers[0].result.timings or {}, len(answers)))
    expected = sum(len(question.expected) for question in questions)
    text = f"{turns} of {expected} expected evidence turns, some for {some} of {len(questions)} questions"
    screen.print(f"{text}; answers by the extractive reader; 0 LLM tokens", style="bold")


def _asked(
    questions: list[str], bank: str | None, top_k: int | None, limit: int | None, explain: bool
) -> dict[str, Any]:
    """What `search` and `ask` pass on alike, checked before an index is opened for it."""
    from zeromem_gpu import Config

    for question in questions:
        if not question.strip():
            raise InvalidInput("question", repr(question), "a text that is not blank")
    if top_k is not None:
        Config().replace(top_k=top_k)
    if limit is not None and limit < 1:
        raise InvalidInput("limit", limit, "a whole number from 1")
    return {"bank": bank, "top_k": top_k, "limit": limit, "explain": explain}


def _open(
    directory: Path,
    encoder: str | None,
    vectors: Path | None,
    device: str | None,
    cache: Path | None,
    no_cache: bool,
) -> Memory:
    from zeromem_gpu import Memory

    return Memory.open(
        directory, encoder=encoder, device=device, vectors=vectors, cache_dir=cache_of(cache, no_cache)
    )


def _make_folder(folder: Path) -> None:
    """Find an unusable --out before the work, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            "--out", f"{folder} ({error.strerror})", "a folder that can be written"
        ) from error


def main() -> None:
    """The installed command."""
    app()


if __name__ == "__main__":
    main()
