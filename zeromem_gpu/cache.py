"""A content-addressed cache on disk, for what models computed: vectors and mentions."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from zeromem_gpu.errors import StoreError

logger = logging.getLogger(__name__)

_FILE = "cache.sqlite3"
_READ_AT_ONCE = 500  # keys in one statement; SQLite allows 999 variables in old builds
_WRITE_AT_ONCE = 2_000  # rows in one transaction, so that a second writer waits milliseconds
_WAIT_S = 60.0  # for another process that is writing
_TABLE = (
    "CREATE TABLE IF NOT EXISTS entries"
    " (namespace TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (namespace, key))"
)


def default_cache_dir() -> Path:
    """`ZEROMEM_CACHE`, else `zeromem-gpu` in `XDG_CACHE_HOME`, else `~/.cache/zeromem-gpu`."""
    named = os.environ.get("ZEROMEM_CACHE")
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "zeromem-gpu"


class DiskCache:
    """Key → value in one SQLite file inside `directory`, for threads and several processes at once.

    The file is made at the first use. A cache that cannot be read or written costs time, not results:
    `get_many` then finds nothing and `put_many` keeps nothing, with one warning. `items` raises.
    """

    def __init__(self, directory: Path | str) -> None:
        self.path = Path(directory) / _FILE
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._owner = 0
        self._warned = False

    def get_many(self, namespace: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The stored values of `keys`, in their order; keys that are not stored are left out."""
        found: dict[bytes, bytes] = {}
        remaining = iter(dict.fromkeys(keys))
        try:
            with self._lock:
                while chunk := list(islice(remaining, _READ_AT_ONCE)):
                    rows = self._open().execute(
                        "SELECT key, value FROM entries WHERE namespace = ?"
                        f" AND key IN ({', '.join('?' * len(chunk))})",
                        [namespace, *chunk],
                    )
                    values = dict(rows.fetchall())
                    found.update((key, values[key]) for key in chunk if key in values)
        except (sqlite3.Error, OSError) as error:
            self._warn(error)
        return found

    def put_many(self, namespace: str, items: Mapping[bytes, bytes]) -> None:
        """Store values; one that is stored already stays, since equal keys mean equal content."""
        remaining = iter(items.items())
        try:
            with self._lock:
                while chunk := [(namespace, *item) for item in islice(remaining, _WRITE_AT_ONCE)]:
                    connection = self._open()
                    with connection:
                        connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", chunk)
        except (sqlite3.Error, OSError) as error:
            self._warn(error)

    def items(self, namespace: str) -> Iterator[tuple[bytes, bytes]]:
        """All keys and values of a namespace by ascending key; raises `StoreError` if unreadable."""
        last = b""
        while True:
            try:
                with self._lock:
                    rows = self._open().execute(
                        "SELECT key, value FROM entries WHERE namespace = ? AND key > ?"
                        " ORDER BY key LIMIT ?",
                        (namespace, last, _WRITE_AT_ONCE),
                    )
                    chunk: list[tuple[bytes, bytes]] = rows.fetchall()
            except (sqlite3.Error, OSError) as error:
                raise StoreError(f"cache {self.path} cannot be read: {error}. Delete the file.") from error
            if not chunk:
                return
            yield from chunk
            last = chunk[-1][0]

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._connection = None

    def __getstate__(self) -> Path:
        return self.path.parent

    def __setstate__(self, directory: Path) -> None:
        self.__init__(directory)  # type: ignore[misc]

    def _open(self) -> sqlite3.Connection:
        """The connection of this process: one that came over a fork must not be used, nor closed."""
        if self._connection is None or self._owner != os.getpid():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=_WAIT_S, check_same_thread=False)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(_TABLE)
                connection.commit()
            except sqlite3.Error:
                connection.close()
                raise
            self._connection, self._owner = connection, os.getpid()
        return self._connection

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "cache %s is not used: %s. Delete the file, or name another directory in ZEROMEM_CACHE.",
                self.path,
                error,
            )
