"""The HTML page and the tables beside the paper's, over whole, partial and hostile runs."""

from html.parser import HTMLParser

import pytest
from rich.console import Console

from tests.pipeline.run_files import answer_row, question_row, write_run
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate import paper, svg
from zeromem_gpu.evaluate.html import render, write_html
from zeromem_gpu.evaluate.tables import tables

EVIL = "<script>alert('x')</script>[bold]&\""
VOID = {"meta"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that are not closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + "\n"


def averages(f1):
    kinds = ("multi-hop", "single-hop", "average")
    return {"gam": {kind: {"questions": 2, "f1": f1, "bleu1": f1 / 2} for kind in kinds}}


def summary():
    block = {
        "questions": 4,
        "skipped": 0,
        "recall@5": 0.75,
        "recall@10": 0.75,
        "evidence_set": {"recall": 0.5},
    }
    return {
        "dataset": "locomo", **block, "memory_llm_tokens": 0, "answers": averages(0.5),
        "reporting": {"questions": 2, "skipped": 0, "conversations": ["c2"], "recall@5": 1.0},
        "tuning": {"questions": 2, "skipped": 0, "conversations": ["c1"], "recall@5": 0.5},
        "timing": {"ner_s": 1.0, "profile_ms_per_query": 1.5, "retrieve_ms_per_query": 0.5,
                   "encode_s": None},
        "reader": {"name": EVIL, "prompt_tokens": 12}, "encoder": "minilm@1", "about": {},
        "ablations": {"graph-only": {**block, "answers": averages(0.25)}},
        "budget": {"10": {"evidence_set": {"recall": 0.9, "units": 20}, "answers": averages(0.6)},
                   "5": {"evidence_set": {"recall": 0.8, "units": 9}, "answers": averages(0.5)}},
        "baselines": {"strong": block}, "versions": {EVIL: EVIL}, "config": {"gamma": 0.6},
        "machine": {"cpu": EVIL, "device": "cpu"},
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    rows = [
        question_row(at, ["g"] if at else ["x"], bank=f"c{1 + at // 2}", category=EVIL if at == 3 else 4)
        for at in range(4)
    ]
    answers = [answer_row(at, 0.5, 0.4, bank=f"c{1 + at // 2}") for at in range(4)]
    run = write_run(tmp_path / "run", rows, answers=answers, summary=summary())
    lines = [f"{row['bank']}/{row['qa_index']} Q0 x 1 1 flat\n" for row in rows]
    (run / "run.strong.trec").write_text("".join(lines))
    return run


def test_the_page_shows_the_run_and_needs_nothing_else(folder):
    target = write_html(folder)
    assert target == folder / "report.html"
    text = target.read_text(encoding="utf-8")
    page = Page(text)
    names = (
        "Headline",
        "By category",
        "flat baselines",
        "Answer calibration",
        "Evidence budget",
        "versions",
    )
    for name in names:
        assert name in page.text
    assert "75.0" in page.text
    assert "+75.00" in page.text
    assert page.tags.count("svg") == 2
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(page.tags)
    urls = [value for name, value in page.attributes if name in ("src", "href", "xlink:href", "action")]
    assert not urls
    assert "url(" not in text
    assert "@import" not in text
    assert "http" not in text.replace("http-equiv", "")


def test_everything_of_the_run_is_escaped(folder):
    page = Page(render(folder))
    assert "<script" not in render(folder)
    # read back by a parser it is the very text: category, reader, version name and value, processor
    assert page.text.count(EVIL) >= 5


def test_the_page_is_the_same_every_time(folder):
    assert render(folder) == render(folder)


PARTIAL = {
    "evidence alone": ["evidence.jsonl"],
    "metrics alone": ["metrics.json"],
    "no baselines": ["evidence.jsonl", "metrics.json"],
    "no metrics": ["evidence.jsonl", "answers.jsonl", "run.strong.trec"],
}


@pytest.mark.parametrize("name", PARTIAL)
def test_a_partial_run_still_has_a_page(folder, name):
    for file in folder.iterdir():
        if file.name not in PARTIAL[name]:
            file.unlink()
    page = Page(render(folder))
    assert ("Headline" in page.text) is ("evidence.jsonl" in PARTIAL[name])
    assert ("Evidence budget" in page.text) is ("metrics.json" in PARTIAL[name])
    assert ("not finished" in page.text) is ("metrics.json" not in PARTIAL[name])
    assert "None" not in page.text
    assert "nan" not in page.text


@pytest.mark.parametrize("key", list(summary()))
def test_any_key_of_metrics_may_be_missing_or_null(tmp_path, key):
    whole = summary()
    for value in ({k: v for k, v in whole.items() if k != key}, whole | {key: None}):
        run = write_run(tmp_path / "run", None, summary=value)
        Page(render(run))
        Console(file=open("/dev/null", "w")).print(tables(value))  # noqa: SIM115


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"evidence.jsonl"):
        render(tmp_path)
    write_run(tmp_path, [question_row(0, ["g"])])
    with pytest.raises(InvalidInput, match="allowed: a file that can be written"):
        write_html(tmp_path, tmp_path / "no" / "report.html")


def test_questions_without_gold_alone_make_a_page(tmp_path):
    run = write_run(tmp_path / "run", [question_row(0, ["x"], scored=False)])
    assert "nan" not in Page(render(run)).text


def test_bars_are_as_long_as_their_values():
    drawn = svg.bars([svg.Bar("half", 0.5, 0.25, 1.0, 0.75), svg.Bar("over", 2.0)], "t")
    widths = [float(value) for name, value in Page(drawn).attributes if name == "width"]
    assert widths[0] * 2 == pytest.approx(widths[1])
    assert svg.bars([], "t") == svg.lines([svg.Line("a", [])], "t", "K") == ""


def printed(*summaries):
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tables(*summaries))
    return console.export_text()


def test_tables_put_the_paper_beside_us():
    text = printed(summary())
    assert "59.15 / 52.96" in text
    ours = next(line for line in text.splitlines() if line.strip().startswith("ours, <script>"))
    assert "[bold]" in ours
    assert "50.00 / 25.00" in ours
    assert "62.50 / 59.90" in text
    assert "encoder minilm@1 (paper: BAAI/bge-m3)" in text
    lines = [line.split()[0] for line in text.splitlines() if line.strip()]
    assert lines.index("5") < lines.index("10")


def test_hotpotqa_runs_of_several_sizes_share_a_table():
    runs = [
        {"dataset": "hotpotqa", "questions": 2, "about": {"documents": size}, "reader": {"name": "r"},
         "answers": {"squad": {"average": {"questions": 2, "f1": f1}}}}
        for size, f1 in ((400, 0.5), (3200, 0.25), (50, 0.75))
    ]  # fmt: skip
    text = printed(*runs)
    ours = next(line for line in text.splitlines() if "ours, r" in line)
    assert ours.split()[-3:] == ["50.0", "–", "25.0"]
    assert "at 50 documents: 75.0" in text
    assert "72.07" in text


def test_the_paper_s_figures_agree_with_each_other():
    """Slips of the pen: its own gains over GAM, and the same number wherever it is printed twice."""
    ours, gam = (paper.LOCOMO[f"{name}, GPT-4o-mini"]["average"] for name in ("Zero-Mem", "GAM"))
    assert ours.f1 / gam.f1 == pytest.approx(1.100, abs=1e-3)
    assert ours.bleu1 / gam.bleu1 == pytest.approx(1.115, abs=1e-3)
    assert paper.BUDGET[5] == ours
    assert paper.HOTPOTQA["Zero-Mem, GPT-4o-mini"]["56K"] == paper.ABLATION["full"].f1
    cost = paper.COST
    assert 1 - cost["Zero-Mem"].seconds / cost["LightMem"].seconds == pytest.approx(0.576, abs=1e-3)
    for system in cost.values():
        assert system.seconds / 1540 == pytest.approx(system.per_question, abs=0.006)
