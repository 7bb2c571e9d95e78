"""Versions in a directory: one writer at a time, readers without locks, fallback to the version before."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from zeromem_gpu.build.facts import MemoryIndex
from zeromem_gpu.config import Config
from zeromem_gpu.errors import StoreError
from zeromem_gpu.store.files import check_file, checksum, sync_folder, write_file
from zeromem_gpu.store.layout import (
    CURRENT,
    DAMAGE,
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    candidates,
    current,
    entries,
    is_whole,
    read_manifest,
)
from zeromem_gpu.store.tables import FILES, read_index, table_rows, write_index

logger = logging.getLogger(__name__)

Opened = tuple[MemoryIndex, Config, dict[str, Any]]
Named = tuple[str, Opened]

_LOCK, _WRITER = ".lock", ".writer"
_LOCK_SECONDS = 5.0
_OPEN_TRIES = 3
# Parquet is read as a whole and so always compared with its checksum. Arrays are mapped: above this size
# reading them all at every start would cost more than it finds, so size and header must do.
_HASHED_BYTES = 64 << 20


def save_index(
    directory: Path,
    index: MemoryIndex,
    config: Config,
    fingerprint: Mapping[str, Any],
    *,
    only: bool = False,
) -> None:
    """Write an index as the newest version of a directory, which is made when it is missing.

    The version before is kept, older ones are removed. Another writer is waited for a few seconds.

    Args:
        directory: holds nothing else.
        index: may be empty.
        config: comes back from `open_index`.
        fingerprint: JSON values; "encoder" is the encoder's name.
        only: remove the version before, too.

    Raises `StoreError` when the directory cannot be written, another writer holds it, or its index is of a
    newer format; what was saved before then stays as it was.
    """
    try:
        if not directory.is_dir():
            directory.mkdir(parents=True)
            sync_folder(directory.parent)
        with _only_writer(directory):
            _save(directory, index, config, fingerprint, only)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"{directory}: the index cannot be saved ({error}). What was saved there before is untouched; "
            "check that this is a directory, its permissions and the space on its disk, or save elsewhere."
        ) from error


def open_index(directory: Path, *, verify: bool = False) -> Opened:
    """What `open_version` opens, without its name."""
    return open_version(directory, verify=verify)[1]


def open_version(directory: Path, *, verify: bool = False) -> Named:
    """The newest usable version of a directory: its name, the index, its configuration and fingerprint.

    A damaged newest version gives way to the one before it, with a logged warning. Large arrays are mapped
    into memory, not read. Sizes are always compared, checksums of all files but arrays above 64 MiB, and
    of these too with `verify`.

    Raises `StoreError` when there is no usable version, or the newest is of a newer format.
    """
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise StoreError(f"{directory}: {what}; name the directory that a memory was saved to.")
    try:
        for _ in range(_OPEN_TRIES):
            names = candidates(directory)
            opened, faults = _first_usable(directory, names, verify)
            # a writer may have removed what was being read: then look again
            if not faults or names == candidates(directory):
                break
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{directory}: cannot be read ({error}); check its permissions.") from error
    if not names:
        raise StoreError(f"{directory}: holds no index; save a memory there first.")
    if opened is None:
        raise StoreError(
            f"{directory}: no usable version ({'; '.join(faults)}). "
            "Restore it from a copy, or index the traces again into a new directory."
        )
    if faults:
        logger.warning("%s: an older version was opened (%s)", directory, "; ".join(faults))
    return opened


def _first_usable(directory: Path, names: list[str], verify: bool) -> tuple[Named | None, list[str]]:
    """The first version that opens, and what is wrong with those before it."""
    faults = []
    if names and current(directory) is None:
        faults.append("CURRENT is missing or names no version")
    for name in names:
        try:
            return (name, _open(directory / name, verify)), faults
        except StoreError:
            raise
        except DAMAGE as error:
            faults.append(f"{name}: {error}")
    return None, faults


def _open(folder: Path, verify: bool) -> Opened:
    manifest = read_manifest(folder)
    for name, facts in manifest["files"].items():
        mapped = name.endswith(".safetensors") and facts["bytes"] > _HASHED_BYTES
        check_file(folder / name, facts, contents=verify or not mapped)
    index = read_index(folder, manifest["dim"], manifest["counts"])
    return index, Config.from_dict(manifest["config"]), manifest["fingerprint"]


def _save(
    directory: Path, index: MemoryIndex, config: Config, fingerprint: Mapping[str, Any], only: bool
) -> None:
    # a newer format stops here, before anything is written
    before = next((name for name in candidates(directory) if is_whole(directory / name)), None)
    there = entries(directory)
    name = f"v{max(there.values(), default=0) + 1:04d}"
    for entry in there:
        if entry.endswith(".partial"):
            _discard(directory / entry)
    partial, final = directory / f"{name}.partial", directory / name
    try:
        partial.mkdir()
        files = write_index(partial, index)
        manifest = {
            "format": FORMAT, "version": FORMAT_VERSION, "fingerprint": dict(fingerprint),
            "config": config.to_dict(), "dim": index.dim, "counts": _counts(index), "files": files,
        }  # fmt: skip
        _write_json(partial / MANIFEST, {**manifest, "checksum": checksum(manifest)})
        sync_folder(partial)
        os.rename(partial, final)
        sync_folder(directory)
        _point(directory, name)
    except BaseException:
        _discard(partial)
        if current(directory) != name:
            _discard(final)
        raise
    for entry in there:
        if only or entry != before:
            _discard(directory / entry)


def _write_json(path: Path, value: object) -> None:
    text = json.dumps(value, indent=2)
    write_file(path, lambda file: file.write(text.encode()))


def _point(directory: Path, name: str) -> None:
    """Make CURRENT name a version, atomically."""
    fresh = directory / f"{CURRENT}.partial"
    fresh.unlink(missing_ok=True)
    try:
        write_file(fresh, lambda file: file.write(f"{name}\n".encode()))
        os.replace(fresh, directory / CURRENT)
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    sync_folder(directory)


def _counts(index: MemoryIndex) -> dict[str, int]:
    """How many banks there are, and rows of each table."""
    dead = sum(len(bank.dead) for bank in index.banks.values())
    return {"banks": len(index.banks), **table_rows(index), "dead": dead}


def _discard(folder: Path) -> None:
    """Remove a version: only files of this format, so that nothing of anyone else's is lost."""
    try:
        if folder.is_symlink() or not folder.is_dir():
            return
        for name in (MANIFEST, *FILES):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    except OSError as error:
        logger.warning("%s: left behind (%s)", folder, error)


@contextmanager
def _only_writer(directory: Path) -> Iterator[None]:
    """Hold the directory's lock; who holds it is written beside it for those who wait in vain."""
    lock, note = FileLock(directory / _LOCK), directory / _WRITER
    if (directory / _LOCK).is_symlink():
        raise StoreError(f"{directory}: its {_LOCK} is a link, which a save does not follow; remove it.")
    try:
        lock.acquire(timeout=_LOCK_SECONDS)
    except Timeout as error:
        holder = "another writer"
        with suppress(OSError, ValueError):
            holder = note.read_text("utf-8")
        raise StoreError(
            f"{directory}: {holder} is saving there and did not finish within {_LOCK_SECONDS:g} s. "
            "Save again when it is done, or save to another directory."
        ) from error
    try:
        try:
            note.unlink(missing_ok=True)  # what a killed writer left, or a link that leads elsewhere
            with open(note, "x", encoding="utf-8") as file:
                file.write(f"process {os.getpid()} on {socket.gethostname()}")
            yield
        finally:
            with suppress(OSError):
                note.unlink(missing_ok=True)
    finally:
        lock.release()
