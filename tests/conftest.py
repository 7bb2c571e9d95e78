"""Shared fixtures. The environment is set first: triton binds to its interpreter when it is imported."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TRITON_INTERPRET"] = "1"

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# examples are the same in every run, and a busy machine is no failure
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The checkout that holds the tests."""
    return ROOT


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Public benchmark data: the folder in ZEROMEM_DATA, else ../shared/data; absent, the test skips."""
    folder = Path(os.environ.get("ZEROMEM_DATA") or ROOT.parent / "shared" / "data").resolve()
    if not (folder / "locomo" / "locomo10.json").is_file():
        pytest.skip(f"no benchmark data in {folder}; set ZEROMEM_DATA to a folder that holds locomo/")
    return folder


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of vectors and entities for a whole run; ZEROMEM_TEST_CACHE names one to keep."""
    kept = os.environ.get("ZEROMEM_TEST_CACHE")
    if not kept:
        return tmp_path_factory.mktemp("cache")
    folder = Path(kept).expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _leave_the_users_cache_alone(cache_dir: Path) -> Iterator[None]:
    """What opens the default cache, here or in a subprocess, finds the one of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZEROMEM_CACHE", str(cache_dir))
        yield
