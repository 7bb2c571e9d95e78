"""Paired intervals, and the comparison of two run folders."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.pipeline.run_files import answer_row, question_row, write_run
from zeromem_gpu.cli import app
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate.bootstrap import difference, interval, intervals
from zeromem_gpu.evaluate.compare import compare
from zeromem_gpu.evaluate.run_folder import read_run, read_trec_run

HIT, SECOND, MISS = ["g", "a"], ["a", "g"], ["a", "b"]


def test_an_interval_is_that_of_resampled_means():
    values = np.random.default_rng(5).random(83)
    found = interval(values, resamples=4000, seed=1)
    draws = np.random.default_rng(9).integers(0, 83, (4000, 83))
    low, high = np.quantile(values[draws].mean(axis=1), (0.025, 0.975))
    assert found.mean == pytest.approx(values.mean())
    # two independent sets of 4,000 resamples
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.006)
    normal = 1.96 * values.std() / np.sqrt(83)
    assert found.high - found.low == pytest.approx(2 * normal, rel=0.08)


def test_pairing_removes_what_both_share():
    generator = np.random.default_rng(2)
    a = generator.random(200)
    b = a + 0.01
    paired = difference(a, b)
    assert paired.low == pytest.approx(0.01)
    assert paired.high == pytest.approx(0.01)
    assert difference(b, a).mean == pytest.approx(-0.01)


@pytest.mark.parametrize("n", [1, 7, 1540])
def test_a_column_does_not_depend_on_the_others_nor_on_chunks(n, monkeypatch):
    table = np.random.default_rng(n).random((n, 3))
    together = intervals(table, resamples=500, seed=4)
    assert together[1] == pytest.approx(interval(table[:, 1], resamples=500, seed=4))
    monkeypatch.setattr("zeromem_gpu.evaluate.bootstrap._CELLS", 3 * n)
    np.testing.assert_allclose(intervals(table, resamples=500, seed=4), together)
    assert intervals(table, resamples=500, seed=5) != together or n == 1


def test_no_questions_and_bad_values():
    assert all(np.isnan(interval([])))
    with pytest.raises(InvalidInput, match="NaN"):
        interval([0.5, float("nan")])
    with pytest.raises(InvalidInput, match="3 values; allowed: 2"):
        difference([1, 2], [1, 2, 3])
    with pytest.raises(InvalidInput, match="0 resamples"):
        interval([1.0], resamples=0)


@pytest.fixture
def runs(tmp_path):
    """A finds 1 of 4 first, B 3 of 4, one of them from worse to better; a fifth question has no gold."""
    kinds, banks = [4, 4, 1, 1, 4], ["c1", "c1", "c2", "c2", "c2"]
    found = {"a": [HIT, MISS, MISS, MISS, HIT], "b": [MISS, HIT, HIT, HIT, MISS]}
    split = {"reporting": {"questions": 3, "conversations": ["c2"]}, "tuning": {"questions": 2}}
    folders = []
    for name, ranked in found.items():
        rows = [
            question_row(at, row, category=kinds[at], bank=banks[at], scored=at < 4)
            for at, row in enumerate(ranked)
        ]
        answers = [
            answer_row(at, 0.5 + 0.1 * at * (name == "b"), 0.5, bank=banks[at]) for at in range(len(rows))
        ]
        folders.append(write_run(tmp_path / name, rows, answers=answers, summary=split))
    return folders


def test_rows_say_who_is_better_where(runs):
    rows = {(row.metric, row.part): row for row in compare(*map(read_run, runs))}
    whole = rows["recall@5", "all"]
    assert (whole.questions, whole.a, whole.b, whole.difference) == (4, 0.25, 0.75, 0.5)
    assert (whole.better, whole.worse, whole.equal) == (3, 1, 0)
    assert whole.low < 0.5 < whole.high
    apart = rows["recall@5", "reporting"]
    assert (apart.questions, apart.a, apart.b, apart.low, apart.high) == (2, 0.0, 1.0, 1.0, 1.0)
    assert apart.certain
    assert not whole.certain
    assert rows["recall@5", "multi-hop"].better == 2
    # answers are scored without gold evidence too; questions without an answer are left out
    answers = rows["gam f1", "all"]
    assert (answers.questions, answers.better, answers.equal) == (5, 4, 1)
    assert answers.difference == pytest.approx(0.2)
    assert ("squad f1", "all") not in rows


def test_the_command_prints_and_gives_json(runs):
    runner = CliRunner()
    shown = runner.invoke(app, ["compare", *map(str, runs)], env={"COLUMNS": "80"})
    assert shown.exit_code == 0, shown.output
    line = next(line for line in shown.stdout.splitlines() if "recall@5" in line)
    assert line.split()[:5] == ["recall@5", "4", "25.0", "75.0", "+50.00"]
    assert line.split()[-1] == "3/1/0"
    printed = runner.invoke(app, ["compare", *map(str, runs), "--json", "--resamples", "200"])
    value = json.loads(printed.stdout)
    assert value["resamples"] == 200
    assert value["rows"][0] | {"low": 0, "high": 0} == {
        "metric": "recall@5", "part": "all", "questions": 4, "a": 0.25, "b": 0.75, "difference": 0.5,
        "low": 0, "high": 0, "better": 3, "worse": 1, "equal": 0,
    }  # fmt: skip


OTHERS = {
    "fewer": ([question_row(0, HIT)], r"different questions \(1 only in .*, such as c1/1\)"),
    "text": (
        [question_row(0, HIT), question_row(1, HIT, text="other?")],
        "different text of question c1/1",
    ),
    "gold": (
        [question_row(0, HIT), question_row(1, HIT, gold=["h"])],
        "different gold evidence of question",
    ),
    "category": (
        [question_row(0, HIT), question_row(1, HIT, category=1)],
        "different category of question",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_questions_are_refused(tmp_path, name):
    rows, message = OTHERS[name]
    a = write_run(tmp_path / "a", [question_row(0, HIT), question_row(1, MISS)])
    b = write_run(tmp_path / "b", rows)
    with pytest.raises(InvalidInput, match=message):
        compare(read_run(a), read_run(b))
    shown = CliRunner().invoke(app, ["compare", str(a), str(b)])
    assert shown.exit_code == 2


def test_answers_of_a_run_that_was_killed_are_refused(runs):
    lines = (runs[1] / "answers.jsonl").read_text().splitlines(keepends=True)
    (runs[1] / "answers.jsonl").write_text("".join(lines[:3]))
    with pytest.raises(InvalidInput, match=r"gam f1 of 5 and of 3 questions, c2/3 only once"):
        compare(*map(read_run, runs))


BROKEN = {
    "torn": ('{"bank": "c1", "qa_in', r"evidence.jsonl:1"),
    "schema": ('{"bank": "c1"}\n', r"evidence.jsonl:1.*qa_index"),
    "twice": (2 * (json.dumps(question_row(0, HIT)) + "\n"), "question c1/0 a second time"),
    "empty": ("", "no questions"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_folders_are_named(tmp_path, name):
    text, message = BROKEN[name]
    (tmp_path / "evidence.jsonl").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        read_run(tmp_path)


def test_missing_folders_and_files_are_named(tmp_path):
    with pytest.raises(InvalidInput, match="allowed: a folder"):
        read_run(tmp_path / "none")
    with pytest.raises(InvalidInput, match=r"evidence.jsonl: got no such file"):
        read_run(tmp_path)
    folder = write_run(tmp_path / "half", [question_row(0, HIT)])
    (folder / "metrics.json").write_text('{"data')
    with pytest.raises(InvalidInput, match=r"metrics.json: got no JSON"):
        read_run(folder)


def test_trec_ids_may_hold_blanks(tmp_path):
    file = tmp_path / "run.trec"
    file.write_text("q Q0 Ed Wood 2 1 tag\nq Q0 Ed Wood (film) 1 2 tag\n")
    assert read_trec_run(file) == {"q": ["Ed Wood (film)", "Ed Wood"]}
    file.write_text("q Q0 a\n")
    with pytest.raises(InvalidInput, match=r"run.trec:1"):
        read_trec_run(file)
