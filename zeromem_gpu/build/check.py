"""Checks on traces before anything is stored: each fault is one clear error that names the trace."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.text.dates import parse_time
from zeromem_gpu.types import Trace


@dataclass(frozen=True, slots=True)
class CheckedTrace:
    """A trace whose fields are valid; its `time` is ISO text, `instant` the same in UTC seconds or None."""

    trace: Trace
    instant: float | None


def check_traces(traces: Iterable[Trace], zone: str) -> list[CheckedTrace]:
    """Validate every trace; raises `InvalidInput` on the first fault, before anything is stored."""
    return [_check(trace, place, zone) for place, trace in enumerate(traces)]


def _check(trace: Trace, place: int, zone: str) -> CheckedTrace:
    if not isinstance(trace, Trace):
        raise InvalidInput(f"traces[{place}]", type(trace).__name__, "a zeromem_gpu.Trace")
    if not isinstance(trace.id, str) or not trace.id:
        raise InvalidInput(f"traces[{place}].id", repr(trace.id), "text that is not empty")
    where = f"trace {trace.id!r}"
    for name in ("bank", "session"):
        value = getattr(trace, name)
        if not isinstance(value, str) or not value:
            raise InvalidInput(f"{name} of {where}", repr(value), "text that is not empty")
    if not isinstance(trace.text, str):
        raise InvalidInput(f"text of {where}", type(trace.text).__name__, "str", "Decode bytes first.")
    for name in ("speaker", "role", "source", "caption"):
        value = getattr(trace, name)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise InvalidInput(f"{name} of {where}", repr(value), "None, or text that is not blank")
    turn = trace.turn
    if turn is not None and (
        isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < 1 << 62
    ):
        raise InvalidInput(f"turn of {where}", repr(turn), "None, or a whole number from 0")
    if not isinstance(trace.entities, (tuple, list)) or not all(isinstance(e, str) for e in trace.entities):
        raise InvalidInput(f"entities of {where}", type(trace.entities).__name__, "a tuple of names")
    if not isinstance(trace.metadata, Mapping):
        raise InvalidInput(
            f"metadata of {where}", type(trace.metadata).__name__, "a mapping of JSON values"
        )
    try:
        metadata = json.loads(json.dumps(dict(trace.metadata)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"metadata of {where}", str(error), "JSON values only") from error
    try:
        instant, text = parse_time(trace.time, zone)
    except InvalidInput as error:
        raise InvalidInput(
            f"time of {where}", repr(trace.time), "None, a datetime, or text that reads as a date",
            "ISO 8601 always works, such as 2023-05-08T13:56:00.",
        ) from error  # fmt: skip
    return CheckedTrace(
        replace(trace, time=text, entities=tuple(trace.entities), metadata=metadata), instant
    )


def same_content(stored: Trace, given: Trace) -> bool:
    """Whether `given` says nothing new; a turn that was left open takes the stored one."""
    return stored == (replace(given, turn=stored.turn) if given.turn is None else given)
