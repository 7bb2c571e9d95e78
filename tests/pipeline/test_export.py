"""Raw traces as JSON Lines: what goes out comes back, field by field, from a memory and from its files."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support import HashEncoder, NameExtractor, small_memory
from zeromem_gpu import InvalidInput, Memory, Trace, read_traces
from zeromem_gpu.cli import app

ODD = {
    "empty": "",
    "blank": " \t\n",
    "nul": "a\x00b",
    "line ends": "one\r\ntwo\rthree\u2028four\x85five",
    "lone surrogates": "\ud83d then \udc00",
    "combining": "e\u0301 \u202eright to left",
    "emoji": "😀👍🏽 我在北京学习。",
    "json": '"}\\n{"id": "\\u0000',
}


def given() -> list[Trace]:
    """Every field in use, odd texts in each of them, times with and without offsets."""
    tokyo = timezone(timedelta(hours=9))
    odd = [
        Trace(f"odd {name} {text}", text, "odd", f"s{text}x", 3, speaker=f"Ada{text}x", role=f"r{text}x",
              source=f"f{text}x", caption=f"c{text}x", entities=(text, "Rome"), metadata={text: [text]})
        for name, text in ODD.items()
    ]  # fmt: skip
    times = [
        Trace("aware", "Ada sings.", time=datetime(2024, 5, 1, 23, 30, tzinfo=tokyo)),
        Trace("utc", "Bob sings.", time=datetime(2024, 5, 1, 23, 30, 0, 7, tzinfo=UTC)),
        Trace("text", "Carl sings.", time="2024-05-01T10:00:00-03:30"),
        Trace("none", "Dora sings."),
    ]
    big = {"blob": "深\x00" * (1 << 19), "deep": [[[{"x": [None, True, -0.0, 1e308]}]]]}
    return [*odd, *times, Trace("big", "Eve sings.", "big", metadata=big)]


def traces_of(memory: Memory) -> dict[str, list[Trace]]:
    index = memory._index
    assert index is not None
    return {
        name: [index.column(bank, "traces", "trace")[row] for row in bank.ids.values()]
        for name, bank in index.banks.items()
    }


def filled() -> Memory:
    """Traces that came, were replaced and went."""
    memory = small_memory()
    memory.add(given())
    memory.add(Trace("utc", "Bob sings again.", session="later"))
    memory.delete("text", bank="default")
    return memory


def test_every_field_comes_back(tmp_path: Path) -> None:
    memory, again = filled(), small_memory()
    assert memory.export_traces(tmp_path / "all.jsonl") == len(given()) - 1
    again.add(read_traces(tmp_path / "all.jsonl"))
    assert traces_of(again) == traces_of(memory)
    kept = {trace.id: trace.time for trace in traces_of(again)["default"]}
    assert kept["aware"] == "2024-05-01T23:30:00+09:00"
    assert "text" not in kept


def test_an_import_answers_as_the_memory_it_came_from(tmp_path: Path) -> None:
    memory, again = filled(), small_memory()
    memory.export_traces(tmp_path / "all.jsonl")
    again.add(read_traces(tmp_path / "all.jsonl"))
    for bank in memory.banks:
        one, two = (each.search("Who sings in Rome?", bank=bank, top_k=9) for each in (memory, again))
        assert [(e.trace, e.score, e.rule) for e in one] == [(e.trace, e.score, e.rule) for e in two]


def test_the_command_writes_what_the_memory_writes(tmp_path: Path) -> None:
    memory = filled()
    memory.save(tmp_path / "index")
    memory.export_traces(tmp_path / "memory.jsonl")
    memory.export_traces(tmp_path / "one.jsonl", bank="default")
    words = ["export", str(tmp_path / "index")]
    assert CliRunner().invoke(app, [*words, str(tmp_path / "files.jsonl")]).exit_code == 0
    assert (tmp_path / "files.jsonl").read_bytes() == (tmp_path / "memory.jsonl").read_bytes()
    done = CliRunner().invoke(app, [*words, str(tmp_path / "bank.jsonl"), "--bank", "default"])
    assert "3 traces" in done.output
    assert (tmp_path / "bank.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_lines_are_utf_8_and_one_to_a_trace(tmp_path: Path) -> None:
    count = filled().export_traces(tmp_path / "all.jsonl")
    lines = (tmp_path / "all.jsonl").read_bytes().decode("utf-8").split("\n")
    assert lines.pop() == ""
    assert len({(row["id"], row.get("bank")) for row in map(json.loads, lines)}) == count


@pytest.mark.parametrize("field", ["text", "caption"])
def test_surrogates_that_json_would_join_are_refused_by_id(tmp_path: Path, field: str) -> None:
    memory = small_memory()
    memory.add(Trace("a", "Ada sings."))
    memory.add(Trace(**{"id": "pair", "text": "x", field: "secret \ud83d\ude00"}))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"trace 'pair'.*surrogate") as error:
        memory.export_traces(tmp_path / "all.jsonl")
    assert "secret" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["vectors.safetensors", "facts.safetensors", "units.parquet"])
def test_traces_outlive_the_files_beside_them(tmp_path: Path, name: str) -> None:
    """The newest version's traces, even where opening has to fall back to the version before."""
    memory = small_memory()
    memory.add(Trace("a", "Ada sings."))
    memory.save(tmp_path / "m")
    memory.add(Trace("b", "Bob sings."))
    memory.save(tmp_path / "m")
    (tmp_path / "m" / "v0002" / name).write_bytes(b"x")
    opened = Memory.open(tmp_path / "m", encoder=HashEncoder(), extractor=NameExtractor(), cache_dir=False)
    assert opened.info()["traces"] == 1
    done = CliRunner().invoke(app, ["export", str(tmp_path / "m"), str(tmp_path / "all.jsonl")])
    assert done.exit_code == 0, done.output
    assert [trace.id for trace in read_traces(tmp_path / "all.jsonl")] == ["a", "b"]


def test_no_readable_traces_are_one_error_and_no_file(tmp_path: Path) -> None:
    memory = small_memory()
    memory.add(Trace("a", "Ada sings."))
    memory.save(tmp_path / "m")
    (tmp_path / "m" / "v0001" / "traces.parquet").unlink()
    for place, said in (("m", "v0001: .*traces.parquet"), ("nowhere", "no directory")):
        done = CliRunner().invoke(app, ["export", str(tmp_path / place), str(tmp_path / "all.jsonl")])
        assert done.exit_code == 2
        assert re.search(said, done.stderr)
    assert not (tmp_path / "all.jsonl").exists()
