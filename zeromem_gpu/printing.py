"""How the command line shows results: rich tables for people, JSON values for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import TaskID

    from zeromem_gpu import AddReport, Answer, Evidence, SearchResult
    from zeromem_gpu.doctor import Check


def safe(text: str) -> str:
    """`text` on one line that any terminal can take: no control characters, no lone surrogates."""
    text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.encode("utf-8", "replace").decode("utf-8").split())


def print_error(message: str) -> None:
    """One red line on stderr, whatever the message holds."""
    console = Console(stderr=True, highlight=False)
    console.print(Text(f"error: {safe(message)}", style="red"), soft_wrap=True)


def result_value(result: SearchResult) -> dict[str, Any]:
    """A search result as JSON values: question, bank, route, profile and evidence, best first."""
    profile = result.profile
    value: dict[str, Any] = {
        "question": result.query,
        "bank": result.bank,
        "route": profile.route,
        "profile": {
            "subjects": list(profile.subjects),
            "entities": list(profile.entities),
            "keywords": list(profile.keywords),
            "phrases": list(profile.phrases),
            "answer_type": profile.answer_type,
            "temporal_cues": list(profile.temporal_cues),
            "validity": None if profile.validity is None else list(profile.validity),
        },
        "evidence": [
            {
                "id": one.trace.id,
                "score": one.score,
                "graph": one.graph_score,
                "hierarchy": one.hierarchy_score,
                "rule": one.rule,
                "session": one.trace.session,
                "turn": one.trace.turn,
                "time": _time(one.trace.time),
                "speaker": one.trace.speaker,
                "source": one.trace.source,
                "start": one.start,
                "end": one.end,
                "text": one.text,
                "caption": one.trace.caption,
            }
            for one in result
        ],
    }
    if result.timings is not None:
        value["timings"] = dict(result.timings)
    return value


def result_view(
    result: SearchResult,
    *,
    explain: bool = False,
    expected: Sequence[str] = (),
    answer: str = "",
    said: Sequence[RenderableType] = (),
) -> RenderableType:
    """A question with its route and its evidence; `explain` adds the profile and the view scores.

    Where the `answer` is known it is shown, and the ids `expected` to hold it are ticked. What was `said`
    to the question stands right below it.
    """
    profile = result.profile
    head = Text.assemble(
        (safe(result.query), "bold"),
        ("   " + profile.route, "magenta"),
        (f"   expects {profile.answer_type}   bank {safe(result.bank)}", "dim"),
    )
    parts: list[RenderableType] = [head, *said]
    if answer:
        parts.append(Text(f"  known answer: {safe(answer)} ({', '.join(expected)})", style="green"))
    if explain:
        parts += [Text(f"  {line}", style="dim") for line in _profile_lines(result)]
    if not len(result):
        parts.append(Text("  nothing in this bank and boundary", style="yellow"))
    for rank, one in enumerate(result, 1):
        parts += [_origin(rank, one, one.trace.id in expected, explain), Padding(_said(one), (0, 0, 0, 4))]
    return Group(*parts, Text())


def _origin(rank: int, one: Evidence, hit: bool, explain: bool) -> Text:
    """Where a unit comes from and, with `explain`, why it is here."""
    where = (safe(one.trace.id), safe(one.trace.session), _short_time(one.trace.time))
    line = Text.assemble(
        (f" {'✓' if hit else rank:>2} ", "bold green" if hit else "dim"),
        f"{one.score:.3f}  ",
        (where[0], "cyan"),
        ("  " + "  ".join(filter(None, where[1:])), "dim"),
    )
    if explain:
        views = f"  graph {_score(one.graph_score)}  hierarchy {_score(one.hierarchy_score)}  {one.rule}"
        line.append(views, style="dim")
    return line


def _said(one: Evidence) -> Text:
    speaker = f"{safe(one.trace.speaker)}: " if one.trace.speaker else ""
    text = Text.assemble((speaker, "bold"), safe(one.text))
    if one.trace.caption:
        text.append(f" [{safe(one.trace.caption)}]", style="dim italic")
    return text


def timings_line(timings: Mapping[str, float], questions: int) -> Text:
    """The stages of one batch, whole and for each question."""
    stages = [f"{name.removesuffix('_s')} {1000 * spent:.1f} ms" for name, spent in timings.items()]
    noun = "question" if questions == 1 else "questions in one batch"
    return Text(f"{questions} {noun}: " + ", ".join(stages), style="dim")


def added_view(report: AddReport) -> RenderableType:
    """What an `add` did: counts, quarantined traces and stage times."""
    counts = f"{report.added:,} added, {report.updated:,} updated, {report.unchanged:,} unchanged"
    stages = ", ".join(f"{name.removesuffix('_s')} {spent:.2f} s" for name, spent in report.timings.items())
    lines: list[RenderableType] = [Text.assemble((counts, "bold"), f" ({report.units:,} units)")]
    if stages:
        lines.append(Text(stages, style="dim"))
    if report.split:
        lines.append(Text(f"{report.split:,} texts too long for the encoder, cut at sentence ends"))
    if report.quarantined:
        shown = ", ".join(safe(name) for name in report.quarantined[:10])
        more = f" and {len(report.quarantined) - 10} more" if len(report.quarantined) > 10 else ""
        text = f"no usable vector, reachable by words only: {shown}{more}"
        lines.append(Text(text, style="yellow"))
    return Group(*lines)


def info_view(info: Mapping[str, Any]) -> RenderableType:
    """`Memory.info()` as a two-column table, nested values flattened by dots."""
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _flat(info):
        grid.add_row(name, safe(value))
    return grid


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Progress bars on stderr, one a stage, gone afterwards; yields what `Memory.add` calls."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def update(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage)
            bars.update(tasks[stage], completed=done, total=total)

        yield update


def _profile_lines(result: SearchResult) -> Iterator[str]:
    profile = result.profile
    for name in ("subjects", "entities", "keywords", "phrases", "temporal_cues"):
        values = getattr(profile, name)
        if values:
            yield f"{name.replace('_', ' ')}: " + safe("; ".join(values))


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, item in value.items():
        name = f"{prefix}{safe(str(key))}"
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{name}.")
        elif isinstance(item, str):
            yield name, item
        else:
            yield name, json.dumps(item, default=str, ensure_ascii=False)


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _time(value: datetime | str | None) -> str | None:
    return value.isoformat() if isinstance(value, datetime) else value


def _short_time(value: datetime | str | None) -> str:
    try:
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return safe(str(value))
    return "" if value is None else value.strftime("%Y-%m-%d %H:%M")


def answer_value(answer: Answer) -> dict[str, Any]:
    """An answer as JSON values, with its changes, its token counts and the evidence."""
    return {
        **result_value(answer.result),
        "answer": answer.text,
        "reader": answer.reader,
        "reader_answer": answer.reader_text,
        "changes": [
            {"rule": one.rule, "before": one.before, "after": one.after, "evidence": list(one.evidence)}
            for one in answer.changes
        ],
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "error": answer.error,
    }


def answer_line(answer: Answer) -> Text:
    """What was answered, or why nothing was."""
    if answer.error is not None:
        return Text(f"  no answer: {safe(answer.error)}", style="red")
    return Text.assemble("  answered: ", (safe(answer.text) or "nothing", "bold green"))


def answer_view(answer: Answer, *, explain: bool) -> RenderableType:
    """A question, its answer, what calibration changed, and the evidence."""
    changes = [
        Text(f"  {one.rule}: {safe(one.before)} → {safe(one.after)}  ({', '.join(one.evidence)})", "dim")
        for one in answer.changes
    ]
    return result_view(answer.result, explain=explain, said=[answer_line(answer), *changes])


def checks_view(checks: Sequence[Check]) -> RenderableType:
    """The findings of `doctor` as a table."""
    table = Table("", "", "", "what to do", box=None, pad_edge=False)
    for check in checks:
        word, colour = ("ok", "green") if check.ok else ("fault", "red") if check.fatal else ("-", "yellow")
        table.add_row(Text(word, colour), Text(check.name), Text(safe(check.detail)), Text(check.remedy))
    return table
