"""Traces in JSON Lines: one object a line, its keys the fields of `Trace`."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.types import Trace

_FIELDS = tuple(spec.name for spec in dataclasses.fields(Trace))
_REQUIRED = ("id", "text")
_NULLABLE = ("turn", "time", "speaker", "role", "source", "caption")
# two lone surrogates that JSON, which escapes them, would read as one character
_JOINED = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def read_traces(path: str | Path) -> Iterator[Trace]:
    """Yield the traces of a JSON Lines file in its order; an empty file yields none.

    Each line is an object with `id` and `text` and any other field of `Trace`; blank lines are
    skipped. A file that cannot be opened, and a line that is no such object, raise `InvalidInput`
    naming the file and, for a line, its number.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "traces.jsonl"
    >>> write_traces(path, [Trace(id="t1", text="Ada keeps bees.", speaker="Ada")])
    1
    >>> next(read_traces(path)).speaker
    'Ada'
    """
    for number, row in read_json_lines(path):
        yield _trace(row, f"{path}:{number}")


def read_json_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) for each line that is not blank; errors as `read_traces`."""
    try:
        with open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                row = _object(raw, f"{path}:{number}", first=number == 1)
                if row is not None:
                    yield number, row
    except OSError as error:
        raise InvalidInput(str(path), error.strerror or error, "a readable JSON Lines file") from error


def _object(raw: bytes, where: str, *, first: bool) -> dict[str, Any] | None:
    """One line as a JSON object; None for a blank one."""
    allowed = "one JSON object a line"
    try:
        line = raw.decode("utf-8-sig" if first else "utf-8")
        if not line.strip():
            return None
        row = json.loads(line)
    except UnicodeDecodeError as error:
        raise InvalidInput(where, f"bytes that are not UTF-8 ({error.reason})", "UTF-8") from error
    except json.JSONDecodeError as error:
        raise InvalidInput(where, f"invalid JSON ({error.msg} at column {error.colno})", allowed) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(where, f"unreadable JSON ({error})", allowed) from error
    if not isinstance(row, dict):
        raise InvalidInput(where, f"a JSON {type(row).__name__}", allowed)
    return row


def write_traces(path: str | Path, traces: Iterable[Trace]) -> int:
    """Write traces as `read_traces` reads them and return how many; datetimes become ISO 8601.

    The file is replaced only when every trace has been written. Fields at their defaults are left out.
    Lone surrogates are escaped; two that would come back as one character raise `InvalidInput`.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    count = 0
    try:
        with open(partial, "w", encoding="utf-8") as file:
            for trace in traces:
                file.write(_line(trace))
                count += 1
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def json_line(value: Any) -> str:
    """`value` as one line of JSON that UTF-8 can hold, even where a string has lone surrogates."""
    line = json.dumps(value, ensure_ascii=False)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        line = json.dumps(value)
    return line + "\n"


def _line(trace: Trace) -> str:
    row = _row(trace)
    line = json_line(row)
    if "\\ud" in line and _JOINED.search(json.dumps(row, ensure_ascii=False)):
        raise InvalidInput(
            f"trace {trace.id!r}", "a high and a low surrogate side by side", "any text but that",
            "JSON would join them into one character; update or delete the trace first.",
        )  # fmt: skip
    return line


def _row(trace: Trace) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for spec in dataclasses.fields(trace):
        value = getattr(trace, spec.name)
        if isinstance(value, datetime):
            value = value.isoformat()
        elif spec.name == "metadata":
            value = dict(value)
        elif spec.name == "entities":
            value = list(value)
        if value or spec.name in _REQUIRED or (spec.name == "turn" and value is not None):
            row[spec.name] = value
    return row


def _trace(row: dict[str, Any], where: str) -> Trace:
    """One checked row as a `Trace`."""
    unknown = [name for name in row if name not in _FIELDS]
    if unknown:
        raise InvalidInput(where, f"unknown field {unknown[0]!r}", ", ".join(_FIELDS))
    missing = [name for name in _REQUIRED if name not in row]
    if missing:
        raise InvalidInput(where, f"no {missing[0]!r}", "an object with at least id and text")
    values = {name: value for name, value in row.items() if value is not None or name not in _NULLABLE}
    for name, value in values.items():
        _check(where, name, value)
    if "entities" in values:
        values["entities"] = tuple(values["entities"])
    return Trace(**values)


def _check(where: str, name: str, value: Any) -> None:
    """Raise `InvalidInput` unless the JSON `value` has the type that the field `name` takes."""
    if name == "turn":
        fits, allowed = isinstance(value, int) and not isinstance(value, bool), "a whole number"
    elif name == "entities":
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
        allowed = "a list of strings"
    elif name == "metadata":
        fits, allowed = isinstance(value, dict), "an object"
    else:
        fits, allowed = isinstance(value, str), "a string"
    if not fits:
        # a value may be what somebody said, so it is not repeated
        kind = "another" if type(value) in (dict, list) else f"{type(value).__name__}"
        raise InvalidInput(where, f"{name} of JSON type {kind}", f"{name} as {allowed}")
