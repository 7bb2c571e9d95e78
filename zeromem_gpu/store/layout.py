"""What lies in a directory: versions, the pointer to one of them, and the manifest of each."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
from safetensors import SafetensorError

from zeromem_gpu.errors import StoreError
from zeromem_gpu.store.files import check_file, checksum
from zeromem_gpu.store.tables import FILES

FORMAT, FORMAT_VERSION = "zeromem-gpu index", 2
MANIFEST, CURRENT = "manifest.json", "CURRENT"
# what a damaged version can raise
DAMAGE = (
    OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, MemoryError, OverflowError,
    pa.ArrowException, SafetensorError,
)  # fmt: skip

_NAME = re.compile(r"v(\d{4,9})(\.partial)?")
# ten times what either ever holds; a larger one is none of ours and not read
_MANIFEST_BYTES, _CURRENT_BYTES = 1 << 20, 64


class FutureFormat(StoreError):
    """A version was written by a newer zeromem-gpu."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a version; one of `DAMAGE` for a damaged one, `FutureFormat` for a newer one."""
    if folder.is_symlink():
        raise ValueError("the folder is a link")
    try:
        manifest = json.loads(_read_own(folder / MANIFEST, _MANIFEST_BYTES))
    except json.JSONDecodeError as error:
        raise ValueError(f"{MANIFEST} is no JSON ({error.msg} at character {error.pos})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"{MANIFEST} is not one of a {FORMAT}")
    version = manifest.get("version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise FutureFormat(
            f"{folder}: has index format {version}; this zeromem-gpu knows format {FORMAT_VERSION}. "
            "Use the newer zeromem-gpu that wrote it, or index the traces again into a new directory."
        )
    if isinstance(version, int) and 0 < version < FORMAT_VERSION:
        raise StoreError(
            f"{folder}: has index format {version}, without vectors of words; this zeromem-gpu reads "
            f"format {FORMAT_VERSION}. Index the traces again into a new directory."
        )
    if version != FORMAT_VERSION or manifest.pop("checksum", None) != checksum(manifest):
        raise ValueError(f"{MANIFEST} does not have the checksum that it gives")
    # these names and no others, so that no path can lead out of the folder
    strange = sorted(set(manifest["files"]).symmetric_difference(FILES))
    if strange:
        raise ValueError(f"{MANIFEST} has a file too many or too few: {', '.join(map(repr, strange))}")
    if not isinstance(manifest["fingerprint"].get("encoder"), str):
        raise ValueError(f"{MANIFEST} names no encoder")
    return manifest


def is_whole(folder: Path) -> bool:
    """Whether a version has its manifest and files of the right sizes."""
    try:
        for name, facts in read_manifest(folder)["files"].items():
            check_file(folder / name, facts, contents=False)
    except StoreError:
        raise
    except DAMAGE:
        return False
    return True


def entries(directory: Path) -> dict[str, int]:
    """Names of versions, finished or not, with their numbers."""
    matches = (_NAME.fullmatch(entry.name) for entry in directory.iterdir())
    return {match[0]: int(match[1]) for match in matches if match}


def candidates(directory: Path) -> list[str]:
    """Finished versions, best first: the one that CURRENT names, then from the newest down."""
    numbers = {name: number for name, number in entries(directory).items() if not name.endswith(".partial")}
    names = sorted(numbers, key=lambda name: -numbers[name])
    named = current(directory)
    return names if named is None else [named, *(name for name in names if name != named)]


def current(directory: Path) -> str | None:
    """The version that CURRENT names; None when it names none."""
    try:
        text = _read_own(directory / CURRENT, _CURRENT_BYTES).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return text if _NAME.fullmatch(text) and not text.endswith(".partial") else None


def _read_own(path: Path, most: int) -> bytes:
    """A small regular file of the directory's own: no link is followed, no pipe is waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path.name} is no regular file")
        if found.st_size > most:
            raise ValueError(f"{path.name} has {found.st_size} bytes, more than any of this format")
        return file.read(most)
