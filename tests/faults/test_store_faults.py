"""Damage, crashes, full disks, strangers and rivals: an index keeps its last good version."""

from __future__ import annotations

import errno
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import small_memory
from zeromem_gpu import Config, Memory, StoreError, Trace
from zeromem_gpu.store import files, open_index, save_index, versions
from zeromem_gpu.store.files import checksum
from zeromem_gpu.store.tables import FILES

ALL_FILES = (*FILES, "manifest.json")
OLD, NEW = ["a"], ["a", "b"]


@pytest.fixture(scope="module")
def memories() -> tuple[Memory, Memory]:
    """One trace, and the same with another one."""
    old, new = small_memory(), small_memory()
    old.add(Trace("a", "Ada keeps bees.", speaker="Ada"))
    new.add([Trace("a", "Ada keeps bees.", speaker="Ada"), Trace("b", "Bob sails.", speaker="Bob")])
    return old, new


@pytest.fixture(scope="module")
def template(memories: tuple[Memory, Memory], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    for memory in memories:
        memory.save(folder)
    return folder


@pytest.fixture
def saved(template: Path, tmp_path: Path) -> Path:
    """A directory whose v0001 holds OLD and v0002 holds NEW."""
    return Path(shutil.copytree(template, tmp_path / "index"))


def ids(directory: Path, **options: bool) -> list[str]:
    index, _, _ = open_index(directory, **options)
    return list(index.banks["default"].ids)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name != ".lock")


def rewrite_manifest(
    folder: Path, change: Callable[[dict[str, Any]], object], *, sign: bool = True
) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    if sign:
        manifest.pop("checksum", None)
        manifest["checksum"] = checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def flip(path: Path, share: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(share * (len(data) - 1))] ^= 0xFF
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "first byte": lambda path: flip(path, 0.0),
    "middle byte": lambda path: flip(path, 0.5),
    "last byte": lambda path: flip(path, 1.0),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.parametrize("name", ALL_FILES)
def test_a_damaged_file_gives_way_to_the_version_before(
    saved: Path, name: str, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    assert ids(saved) == NEW
    caplog.clear()
    damage(saved / "v0002" / name)
    assert ids(saved) == OLD
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "v0002" in record.getMessage()
    assert str(saved) in record.getMessage()


@pytest.mark.parametrize("name", ALL_FILES)
def test_no_usable_version_is_an_error_that_says_what_to_do(saved: Path, name: str) -> None:
    for version in ("v0001", "v0002"):
        flip(saved / version / name, 0.5)
    with pytest.raises(
        StoreError, match=r"no usable version \(v0002: .*; v0001: .*index the traces again"
    ) as error:
        ids(saved)
    assert str(saved) in str(error.value)


@pytest.mark.parametrize(
    "text", [None, "", "v0009\n", "v9", "../v0001", "/etc", "v0002.partial", "\x00\xff", "v0002/../v0001"]
)
def test_a_damaged_pointer_opens_the_newest_version(
    saved: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    (saved / "CURRENT").unlink()
    if text is not None:
        (saved / "CURRENT").write_text(text, "latin-1")
    assert ids(saved) == NEW
    assert "CURRENT" in caplog.text or "v0009" in caplog.text


def test_a_version_that_was_never_made_current_is_not_opened(
    saved: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (saved / "CURRENT").write_text("v0001\n")
    assert ids(saved) == OLD
    assert caplog.records == []


def test_the_next_save_keeps_the_good_version_not_the_damaged_one(
    saved: Path, memories: tuple[Memory, Memory]
) -> None:
    (saved / "v0002" / "units.parquet").unlink()
    memories[1].save(saved)
    assert names(saved) == ["CURRENT", "v0001", "v0003"]
    assert ids(saved) == NEW


def test_large_arrays_are_verified_when_asked(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_HASHED_BYTES", 64)
    flip(saved / "v0002" / "vectors.safetensors", 1.0)
    assert ids(saved) == NEW
    assert ids(saved, verify=True) == OLD
    flip(saved / "v0002" / "traces.parquet", 0.5)
    assert ids(saved) == OLD


# -- formats --


@pytest.mark.parametrize("version", [7, 1], ids=["future", "past"])
def test_another_format_is_named_and_left_alone(
    saved: Path, memories: tuple[Memory, Memory], version: int
) -> None:
    rewrite_manifest(saved / "v0002", lambda m: m.update(version=version), sign=False)
    before = {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()}
    with pytest.raises(StoreError, match=rf"format {version}.*format 2") as error:
        ids(saved)
    assert str(saved) in str(error.value)
    with pytest.raises(StoreError, match=f"format {version}"):
        memories[0].save(saved)
    assert {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(format="something else"),
        lambda m: m.update(version=0),
        lambda m: m.update(version="1"),
        lambda m: m.update(dim=31),
        lambda m: m.update(dim="x"),
        lambda m: m.update(files=[]),
        lambda m: m.update(fingerprint={}),
        lambda m: m.update(fingerprint=[]),
        lambda m: m["config"].update(gamma=5),
        lambda m: m["config"].update(unknown=5),
        lambda m: m.pop("config"),
        lambda m: m["files"]["units.parquet"].pop("bytes"),
    ],
)  # fmt: skip
def test_a_manifest_that_fits_no_index_is_damage(
    saved: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    rewrite_manifest(saved / "v0002", change)
    assert ids(saved) == OLD


@pytest.mark.parametrize("text", ["[]", "null", "[" * 100_000, '{"format": 1}', "\ud800"])
def test_a_manifest_that_is_no_manifest_is_damage(saved: Path, text: str) -> None:
    (saved / "v0002" / "manifest.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert ids(saved) == OLD


def test_a_changed_number_in_the_manifest_is_noticed(saved: Path) -> None:
    rewrite_manifest(saved / "v0002", lambda m: m["config"].update(gamma=0.5), sign=False)
    assert ids(saved) == OLD


# -- strangers --


@pytest.mark.parametrize(
    "name", ["../v0001/units.parquet", "/etc/passwd", "sub/units.parquet", "more.parquet", ".."]
)
@pytest.mark.parametrize("instead", [True, False], ids=["instead of a file", "one too many"])
def test_a_manifest_cannot_name_files_elsewhere(saved: Path, name: str, instead: bool) -> None:
    def change(manifest: dict[str, Any]) -> None:
        facts = manifest["files"]["units.parquet"]
        if instead:
            del manifest["files"]["units.parquet"]
        manifest["files"][name] = facts

    rewrite_manifest(saved / "v0002", change)
    assert ids(saved) == OLD
    shutil.rmtree(saved / "v0001")
    with pytest.raises(StoreError, match=name):
        ids(saved)


@pytest.mark.parametrize("name", ALL_FILES)
def test_links_out_of_a_version_are_not_followed(saved: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    shutil.move(saved / "v0002" / name, outside)
    (saved / "v0002" / name).symlink_to(outside)
    assert ids(saved) == OLD


def test_a_version_that_is_a_link_is_neither_opened_nor_removed(
    saved: Path, tmp_path: Path, memories: tuple[Memory, Memory]
) -> None:
    shutil.move(saved / "v0002", tmp_path / "outside")
    (saved / "v0002").symlink_to(tmp_path / "outside")
    assert ids(saved) == OLD
    for _ in range(3):
        memories[1].save(saved)
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == sorted(ALL_FILES)


def test_a_pickle_in_an_arrays_place_is_not_run(saved: Path, tmp_path: Path) -> None:
    import pickle

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (os.mkdir, (str(tmp_path / "sprung"),))

    for name in FILES:
        data = pickle.dumps(Trap())
        (saved / "v0002" / name).write_bytes(data)
        sealed = versions.write_file(tmp_path / f"{name}.copy", lambda file, data=data: file.write(data))
        rewrite_manifest(saved / "v0002", lambda m, n=name, f=sealed: m["files"].update({n: f}))
    assert ids(saved) == OLD
    assert not (tmp_path / "sprung").exists()


# -- disks --


@contextmanager
def without_root() -> Iterator[None]:
    """Root may write anywhere, so permissions are tried as nobody."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_read_only_directory_is_opened_but_not_written(memories: tuple[Memory, Memory]) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        place = Path(name) / "index"
        memories[0].save(place)
        for path in [*place.rglob("*"), place]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = names(place)
        try:
            with without_root():
                assert ids(place) == OLD
                with pytest.raises(StoreError, match=r"(?i)permission denied.*untouched"):
                    memories[1].save(place)
                with pytest.raises(StoreError, match=r"(?i)permission denied"):
                    memories[1].save(Path(name) / "other")
        finally:
            for path in [place, *place.rglob("*")]:
                path.chmod(0o755)
        assert names(place) == before
        assert ids(place) == OLD


def test_a_directory_that_may_not_be_read_is_an_error(memories: tuple[Memory, Memory]) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        place = Path(name) / "index"
        memories[0].save(place)
        place.chmod(0o300)
        with without_root(), pytest.raises(StoreError, match="permissions"):
            ids(place)


def test_a_disk_that_fills_up_keeps_the_version_before(saved: Path) -> None:
    memory = small_memory()
    memory.add([Trace(str(at), f"Ada{at} met Bob{at} in Rome{at}.") for at in range(300)])
    before = names(saved)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (1, 3000, 60_000, 150_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(StoreError, match="File too large"):
                memory.save(saved)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert names(saved) == before
        assert ids(saved) == NEW
    memory.save(saved)
    assert len(ids(saved)) == 300


class Killed(BaseException):
    """Stands for the end of the process."""


class Steps:
    """Counts what a save does to the disk; from step `at` on, each step raises `error` (or once)."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, error: BaseException, *, once: bool) -> None:
        self.count, self.hit = 0, ""
        self._at, self._error, self._once = at, error, once
        for name in ("mkdir", "unlink", "rmdir", "rename", "replace"):
            patch.setattr(os, name, self._guarded(name, getattr(os, name)))
        patch.setattr(
            os, "fsync", self._guarded("fsync", lambda _: None)
        )  # hundreds of real ones take long
        patch.setattr(files._Hashed, "write", self._guarded("write", files._Hashed.write))

    def _guarded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if name == "mkdir" and os.path.isdir(args[0]):  # the lock makes sure of its folder
                return real(*args, **kwargs)
            self.count += 1
            if self.count == self._at or (self.count > self._at and not self._once):
                self.hit = self.hit or name
                raise self._error
            return real(*args, **kwargs)

        return step


def count_steps(saved: Path, memory: Memory) -> int:
    with pytest.MonkeyPatch.context() as patch:
        steps = Steps(patch, 1 << 30, Killed(), once=False)
        memory.save(saved)
    return steps.count


def bigger() -> Memory:
    memory = small_memory()
    memory.add([Trace(name, f"{name} sails.") for name in ("a", "b", "c")])
    return memory


def save_again(memory: Memory, place: Path) -> None:
    """What follows an accident: an ordinary save, after which nothing of the accident is left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        memory.save(place)
    assert ids(place) == ["a", "b", "c"]
    assert len(names(place)) == 3, names(place)


def test_a_crash_at_any_step_leaves_the_old_or_the_new_version(template: Path, tmp_path: Path) -> None:
    memory = bigger()
    total = count_steps(Path(shutil.copytree(template, tmp_path / "count")), memory)
    seen: dict[str, list[list[str]]] = {}
    for at in range(1, total + 1):
        place = Path(shutil.copytree(template, tmp_path / str(at)))
        with pytest.MonkeyPatch.context() as patch:
            steps = Steps(patch, at, Killed(), once=False)
            with pytest.raises(Killed):
                memory.save(place)
        found = ids(place)
        assert found in (NEW, ["a", "b", "c"])
        seen.setdefault(steps.hit, []).append(found)
        save_again(memory, place)
        shutil.rmtree(place)
    assert {"write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir"} == set(seen)
    assert seen["replace"] == [NEW]
    assert NEW in seen["write"]
    assert ["a", "b", "c"] in seen["unlink"]


def test_an_error_at_any_step_is_one_clear_error_and_no_leftovers(template: Path, tmp_path: Path) -> None:
    memory = bigger()
    total = count_steps(Path(shutil.copytree(template, tmp_path / "count")), memory)
    messages: dict[int, str] = {}
    for at in range(1, total + 1):
        place = Path(shutil.copytree(template, tmp_path / str(at)))
        with pytest.MonkeyPatch.context() as patch:
            steps = Steps(patch, at, OSError(errno.ENOSPC, "No space left on device"), once=True)
            try:
                memory.save(place)
            except StoreError as error:
                messages[at] = str(error)
        if at in messages:
            assert str(place) in messages[at]
            assert "No space left on device" in messages[at]
        else:
            assert steps.hit in ("unlink", "rmdir"), "only cleaning up may fail in silence"
            assert ids(place) == ["a", "b", "c"]
        assert ids(place) in (NEW, ["a", "b", "c"])
        assert not list(place.glob("*.partial"))
        save_again(memory, place)
        shutil.rmtree(place)
    assert len(messages) > total / 2


def test_a_first_save_that_fails_leaves_no_version(tmp_path: Path, memories: tuple[Memory, Memory]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Steps(patch, 10, OSError(errno.ENOSPC, "No space left on device"), once=True)
        with pytest.raises(StoreError, match="No space left"):
            memories[0].save(tmp_path / "new")
    assert names(tmp_path / "new") == []
    with pytest.raises(StoreError, match="holds no index"):
        ids(tmp_path / "new")


def test_a_killed_process_releases_the_directory(saved: Path, repo_root: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from zeromem_gpu.build.facts import MemoryIndex
from zeromem_gpu.config import Config
from zeromem_gpu.store import save_index
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
save_index(Path({str(saved)!r}), MemoryIndex.empty(32), Config(), {{"encoder": "hash"}})
"""
    path = os.pathsep.join([str(repo_root), str(repo_root / "kernels")])
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert ids(saved) == NEW
    bigger().save(saved)
    assert ids(saved) == ["a", "b", "c"]
    assert names(saved) == ["CURRENT", "v0002", "v0004"]


# -- rivals --


@contextmanager
def slow_writer(directory: Path, memory: Memory) -> Iterator[threading.Event]:
    """Another writer that holds the directory until its event is set."""
    real, started, finish = versions.write_index, threading.Event(), threading.Event()

    def write(*args: Any) -> Any:
        started.set()
        assert finish.wait(60)
        return real(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "write_index", write)
        thread = threading.Thread(target=memory.save, args=[directory])
        thread.start()
        try:
            assert started.wait(60)
            patch.setattr(versions, "write_index", real)
            yield finish
        finally:
            finish.set()
            thread.join(60)


def test_a_second_writer_gives_up_and_says_who_is_writing(
    saved: Path, memories: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "_LOCK_SECONDS", 0.2)
    with slow_writer(saved, memories[0]):
        with pytest.raises(StoreError, match=rf"process {os.getpid()} on .* is saving there"):
            memories[1].save(saved)
        assert ids(saved) == NEW  # readers do not wait
    assert ids(saved) == OLD
    assert names(saved) == ["CURRENT", "v0002", "v0003"]


def test_a_second_writer_waits_for_a_first_that_ends(
    saved: Path, memories: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "_LOCK_SECONDS", 60.0)
    with slow_writer(saved, memories[0]) as finish:
        threading.Timer(0.3, finish.set).start()
        memories[1].save(saved)
    assert names(saved) == ["CURRENT", "v0003", "v0004"]
    assert ids(saved) == NEW


def test_readers_beside_a_writer_always_find_a_version(
    saved: Path, memories: tuple[Memory, Memory]
) -> None:
    done = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        while not done.is_set():
            try:
                assert ids(saved) in (OLD, NEW)
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for at in range(20):
        memories[at % 2].save(saved)
    done.set()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_saving_twice_at_once_from_two_threads_gives_two_versions(
    tmp_path: Path, memories: tuple[Memory, Memory]
) -> None:
    threads = [threading.Thread(target=memory.save, args=[tmp_path]) for memory in memories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert names(tmp_path) == ["CURRENT", "v0001", "v0002"]
    assert ids(tmp_path) in (OLD, NEW)


def test_a_fingerprint_that_is_not_json_is_refused_before_anything_is_replaced(saved: Path) -> None:
    index, _, _ = open_index(saved)
    with pytest.raises(TypeError):
        save_index(saved, index, Config(), {"encoder": object()})
    assert names(saved) == ["CURRENT", "v0001", "v0002"]
    assert ids(saved) == NEW
