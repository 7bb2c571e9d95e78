"""Whole runs: readers, ablations, budgets, parts, and a run that was killed half-way."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support import small_memory
from zeromem_gpu import Config, InvalidInput, Memory, SearchResult, Trace, make_reader
from zeromem_gpu.evaluate import report
from zeromem_gpu.evaluate.answer_tables import protocol_table
from zeromem_gpu.evaluate.datasets import Conversation, Dataset, Question, Support
from zeromem_gpu.evaluate.journal import NAME, Journal
from zeromem_gpu.evaluate.plan import Plan, reading_groups
from zeromem_gpu.evaluate.recorded import RecordedReader
from zeromem_gpu.evaluate.runner import Findings, run
from zeromem_gpu.evaluate.summary import summarise

FULL = Config(closure=True, calibrate=True)


def conversation(name: str, kinds: Sequence[int | str] = (4, 2, 1)) -> Conversation:
    """Six traces; question i is about thing i, and trace i answers it."""
    things = ("kiln", "loom", "hive", "boat", "drum", "vine")
    traces = tuple(
        Trace(
            id=f"{name}-{at}", text=f"Ada sold the {thing} for {at} coins. It was old.", bank=name, turn=at
        )
        for at, thing in enumerate(things)
    )
    questions = tuple(
        Question(
            bank=name,
            index=at,
            category=kind,
            text=f"How much was the {things[at]}?",
            answer=f"{at} coins",
            gold=(f"{name}-{at}",),
            scored=True,
            support=(Support(f"{name}-{at}", 0, 20),),
        )
        for at, kind in enumerate(kinds)
    )
    return Conversation(name, traces, questions)


def dataset(count: int = 3) -> Dataset:
    banks = tuple(conversation(f"b{at}") for at in range(count))
    return Dataset("small", banks, ("b0",), ("gam", "squad"))


@dataclass
class Change:
    rule: str = "number"
    before: str = "about 0 coins"
    after: str = "0 coins"
    evidence: tuple[str, ...] = ("b0-0",)


class Asking:
    """A memory whose `ask` has the agreed form: it searches, lets the reader read, and drops "about"."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)

    def ask(self, query: list[str], *, reader: Any, calibrate: bool, **options: Any) -> list[Any]:
        results = self.memory.search(query, **options)
        answers = []
        for result, reply in zip(results, reader.read(results), strict=True):
            text = reply.text.removeprefix("about ") if calibrate else reply.text
            answers.append(
                Answered(
                    text=text, reader_text=reply.text, result=result, error=reply.error,
                    changes=(Change(),) if text != reply.text else (),
                )
            )  # fmt: skip
        return answers


@dataclass
class Answered:
    text: str
    reader_text: str
    result: SearchResult
    changes: tuple[Change, ...]
    error: str | None
    prompt_tokens: int = 7
    completion_tokens: int = 2


class Counting:
    """A reader that says "about N coins" for trace N of its evidence's best unit, and counts its calls."""

    name = "counting"

    def __init__(self, stop_after: int | None = None) -> None:
        self.calls = 0
        self.stop_after = stop_after

    def read(self, results: Sequence[SearchResult]) -> list[Any]:
        if self.calls == self.stop_after:
            raise KeyboardInterrupt
        self.calls += 1
        return [Reply(f"about {result[0].trace.id[-1]} coins") for result in results]


@dataclass
class Reply:
    text: str
    error: str | None = None


def memories() -> Callable[[], Memory]:
    return lambda: cast("Memory", Asking(small_memory(FULL)))


def written(
    folder: Path, data: Dataset, plan: Plan, findings: Findings, reader: str | None
) -> dict[str, bytes]:
    """The files of a run, timings left out."""
    summary = summarise(data, plan, findings, reader)
    report.write(data, findings, {**summary, "timing": None}, folder, answers=reader is not None)
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.name != NAME}


def test_answers_before_and_after_calibration(tmp_path: Path) -> None:
    plan = Plan(
        config=FULL, views=("both",), ablations=("no-calibration",), budget=(1, 3), latency_samples=0
    )
    data, reader = dataset(), Counting()
    findings = run(data, plan, memories(), reader=reader)
    summary = summarise(data, plan, findings, reader.name)
    assert summary["answers"]["gam"]["average"] == {"questions": 9, "f1": 1.0, "bleu1": 1.0}
    assert summary["answers_reader"]["gam"]["average"]["f1"] == pytest.approx(0.8)
    assert summary["answers"]["squad"]["reporting"]["questions"] == 6
    assert summary["answers"]["squad"]["tuning"]["questions"] == 3
    assert set(summary["answers"]["gam"]) == {
        "single-hop", "temporal", "multi-hop", "average", "reporting", "tuning",
    }  # fmt: skip
    expected = {"changed": 9, "better": 9, "worse": 0, "errors": 0, "prompt_tokens": 63}
    assert {key: summary["reader"][key] for key in expected} == expected
    left_out = summary["ablations"]["no-calibration"]
    assert left_out["answers"]["gam"]["average"]["f1"] == pytest.approx(0.8)
    difference = left_out["difference"]["gam f1"]
    assert difference["mean"] == difference["low"] == difference["high"] == pytest.approx(-0.2)
    assert list(summary["budget"]) == ["1", "3"]
    sizes = [summary["budget"][k]["evidence_set"]["units"] for k in ("1", "3")]
    assert sizes[0] < sizes[1]
    report.write(data, findings, summary, tmp_path, answers=True)
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert rows[0]["answer"] == "0 coins"
    assert rows[0]["reader_answer"] == "about 0 coins"
    assert rows[0]["scores"]["gam"]["f1"] == 1.0
    assert rows[0]["reader_scores"]["gam"]["f1"] == pytest.approx(0.8)
    assert rows[0]["changes"] == [
        {"rule": "number", "before": "about 0 coins", "after": "0 coins", "evidence": ["b0-0"]}
    ]
    assert (tmp_path / "answers.no-calibration.jsonl").is_file()
    assert (tmp_path / "answers.top-3.jsonl").is_file()


def test_evidence_sets_and_supporting_spans() -> None:
    """Closure adds units to the set; spans are found where a unit holds the whole of them."""
    plan = Plan(config=FULL, views=("both",), ablations=("no-closure",), k=1, latency_samples=0)
    data = dataset(1)
    findings = run(data, plan, memories())
    summary = summarise(data, plan, findings)
    assert summary["evidence_set"]["recall"] == summary["evidence_set"]["support"] == 1.0
    assert summary["evidence_set"]["units"] > 1.0
    assert summary["ablations"]["no-closure"]["evidence_set"]["units"] == 1.0
    assert summary["support"] == {"questions": 3, "recall@5": 1.0, "recall@10": 1.0}
    long = replace(data.conversations[0].questions[0], support=(Support("b0-0", 0, 999),))
    only = replace(data, conversations=(replace(data.conversations[0], questions=(long,)),))
    assert summarise(only, plan, run(only, plan, memories()))["support"]["recall@10"] == 0.0


@pytest.mark.parametrize("chunk", [0, 6, 13])
def test_parts_change_nothing(tmp_path: Path, chunk: int) -> None:
    """A bank's ranking does not depend on which banks share its index."""
    data = dataset(4)
    sizes = {0: [4], 6: [1, 1, 1, 1], 13: [2, 2]}[chunk]
    plan = Plan(config=FULL, chunk=chunk, latency_samples=0)
    assert [len(part) for part in plan.chunks(data.conversations)] == sizes
    whole = run(data, replace(plan, chunk=0), memories())
    parts = run(data, plan, memories())
    for name, rankings in whole.rankings.items():
        for one, other in zip(rankings, parts.rankings[name], strict=True):
            assert [unit.id for unit in one.ranked] == [unit.id for unit in other.ranked]
            assert [unit.score for unit in one.ranked] == pytest.approx(
                [unit.score for unit in other.ranked], abs=1e-5
            )


@pytest.mark.parametrize("stop_after", [0, 1, 4])
def test_killed_run_resumes_to_the_same_files(tmp_path: Path, stop_after: int) -> None:
    """What was read before the kill is not read again, and the files are those of an undisturbed run."""
    data = dataset(3)
    plan = Plan(config=FULL, ablations=("no-closure",), chunk=6, latency_samples=0)
    (tmp_path / "whole").mkdir()
    (tmp_path / "torn").mkdir()
    findings = run(data, plan, memories(), reader=Counting(), journal=Journal(tmp_path / "whole", {"a": 1}))
    whole = written(tmp_path / "whole", data, plan, findings, "counting")
    with pytest.raises(KeyboardInterrupt):
        run(
            data,
            plan,
            memories(),
            reader=Counting(stop_after),
            journal=Journal(tmp_path / "torn", {"a": 1}),
        )
    with open(tmp_path / "torn" / NAME, "a") as file:
        file.write('{"step": "1/read/both/0", "value": [{"ids"')
    reader = Counting()
    journal = Journal(tmp_path / "torn", {"a": 1}, resume=True)
    findings = run(data, plan, memories(), reader=reader, journal=journal)
    assert reader.calls == 6 - stop_after
    assert written(tmp_path / "torn", data, plan, findings, "counting") == whole

    def none_needed() -> Memory:
        raise AssertionError("a finished run indexes nothing")

    again = Journal(tmp_path / "torn", {"a": 1}, resume=True)
    assert run(data, plan, none_needed, reader=reader, journal=again) == findings


class Failing(Counting):
    """A counting reader that fails for the questions about one thing and keeps what it was asked."""

    def __init__(self, thing: str = "") -> None:
        super().__init__()
        self.thing = thing
        self.asked: list[str] = []

    def read(self, results: Sequence[SearchResult]) -> list[Any]:
        self.asked += [result.query for result in results]
        replies = super().read(results)
        return [
            Reply("", error="server away") if self.thing and self.thing in result.query else reply
            for result, reply in zip(results, replies, strict=True)
        ]


def test_resume_asks_again_only_where_the_reader_failed(tmp_path: Path) -> None:
    """The files are then those of a run without failures; a second failure stays recorded."""
    data = dataset(3)
    plan = Plan(config=FULL, ablations=("no-closure",), chunk=6, latency_samples=0)
    for name in ("whole", "torn"):
        (tmp_path / name).mkdir()
    journal = Journal(tmp_path / "whole", {})
    whole = run(data, plan, memories(), reader=Failing(), journal=journal)
    wanted = written(tmp_path / "whole", data, plan, whole, "counting")
    first = run(data, plan, memories(), reader=Failing("loom"), journal=Journal(tmp_path / "torn", {}))
    assert [one.error for one in first.readings["both"]] == [None, "server away", None] * 3
    assert summarise(data, plan, first, "counting")["reader"]["errors"] == 3

    again = Failing("loom")
    still = run(data, plan, memories(), reader=again, journal=Journal(tmp_path / "torn", {}, resume=True))
    assert again.asked == ["How much was the loom?"] * 6, "one for each bank and each of two readings"
    assert still == first
    mended = Failing()
    found = run(data, plan, memories(), reader=mended, journal=Journal(tmp_path / "torn", {}, resume=True))
    assert mended.asked == again.asked
    assert written(tmp_path / "torn", data, plan, found, "counting") == wanted

    def none_needed() -> Memory:
        raise AssertionError("nothing is left to ask")

    last = Journal(tmp_path / "torn", {}, resume=True)
    assert run(data, plan, none_needed, reader=Failing("loom"), journal=last) == found


def test_recorded_answers_are_not_asked_for_again(tmp_path: Path) -> None:
    """A recorded answer that is missing stays missing; the n-th answer of a question stays its own."""
    data = dataset(1)
    plan = Plan(config=FULL, views=("both",), latency_samples=0)
    reader = RecordedReader({})
    first = run(data, plan, memories(), reader=reader, journal=Journal(tmp_path, {}))
    assert all(one.error for one in first.readings["both"])

    def none_needed() -> Memory:
        raise AssertionError("a finished run indexes nothing")

    assert run(data, plan, none_needed, reader=reader, journal=Journal(tmp_path, {}, resume=True)) == first


def test_answers_from_flat_evidence(tmp_path: Path) -> None:
    """The reader sees the first K traces of the flat ranking; without the option it is not asked."""
    data = dataset(3)
    plan = Plan(
        config=FULL, views=("both",), baselines=("bm25", "strong"), k=2, chunk=6, latency_samples=0,
        baseline_answers=True,
    )  # fmt: skip
    reader = make_reader(_last_trace)
    findings = run(data, plan, memories(), reader=reader, journal=Journal(tmp_path, {}))
    assert list(findings.readings) == ["both", "bm25", "strong"]
    for name in plan.baselines:
        for reading, ranking in zip(findings.readings[name], findings.rankings[name], strict=True):
            assert reading.ids == tuple(one.id for one in ranking.ranked[:2])
            assert reading.units == 2
            assert len(reading.support) == 1
            assert reading.error is None
    summary = summarise(data, plan, findings, reader.name)
    block = summary["baselines"]["strong"]
    assert block["answers"]["gam"]["average"]["questions"] == 9
    assert block["errors"] == 0
    assert block["evidence_set"]["units"] == 2.0
    assert "recall@5" in block
    report.write(data, findings, summary, tmp_path, answers=True)
    rows = [json.loads(line) for line in (tmp_path / "answers.strong.jsonl").read_text().splitlines()]
    assert [row["evidence"] for row in rows] == [list(one.ids) for one in findings.readings["strong"]]
    table = protocol_table(summary)
    assert table is not None
    assert list(table.columns[0].cells)[:4] == ["gam F1", "  as read", "  flat bm25", "  flat strong"]

    without = replace(plan, baseline_answers=False)
    assert list(run(data, without, memories(), reader=reader).readings) == ["both"]
    alone = replace(findings, readings={"both": findings.readings["both"]})
    assert "answers" not in summarise(data, without, alone, reader.name)["baselines"]["strong"]
    with pytest.raises(InvalidInput, match="baseline-answers"):
        Plan(baseline_answers=True)


def _last_trace(prompt: str) -> str:
    return prompt.rsplit("for ", 1)[-1].split(".")[0]


def test_resume_refuses_another_configuration(tmp_path: Path) -> None:
    Journal(tmp_path, {"plan": {"k": 5, "views": ["both"]}, "reader": None}).put("x", 1)
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(InvalidInput, match=r"resume: got plan\.k was 5, is 6; reader was None") as caught:
        Journal(tmp_path, {"plan": {"k": 6, "views": ["both"]}, "reader": "openai"}, resume=True)
    assert "views" not in str(caught.value)
    assert (tmp_path / NAME).read_bytes() == before, "the run that is there stays"
    assert "x" in Journal(tmp_path, {"plan": {"k": 5, "views": ("both",)}, "reader": None}, resume=True)
    assert "x" not in Journal(tmp_path, {"reader": "openai"}), "without --resume it begins anew"


def test_resume_without_a_run_begins_one(tmp_path: Path) -> None:
    assert "x" not in Journal(tmp_path, {}, resume=True)
    for foreign in ('{"configu', '{"configuration": 5}', "[]", '{"step": "x", "value": 1}', "\xff"):
        (tmp_path / NAME).write_bytes(foreign.encode("latin-1"))
        assert "x" not in Journal(tmp_path, {}, resume=True), foreign
    (tmp_path / NAME).write_text('{"configuration": {}}\n{"step": "x"}\n{"step": [], "value": 1}\n')
    assert "x" not in Journal(tmp_path, {}, resume=True), "a step without its value is not finished"


def test_readings_keep_banks_together() -> None:
    """A question that stands twice in its bank needs both in one call."""
    questions = [one for bank in dataset(50).conversations for one in bank.questions]
    groups = reading_groups(questions, 64)
    assert [place for group in groups for place in group] == list(range(150))
    banks = [{questions[place].bank for place in group} for group in groups]
    assert len(groups) == 3
    assert not banks[0] & banks[1]
    assert reading_groups([]) == []


def test_recorded_answers(tmp_path: Path) -> None:
    """Twice the same question takes two answers, in their order, in every call."""
    one = conversation("b0")
    twice = replace(one, questions=(*one.questions, replace(one.questions[0], index=3)))
    data = Dataset("small", (twice,), ())
    rows = [
        {"sample_id": "b0", "question": question.text, "answer": f"answer {at}"}
        for at, question in enumerate(twice.questions)
    ]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reader = RecordedReader.load(path, data)
    memory = small_memory()
    memory.add(one.traces)
    results = memory.search([question.text for question in twice.questions])
    for _ in range(2):
        replies = reader.read([replace(result, bank="b0") for result in results])
        assert [reply.text for reply in replies] == ["answer 0", "answer 1", "answer 2", "answer 3"]
    assert reader.read([replace(results[0], query="other")])[0].error == "no recorded answer"

    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:3]))
    with pytest.raises(
        InvalidInput, match=r"1 answers to 'How much was the kiln\?' of bank b0; allowed: 2"
    ):
        RecordedReader.load(path, data)
    path.write_text(json.dumps(rows[0])[:-9])
    with pytest.raises(InvalidInput, match=r"answers\.jsonl:1: got invalid JSON"):
        RecordedReader.load(path, data)
    path.write_text('{"question": "q"}')
    with pytest.raises(InvalidInput, match="another schema"):
        RecordedReader.load(path, data)


def test_a_run_without_questions() -> None:
    with pytest.raises(InvalidInput, match="no questions"):
        run(Dataset("none", (), ()), Plan(), memories())
