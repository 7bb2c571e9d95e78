"""What is wrong in a directory, file by file, and what can still be read where something is."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zeromem_gpu.config import Config
from zeromem_gpu.errors import StoreError
from zeromem_gpu.store.files import check_file
from zeromem_gpu.store.layout import DAMAGE, FutureFormat, candidates, current, entries, read_manifest
from zeromem_gpu.store.tables import FILES, read_index, read_traces_only
from zeromem_gpu.types import Trace

logger = logging.getLogger(__name__)

_TEXTS = ("banks.parquet", "traces.parquet")


@dataclass(frozen=True, slots=True)
class Version:
    """One version as it was found.

    `faults` names each damaged file, `texts` says whether its traces can be read, `encoder` what built it.
    """

    name: str
    faults: tuple[str, ...]
    texts: bool
    encoder: str = ""
    future: bool = False


@dataclass(frozen=True, slots=True)
class Findings:
    """A directory as it was found. `versions` are in the order in which opening tries them.

    `pointed` says whether CURRENT names a version, `left` lists unfinished versions, `bytes_needed` is what
    another version of the newest one's size would take, `bytes_free` what the disk has.
    """

    versions: tuple[Version, ...]
    pointed: bool
    left: tuple[str, ...]
    writable: bool
    bytes_needed: int
    bytes_free: int


def inspect_directory(directory: Path) -> Findings:
    """Every version compared with its manifest, all checksums, and what a save would meet there.

    Raises `StoreError` where there is no directory that can be read.
    """
    try:
        names = candidates(directory)
        versions = tuple(_inspect(directory / name) for name in names)
        left = tuple(sorted(name for name in entries(directory) if name.endswith(".partial")))
        free = shutil.disk_usage(directory).free
    except OSError as error:
        raise StoreError(f"{directory}: cannot be read ({error}); check its permissions.") from error
    needed = sum(file_sizes(directory / names[0]).values()) if names else 0
    writable = os.access(directory, os.W_OK | os.X_OK)
    return Findings(versions, current(directory) is not None, left, writable, needed, free)


def file_sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file of a version that is there."""
    paths = {name: folder / name for name in FILES}
    return {name: path.lstat().st_size for name, path in paths.items() if path.is_file()}


def stored_traces(directory: Path) -> Iterator[Trace]:
    """The live traces of the newest version whose texts are whole, whatever befell its other files.

    Nothing but two files is read. A newer version that had to be passed over is a logged warning; no
    version with whole texts, or one of a newer format, is a `StoreError`.
    """
    if not directory.is_dir():
        raise StoreError(f"{directory}: is no directory; name the directory that a memory was saved to.")
    faults = []
    for name in candidates(directory):
        folder = directory / name
        try:
            manifest = read_manifest(folder)
            for file in _TEXTS:
                check_file(folder / file, manifest["files"][file], contents=True)
            banks = read_traces_only(folder, manifest["counts"])
        except StoreError:
            raise
        except DAMAGE as error:
            faults.append(f"{name}: {error}")
            continue
        if faults:
            logger.warning("%s: an older version was read (%s)", directory, "; ".join(faults))
        for traces in banks.values():
            yield from traces
        return
    raise StoreError(
        f"{directory}: no version whose traces can be read ({'; '.join(faults) or 'there is none'}). "
        "Restore it from a copy, or index the traces again into a new directory."
    )


def _inspect(folder: Path) -> Version:
    """All faults of a version; what its files hold is looked at only where each is what was written."""
    try:
        manifest = read_manifest(folder)
    except FutureFormat as error:
        return Version(folder.name, (str(error),), texts=False, future=True)
    except DAMAGE as error:
        return Version(folder.name, (_told(error),), texts=False)
    faults = {}
    for name, facts in manifest["files"].items():
        try:
            check_file(folder / name, facts, contents=True)
        except DAMAGE as error:
            faults[name] = _told(error)
    if not faults:
        try:
            read_index(folder, manifest["dim"], manifest["counts"])
            Config.from_dict(manifest["config"])
        except DAMAGE as error:
            return Version(folder.name, (_told(error),), texts=False)
    texts = not faults.keys() & set(_TEXTS)
    return Version(folder.name, tuple(faults.values()), texts, manifest["fingerprint"]["encoder"])


def _told(error: Exception) -> str:
    """A fault in words; a missing file by its name."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"{Path(error.filename).name} is missing"
    return str(error) or type(error).__name__
