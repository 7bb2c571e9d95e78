"""Files of one version: written with their size and checksum, flushed to disk, read without copies."""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_CODES = {"float32": "F32", "int32": "I32", "int64": "I64"}
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Tensor:
    """An array to write, in parts: `shape` of the whole, and the parts in order, all of one dtype."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    parts: Iterable[np.ndarray]


class _Hashed(io.RawIOBase):
    """A file to write, which counts and hashes what passes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = blake2b(digest_size=_DIGEST_BYTES)
        self._size = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._size

    def write(self, data: Any) -> int:
        """Write all of `data`."""
        self._file.write(data)
        self._hash.update(data)
        self._size += len(data)
        return len(data)

    def facts(self) -> dict[str, Any]:
        """Size and checksum as the manifest holds them."""
        return {"bytes": self._size, "blake2b": self._hash.hexdigest()}


def write_file(path: Path, fill: Callable[[io.RawIOBase], object]) -> dict[str, Any]:
    """Make a new file with what `fill` writes, flush it to disk; returns its size and checksum."""
    with open(path, "xb") as file:
        hashed = _Hashed(file)
        fill(hashed)
        file.flush()
        os.fsync(file.fileno())
    return hashed.facts()


def sync_folder(path: Path) -> None:
    """Flush the names inside a folder to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_file(path: Path, facts: Mapping[str, Any], *, contents: bool) -> None:
    """Raise `ValueError` unless `path` is a file of its own with this size and, by `contents`, checksum."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path.name} is no regular file")
    if found.st_size != facts["bytes"]:
        raise ValueError(f"{path.name} has {found.st_size} bytes, its manifest says {facts['bytes']}")
    if contents:
        with open(path, "rb") as file:
            digest = file_digest(file, lambda: blake2b(digest_size=_DIGEST_BYTES)).hexdigest()
        if digest != facts["blake2b"]:
            raise ValueError(f"{path.name} does not have the checksum that its manifest gives")


def checksum(value: object) -> str:
    """BLAKE2b-16 of a JSON value in its canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def write_tensors(file: io.RawIOBase, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file part by part; the library's own writer needs each array in one piece."""
    # wide items first keeps every array aligned
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {}
    begin = 0
    for name in names:
        dtype, shape = tensors[name].dtype, tensors[name].shape
        end = begin + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        header[name] = {"dtype": _CODES[dtype.name], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    # mapped arrays begin where fresh ones may: products of some libraries round otherwise elsewhere
    text += b" " * (-(8 + len(text)) % 64)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in names:
        little = tensors[name].dtype.newbyteorder("<")
        for part in tensors[name].parts:
            file.write(np.ascontiguousarray(part, little).reshape(-1).view(np.uint8).data)


def map_tensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file, mapped: read when touched, and private when written."""
    from safetensors import safe_open

    # through torch, because the NumPy reader copies
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118
