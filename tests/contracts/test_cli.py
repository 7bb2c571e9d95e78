"""The command line: what it passes on, what it prints, and that a fault is one line, never a trace."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import zeromem_gpu
from zeromem_gpu import Boundary, Config, Evidence, QueryProfile, SearchResult, StoreError, Trace
from zeromem_gpu.cache import DiskCache
from zeromem_gpu.cli import app
from zeromem_gpu.encoders import VectorFile, resolve_encoder
from zeromem_gpu.encoders.vector_file import text_hash, vector_namespace
from zeromem_gpu.settings import parse_settings
from zeromem_gpu.traces import write_traces

TRACES = [
    Trace(
        id="1", text="Ada keeps bees.", bank="b", session="s1", time="2024-02-10T10:12:00", speaker="Ada"
    ),
    Trace(
        id="2",
        text="[bold]The[/bold] hive\x1b[2J \ud83d is blue.",
        bank="b",
        speaker="Ben",
        caption="a hive",
    ),
]


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(
        app, [str(word) for word in words], env={"COLUMNS": "200", "ZEROMEM_DEBUG": ""}
    )


def refused(result: Result, *said: str) -> None:
    """Exit 2, nothing on stdout, one line on stderr that says `said`."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stderr.startswith("error: ")
    for part in said:
        assert part in result.stderr


class Recorder:
    """Stands in for Memory where only the wiring counts: keeps every call, returns two fixed units."""

    calls: list[tuple[str, dict[str, Any]]]

    @classmethod
    def open(cls, directory: Path, **options: Any) -> Recorder:
        cls.calls.append(("open", {"directory": directory, **options}))
        return cls.__new__(cls)

    def __init__(self, config: Config | None = None, **options: Any) -> None:
        self.calls.append(("new", {"config": config, **options}))

    def add(self, traces: list[Trace], *, progress: Any = None) -> Any:
        self.calls.append(("add", {"traces": traces}))
        counts = {"added": 2, "updated": 0, "unchanged": 0, "units": 2}
        return SimpleNamespace(**counts, quarantined=("2",), timings={}, split=4)

    def save(self, directory: Path) -> None:
        self.calls.append(("save", {"directory": directory}))

    def info(self) -> dict[str, Any]:
        return {"encoder": {"name": "minilm", "dim": 384}, "traces": 2, "version": "v0001"}

    def search(self, query: list[str], **options: Any) -> list[SearchResult]:
        self.calls.append(("search", {"query": query, **options}))
        units = tuple(Evidence(trace, 0.75, 1.5, None, "primary", 0, len(trace.text)) for trace in TRACES)
        profile = QueryProfile("q", subjects=("Ada",), answer_type="entity", route="relational")
        return [SearchResult(text, "b", profile, units, {"retrieve_s": 0.002}) for text in query]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> type[Recorder]:
    monkeypatch.setattr(Recorder, "calls", [], raising=False)
    monkeypatch.setitem(zeromem_gpu.__dict__, "Memory", Recorder)
    return Recorder


def called(recorder: type[Recorder], name: str) -> dict[str, Any]:
    (options,) = [options for call, options in recorder.calls if call == name]
    return options


def test_index_makes_a_memory_and_saves_it(tmp_path: Path, recorder: type[Recorder]) -> None:
    write_traces(tmp_path / "t.jsonl", TRACES)
    out = tmp_path / "out"
    words = (
        "--encoder",
        "minilm",
        "--set",
        "rho=0.5",
        "--set",
        "stemmer=none",
        "--device",
        "cpu",
        "--no-cache",
    )
    result = run("index", tmp_path / "t.jsonl", "--out", out, *words)
    assert result.exit_code == 0, result.output
    made = called(recorder, "new")
    assert made["config"] == Config(rho=0.5, stemmer="none")
    assert (made["encoder"], made["device"], made["vectors"], made["cache_dir"]) == (
        "minilm",
        "cpu",
        None,
        False,
    )
    assert called(recorder, "add")["traces"] == TRACES
    assert called(recorder, "save")["directory"] == out
    assert "2 added" in result.stdout
    assert "reachable by words only: 2" in result.stdout


def test_index_leaves_the_encoder_to_the_library(tmp_path: Path, recorder: type[Recorder]) -> None:
    write_traces(tmp_path / "t.jsonl", TRACES)
    assert run("index", tmp_path / "t.jsonl", "--out", tmp_path / "out").exit_code == 0
    assert "encoder" not in called(recorder, "new")


def test_index_adds_to_an_index(tmp_path: Path, recorder: type[Recorder]) -> None:
    write_traces(tmp_path / "t.jsonl", TRACES)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "CURRENT").write_text("v0001")
    assert run("index", tmp_path / "t.jsonl", "--out", tmp_path / "out").exit_code == 0
    assert [name for name, _ in recorder.calls] == ["open", "add", "save"]
    refused(
        run("index", tmp_path / "t.jsonl", "--out", tmp_path / "out", "--set", "rho=0.5"), "--set", "rho"
    )


def test_malformed_line_stores_nothing(tmp_path: Path, recorder: type[Recorder]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"id": "1", "text": "a"}\n{"id": "2", "text": \n')
    refused(run("index", path, "--out", tmp_path / "out"), f"{path}:2: ", "invalid JSON")
    assert recorder.calls == []
    assert not (tmp_path / "out").exists()


def test_missing_traces(tmp_path: Path, recorder: type[Recorder]) -> None:
    refused(run("index", tmp_path / "no.jsonl", "--out", tmp_path / "out"), "no.jsonl", "No such file")
    write_traces(tmp_path / "t.jsonl", TRACES)
    refused(run("index", tmp_path / "t.jsonl", "--out", tmp_path / "t.jsonl"), "--out")
    assert recorder.calls == [], "found before the models are loaded"
    refused(run("index", tmp_path, "--out", tmp_path / "out"), str(tmp_path), "directory")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("roh=0.5", "Did you mean rho?"),
        ("rho", "key=value"),
        ("rho=2", "rho: got 2; allowed: a number from 0.0 to 1.0"),
        ("rho=high", "rho: got 'high'"),
        ("rho=true", "rho: got True"),
        ("rho=NaN", "rho: got nan"),
        ("top_k=1.5", "top_k: got 1.5"),
        ("closure=1", "closure: got 1"),
        ("activation=fuzzy", "activation: got 'fuzzy'"),
        ("=1", "unknown key ''"),
    ],
)
def test_unusable_setting(tmp_path: Path, recorder: type[Recorder], word: str, said: str) -> None:
    write_traces(tmp_path / "t.jsonl", TRACES)
    refused(run("index", tmp_path / "t.jsonl", "--out", tmp_path / "out", "--set", word), said)
    refused(run("eval", "locomo", "--data", tmp_path, "--out", tmp_path / "out", "--set", word), said)
    assert recorder.calls == []


def test_settings_take_the_type_of_their_field() -> None:
    words = [
        "rho=0",
        "top_k=7",
        "closure=TRUE",
        "timezone=0",
        'drop_labels=["DATE"]',
        "views=graph",
        "rho=1",
    ]
    values = parse_settings(words)
    assert values == {
        "rho": 1,
        "top_k": 7,
        "closure": True,
        "timezone": "0",
        "drop_labels": ("DATE",),
        "views": "graph",
    }
    assert parse_settings(["drop_labels="]) == {"drop_labels": ()}


def test_search_passes_its_options_on(recorder: type[Recorder]) -> None:
    words = (
        "--bank",
        "b",
        "--session",
        "s1",
        "--session",
        "s2",
        "--speaker",
        "Ada",
        "--after",
        "2024-01-01",
    )
    result = run(
        "search", "dir", "who?", "when?", *words, "--before", "2025", "--top-k", "3", "--limit", "4"
    )
    assert result.exit_code == 0, result.output
    assert called(recorder, "open")["directory"] == Path("dir")
    asked = called(recorder, "search")
    assert asked["query"] == ["who?", "when?"]
    assert asked["boundary"] == Boundary(("s1", "s2"), ("Ada",), "2024-01-01", "2025")
    assert (asked["bank"], asked["top_k"], asked["limit"], asked["explain"]) == ("b", 3, 4, False)


def test_search_keeps_empty_words_for_the_library_to_refuse(recorder: type[Recorder]) -> None:
    """An empty session or bank must never turn into no filter."""
    assert run("search", "dir", "who?", "--session", "", "--bank", "").exit_code == 0
    asked = called(recorder, "search")
    assert (asked["boundary"].sessions, asked["bank"]) == (("",), "")


def test_search_without_options_has_no_boundary(recorder: type[Recorder]) -> None:
    assert run("search", "dir", "who?").exit_code == 0
    asked = called(recorder, "search")
    assert all(asked[name] is None for name in ("bank", "boundary", "top_k", "limit"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("",), "question: got ''"),
        (("who?", " \t"), "question: got"),
        (("who?", "--top-k", "0"), "top_k: got 0"),
        (("who?", "--top-k", "-1"), "top_k: got -1"),
        (("who?", "--limit", "0"), "limit: got 0"),
        (("who?", "--cache", "c", "--no-cache"), "--cache"),
    ],
    ids=["empty", "blank", "k-zero", "k-negative", "limit", "cache"],
)
def test_search_refuses(recorder: type[Recorder], words: tuple[str, ...], said: str) -> None:
    refused(run("search", "dir", *words), said)
    assert recorder.calls == []


def test_search_prints_text_as_text(recorder: type[Recorder]) -> None:
    """Guards the terminal: markup is shown, control characters and lone surrogates are not sent."""
    result = run("search", "dir", "who?", "--explain")
    assert result.exit_code == 0, result.output
    assert "[bold]The[/bold] hive [2J is blue." in result.stdout
    assert "\x1b" not in result.stdout
    for part in (
        "relational",
        "0.750",
        "1.500",
        "primary",
        "s1",
        "2024-02-10 10:12",
        "Ada: ",
        "retrieve 2.0 ms",
    ):
        assert part in result.stdout


def test_search_json_holds_everything(recorder: type[Recorder]) -> None:
    result = run("search", "dir", "who?", "when?", "--json")
    assert result.exit_code == 0, result.output
    first, second = json.loads(result.stdout)
    assert (first["question"], second["question"]) == ("who?", "when?")
    assert first["evidence"][1]["text"] == TRACES[1].text, "untouched, surrogate and all"
    assert first["evidence"][0] == {
        "id": "1",
        "score": 0.75,
        "graph": 1.5,
        "hierarchy": None,
        "rule": "primary",
        "session": "s1",
        "turn": None,
        "time": "2024-02-10T10:12:00",
        "speaker": "Ada",
        "source": None,
        "start": 0,
        "end": 15,
        "text": "Ada keeps bees.",
        "caption": None,
    }


def test_info(recorder: type[Recorder]) -> None:
    on_disk = {"files": {}, "file_bytes": 0}
    expected = Recorder.info(Recorder.__new__(Recorder)) | on_disk
    assert json.loads(run("info", "dir", "--json").stdout) == expected
    assert "encoder.dim   384" in run("info", "dir").stdout


@pytest.mark.slow
def test_from_lines_to_evidence(tmp_path: Path) -> None:
    """The commands over the real engine: index, add, search within a boundary, info, wrong encoder."""
    path, out = tmp_path / "t.jsonl", tmp_path / "index"
    cache = ("--cache", tmp_path / "cache")
    write_traces(path, TRACES)
    result = run("index", path, "--out", out, "--encoder", "minilm", "--set", "rho=0.5", *cache)
    assert result.exit_code == 0, result.output
    assert "2 added, 0 updated, 0 unchanged" in result.stdout
    write_traces(path, [TRACES[0], Trace(id="3", text="Cleo sells the honey.", bank="b", speaker="Ada")])
    result = run("index", path, "--out", out, *cache)
    assert result.exit_code == 0, result.output
    assert "1 added, 0 updated, 1 unchanged" in result.stdout
    (found,) = json.loads(run("search", out, "Who sells the honey?", "--json", *cache).stdout)
    assert found["evidence"][0]["id"] == "3"
    assert {one["id"]: one["text"] for one in found["evidence"]} == {
        "1": TRACES[0].text,
        "2": TRACES[1].text,
        "3": "Cleo sells the honey.",
    }
    (found,) = json.loads(run("search", out, "honey?", "--json", "--speaker", "Ben", *cache).stdout)
    assert [one["id"] for one in found["evidence"]] == ["2"]
    (found,) = json.loads(run("search", out, "honey?", "--json", "--session", "none", *cache).stdout)
    assert found["evidence"] == []
    facts = json.loads(run("info", out, "--json").stdout)
    assert (facts["traces"], facts["banks"], facts["config"]["rho"]) == (3, 1, 0.5)
    refused(run("search", out, "who?", "--session", "", *cache))
    refused(run("search", out, "who?", "--bank", "", *cache), "bank")
    refused(run("search", out, "who?", "--after", "not a time", *cache))
    refused(run("search", tmp_path / "none", "who?", *cache), "none")
    refused(run("info", tmp_path / "cache"), "cache")
    refused(run("index", path, "--out", tmp_path / "cache", *cache), "cache")


def test_vectors_export(tmp_path: Path) -> None:
    """What the cache holds of an encoder goes to a file that answers for it."""
    path = tmp_path / "v.safetensors"
    words = ("vectors", "export", "--encoder", "minilm", "--cache", tmp_path / "cache", "--out")
    refused(run(*words, path), "vectors of", "Index and search")
    assert not path.exists(), "an empty file would only fail later"
    encoder = resolve_encoder("minilm")
    name = encoder.fingerprint
    row = np.eye(1, 384, dtype="<f4")
    DiskCache(tmp_path / "cache").put_many(vector_namespace(encoder), {text_hash("Ada"): row.tobytes()})
    result = run(*words, path)
    assert result.exit_code == 0, result.output
    assert f"1 vectors of {name}" in result.stdout
    found = VectorFile(path)
    assert found.fingerprint == name
    np.testing.assert_array_equal(found.encode(["Ada"]), row)
    refused(run(*words, tmp_path), "--out")


def test_vectors_that_a_gpu_made_are_exported_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are cached apart, in half precision; without a GPU at hand a device object has to do."""
    import torch

    words = ("vectors", "export", "--encoder", "minilm", "--cache", tmp_path, "--out", tmp_path / "v")
    refused(run(*words, "--device", "cuda:7"), "device")
    monkeypatch.setattr("zeromem_gpu.memory.resolve_device", lambda named: torch.device(named or "cpu"))
    made = vector_namespace(resolve_encoder("minilm", device="cuda:0"))
    row = np.eye(1, 384, dtype="<f4").tobytes()
    DiskCache(tmp_path).put_many(made, {text_hash("Ada"): row})
    refused(run(*words), "vectors of", "Index and search")
    result = run(*words, "--device", "cuda:0")
    assert result.exit_code == 0, result.output
    assert len(VectorFile(tmp_path / "v")) == 1


def test_library_errors_are_one_line(recorder: type[Recorder], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise StoreError("dir is no index:\n[red]nothing[/red] in it")

    monkeypatch.setattr(Recorder, "open", fails)
    refused(run("search", "dir", "who?"), "dir is no index: [red]nothing[/red] in it")
    refused(run("info", "dir"), "dir is no index")


def test_faults_say_how_to_see_the_trace(recorder: type[Recorder], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(Recorder, "open", fails)
    result = run("info", "dir")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "unexpected RuntimeError: boom" in result.stderr
    assert "ZEROMEM_DEBUG=1" in result.stderr
    loud = CliRunner().invoke(app, ["info", "dir"], env={"ZEROMEM_DEBUG": "1"})
    assert isinstance(loud.exception, RuntimeError)
