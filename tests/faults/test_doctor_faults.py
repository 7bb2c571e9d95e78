"""`doctor DIR` finds every fault that an index can have, and what it says to run repairs it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support import HashEncoder, NameExtractor, small_memory
from zeromem_gpu import Memory, Trace, doctor
from zeromem_gpu.cli import app
from zeromem_gpu.store.files import checksum
from zeromem_gpu.store.layout import FORMAT_VERSION
from zeromem_gpu.store.tables import FILES

ALL_FILES = (*FILES, "manifest.json")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    memory = small_memory()
    memory.add(Trace("a", "Ada keeps bees.", speaker="Ada"))
    memory.save(folder)
    memory.add(Trace("b", "Bob sails."))
    memory.save(folder)
    return folder


@pytest.fixture
def saved(template: Path, tmp_path: Path) -> Path:
    """A directory whose v0002 holds one trace more than v0001."""
    return Path(shutil.copytree(template, tmp_path / "index"))


def found(directory: Path) -> dict[str, doctor.Check]:
    """What is wrong with the index itself: its models are stand-ins that no name leads to."""
    checks = doctor._index(directory, None)
    own = ("index encoder", "index entities")
    return {check.name: check for check in checks if not check.ok and check.name not in own}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "flipped": flip,
    "a link": lambda path: path.symlink_to(shutil.move(path, path.parents[2] / "out")),
}  # fmt: skip


def test_a_whole_index_has_no_fault(saved: Path) -> None:
    assert found(saved) == {}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.parametrize("name", ALL_FILES)
def test_a_damaged_newest_version_is_a_fault_with_its_file_named(
    saved: Path, name: str, damage: Callable[[Path], object]
) -> None:
    damage(saved / "v0002" / name)
    (fault,) = found(saved).values()
    assert (fault.name, fault.fatal) == ("index v0002", True)
    assert name in fault.detail
    assert fault.remedy.startswith(f"zeromem-gpu export {saved} ")


def test_every_damaged_file_is_named_at_once(saved: Path) -> None:
    for name in ("units.parquet", "facts.safetensors"):
        flip(saved / "v0002" / name)
    detail = found(saved)["index v0002"].detail
    assert "units.parquet" in detail
    assert "facts.safetensors" in detail


@pytest.mark.parametrize("name", ALL_FILES)
def test_a_damaged_fallback_is_named_and_not_fatal(saved: Path, name: str) -> None:
    flip(saved / "v0001" / name)
    (fault,) = found(saved).values()
    assert (fault.name, fault.fatal) == ("index v0001", False)


@pytest.mark.parametrize("name", sorted(set(FILES) - {"banks.parquet", "traces.parquet"}))
def test_what_it_says_to_run_brings_back_all_that_was_saved(saved: Path, name: str) -> None:
    """Every trace of the newest version, although neither version opens."""
    for version in ("v0001", "v0002"):
        flip(saved / version / name)
    checks = found(saved)
    assert {"index", "index v0001", "index v0002"} <= set(checks)
    export, index = (shlex.split(command) for command in checks["index"].remedy.split(" && "))
    assert CliRunner().invoke(app, export[1:]).exit_code == 0
    assert index[:2] == ["zeromem-gpu", "index"]
    assert index[-2:] == ["--encoder", "hash"]
    again = small_memory()
    from zeromem_gpu import read_traces

    again.add(read_traces(index[2]))
    assert sorted(one.trace.id for one in again.search("Who sails?", top_k=9)) == ["a", "b"]


def test_traces_that_are_gone_have_to_come_from_outside(saved: Path) -> None:
    for version in ("v0001", "v0002"):
        (saved / version / "traces.parquet").unlink()
    assert found(saved)["index"].remedy == f"zeromem-gpu index TRACES.jsonl --out {saved}.new"


def test_a_future_format_asks_for_a_newer_program(saved: Path) -> None:
    path = saved / "v0002" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"version": FORMAT_VERSION + 1}))
    fault = found(saved)["index v0002"]
    assert fault.remedy == "pip install -U zeromem-gpu"
    assert fault.fatal


@pytest.mark.parametrize("text", [None, "", "v0009x", "../v0001"])
def test_a_lost_pointer_is_found(saved: Path, text: str | None) -> None:
    (saved / "CURRENT").unlink()
    if text is not None:
        (saved / "CURRENT").write_text(text)
    (fault,) = found(saved).values()
    assert (fault.name, fault.fatal) == ("index CURRENT", False)
    assert os.system(fault.remedy) == 0
    assert found(saved) == {}


def test_a_lost_pointer_leads_to_a_version_that_opens(saved: Path) -> None:
    (saved / "CURRENT").unlink()
    flip(saved / "v0002" / "units.parquet")
    assert os.system(found(saved)["index CURRENT"].remedy) == 0
    assert (saved / "CURRENT").read_text().strip() == "v0001"


def test_commands_stay_inside_a_folder_with_a_blank_in_its_name(saved: Path, tmp_path: Path) -> None:
    """Unquoted, the one for leftovers would remove a neighbour."""
    neighbour, folder = tmp_path / "my", tmp_path / "my index"
    neighbour.mkdir()
    saved.rename(folder)
    (folder / "v0003.partial").mkdir()
    (folder / "CURRENT").unlink()
    for fault in found(folder).values():
        assert os.system(fault.remedy) == 0
    assert found(folder) == {}
    assert neighbour.is_dir()


def test_an_encoder_name_from_an_index_is_one_word_of_a_command(saved: Path) -> None:
    for version in ("v0001", "v0002"):
        path = saved / version / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest.pop("checksum")
        manifest["fingerprint"]["encoder"] = "a; touch b"
        path.write_text(json.dumps({**manifest, "checksum": checksum(manifest)}))
    checks = {check.name: check for check in doctor._index(saved, None)}
    assert shlex.split(checks["index encoder"].remedy)[-1].endswith("a; touch b")
    flip(saved / "v0002" / "units.parquet")
    assert shlex.split(found(saved)["index v0002"].remedy)[-1] == "a; touch b"


def test_what_a_killed_save_left_is_found_and_removed(saved: Path) -> None:
    (saved / "v0003.partial").mkdir()
    (saved / "v0003.partial" / "units.parquet").write_bytes(b"half")
    (fault,) = found(saved).values()
    assert "v0003.partial" in fault.detail
    assert os.system(fault.remedy) == 0
    assert found(saved) == {}


def test_a_folder_that_cannot_be_written_is_found(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: Path(path) != saved and real(path, mode))
    (fault,) = found(saved).values()
    assert (fault.name, fault.fatal, fault.remedy) == ("index folder", False, f"chmod u+wx {saved}")


def test_a_disk_without_room_for_another_version_is_found(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(saved)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100))
    (fault,) = found(saved).values()
    assert (fault.name, fault.fatal) == ("index disk", False)
    assert fault.detail.startswith("0.0 MB free")


def test_another_encoder_is_found(saved: Path) -> None:
    """The stand-in of the tests is no model that can be had here."""
    checks = {check.name: check for check in doctor._index(saved, None)}
    assert not checks["index encoder"].ok
    assert checks["index encoder"].remedy


def test_banks_that_another_extractor_read_are_found(tmp_path: Path) -> None:
    memory = small_memory(extractor={"b": NameExtractor(), "c": NameExtractor()})
    memory._toolbox._extractor = NameExtractor()
    memory.add([Trace("1", "Ada met Bo", bank=bank) for bank in "abc"])
    memory.save(tmp_path)
    checks = {check.name: check for check in doctor._index(tmp_path, None)}
    fault = checks["index entities of banks"]
    assert (fault.ok, fault.fatal) == (False, True)
    assert f"{NameExtractor.fingerprint} in bank 'b' and 1 more" in fault.detail
    assert "extractor={'b': …}" in fault.remedy


def test_banks_that_were_read_as_the_rest_are_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = small_memory(extractor={"b": NameExtractor()})
    memory._toolbox._extractor = NameExtractor()
    memory.add(Trace("1", "Ada met Bo", bank="b"))
    memory.save(tmp_path)
    monkeypatch.setattr(doctor, "SpacyExtractor", lambda *_, **options: NameExtractor())
    checks = {check.name: check for check in doctor._index(tmp_path, None)}
    assert checks["index entities of banks"].ok


def test_an_open_after_every_fault_says_the_same(saved: Path) -> None:
    """What `doctor` calls a fault of the newest version is why opening falls back."""
    flip(saved / "v0002" / "units.parquet")
    opened = Memory.open(saved, encoder=HashEncoder(), extractor=NameExtractor(), cache_dir=False)
    assert opened.info()["traces"] == 1
    assert opened.info()["version"] == "v0001"
    assert "units.parquet" in found(saved)["index v0002"].detail
