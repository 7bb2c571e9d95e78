"""Traces ↔ `traces.parquet`: texts as bytes, so that lone surrogates pass, which Parquet strings do not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zeromem_gpu.build.facts import MemoryIndex
from zeromem_gpu.types import Trace

TEXT = pa.large_binary()
_BATCH = 4096  # traces in memory at once on their way to or from a file
_NULLABLE = ("time", "speaker", "role", "source", "caption")
# place: the rank of its id in the bank, −1 for a row that an update has replaced or a delete hidden
TRACE_COLUMNS = pa.schema(
    [
        ("id", TEXT), ("text", TEXT), ("session", TEXT), ("turn", pa.int64()),
        *((name, TEXT) for name in _NULLABLE),
        ("entities", pa.list_(TEXT)), ("metadata", TEXT), ("place", pa.int64()),
    ]
)  # fmt: skip


def to_bytes(text: str | None) -> bytes | None:
    """UTF-8 in which lone surrogates stay; None for None."""
    return None if text is None else text.encode("utf-8", "surrogatepass")


def to_text(value: bytes) -> str:
    """The inverse of `to_bytes`."""
    return value.decode("utf-8", "surrogatepass")


def live_traces(index: MemoryIndex, bank: str | None = None) -> Iterator[Trace]:
    """The traces of a bank, or of all, in the order of their ids; none of what was replaced or deleted."""
    for one in index.banks.values():
        if bank is None or one.name == bank:
            traces = index.column(one, "traces", "trace")
            yield from (traces[row] for row in one.ids.values())


def trace_batches(index: MemoryIndex) -> Iterator[pa.Table]:
    """All traces of an index as tables of a few thousand rows, bank after bank."""
    rows = (
        {
            "id": to_bytes(trace.id), "text": to_bytes(trace.text), "session": to_bytes(trace.session),
            "turn": trace.turn, **{name: to_bytes(getattr(trace, name)) for name in _NULLABLE},
            "entities": [to_bytes(name) for name in trace.entities],
            "metadata": to_bytes(json.dumps(trace.metadata)), "place": places.get(row, -1),
        }
        for bank in index.banks.values()
        for places in [{row: place for place, row in enumerate(bank.ids.values())}]
        for row, trace in enumerate(index.column(bank, "traces", "trace"))
    )  # fmt: skip
    while batch := list(islice(rows, _BATCH)):
        yield pa.Table.from_pylist(batch, TRACE_COLUMNS)


def read_trace_rows(path: Path, bank_of: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """All traces, object [rows], and the rank of each in its bank, int64 [rows], −1 for what is gone.

    `bank_of` names the bank of every row. Raises `ValueError` (or an error of pyarrow) for another file.
    """
    column = np.empty(len(bank_of), object)
    place = np.empty(len(bank_of), np.int64)
    known: dict[bytes | None, str | None] = {None: None}  # names that repeat are kept once

    def shared(values: list[bytes | None]) -> list[str | None]:
        for value in values:
            if value not in known:
                known[value] = to_text(value)  # type: ignore[arg-type]
        return [known[value] for value in values]

    with pq.ParquetFile(path) as file:
        if not file.schema_arrow.equals(TRACE_COLUMNS) or file.metadata.num_rows != len(bank_of):
            raise ValueError(f"{path.name} has other columns or rows than it should")
        done = 0
        for batch in file.iter_batches(_BATCH):
            # column by column: rows as dictionaries take four times as long
            given = {name: batch[name].to_pylist() for name in TRACE_COLUMNS.names}
            stop = done + batch.num_rows
            place[done:stop] = given["place"]
            repeated = [shared(given[name]) for name in ("session", *_NULLABLE)]
            session, time, speaker, role, source, caption = repeated
            column[done:stop] = [
                Trace(*fields)
                for fields in zip(
                    map(to_text, given["id"]), map(to_text, given["text"]), bank_of[done:stop], session,
                    given["turn"], time, speaker, role, source, caption,
                    [tuple(map(to_text, names)) for names in given["entities"]],
                    map(_metadata, given["metadata"]), strict=True,
                )
            ]  # fmt: skip
            done = stop
    return column, place


def _metadata(value: bytes) -> dict[str, Any]:
    if value == b"{}":
        return {}
    found = json.loads(to_text(value))
    if not isinstance(found, dict):
        raise ValueError("traces.parquet holds metadata that are no object")
    return found
