"""Arguments of `Memory` that come as one value or as many, checked."""

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
