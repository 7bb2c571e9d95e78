"""The tables of an index ↔ Parquet and safetensors files: all banks of a table one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zeromem_gpu.build.arena import Arena, Span
from zeromem_gpu.build.facts import OPTIONAL, Bank, MemoryIndex, schema
from zeromem_gpu.store.files import Tensor, map_tensors, write_file, write_tensors
from zeromem_gpu.store.sound import check_counts, check_lengths, check_references
from zeromem_gpu.store.trace_rows import (
    TEXT,
    TRACE_COLUMNS,
    read_trace_rows,
    to_bytes,
    to_text,
    trace_batches,
)
from zeromem_gpu.types import Trace

_Columns = Mapping[str, tuple[Any, tuple[int, ...]]]

_SCALAR_TABLES = ("sessions", "units", "entities")

FACTS, VECTORS = "facts.safetensors", "vectors.safetensors"
FILES = ("banks.parquet", "traces.parquet", *(f"{t}.parquet" for t in _SCALAR_TABLES), FACTS, VECTORS)


def write_index(folder: Path, index: MemoryIndex) -> dict[str, dict[str, Any]]:
    """Write all files of an index into an empty folder; returns size and checksum of each."""
    traces = folder / "traces.parquet"
    facts = {traces.name: _write_parquet(traces, TRACE_COLUMNS, trace_batches(index))}
    whole = {"banks": _banks(index)} | {name: _scalars(index, name) for name in _SCALAR_TABLES}
    for name, table in whole.items():
        path = folder / f"{name}.parquet"
        facts[path.name] = _write_parquet(path, table.schema, [table])
    arrays, vectors = _tensors(index)
    facts[FACTS] = write_file(folder / FACTS, lambda file: write_tensors(file, arrays))
    facts[VECTORS] = write_file(folder / VECTORS, lambda file: write_tensors(file, vectors))
    return facts


def table_rows(index: MemoryIndex) -> dict[str, int]:
    """How many rows each table has, of those that go into files."""
    banks = index.banks.values()
    rows = {
        table: sum(bank.spans[table].length for bank in banks if table in bank.spans)
        for table in index.arenas
    }
    return {table: count for table, count in rows.items() if count or table not in OPTIONAL}


def read_index(folder: Path, dim: int, counts: Mapping[str, int]) -> MemoryIndex:
    """The index in a folder that `write_index` filled; large arrays stay on disk until they are touched.

    Args:
        folder: one version.
        dim: width of the vectors.
        counts: rows of each table, "banks" and "dead", as the manifest gives them.

    Raises `ValueError` (or an error of the file libraries) when the files do not fit the counts or each
    other. What is read is never larger than the files and the counts allow.
    """
    specs_of = schema(dim)
    wanted = {table: specs for table, specs in specs_of.items() if table in counts or table not in OPTIONAL}
    check_counts({name: counts[name] for name in ("banks", *wanted, "dead")})
    columns: dict[str, dict[str, np.ndarray]] = {table: {} for table in (*wanted, "dead")}
    # mapped first: their sizes are those of files, and all other counts are held against them
    for path, array in (*map_tensors(folder / FACTS).items(), *map_tensors(folder / VECTORS).items()):
        table, _, column = path.partition(".")
        columns[table][column or table] = array
    _check("banks", columns["dead"], {"dead": (np.int32, ())}, counts["dead"])
    for table in wanted:
        mapped = {name: spec for name, spec in wanted[table].items() if name in columns[table]}
        _check(table, columns[table], mapped, counts[table])
    names, lengths = _read_banks(folder, (*wanted, "dead"), counts)
    for table in _SCALAR_TABLES:
        columns[table] |= _read_scalars(folder / f"{table}.parquet", wanted[table], counts[table])
    bank_of_trace = np.repeat(np.array(names, object), lengths["traces"]).tolist()
    columns["traces"]["trace"], place = read_trace_rows(folder / "traces.parquet", bank_of_trace)
    arenas = {table: Arena(specs_of[table]) for table in OPTIONAL}
    for table, specs in wanted.items():
        _check(table, columns[table], specs, counts[table])
        arenas[table] = Arena.adopt(specs, columns[table])
    check_references({**columns, "places": {"place": place}}, lengths)
    return MemoryIndex(dim, arenas, _restore_banks(names, lengths, columns, place))


def read_traces_only(folder: Path, counts: Mapping[str, int]) -> dict[str, list[Trace]]:
    """The live traces of each bank in the order of their ids: all that the vectors were made from.

    Reads `banks.parquet` and `traces.parquet` alone, and raises as `read_index`.
    """
    check_counts({name: counts[name] for name in ("banks", "traces", "sessions", "units")})
    names, lengths = _read_banks(folder, ("traces",), counts)
    bank_of_trace = np.repeat(np.array(names, object), lengths["traces"]).tolist()
    traces, place = read_trace_rows(folder / "traces.parquet", bank_of_trace)
    found, end = {}, 0
    for name, length in zip(names, lengths["traces"].tolist(), strict=True):
        begin, end = end, end + length
        live = begin + np.flatnonzero(place[begin:end] >= 0)
        found[name] = traces[live[np.argsort(place[live], kind="stable")]].tolist()
    return found


def _read_banks(
    folder: Path, tables: Sequence[str], counts: Mapping[str, int]
) -> tuple[list[str], dict[str, np.ndarray]]:
    """The banks' names, and how many rows of each table each of them has."""
    kept = _read_parquet(folder / "banks.parquet", counts["banks"])
    names = [to_text(name) for name in kept["name"].to_pylist()]
    lengths = {name: np.array(kept[name], np.int64) for name in tables}
    check_lengths(names, lengths, counts)
    return names, lengths


def _restore_banks(
    names: Sequence[str], lengths: Mapping[str, np.ndarray],
    columns: Mapping[str, Mapping[str, np.ndarray]], place: np.ndarray,
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
                if length[table] and table != "dead"
            },
            ids,
            {text: row for row, text in enumerate(columns["sessions"]["name"][mine["sessions"]])},
            {key: row for row, key in enumerate(columns["entities"]["key"][mine["entities"]].tolist())},
            columns["dead"]["dead"][mine["dead"]],
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
        {"name": pa.array([to_bytes(bank.name) for bank in banks], TEXT)}
        | {
            table: pa.array([bank.spans.get(table, Span()).length for bank in banks], pa.int64())
            for table in table_rows(index)
        }
        | {"dead": pa.array([len(bank.dead) for bank in banks], pa.int64())}
    )


def _scalars(index: MemoryIndex, table: str) -> pa.Table:
    columns = {}
    for name, (dtype, _) in index.arenas[table].schema.items():
        if name == "vector":
            continue
        parts = [index.column(bank, table, name) for bank in index.banks.values()]
        joined = np.concatenate([np.empty(0, dtype), *parts])
        columns[name] = pa.array([to_bytes(value) for value in joined], TEXT) if dtype is object else joined
    return pa.table(columns)


def _read_parquet(path: Path, rows: int) -> pa.Table:
    """A whole table, if it declares as many rows as it should."""
    with pq.ParquetFile(path) as file:
        if file.metadata.num_rows != rows:
            raise ValueError(f"{path.name} declares {file.metadata.num_rows} rows instead of {rows}")
        return file.read()


def _read_scalars(path: Path, wanted: _Columns, rows: int) -> dict[str, np.ndarray]:
    found = _read_parquet(path, rows)
    columns: dict[str, np.ndarray] = {}
    for name in found.column_names:
        if wanted[name][0] is object:
            columns[name] = np.empty(len(found), object)
            columns[name][:] = [to_text(value) for value in found[name].to_pylist()]
        else:
            # a copy, because torch does not like to share what cannot be written
            columns[name] = found[name].to_numpy().copy()
    return columns


def _tensors(index: MemoryIndex) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What goes into the two files of arrays, by "table.column"."""
    banks = list(index.banks.values())
    facts = {
        "dead": Tensor(np.dtype(np.int32), (sum(len(b.dead) for b in banks),), [b.dead for b in banks])
    }
    vectors: dict[str, Tensor] = {}
    for table, rows in table_rows(index).items():
        for name, (dtype, shape) in index.arenas[table].schema.items():
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
