"""Indexes that somebody made to harm: refused in words, with nothing outside their folder read or written.

Checksums are no defence here, since who writes the files writes the manifest too.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from tests.support import small_memory
from zeromem_gpu import Memory, StoreError, Trace
from zeromem_gpu.store import inspect_directory, open_index, stored_traces
from zeromem_gpu.store.files import checksum, write_file


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    memory = small_memory()
    memory.add([Trace(str(at), f"Ada{at} met Bob in Rome.", f"b{at % 2}") for at in range(6)])
    memory.add(Trace("0", "Ada met nobody.", "b0"))
    folder = tmp_path_factory.mktemp("saved")
    memory.save(folder)
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """The only version of an index."""
    return Path(shutil.copytree(template, tmp_path / "index")) / "v0001"


def seal(folder: Path, change: Callable[[dict[str, Any]], object] = lambda manifest: None) -> None:
    """Make the manifest say what lies there, and sign it."""
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["checksum"]
    for name in manifest["files"]:
        data = (folder / name).read_bytes()
        copy = folder.parent / "copy"
        manifest["files"][name] = write_file(copy, lambda file, data=data: file.write(data))
        copy.unlink()
    change(manifest)
    manifest["checksum"] = checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def refused(folder: Path, said: str) -> None:
    """Opening and export fail in words within a few megabytes; inspection names the fault."""
    tracemalloc.start()
    with pytest.raises(StoreError, match=said):
        open_index(folder.parent)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    (version,) = inspect_directory(folder.parent).versions
    assert version.faults


def test_a_sealed_copy_opens(folder: Path) -> None:
    """What the other tests change is what makes them fail."""
    seal(folder)
    index, _, _ = open_index(folder.parent)
    assert list(index.banks) == ["b0", "b1"]
    assert len(list(stored_traces(folder.parent))) == 6


@pytest.mark.parametrize("size", [1 << 62, (1 << 64) - 1, 100 << 20, 0, 7])
def test_an_oversized_header_of_arrays(folder: Path, size: int) -> None:
    path = folder / "vectors.safetensors"
    path.write_bytes(struct.pack("<Q", size) + path.read_bytes()[8:])
    seal(folder)
    refused(folder, "v0001: ")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [1 << 60, 32], "data_offsets": [0, 1 << 67]},
        {"dtype": "F32", "shape": [1 << 31, 1 << 33], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [2, 32], "data_offsets": [-256, 0]},
        {"dtype": "F64", "shape": [0, 32], "data_offsets": [0, 0]},
    ],
    ids=["beyond the file", "wraps around", "before the file", "another type"],
)
def test_arrays_that_are_not_in_their_file(folder: Path, entry: dict[str, Any]) -> None:
    header = json.dumps({"units.vector": entry}).encode()
    (folder / "vectors.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    seal(folder)
    refused(folder, "v0001: ")


@pytest.mark.parametrize("table", ["banks", "traces", "units", "tokens", "entities", "dead"])
@pytest.mark.parametrize("count", [1 << 62, 1 << 40, -1, 1.5, True, None, "7"], ids=repr)
def test_counts_that_the_files_do_not_hold(folder: Path, table: str, count: object) -> None:
    seal(folder, lambda manifest: manifest["counts"].update({table: count}))
    refused(folder, "v0001: ")


@pytest.mark.parametrize("table", ["traces", "units", "tokens", "sentences"])
@pytest.mark.parametrize(
    "lengths",
    [[1 << 62, -(1 << 62)], [(1 << 63) - 1, 9], [-1, 8], [0, 0]],
    ids=["sum", "wrap", "sign", "zero"],
)
def test_banks_that_divide_the_rows_wrongly(folder: Path, table: str, lengths: list[int]) -> None:
    path = folder / "banks.parquet"
    banks = pq.read_table(path)
    pq.write_table(banks.set_column(banks.column_names.index(table), table, pa.array(lengths)), path)
    seal(folder)
    refused(folder, "v0001: .*wrongly")


def test_a_small_table_that_unpacks_to_a_large_one(folder: Path) -> None:
    """Twenty million rows of one value are a few kilobytes in a file."""
    for name, columns in {
        "banks.parquet": pq.read_table(folder / "banks.parquet").schema,
        "sessions.parquet": pq.read_table(folder / "sessions.parquet").schema,
    }.items():
        kept = (folder / name).read_bytes()
        with pq.ParquetWriter(folder / name, columns, compression="zstd") as writer:
            for _ in range(20):
                nothing = [pa.repeat(pa.scalar(b"" if t == pa.large_binary() else 0, t), 1_000_000)
                           for t in columns.types]  # fmt: skip
                writer.write_table(pa.table(nothing, schema=columns))
        assert (folder / name).stat().st_size < 1 << 20
        seal(folder)
        refused(folder, "declares 20000000 rows")
        (folder / name).write_bytes(kept)


@pytest.mark.parametrize("value", [-3, 1 << 20, (1 << 31) - 1])
@pytest.mark.parametrize(
    "column",
    [
        "tokens.unit", "tokens.sentence", "sentences.unit", "mentions.unit", "mentions.entity",
        "sentence_entities.sentence", "sentence_entities.entity", "dead",
    ],
)  # fmt: skip
def test_row_numbers_out_of_range(folder: Path, column: str, value: int) -> None:
    """Compiled loops follow them without a check of their own."""
    arrays = load_file(folder / "facts.safetensors")
    arrays[column][0] = value
    save_file(arrays, folder / "facts.safetensors")
    seal(folder)
    refused(folder, "numbers a row")


def test_row_numbers_of_another_bank(folder: Path) -> None:
    arrays = load_file(folder / "facts.safetensors")
    units = pq.read_table(folder / "banks.parquet")["units"].to_pylist()
    arrays["sentences.unit"][0] = units[0]  # one past its own bank, a row of the next
    save_file(arrays, folder / "facts.safetensors")
    seal(folder)
    refused(folder, "sentences.unit numbers a row")


@pytest.mark.parametrize(
    ("column", "value"), [("session", 99), ("trace", -1), ("speaker", -2), ("speaker", 99)]
)
def test_units_that_point_nowhere(folder: Path, column: str, value: int) -> None:
    units = pq.read_table(folder / "units.parquet")
    values = units[column].to_numpy().copy()
    values[0] = value
    place = units.column_names.index(column)
    pq.write_table(
        units.set_column(place, units.schema.field(place), pa.array(values)), folder / "units.parquet"
    )
    seal(folder)
    refused(folder, f"units.{column} numbers a row")


@pytest.mark.parametrize(
    "metadata", [b"[1]", b"7", b"{", b"[" * 100_000], ids=["list", "number", "cut", "deep"]
)
def test_metadata_that_are_no_object(folder: Path, metadata: bytes) -> None:
    traces = pq.read_table(folder / "traces.parquet")
    place = traces.column_names.index("metadata")
    wrong = pa.array([metadata] * len(traces), pa.large_binary())
    pq.write_table(traces.set_column(place, "metadata", wrong), folder / "traces.parquet")
    seal(folder)
    refused(folder, "v0001: ")
    with pytest.raises(StoreError, match="no version whose traces"):
        list(stored_traces(folder.parent))


# -- what lies outside --


@pytest.mark.parametrize("name", ["/etc/passwd", "../../outside", "~/outside", "v0001/../../outside"])
def test_a_pointer_out_of_the_folder(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (folder.parent / "CURRENT").write_text(name)
    index, _, _ = open_index(folder.parent)
    assert list(index.banks) == ["b0", "b1"]
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("name", ["manifest.json", "CURRENT"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(folder: Path, name: str) -> None:
    path = folder / name if name != "CURRENT" else folder.parent / name
    path.unlink()
    os.mkfifo(path)
    if name == "CURRENT":
        assert list(open_index(folder.parent)[0].banks) == ["b0", "b1"]
    else:
        refused(folder, "no regular file")


def test_a_huge_manifest_is_not_read(folder: Path) -> None:
    with open(folder / "manifest.json", "r+b") as file:
        file.truncate(1 << 40)
    refused(folder, "more than any of this format")


@pytest.mark.parametrize("name", [".lock", ".writer", "CURRENT", "CURRENT.partial"])
def test_a_save_writes_through_no_link(template: Path, folder: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder.parent / name).unlink(missing_ok=True)
    (folder.parent / name).symlink_to(victim)
    memory = small_memory()
    memory.add(Trace("new", "Dora paints."))
    with pytest.raises(StoreError, match="link") if name == ".lock" else nullcontext():
        memory.save(folder.parent)
    assert victim.read_text() == "precious"
    assert victim.stat().st_size == len("precious")


@pytest.mark.parametrize(
    "name", ["/srv/models/evil", "../evil", "./evil", "~/evil", "a/../../evil", "C:\\evil", "deep/er/evil"]
)
def test_a_path_that_only_the_index_names_is_not_loaded(folder: Path, name: str) -> None:
    """An index may name a model, but not make its reader load files from anywhere."""
    seal(folder, lambda manifest: manifest["fingerprint"].update(encoder=name))
    memory = Memory.open(folder.parent, cache_dir=False, device="cpu")
    assert memory.info()["traces"] == 6
    with pytest.raises(StoreError, match="encoder="):
        memory.search("Where is Ada?", bank="b0")
