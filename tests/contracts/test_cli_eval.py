"""`zeromem-gpu eval`: what it accepts, what it refuses before any work, what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import zeromem_gpu
from tests.support import small_memory
from zeromem_gpu.cli import app
from zeromem_gpu.evaluate.html import render
from zeromem_gpu.evaluate.run_folder import evidence_scores, named_as_in_trec, read_run, read_trec_run
from zeromem_gpu.traces import write_traces


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(
        app, [str(word) for word in words], env={"COLUMNS": "200", "ZEROMEM_DEBUG": ""}
    )


def refused(result: Result, *said: str) -> None:
    """Exit 2, nothing on stdout, one line on stderr that says `said`."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for part in said:
        assert part in result.stderr


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is refused must be refused before anything is loaded for it."""

    def made(*_: Any, **__: Any) -> None:
        raise AssertionError("a memory was made")

    monkeypatch.setitem(zeromem_gpu.__dict__, "Memory", made)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories with the stand-ins for models."""
    monkeypatch.setitem(zeromem_gpu.__dict__, "Memory", lambda config, **_: small_memory(config))


def locomo(folder: Path) -> Path:
    turn = {"dia_id": "D1:1", "text": "Ada keeps bees.", "speaker": "Ada"}
    asked = {"question": "What does Ada keep?", "evidence": ["D1:1"], "category": 4, "answer": "bees"}
    sample = {"sample_id": "conv-1", "conversation": {"session_1": [turn]}, "qa": [asked]}
    (folder / "locomo10.json").write_text(json.dumps([sample]))
    return folder


def own(folder: Path, *rows: dict[str, Any]) -> tuple[str | Path, ...]:
    """The words of `eval jsonl` over two traces in two banks."""
    traces = [
        zeromem_gpu.Trace(id=name, text=f"Ada keeps {name}.", bank=name, speaker="Ada")
        for name in ("bees", "cats")
    ]
    write_traces(folder / "traces.jsonl", traces)
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ("eval", "jsonl", "--traces", folder / "traces.jsonl", "--questions", folder / "questions.jsonl")


ASKED = {"question": "What does Ada keep?", "bank": "bees", "answer": "bees", "gold": ["bees"]}


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--k", "0"), "top_k: got 0"),
        (("--limit", "0"), "limit: got 0"),
        (("--views", "flat"), "views: got flat"),
        (("--conversations", "conv-1,conv-9"), "conversations: got conv-9"),
        (("--set", "views=graph"), "Use --views"),
        (("--set", "top_k=3"), "Use --k"),
        (("--ablate", "no-graph"), "ablate: got no-graph"),
        (("--ablate", "no-closure", "--set", "closure=false"), "ablate: got no-closure"),
        (("--budget", "1,two"), "budget: got 'two'"),
        (("--budget", "0"), "budget: got 0"),
        (("--baselines", "bm42"), "baselines: got bm42"),
        (("--reader", "oracle"), "--reader: got oracle"),
        (("--reader", "recorded"), "--reader: got recorded without a file"),
        (("answers.jsonl",), "--reader: got none with a file"),
        (("--reader", "recorded", "no.jsonl"), "no.jsonl: got No such file"),
        (("--baselines", "strong", "--baseline-answers"), "--baseline-answers: got it with --reader none"),
        (("--reader", "extractive", "--baseline-answers"), "baseline-answers: got it without baselines"),
        (("--latency-samples", "-1"), "latency_samples: got -1"),
        (("--cache", "x", "--no-cache"), "--cache"),
    ],
)
def test_eval_refuses(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    out = tmp_path / "out"
    refused(run("eval", "locomo", "--data", locomo(tmp_path), "--out", out, *words), said)
    assert not out.exists()


@pytest.mark.usefixtures("no_memory")
def test_eval_without_data(tmp_path: Path) -> None:
    out = tmp_path / "out"
    refused(run("eval", "locomo", "--data", tmp_path / "no", "--out", out), "locomo10.json")
    refused(run("eval", "hotpotqa", "--data", tmp_path / "no", "--out", out), "dev500.jsonl")
    (tmp_path / "locomo10.json").write_text('[{"sample_id": "conv-26", "conv')
    refused(run("eval", "locomo", "--data", tmp_path, "--out", out), "locomo10.json", "invalid JSON")
    assert not out.exists()


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"bank": "bees"}, "question = None"),
        ({"question": " ", "bank": "bees"}, "question = ' '"),
        ({"question": "q"}, "bank = None"),
        ({"question": "q", "bank": "dogs"}, "bank = 'dogs'"),
        ({"question": "q", "bank": "bees", "gold": ["cats"]}, "gold id 'cats'"),
        ({"question": "q", "bank": "bees", "gold": "bees"}, "gold = 'bees'"),
        ({"question": "q", "bank": "bees", "anwser": "x"}, "unknown field 'anwser'"),
    ],
    ids=["none", "blank", "no-bank", "bank", "gold", "list", "field"],
)
def test_own_questions_that_are_refused(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    words = own(tmp_path, ASKED, row)
    refused(run(*words, "--out", tmp_path / "out"), "questions.jsonl:2", said)


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize("file", ["traces.jsonl", "questions.jsonl"])
@pytest.mark.parametrize("content", ["half", '["id", "text"]', "7", '{"other": "schema"}', "", b"\xff\xfe"])
def test_own_files_that_are_torn_or_foreign(tmp_path: Path, file: str, content: str | bytes) -> None:
    words = own(tmp_path, ASKED)
    path = tmp_path / file
    if content == "half":
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2 + 5])
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    refused(run(*words, "--out", tmp_path / "out"), file)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_memory")
def test_a_reader_without_a_key_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    words = own(tmp_path, ASKED)
    refused(run(*words, "--out", tmp_path / "out", "--reader", "openai"), "OPENAI_API_KEY")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("small")
def test_own_data(tmp_path: Path) -> None:
    """`expected` is another name of gold; a question without it is asked and not scored."""
    other = {"question": "What does she keep?", "bank": "cats", "expected": ["cats"], "category": "pets"}
    words = own(tmp_path, ASKED, other, {"question": "Who?", "bank": "cats"})
    found = run(*words, "--out", tmp_path / "out", "--budget", "1", "--chunk", "1")
    assert found.exit_code == 0, found.output
    summary = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert (summary["questions"], summary["skipped"], summary["recall@5"]) == (3, 1, 1.0)
    assert set(summary["by_category"]) == {"all", "pets"}
    assert summary["budget"]["1"]["evidence_set"]["recall"] == 1.0
    assert summary["reader"] is None
    assert "pets" in found.stdout


@pytest.mark.usefixtures("small")
def test_resume_names_what_differs(tmp_path: Path) -> None:
    words = (*own(tmp_path, ASKED), "--out", tmp_path / "out", "--resume")
    assert run(*words).exit_code == 0
    before = (tmp_path / "out" / "evidence.jsonl").read_bytes()
    refused(run(*words, "--k", "3", "--set", "rho=0.5"), "plan.k was 5, is 3", "plan.config.rho was 0.6")
    assert (tmp_path / "out" / "evidence.jsonl").read_bytes() == before
    assert (tmp_path / "out" / "metrics.json").is_file(), "a refused run takes nothing away"
    own(tmp_path, {**ASKED, "answer": "wasps"})
    refused(run(*words), "questions was")


def render_as_locomo(folder: Path, summary: dict[str, Any]) -> str:
    """The page of the run with its paper table, which only LoCoMo has."""
    before = (folder / "metrics.json").read_text()
    (folder / "metrics.json").write_text(json.dumps({**summary, "dataset": "locomo"}))
    page = render(folder, resamples=10)
    (folder / "metrics.json").write_text(before)
    return page


@pytest.mark.usefixtures("small")
def test_failed_answers_are_counted_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command line: a server that is away for one question, then back."""
    from zeromem_gpu.reader import extractive

    words = (*own(tmp_path, ASKED, {"question": "Who has cats?", "bank": "cats", "answer": "Ada"}),
             "--reader", "extractive", "--baselines", "strong", "--baseline-answers")  # fmt: skip
    whole = run(*words, "--out", tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    assert "answers failed" not in whole.stdout
    assert "flat strong" in whole.stdout
    summary = json.loads((tmp_path / "whole" / "metrics.json").read_text())
    page = render_as_locomo(tmp_path / "whole", summary)
    assert "flat strong, same reader" in page

    def away(self: object, results: list[Any]) -> list[zeromem_gpu.ReaderReply]:
        return [zeromem_gpu.ReaderReply("", error="away") for _ in results]

    with monkeypatch.context() as patch:
        patch.setattr(extractive.ExtractiveReader, "read", away)
        failed = run(*words, "--out", tmp_path / "torn")
    assert "4 answers failed; --resume asks for them again" in failed.stdout
    assert run(*words, "--out", tmp_path / "torn", "--resume").exit_code == 0
    for file in ("answers.jsonl", "answers.strong.jsonl", "evidence.jsonl", "run.strong.trec"):
        assert (tmp_path / "torn" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


def test_hotpotqa_small(tmp_path: Path, data_dir: Path, cache_dir: Path) -> None:
    """The memory variant from end to end with the offline models: 20 questions of 50 documents."""
    words = ("eval", "hotpotqa", "--data", data_dir, "--docs", "50", "--questions", "20", "--device", "cpu")
    found = run(*words, "--out", tmp_path, "--cache", cache_dir, "--chunk", "400")
    assert found.exit_code == 0, found.output
    summary = json.loads((tmp_path / "metrics.json").read_text())
    assert (summary["questions"], summary["skipped"]) == (20, 0)
    assert set(summary["by_category"]) == {"bridge", "comparison"}
    assert summary["about"] == {"documents": 50, "split": "reporting", "seed": 0}
    # flat rankings find both titles of six in ten questions among eight times as many documents
    assert summary["recall@5"] > 0.75
    assert summary["all@10"] > 0.8
    assert summary["support"]["questions"] == 20
    import ir_measures

    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels.trec")))
    again = ir_measures.calc_aggregate(
        [ir_measures.R @ 5], qrels, list(ir_measures.read_trec_run(str(tmp_path / "run.trec")))
    )
    assert again[ir_measures.R @ 5] == pytest.approx(summary["recall@5"]), (
        "titles with blanks fit into TREC"
    )
    asked = named_as_in_trec(read_run(tmp_path).questions)
    values = evidence_scores(asked, read_trec_run(tmp_path / "run.trec"))["recall@5"]
    assert sum(values.values()) / 20 == pytest.approx(summary["recall@5"]), "and are found there again"
    assert "graph" in (tmp_path / "report.html").read_text()
