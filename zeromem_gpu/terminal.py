"""What the commands share: their arguments and options, their error line, how they print."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar, get_type_hints

import typer
from rich.console import Console

from zeromem_gpu.errors import InvalidInput, ZeroMemError

P = ParamSpec("P")
T = TypeVar("T")

_ENCODER = typer.Option(
    "--encoder",
    help="minilm, BAAI/bge-m3, a sentence-transformers name or path; plain:NAME runs its own library.",
)
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
IndexFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Index folder.")]
Questions = Annotated[list[str], typer.Argument(metavar="QUESTION", help="Asked as one batch.")]
Bank = Annotated[str | None, typer.Option(help="The bank to ask.")]
TopK = Annotated[
    int | None,
    typer.Option("--top-k", help="Units taken by rank; closure adds some. Default: of the index."),
]
Limit = Annotated[int | None, typer.Option(help="Most units of evidence, those of closure included.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show profile, view scores, rules, stage times.")]


def group(help: str) -> typer.Typer:
    """A command group that shows its help when called without a command."""
    return typer.Typer(
        help=help, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )


def guarded(command: Callable[P, None]) -> Callable[P, None]:
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


def with_options(
    options: type[T], **defaults: Any
) -> Callable[[Callable[Concatenate[T, P], None]], Callable[..., None]]:
    """Options that several commands share, as the fields of a dataclass with `Annotated` types.

    The command gets them as its first argument; on the command line they follow its own. `defaults` stand
    in for those of the class.
    """
    hints = get_type_hints(options, include_extras=True)
    shared = []
    for field in fields(options):  # type: ignore[arg-type]
        default = defaults.get(field.name, field.default)
        default = inspect.Parameter.empty if default is MISSING else default
        kind = inspect.Parameter.KEYWORD_ONLY
        shared.append(inspect.Parameter(field.name, kind, default=default, annotation=hints[field.name]))

    def wrap(command: Callable[Concatenate[T, P], None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            chosen = options(**{one.name: given.pop(one.name) for one in shared})
            command(chosen, **given)  # type: ignore[call-arg]

        together = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + shared
        run.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in together}
        return run

    return wrap


def console() -> Console:
    """Standard output for people."""
    return Console(highlight=False)


def print_json(value: Any) -> None:
    """Print a JSON value on standard output."""
    # ASCII escapes: lone surrogates in a trace must not break the pipe
    typer.echo(json.dumps(value, indent=2, default=str))


def names_of(text: str) -> list[str]:
    """The names between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def cache_of(cache: Path | None, no_cache: bool) -> Path | bool | None:
    """`cache_dir` of a memory from the two cache options."""
    if cache is not None and no_cache:
        raise InvalidInput("--cache", f"{cache} with --no-cache", "one of them")
    return False if no_cache else cache
