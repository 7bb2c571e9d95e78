"""The journal of a run: each finished step on one line, so that a killed run goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.traces import json_line

NAME = "state.jsonl"
_FIRST = "configuration"


class Journal:
    """Steps of one run by name, kept in `state.jsonl` of its folder.

    A line that a killed process left half-written counts as absent. Without a folder nothing is kept.
    """

    def __init__(
        self, folder: Path | None, configuration: Mapping[str, Any], *, resume: bool = False
    ) -> None:
        """Begin a journal, or with `resume` go on with the one in `folder`, if any.

        A journal of another configuration is an `InvalidInput` that names what differs.
        """
        self._file = None if folder is None else folder / NAME
        self._steps: dict[str, Any] = {}
        wanted = json.loads(json.dumps(configuration))
        if self._file is None:
            return
        lines = self._read() if resume else []
        if lines:
            _compare(lines[0], wanted, self._file)
            self._steps = {line["step"]: line["value"] for line in lines[1:]}
        # what is kept is written anew: appending behind a torn line would tear the next one too
        partial = self._file.with_suffix(".tmp")
        rows = [{_FIRST: wanted}, *({"step": k, "value": v} for k, v in self._steps.items())]
        partial.write_text("".join(map(json_line, rows)), encoding="utf-8")
        os.replace(partial, self._file)

    def __contains__(self, step: str) -> bool:
        """Whether a step is finished."""
        return step in self._steps

    def __getitem__(self, step: str) -> Any:
        """The value of a finished step."""
        return self._steps[step]

    def get(self, step: str) -> Any:
        """The value of a finished step, None for another."""
        return self._steps.get(step)

    def put(self, step: str, value: Any) -> Any:
        """Keep a finished step, also in place of an earlier value; returns it as read back through JSON."""
        line = json_line({"step": step, "value": value})
        if self._file is not None:
            with open(self._file, "a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        self._steps[step] = json.loads(line)["value"]
        return self._steps[step]

    def _read(self) -> list[dict[str, Any]]:
        """The whole lines of the file; none when it is absent or its first line is torn."""
        if self._file is None or not self._file.is_file():
            return []
        rows: list[dict[str, Any]] = []
        for line in self._file.read_bytes().split(b"\n"):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and (_is_step(row) if rows else isinstance(row.get(_FIRST), dict)):
                rows.append(row)
        return rows


def _is_step(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("step"), str) and "value" in row


def _compare(first: Mapping[str, Any], wanted: Mapping[str, Any], file: Path) -> None:
    before, now = _flat(first[_FIRST]), _flat(wanted)
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if names:
        shown = "; ".join(
            f"{name} was {before.get(name)!r:.60}, is {now.get(name)!r:.60}" for name in names[:5]
        )
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        allowed = f"the configuration of the run in {file.parent}"
        raise InvalidInput("resume", shown + more, allowed, "Repeat it as it was, or leave --resume out.")


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, item in value.items():
        out |= _flat(item, f"{prefix}{key}.") if isinstance(item, dict) else {prefix + key: item}
    return out
