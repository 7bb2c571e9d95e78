"""The disk cache: what goes in comes out, for threads and processes at once, and faults cost no result."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from zeromem_gpu.cache import DiskCache, default_cache_dir
from zeromem_gpu.errors import StoreError

ROOT = Path(__file__).resolve().parents[2]

WRITER = """
import sys
from zeromem_gpu.cache import DiskCache
cache, who = DiskCache(sys.argv[1]), sys.argv[2]
for turn in range(40):
    shared = {b"shared%d" % n: b"same" for n in range(turn * 20, turn * 20 + 20)}
    own = {f"{who}{turn}-{n}".encode(): who.encode() for n in range(20)}
    cache.put_many("both", {**shared, **own})
    assert len(cache.get_many("both", list(own))) == 20, "a write of this process is missing"
"""


def test_values_come_back_in_the_order_of_the_keys(tmp_path):
    cache = DiskCache(tmp_path)
    items = {os.urandom(16): os.urandom(n % 40) for n in range(1501)}  # more than one statement's worth
    cache.put_many("a", items)
    order = list(items)[::-1]
    found = DiskCache(tmp_path).get_many("a", [*order, b"absent", order[0]])
    assert found == items
    assert list(found) == order


def test_namespaces_are_apart_and_empty_calls_are_allowed(tmp_path):
    cache = DiskCache(tmp_path)
    cache.put_many("a", {b"k": b"1", b"": b"", b"\x00": b"\x00"})
    cache.put_many("b", {b"k": b"2"})
    cache.put_many("b", {})
    assert cache.get_many("a", [b"k", b"", b"\x00"]) == {b"k": b"1", b"": b"", b"\x00": b"\x00"}
    assert cache.get_many("b", [b"k"]) == {b"k": b"2"}
    assert cache.get_many("b", []) == {}
    assert cache.get_many("c", [b"k"]) == {}


def test_items_lists_a_whole_namespace_by_key(tmp_path):
    cache = DiskCache(tmp_path)
    items = {n.to_bytes(4, "big"): b"%d" % n for n in range(5003)}  # more than one page
    cache.put_many("a", dict(reversed(items.items())))
    cache.put_many("b", {b"other": b""})
    assert list(cache.items("a")) == list(items.items())
    assert list(cache.items("none")) == []


def test_nothing_is_made_before_the_first_use(tmp_path):
    cache = DiskCache(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    cache.put_many("a", {b"k": b"v"})
    assert cache.path.is_file()


def test_two_processes_write_at_once(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), who],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for who in ("one", "two")
    ]
    errors = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], errors
    assert errors == ["", ""]  # a warning would be here
    stored = dict(DiskCache(tmp_path).items("both"))
    assert len(stored) == 800 + 2 * 800
    assert {stored[b"shared%d" % n] for n in range(800)} == {b"same"}


def test_threads_share_one_cache(tmp_path):
    cache = DiskCache(tmp_path)
    faults: list[BaseException] = []

    def work(who: int) -> None:
        try:
            for turn in range(30):
                key = b"%d-%d" % (who, turn)
                cache.put_many("a", {key: key})
                assert cache.get_many("a", [key]) == {key: key}
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(list(cache.items("a"))) == 180


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_opens_its_own_connection(tmp_path):
    cache = DiskCache(tmp_path)
    cache.put_many("a", {b"parent": b"1"})
    child = os.fork()
    if child == 0:
        ok = cache.get_many("a", [b"parent"]) == {b"parent": b"1"}
        cache.put_many("a", {b"child": b"2"})
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get_many("a", [b"child"]) == {b"child": b"2"}


def test_a_cache_can_be_pickled_and_closed(tmp_path):
    cache = DiskCache(tmp_path)
    cache.put_many("a", {b"k": b"v"})
    assert pickle.loads(pickle.dumps(cache)).get_many("a", [b"k"]) == {b"k": b"v"}
    cache.close()
    assert cache.get_many("a", [b"k"]) == {b"k": b"v"}


def test_a_damaged_file_costs_a_warning_and_no_result(tmp_path, caplog):
    cache = DiskCache(tmp_path)
    cache.path.write_bytes(b"this is no database" * 100)
    with caplog.at_level(logging.WARNING):
        assert cache.get_many("a", [b"k"]) == {}
        cache.put_many("a", {b"k": b"v"})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(cache.path) in caplog.text
    with pytest.raises(StoreError, match="Delete the file"):
        list(cache.items("a"))


def test_a_directory_that_cannot_be_made_costs_a_warning_and_no_result(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file" / "below")
    with caplog.at_level(logging.WARNING):
        cache.put_many("a", {b"k": b"v"})
        assert cache.get_many("a", [b"k"]) == {}
    assert "ZEROMEM_CACHE" in caplog.text


def test_default_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("ZEROMEM_CACHE", str(tmp_path / "mine"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache_dir() == tmp_path / "mine"
    monkeypatch.delenv("ZEROMEM_CACHE")
    assert default_cache_dir() == tmp_path / "xdg" / "zeromem-gpu"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / ".cache" / "zeromem-gpu"
