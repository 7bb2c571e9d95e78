"""The tables of an index ↔ Parquet and safetensors files: all banks of a table one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zeromem_gpu.build.arena import Arena, Span
from zeromem_gpu.build.facts import Bank, MemoryIndex, schema
from zeromem_gpu.store.files import Tensor, map_tensors, write_file, write_tensors
from zeromem_gpu.types import Trace

_Columns = Mapping[str, tuple[Any, tuple[int, ...]]]

_TEXT = pa.large_binary()
_BATCH = 4096  # traces in memory at once on their way to or from a file
_SCALAR_TABLES = ("sessions", "units", "entities")
_NULLABLE = ("time", "speaker", "role", "source", "caption")
# place: the rank of its id in the bank, −1 for a row that an update has replaced or a delete hidden
_TRACE_COLUMNS = pa.schema(
    [
        ("id", _TEXT), ("text", _TEXT), ("session", _TEXT), ("turn", pa.int64()),
        *((name, _TEXT) for name in _NULLABLE),
        ("entities", pa.list_(_TEXT)), ("metadata", _TEXT), ("place", pa.int64()),
    ]
)  # fmt: skip

FACTS, VECTORS = "facts.safetensors", "vectors.safetensors"
FILES = ("banks.parquet", "traces.parquet", *(f"{t}.parquet" for t in _SCALAR_TABLES), FACTS, VECTORS)


def write_index(folder: Path, index: MemoryIndex) -> dict[str, dict[str, Any]]:
    """Write all files of an index into an empty folder; returns size and checksum of each."""
    traces = folder / "traces.parquet"
    facts = {traces.name: _write_parquet(traces, _TRACE_COLUMNS, _trace_batches(index))}
    whole = {"banks": _banks(index)} | {name: _scalars(index, name) for name in _SCALAR_TABLES}
    for name, table in whole.items():
        path = folder / f"{name}.parquet"
        facts[path.name] = _write_parquet(path, table.schema, [table])
    arrays, vectors = _tensors(index)
    facts[FACTS] = write_file(folder / FACTS, lambda file: write_tensors(file, arrays))
    facts[VECTORS] = write_file(folder / VECTORS, lambda file: write_tensors(file, vectors))
    return facts


def read_index(folder: Path, dim: int) -> MemoryIndex:
    """The index in a folder that `write_index` filled; large arrays stay on disk until they are touched.

    Raises `ValueError` (or an error of the file libraries) when the files do not fit each other.
    """
    kept = pq.read_table(folder / "banks.parquet")
    names = [_text(name) for name in kept["name"].to_pylist()]
    lengths = {name: np.array(kept[name], np.int64) for name in (*schema(dim), "dead")}
    columns: dict[str, dict[str, np.ndarray]] = {table: {} for table in schema(dim)}
    arrays = map_tensors(folder / FACTS)
    dead = arrays.pop("dead")
    for path, array in (*arrays.items(), *map_tensors(folder / VECTORS).items()):
        table, _, column = path.partition(".")
        columns[table][column] = array
    for table in _SCALAR_TABLES:
        columns[table] |= _read_scalars(folder / f"{table}.parquet", schema(dim)[table])
    bank_of_trace = np.repeat(np.array(names, object), lengths["traces"])
    columns["traces"]["trace"], place = _read_traces(folder / "traces.parquet", bank_of_trace)
    arenas = {}
    for table, wanted in schema(dim).items():
        _check(table, columns[table], wanted, int(lengths[table].sum()))
        arenas[table] = Arena.adopt(wanted, columns[table])
    _check("banks", {"dead": dead}, {"dead": (np.int32, ())}, int(lengths["dead"].sum()))
    if len(set(names)) != len(names) or any((length < 0).any() for length in lengths.values()):
        raise ValueError("banks.parquet has a bank twice, or one of negative size")
    return MemoryIndex(dim, arenas, _restore_banks(names, lengths, columns, dead, place))


def _restore_banks(
    names: Sequence[str], lengths: Mapping[str, np.ndarray],
    columns: Mapping[str, Mapping[str, np.ndarray]], dead: np.ndarray, place: np.ndarray,
) -> dict[str, Bank]:  # fmt: skip
    """The banks with their spans, and the dictionaries that are made from their rows."""
    ends = {table: np.cumsum(length) for table, length in lengths.items()}
    banks = {}
    for at, name in enumerate(names):
        length = {table: int(lengths[table][at]) for table in lengths}
        mine = {
            table: slice(int(ends[table][at]) - length[table], int(ends[table][at])) for table in lengths
        }
        traces = columns["traces"]["trace"][mine["traces"]]
        # ids in the order that they have in a memory that was never closed
        ranks = place[mine["traces"]]
        live = np.flatnonzero(ranks >= 0)
        ids = {traces[row].id: int(row) for row in live[np.argsort(ranks[live], kind="stable")]}
        banks[name] = Bank(
            name,
            {
                table: Span(mine[table].start, length[table], length[table])
                for table in columns
                if length[table]
            },
            ids,
            {text: row for row, text in enumerate(columns["sessions"]["name"][mine["sessions"]])},
            {key: row for row, key in enumerate(columns["entities"]["key"][mine["entities"]].tolist())},
            dead[mine["dead"]],
        )
    return banks


def _write_parquet(path: Path, columns: pa.Schema, tables: Iterable[pa.Table]) -> dict[str, Any]:
    def fill(file: Any) -> None:
        with pq.ParquetWriter(file, columns, compression="zstd") as writer:
            for table in tables:
                writer.write_table(table)

    return write_file(path, fill)


def _banks(index: MemoryIndex) -> pa.Table:
    banks = index.banks.values()
    return pa.table(
        {"name": pa.array([_bytes(bank.name) for bank in banks], _TEXT)}
        | {
            table: pa.array([bank.spans.get(table, Span()).length for bank in banks], pa.int64())
            for table in index.arenas
        }
        | {"dead": pa.array([len(bank.dead) for bank in banks], pa.int64())}
    )


def _trace_batches(index: MemoryIndex) -> Iterator[pa.Table]:
    rows = (
        {
            "id": _bytes(trace.id), "text": _bytes(trace.text), "session": _bytes(trace.session),
            "turn": trace.turn, **{name: _bytes(getattr(trace, name)) for name in _NULLABLE},
            "entities": [_bytes(name) for name in trace.entities],
            "metadata": _bytes(json.dumps(trace.metadata)), "place": places.get(row, -1),
        }
        for bank in index.banks.values()
        for places in [{row: place for place, row in enumerate(bank.ids.values())}]
        for row, trace in enumerate(index.column(bank, "traces", "trace"))
    )  # fmt: skip
    while batch := list(islice(rows, _BATCH)):
        yield pa.Table.from_pylist(batch, _TRACE_COLUMNS)


def _read_traces(path: Path, bank_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All traces, object [rows], and the rank of each in its bank, int64 [rows], −1 for what is gone."""
    traces: list[Trace] = []
    place: list[int] = []
    known: dict[bytes, str] = {}  # names that repeat from trace to trace are kept once

    def shared(value: bytes | None) -> str | None:
        if value is None:
            return None
        return known.get(value) or known.setdefault(value, _text(value))

    with pq.ParquetFile(path) as file:
        if not file.schema_arrow.equals(_TRACE_COLUMNS) or file.metadata.num_rows != len(bank_of):
            raise ValueError(f"{path.name} has other columns or rows than it should")
        for batch in file.iter_batches(_BATCH):
            for row in batch.to_pylist():
                place.append(row.pop("place"))
                row |= {name: shared(row[name]) for name in ("session", *_NULLABLE)}
                row |= {name: _text(row[name]) for name in ("id", "text")}
                row["entities"] = tuple(_text(name) for name in row["entities"])
                row["metadata"] = json.loads(_text(row["metadata"]))
                traces.append(Trace(bank=bank_of[len(traces)], **row))
    column = np.empty(len(traces), object)
    column[:] = traces
    return column, np.array(place, np.int64)


def _scalars(index: MemoryIndex, table: str) -> pa.Table:
    columns = {}
    for name, (dtype, _) in index.arenas[table].schema.items():
        if name == "vector":
            continue
        parts = [index.column(bank, table, name) for bank in index.banks.values()]
        joined = np.concatenate([np.empty(0, dtype), *parts])
        columns[name] = pa.array([_bytes(value) for value in joined], _TEXT) if dtype is object else joined
    return pa.table(columns)


def _read_scalars(path: Path, wanted: _Columns) -> dict[str, np.ndarray]:
    found = pq.read_table(path)
    columns: dict[str, np.ndarray] = {}
    for name in found.column_names:
        if wanted[name][0] is object:
            columns[name] = np.empty(len(found), object)
            columns[name][:] = [_text(value) for value in found[name].to_pylist()]
        else:
            # a copy, because torch does not like to share what cannot be written
            columns[name] = np.array(found[name])
    return columns


def _tensors(index: MemoryIndex) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What goes into the two files of arrays, by "table.column"."""
    banks = list(index.banks.values())
    facts = {
        "dead": Tensor(np.dtype(np.int32), (sum(len(b.dead) for b in banks),), [b.dead for b in banks])
    }
    vectors: dict[str, Tensor] = {}
    for table, arena in index.arenas.items():
        rows = sum(bank.spans.get(table, Span()).length for bank in banks)
        for name, (dtype, shape) in arena.schema.items():
            if dtype is object or (table in _SCALAR_TABLES and name != "vector"):
                continue
            parts = [index.column(bank, table, name) for bank in banks]
            target = vectors if name == "vector" else facts
            target[f"{table}.{name}"] = Tensor(np.dtype(dtype), (rows, *shape), parts)
    return facts, vectors


def _check(table: str, found: Mapping[str, np.ndarray], wanted: _Columns, rows: int) -> None:
    """Raise `ValueError` unless a table has exactly the wanted columns, each with `rows` rows."""
    got = {name: (array.dtype, array.shape) for name, array in found.items()}
    expected = {name: (np.dtype(dtype), (rows, *shape)) for name, (dtype, shape) in wanted.items()}
    if got != expected:
        raise ValueError(f"{table} has the columns {got} instead of {expected}")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")
