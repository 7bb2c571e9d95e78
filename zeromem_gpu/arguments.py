"""Arguments of `Memory`, checked; what may be a person's words never stands in a message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.types import Boundary, Trace


def one_each(name: str, given: Any, count: int, default: Any) -> list[Any]:
    """A value for every one of `count` questions, from one for all or a sequence; None takes `default`."""
    if given is None:
        return [default] * count
    if isinstance(given, str | Boundary):
        return [given] * count
    if not isinstance(given, Sequence):
        raise InvalidInput(name, repr(given)[:60], f"one value, or one for each of {count} questions")
    values = list(given)
    if len(values) != count:
        raise InvalidInput(
            name, f"{len(values)} values", f"one value, or one for each of {count} questions"
        )
    return values


def question_list(query: Any) -> list[str]:
    """One question or several as a list; an `InvalidInput` for a blank one and for anything else."""
    if not isinstance(query, Sequence):
        raise InvalidInput("query", type(query).__name__, "a question or a sequence of questions")
    questions = [query] if isinstance(query, str) else list(query)
    for place, text in enumerate(questions):
        if not isinstance(text, str) or not text.strip():
            got = "blank text" if isinstance(text, str) else type(text).__name__
            raise InvalidInput(f"query[{place}]", got, "a question that is not blank")
    return questions


def check_limit(limit: Any) -> None:
    """Raise `InvalidInput` unless `limit` is None or a whole number from 1."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidInput("limit", repr(limit), "None, or a whole number from 1")


def check_bank(name: Any) -> None:
    """Raise `InvalidInput` unless a bank's name is text that is not empty."""
    if not isinstance(name, str) or not name:
        raise InvalidInput("bank", repr(name), "text that is not empty")


def trace_list(traces: Trace | Iterable[Trace]) -> list[Trace]:
    """One trace or several as a list; what is in it is for `check_traces` to judge."""
    if not isinstance(traces, Trace) and not isinstance(traces, Iterable):
        raise InvalidInput("traces", type(traces).__name__, "a zeromem_gpu.Trace or several")
    return [traces] if isinstance(traces, Trace) else list(traces)


def name_list(name: str, given: str | Iterable[str] | None) -> list[str] | None:
    """One name or several as a list, None for None; an `InvalidInput` for empty names and anything else."""
    if given is None:
        return None
    if not isinstance(given, Iterable):
        raise InvalidInput(name, repr(given)[:60], "None, text, or several texts")
    names = [given] if isinstance(given, str) else list(given)
    if any(not isinstance(one, str) or not one for one in names):
        raise InvalidInput(name, repr(names)[:60], "None, or texts that are not empty")
    return names
