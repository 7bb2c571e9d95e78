"""Versions in a directory: one writer at a time, readers without locks, fallback to the version before."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from filelock import FileLock, Timeout
from safetensors import SafetensorError

from zeromem_gpu.build.facts import MemoryIndex
from zeromem_gpu.config import Config
from zeromem_gpu.errors import StoreError
from zeromem_gpu.store.files import check_file, checksum, sync_folder, write_file
from zeromem_gpu.store.tables import FILES, read_index, write_index

logger = logging.getLogger(__name__)

FORMAT, FORMAT_VERSION = "zeromem-gpu index", 2

Opened = tuple[MemoryIndex, Config, dict[str, Any]]

_MANIFEST, _CURRENT, _LOCK, _WRITER = "manifest.json", "CURRENT", ".lock", ".writer"
_NAME = re.compile(r"v(\d{4,9})(\.partial)?")
_LOCK_SECONDS = 5.0
_OPEN_TRIES = 3
# Parquet is read as a whole and so always compared with its checksum. Arrays are mapped: above this size
# reading them all at every start would cost more than it finds, so size and header must do.
_HASHED_BYTES = 64 << 20
# what a damaged version can raise
_DAMAGE = (
    OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError,
    pa.ArrowException, SafetensorError,
)  # fmt: skip


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
    """The newest usable index of a directory, with the configuration and fingerprint it was saved with.

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
            names = _candidates(directory)
            opened, faults = _first_usable(directory, names, verify)
            # a writer may have removed what was being read: then look again
            if not faults or names == _candidates(directory):
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


def _first_usable(directory: Path, names: list[str], verify: bool) -> tuple[Opened | None, list[str]]:
    """The first version that opens, and what is wrong with those before it."""
    faults = []
    if names and _current(directory) is None:
        faults.append("CURRENT is missing or names no version")
    for name in names:
        try:
            return _open(directory / name, verify), faults
        except StoreError:
            raise
        except _DAMAGE as error:
            faults.append(f"{name}: {error}")
    return None, faults


def _open(folder: Path, verify: bool) -> Opened:
    manifest = _read_manifest(folder)
    for name, facts in manifest["files"].items():
        mapped = name.endswith(".safetensors") and facts["bytes"] > _HASHED_BYTES
        check_file(folder / name, facts, contents=verify or not mapped)
    index = read_index(folder, manifest["dim"])
    return index, Config.from_dict(manifest["config"]), manifest["fingerprint"]


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a version; `ValueError` (or `OSError`) for a damaged one."""
    path = folder / _MANIFEST
    if folder.is_symlink() or not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError(f"the folder is a link, or {_MANIFEST} no regular file")
    manifest = json.loads(path.read_bytes())
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"{_MANIFEST} is not one of a {FORMAT}")
    version = manifest.get("version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise StoreError(
            f"{folder}: has index format {version}; this zeromem-gpu knows format {FORMAT_VERSION}. "
            "Use the newer zeromem-gpu that wrote it, or index the traces again into a new directory."
        )
    if isinstance(version, int) and version < FORMAT_VERSION:
        raise StoreError(
            f"{folder}: has index format {version}, without vectors of words; this zeromem-gpu reads "
            f"format {FORMAT_VERSION}. Index the traces again into a new directory."
        )
    if version != FORMAT_VERSION or manifest.pop("checksum", None) != checksum(manifest):
        raise ValueError(f"{_MANIFEST} does not have the checksum that it gives")
    # these names and no others, so that no path can lead out of the folder
    strange = sorted(set(manifest["files"]).symmetric_difference(FILES))
    if strange:
        raise ValueError(f"{_MANIFEST} has a file too many or too few: {', '.join(map(repr, strange))}")
    if not isinstance(manifest["fingerprint"].get("encoder"), str):
        raise ValueError(f"{_MANIFEST} names no encoder")
    return manifest


def _save(
    directory: Path, index: MemoryIndex, config: Config, fingerprint: Mapping[str, Any], only: bool
) -> None:
    # a newer format stops here, before anything is written
    before = next((name for name in _candidates(directory) if _whole(directory / name)), None)
    entries = _entries(directory)
    name = f"v{max(entries.values(), default=0) + 1:04d}"
    for entry in entries:
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
        _write_json(partial / _MANIFEST, {**manifest, "checksum": checksum(manifest)})
        sync_folder(partial)
        os.rename(partial, final)
        sync_folder(directory)
        _point(directory, name)
    except BaseException:
        _discard(partial)
        if _current(directory) != name:
            _discard(final)
        raise
    for entry in entries:
        if only or entry != before:
            _discard(directory / entry)


def _write_json(path: Path, value: object) -> None:
    text = json.dumps(value, indent=2)
    write_file(path, lambda file: file.write(text.encode()))


def _point(directory: Path, name: str) -> None:
    """Make CURRENT name a version, atomically."""
    fresh = directory / f"{_CURRENT}.partial"
    fresh.unlink(missing_ok=True)
    try:
        write_file(fresh, lambda file: file.write(f"{name}\n".encode()))
        os.replace(fresh, directory / _CURRENT)
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    sync_folder(directory)


def _counts(index: MemoryIndex) -> dict[str, int]:
    """How many banks there are, and rows of each table."""
    banks = index.banks.values()
    rows = {
        table: sum(bank.spans[table].length for bank in banks if table in bank.spans)
        for table in index.arenas
    }
    return {"banks": len(banks), **rows, "dead": sum(len(bank.dead) for bank in banks)}


def _whole(folder: Path) -> bool:
    """Whether a version has its manifest and files of the right sizes."""
    try:
        for name, facts in _read_manifest(folder)["files"].items():
            check_file(folder / name, facts, contents=False)
    except StoreError:
        raise
    except _DAMAGE:
        return False
    return True


def _entries(directory: Path) -> dict[str, int]:
    """Names of versions, finished or not, with their numbers."""
    matches = (_NAME.fullmatch(entry.name) for entry in directory.iterdir())
    return {match[0]: int(match[1]) for match in matches if match}


def _candidates(directory: Path) -> list[str]:
    """Finished versions, best first: the one that CURRENT names, then from the newest down."""
    numbers = {
        name: number for name, number in _entries(directory).items() if not name.endswith(".partial")
    }
    names = sorted(numbers, key=lambda name: -numbers[name])
    current = _current(directory)
    return names if current is None else [current, *(name for name in names if name != current)]


def _current(directory: Path) -> str | None:
    """The version that CURRENT names; None when it names none."""
    try:
        text = (directory / _CURRENT).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return text if _NAME.fullmatch(text) and not text.endswith(".partial") else None


def _discard(folder: Path) -> None:
    """Remove a version: only files of this format, so that nothing of anyone else's is lost."""
    try:
        if folder.is_symlink() or not folder.is_dir():
            return
        for name in (_MANIFEST, *FILES):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    except OSError as error:
        logger.warning("%s: left behind (%s)", folder, error)


@contextmanager
def _only_writer(directory: Path) -> Iterator[None]:
    """Hold the directory's lock; who holds it is written beside it for those who wait in vain."""
    lock, note = FileLock(directory / _LOCK), directory / _WRITER
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
            note.write_text(f"process {os.getpid()} on {socket.gethostname()}", "utf-8")
            yield
        finally:
            with suppress(OSError):
                note.unlink(missing_ok=True)
    finally:
        lock.release()
