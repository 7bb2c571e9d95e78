"""`zeromem-gpu compare`: two runs over the same questions, with paired bootstrap intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zeromem_gpu.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zeromem_gpu.evaluate.run_folder import Asked, RunFolder

Pairs = Mapping[str, tuple[float, float]]

# a difference this small comes from the order of sums
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    """One metric over one part of the questions: both means, the mean of B − A and its interval.

    `better`, `worse` and `equal` count questions from B's side.
    """

    metric: str
    part: str
    questions: int
    a: float
    b: float
    difference: float
    low: float
    high: float
    better: int
    worse: int
    equal: int

    @property
    def certain(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def compare(
    run_a: RunFolder, run_b: RunFolder, *, resamples: int = 10_000, seed: int = 0
) -> tuple[Row, ...]:
    """Every metric that both runs have, over all questions, the reporting ones and each category.

    Folders whose questions or gold evidence differ are `InvalidInput` that names the first difference.
    """
    _check_same(run_a, run_b)
    shared = [metric for metric in run_a.scores if metric in run_b.scores]
    pairs = {one: _pairs(one, run_a.scores[one], run_b.scores[one], run_b) for one in shared}
    return compare_scores(pairs, run_a, resamples=resamples, seed=seed)


def compare_scores(
    pairs: Mapping[str, Pairs], run: RunFolder, *, resamples: int = 10_000, seed: int = 0
) -> tuple[Row, ...]:
    """Metric by metric, a row for each part of `run` in which a question of its pairs lies."""
    from zeromem_gpu.evaluate.bootstrap import intervals

    rows: dict[str, list[Row]] = {metric: [] for metric in pairs}
    for part, members in parts_of(run.questions, run.reporting):
        # metrics of the same questions share their resamples
        groups: dict[tuple[str, ...], list[str]] = {}
        for metric, known in pairs.items():
            groups.setdefault(tuple(name for name in members if name in known), []).append(metric)
        for names, metrics in groups.items():
            if not names:
                continue
            both = [[pairs[metric][name] for name in names] for metric in metrics]
            gains = [[b - a for a, b in values] for values in both]
            found = intervals(list(zip(*gains, strict=True)), resamples=resamples, seed=seed)
            for metric, values, gain, one in zip(metrics, both, gains, found, strict=True):
                n = len(names)
                a, b = (sum(value[side] for value in values) / n for side in (0, 1))
                better, worse = (sum(sign * x > _EQUAL for x in gain) for sign in (1, -1))
                rows[metric].append(Row(metric, part, n, a, b, *one, better, worse, n - better - worse))
    return tuple(row for metric in rows.values() for row in metric)


def parts_of(
    questions: Mapping[str, Asked], reporting: frozenset[str] = frozenset()
) -> Iterator[tuple[str, list[str]]]:
    """The parts that numbers are given for, and the ids of their questions: all, reporting, categories."""
    yield "all", list(questions)
    if reporting:
        yield "reporting", [name for name, one in questions.items() if one.bank in reporting]
    kinds = list(dict.fromkeys(one.kind for one in questions.values()))
    for kind in sorted(kinds):
        yield kind, [name for name, one in questions.items() if one.kind == kind]


def table(rows: Sequence[Row], name_a: str, name_b: str) -> RenderableType:
    """The rows for a terminal, in percent; a difference whose interval leaves 0 out is bold."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table(title="B against A, percent", title_justify="left", box=SIMPLE_HEAD)
    grid.add_column("metric, part", no_wrap=True)
    for label in ("n", "A", "B", "B − A", "95 %", "+/−/="):
        grid.add_column(label, justify="right", no_wrap=True)
    for row in rows:
        first = row.part == "all"
        if first and grid.row_count:
            grid.add_section()
        difference = Text(f"{100 * row.difference:+.2f}", style="bold" if row.certain else "")
        grid.add_row(
            Text(row.metric if first else f"  {row.part}"),
            f"{row.questions:,}",
            f"{100 * row.a:.1f}",
            f"{100 * row.b:.1f}",
            difference,
            f"{100 * row.low:+.1f} … {100 * row.high:+.1f}",
            f"{row.better}/{row.worse}/{row.equal}",
        )
    notes = [
        f"A  {name_a}",
        f"B  {name_b}",
        "+/−/=: questions where B is better, worse, equal; 95 %: paired bootstrap, bold without 0",
    ]
    return Group(grid, *(Text(note, style="dim") for note in notes))


def compare_command(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="Folder of an evaluation.")],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="Another over the same questions.")],
    resamples: Annotated[int, typer.Option(help="Of the bootstrap.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two evaluations question by question."""
    from zeromem_gpu.evaluate.run_folder import read_run
    from zeromem_gpu.terminal import console, print_json

    if resamples < 1 or seed < 0:
        raise InvalidInput("bootstrap", f"{resamples} resamples, seed {seed}", "1 or more, 0 or more")
    rows = compare(read_run(run_a), read_run(run_b), resamples=resamples, seed=seed)
    if not rows:
        raise InvalidInput("runs", "no metric that both have", "two runs with scored questions")
    if as_json:
        value: dict[str, Any] = {"a": str(run_a), "b": str(run_b), "resamples": resamples, "seed": seed}
        print_json(value | {"rows": [asdict(row) for row in rows]})
    else:
        console().print(table(rows, str(run_a), str(run_b)))


def _check_same(run_a: RunFolder, run_b: RunFolder) -> None:
    a, b = run_a.questions, run_b.questions
    remedy = "Evaluate both over the same data set, conversations and split."
    if a.keys() != b.keys():
        only_a, only_b = [name for name in a if name not in b], [name for name in b if name not in a]
        shown = "; ".join(
            f"{len(names)} only in {run.path}, such as {names[0]}"
            for names, run in ((only_a, run_a), (only_b, run_b))
            if names
        )
        raise InvalidInput("runs", f"different questions ({shown})", "the same questions in both", remedy)
    for name, one in a.items():
        other = b[name]
        for what, x, y in (
            ("text", one.text, other.text),
            ("category", one.kind, other.kind),
            ("gold evidence", sorted(one.gold), sorted(other.gold)),
        ):
            if x != y:
                got = f"different {what} of question {name} ({x!r:.60} and {y!r:.60})"
                raise InvalidInput("runs", got, f"the same {what} in both", remedy)


def _pairs(metric: str, a: Mapping[str, float], b: Mapping[str, float], run_b: RunFolder) -> Pairs:
    """Both values of each question; a run that scored fewer questions than the other is refused."""
    if a.keys() != b.keys():
        odd = sorted(a.keys() ^ b.keys())
        got = f"{metric} of {len(a)} and of {len(b)} questions, {odd[0]} only once"
        raise InvalidInput("runs", got, "a value for the same questions in both", f"Resume {run_b.path}.")
    return {name: (value, b[name]) for name, value in a.items()}
