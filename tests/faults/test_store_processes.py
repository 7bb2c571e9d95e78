"""Saves that end by SIGKILL, by a full disk of its own, and beside another process's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.store_processes import conversation, old_and_new
from tests.support import small_memory
from zeromem_gpu import StoreError
from zeromem_gpu.store import inspect_directory, open_index

KILLS = 20


def contents(directory: Path) -> dict[str, Any]:
    """Everything that an opened index holds, as values that == compares."""
    index, _, _ = open_index(directory, verify=True)
    return {
        f"{name}/{table}.{column}": array.tolist() if array.dtype == object else array.tobytes()
        for name, bank in index.banks.items()
        for table in index.arenas
        for column, array in index.facts(bank, table).items()
    }


def start(repo_root: Path, *words: object) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(repo_root), str(repo_root / "kernels")])
    command = [sys.executable, "-m", "tests.faults.store_processes", *map(str, words)]
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, cwd=repo_root)


@pytest.mark.slow
def test_a_save_killed_at_any_moment_leaves_the_old_or_the_new_version(
    tmp_path: Path, repo_root: Path
) -> None:
    old, new = old_and_new()
    old.save(tmp_path / "old")
    new.save(tmp_path / "new")
    was, would_be = contents(tmp_path / "old"), contents(tmp_path / "new")
    killing = start(repo_root, "kill", tmp_path / "old", tmp_path / "runs", 7, KILLS)
    (tmp_path / "runs").mkdir(exist_ok=True)
    said = killing.communicate(timeout=300)[0].split()
    assert killing.returncode == 0
    assert contents(tmp_path / "runs" / "0") == would_be, "the save that nobody killed"
    killed = [int(status) == signal.SIGKILL for status in said]
    assert len(killed) == KILLS
    assert sum(killed) > KILLS / 2
    unfinished = 0
    for at in range(1, KILLS + 1):
        place = tmp_path / "runs" / str(at)
        found = contents(place)
        assert found == would_be if not killed[at - 1] else found in (was, would_be)
        unfinished += found == was
        # the next save finds no lock and leaves nothing of the accident
        new.save(place)
        assert contents(place) == would_be
        findings = inspect_directory(place)
        assert findings.left == ()
        assert all(not version.faults for version in findings.versions)
    assert unfinished > 0, "some save has to have been cut short"


@pytest.mark.slow
def test_two_processes_save_into_one_directory(tmp_path: Path, repo_root: Path) -> None:
    """Each save is whole or refused by name; nothing is lost or mixed."""
    first = small_memory()
    first.add(conversation("AAA", 3))
    first.save(tmp_path / "index")
    writers = [start(repo_root, "write", tmp_path / "index", name, 12) for name in ("AAA", "BBB")]
    said = [writer.communicate(timeout=300)[0].split("\n")[:-1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    for lines in said:
        assert set(lines) <= {"saved", "refused"}, lines
        assert "saved" in lines
    findings = inspect_directory(tmp_path / "index")
    assert [version.faults for version in findings.versions] == [(), ()]
    saves = sum(lines.count("saved") for lines in said) + 1
    assert findings.versions[0].name == f"v{saves:04d}", "one version a save"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no right to mount a tmpfs; a limit on file sizes stands in (test_store_faults.py)")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_keeps_what_was_saved_and_says_so(small_disk: Path) -> None:
    memory = small_memory()
    memory.add(conversation("Ada", 40))
    memory.save(small_disk / "index")
    before = contents(small_disk / "index")
    memory.add(conversation("Eve", 2000))
    for _ in range(2):
        with pytest.raises(StoreError, match=r"No space left on device.*untouched"):
            memory.save(small_disk / "index")
        assert contents(small_disk / "index") == before
        assert inspect_directory(small_disk / "index").left == ()
    memory.delete(bank="b0")
    memory.delete(bank="b1")
    memory.delete(bank="b2")
    memory.compact()
    memory.add(conversation("Ada", 41))
    memory.save(small_disk / "index")
    assert contents(small_disk / "index") != before
