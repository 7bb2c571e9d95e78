"""The evaluation: what is read from LoCoMo, how rankings become numbers, what is written."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from rich.console import Console

from zeromem_gpu import Config, Evidence, InvalidInput, QueryProfile, SearchResult, Trace
from zeromem_gpu.evaluate import metrics, report
from zeromem_gpu.evaluate.datasets import LOCOMO_TUNING, Dataset, load_locomo
from zeromem_gpu.evaluate.plan import Plan
from zeromem_gpu.evaluate.runner import Findings, run
from zeromem_gpu.evaluate.summary import summarise
from zeromem_gpu.evaluate.tables import tables
from zeromem_gpu.traces import read_traces, write_traces

if TYPE_CHECKING:
    from zeromem_gpu import Memory

DATA = Path(os.environ.get("ZEROMEM_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not (DATA / "locomo" / "locomo10.json").is_file(), reason=f"no LoCoMo in {DATA} (set ZEROMEM_DATA)"
)
KEYS = (
    "dataset questions skipped encoder config recall@5 recall@10 recall@12 hit@5 ndcg@10 mrr by_category "
    "reporting memory_llm_tokens timing tuning views machine versions single_query all@5 all@10 about k "
    "limit reader evidence_set ablations budget baselines"
)


def turn(dia_id: str, text: str, speaker: str = "Ada", **more: Any) -> dict[str, Any]:
    return {"dia_id": dia_id, "text": text, "speaker": speaker, **more}


def question(text: str, evidence: list[str], category: int, answer: Any = "x") -> dict[str, Any]:
    return {"question": text, "evidence": evidence, "category": category, "answer": answer}


def sample(name: str) -> dict[str, Any]:
    """One invented conversation in LoCoMo's schema with each of its traps."""
    return {
        "sample_id": name,
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Ben",
            "session_10": [turn("D10:1", "The kiln cracked.", "Ben")],
            "session_10_date_time": "12:09 am on 1 June, 2023",
            "session_2": [
                turn(
                    "D2:1",
                    "I bought a loom.",
                    img_url=["http://x"],
                    blip_caption="a loom",
                    query="GENERATED",
                ),
                turn("D2:2", "It is oak.", blip_caption="wooden frame"),
            ],
            "session_2_date_time": "1:56 pm on 8 May, 2023",
            "session_11_date_time": "1:56 pm on 9 May, 2024",
        },
        "observation": {"session_2": "GENERATED"},
        "session_summary": {"session_2": "GENERATED"},
        "event_summary": {"session_2": "GENERATED"},
        "qa": [
            question("What did Ada buy?", ["D2:1"], 4),
            question("When did the kiln crack?", ["D:10:01; D2:02", "D2:2"], 2, 2023),
            question("Would Ada weave?", [], 3),
            question("What broke?", ["D9:9"], 1),
            question("Who sold the moon?", ["D2:1"], 5),
        ],
    }


def stored(folder: Path, *names: str) -> Path:
    (folder / "locomo10.json").write_text(json.dumps([sample(name) for name in names]), encoding="utf-8")
    return folder


class Oracle:
    """A memory with a fixed ranking: the turns of the asked bank in order, or reversed for one view."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.searches: list[tuple[list[str], str, int | None]] = []

    def add(self, traces: list[Trace], *, progress: Any = None) -> Any:
        self.traces += traces
        return SimpleNamespace(timings={"ner_s": 1.0, "encode_s": 2.0})

    def prepare(self) -> dict[str, float]:
        return {"graph_s": 3.0, "bm25_s": 4.0}

    def search(
        self, query: list[str], *, bank: list[str], config: Config, limit: int | None, top_k: int,
        explain: bool = False,
    ) -> list[SearchResult]:  # fmt: skip
        self.searches.append((query, config.views, limit))
        results = []
        for text, name in zip(query, bank, strict=True):
            rows = [trace for trace in self.traces if trace.bank == name]
            rows = rows[::-1] if config.views == "graph" else rows
            evidence = [Evidence(row, 0.5, 0.25, None, "view", 0, len(row.text)) for row in rows]
            # the first unit twice, as a trace that was split comes back
            profile = QueryProfile(text, route="relational")
            spent = {"encode_queries_s": 8.0, "profile_s": 2.0, "retrieve_s": 1.0}
            results.append(SearchResult(text, name, profile, tuple(evidence[:1] + evidence), spent))
        return results


def evaluated(dataset: Dataset, **options: Any) -> tuple[dict[str, Any], Findings, Oracle]:
    """The summary and the findings of a run over `Oracle`."""
    memory, plan = Oracle(), Plan(**options)
    findings = run(dataset, plan, lambda: cast("Memory", memory))
    return summarise(dataset, plan, findings), findings, memory


def test_locomo_reads_only_what_was_said(tmp_path: Path) -> None:
    """Guards the traps of the release: generated text, missing sessions, captions, order, times."""
    dataset = load_locomo(stored(tmp_path, "conv-26"))
    assert [trace.id for trace in dataset.traces] == ["D2:1", "D2:2", "D10:1"], "sessions in number order"
    assert "GENERATED" not in repr(dataset)
    first, second, last = dataset.traces
    assert first == Trace(
        id="D2:1",
        text="I bought a loom.",
        bank="conv-26",
        session="session_2",
        turn=1,
        time=datetime(2023, 5, 8, 13, 56),
        speaker="Ada",
        source="D2:1",
        caption="a loom",
    )
    assert (second.turn, second.caption) == (2, "wooden frame"), "a caption without an image counts"
    assert (last.time, last.caption) == (datetime(2023, 6, 1, 0, 9), None)


def test_locomo_cleans_raw_evidence(tmp_path: Path) -> None:
    """Guards ids such as D:10:01, several in one string, repeats, ids that do not exist, integers."""
    questions = load_locomo(stored(tmp_path, "conv-26")).questions
    assert [one.gold for one in questions] == [("D2:1",), ("D10:1", "D2:2"), (), ()]
    assert [one.category for one in questions] == [4, 2, 3, 1], "adversarial questions are left out"
    assert [one.scored for one in questions] == [True, True, False, False]
    assert questions[1].answer == "2023"
    assert [one.id for one in questions] == [f"conv-26/{index}" for index in range(4)]


def test_locomo_scores_repaired_evidence_on_request(tmp_path: Path) -> None:
    """A question whose only id is misspelt has gold either way, and counts when asked for."""
    changed = sample("conv-26")
    changed["qa"] = [question("When did the kiln crack?", ["D:10:01; D2:02"], 2)]
    (tmp_path / "locomo10.json").write_text(json.dumps([changed]))
    (plain,) = load_locomo(tmp_path).questions
    (repaired,) = load_locomo(tmp_path, recovered=True).questions
    assert plain.gold == repaired.gold == ("D10:1", "D2:2")
    assert (plain.scored, repaired.scored) == (False, True)


def test_locomo_prefers_cleaned_evidence(tmp_path: Path) -> None:
    rows = [{"sample_id": "conv-26", "qa_index": index, "evidence": ["D2:2", "D7:7"]} for index in range(5)]
    (tmp_path / "evidence.json").write_text(json.dumps(rows))
    assert {one.gold for one in load_locomo(stored(tmp_path, "conv-26")).questions} == {("D2:2",)}
    (tmp_path / "evidence.json").write_text(json.dumps(rows[:2]))
    with pytest.raises(InvalidInput, match=r"locomo10\.json.*no entry for question 2"):
        load_locomo(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "invalid JSON"),
        (json.dumps([sample("conv-26")])[:700], "invalid JSON"),
        ("{}", "a JSON dict"),
        ("[]", "a JSON list"),
        ('[{"question": "who?"}]', "sample_id"),
        ('[{"sample_id": "a", "conversation": {}, "qa": []}]', "no turns"),
        (json.dumps([sample("conv-26")]).replace("1:56 pm", "13.56"), "does not match format"),
        (json.dumps([sample("conv-26")]).replace('"D2:2", "text"', '"D2:1", "text"'), "occurs twice"),
        (json.dumps([sample("conv-26")]).replace('"It is oak."', "7"), "no text"),
        ("[" * 100_000, "invalid JSON"),
    ],
    ids=["empty", "torn", "object", "no-rows", "schema", "no-turns", "time", "twice", "number", "deep"],
)
def test_locomo_names_the_unusable_file(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "locomo10.json").write_text(content)
    with pytest.raises(InvalidInput, match=r"locomo10\.json") as caught:
        load_locomo(tmp_path)
    assert said in str(caught.value)


def test_locomo_absent_or_unknown_conversation(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"locomo10\.json"):
        load_locomo(tmp_path)
    with pytest.raises(InvalidInput, match="conv-99"):
        load_locomo(stored(tmp_path, "conv-26"), conversations=["conv-26", "conv-99"])
    with pytest.raises(InvalidInput, match="conv-26"):
        load_locomo(tmp_path, conversations=[])


@needs_data
def test_locomo_counts(tmp_path: Path) -> None:
    """The release's own numbers, and the cleaned evidence equals our rule on the raw strings."""
    dataset = load_locomo(DATA)
    assert len(dataset.conversations) == 10
    assert len(dataset.traces) == 5882
    assert len({(trace.bank, trace.session) for trace in dataset.traces}) == 272
    assert all(isinstance(trace.time, datetime) for trace in dataset.traces)
    assert Counter(one.category for one in dataset.questions) == {4: 841, 1: 282, 2: 321, 3: 96}
    assert sum(not one.scored for one in dataset.questions) == 9
    recovered = load_locomo(DATA, recovered=True).questions
    assert sum(not one.scored for one in recovered) == sum(not one.gold for one in recovered) == 4
    assert sum(trace.caption is not None for trace in dataset.traces) == 1226
    (tmp_path / "locomo10.json").symlink_to((DATA / "locomo" / "locomo10.json").resolve())
    plain = load_locomo(tmp_path).questions
    assert [(one.id, one.gold, one.scored) for one in plain] == [
        (one.id, one.gold, one.scored) for one in dataset.questions
    ]
    assert {(one.gold_audited, one.answer_audited) for one in plain} == {(None, None)}


@needs_data
def test_locomo_audit() -> None:
    """120 other answers and 96 other sets of evidence; what the audit left alone counts as before."""
    questions = load_locomo(DATA).questions
    changed = [one for one in questions if one.gold_audited != (one.gold if one.scored else ())]
    assert len(changed) == 96
    assert sum(one.answer_audited != one.answer for one in questions) == 120
    by_id = {one.id: one for one in questions}
    assert by_id["conv-26/1"].gold == ("D1:12",)
    assert by_id["conv-26/1"].gold_audited == ("D1:14",)
    assert by_id["conv-26/2"].answer_audited == "Counseling or mental health"


def test_metrics_by_hand() -> None:
    """Two of three found at ranks 2 and 6; gold without a ranking counts 0, without gold not at all."""
    gold = {"found": ["a", "b", "c"], "lost": ["a"], "skipped": []}
    ranked = {"found": ["v", "a", "w", "x", "y", "b"], "skipped": ["a"]}
    values = metrics.per_question(gold, ranked)
    assert set(values) == {"found", "lost"}
    assert set(values["lost"].values()) == {0.0}
    found = values["found"]
    assert found["recall@5"] == pytest.approx(1 / 3)
    assert found["recall@10"] == found["recall@12"] == pytest.approx(2 / 3)
    assert (found["hit@5"], found["mrr"]) == (1.0, 0.5)
    # 1/log2(rank + 1) at ranks 2 and 6 over the same at ranks 1, 2, 3
    assert found["ndcg@10"] == pytest.approx((0.6309297536 + 0.3562071871) / 2.1309297536)


def test_metrics_cut_at_their_depth() -> None:
    ids = [f"t{rank}" for rank in range(1, 14)]
    deep = {
        rank: metrics.per_question({"q": [f"t{rank}"]}, {"q": ids})["q"] for rank in (5, 6, 10, 11, 12, 13)
    }
    assert [deep[rank]["recall@5"] for rank in (5, 6)] == [1.0, 0.0]
    assert [deep[rank]["hit@5"] for rank in (5, 6)] == [1.0, 0.0]
    assert [deep[rank]["recall@10"] for rank in (10, 11)] == [1.0, 0.0]
    assert [deep[rank]["recall@12"] for rank in (12, 13)] == [1.0, 0.0]


@pytest.mark.parametrize("ids", [["z", "a", "m"], ["a", "m", "z"]], ids=["down", "up"])
def test_metrics_keep_our_order(ids: list[str]) -> None:
    """trec_eval breaks ties by id: equal scores must not let it reorder a ranking."""
    assert metrics.per_question({"q": [ids[1]]}, {"q": ids})["q"]["mrr"] == 0.5


def test_metrics_without_questions_or_rankings() -> None:
    assert metrics.per_question({}, {}) == {}
    assert metrics.per_question({"q": ["a"]}, {})["q"] == dict.fromkeys(metrics.METRICS, 0.0)
    assert metrics.mean([]) == dict.fromkeys(metrics.METRICS)


def test_evaluation_averages_over_questions(tmp_path: Path) -> None:
    """Golds at ranks 1 and {3, 2} forwards; reporting and tuning are kept apart."""
    summary, _, memory = evaluated(load_locomo(stored(tmp_path, "conv-26", "conv-42")), latency_samples=3)
    assert len(memory.traces) == 6
    assert (summary["questions"], summary["skipped"], summary["memory_llm_tokens"]) == (8, 4, 0)
    assert summary["mrr"] == pytest.approx((1.0 + 0.5) / 2)
    assert summary["by_category"]["temporal"]["mrr"] == 0.5
    assert summary["by_category"]["single-hop"]["questions"] == 2
    assert summary["by_category"]["open-domain"] == {
        "questions": 2,
        "skipped": 2,
        **dict.fromkeys(metrics.METRICS),
    }
    assert summary["reporting"]["conversations"] == ["conv-42"]
    assert summary["tuning"]["conversations"] == ["conv-26"]
    assert (summary["reporting"]["questions"], summary["reporting"]["skipped"]) == (4, 2)
    assert summary["views"]["graph"]["mrr"] == pytest.approx((1 / 3 + 1.0) / 2)
    assert [summary["timing"][name] for name in ("ner_s", "encode_s", "graph_s", "bm25_s")] == [1, 2, 3, 4]
    assert summary["timing"]["profile_ms_per_query"] == pytest.approx(250.0)
    assert summary["timing"]["retrieve_ms_per_query"] == pytest.approx(125.0)
    assert summary["single_query"]["questions"] == 3
    assert summary["single_query"]["p50_ms"] <= summary["single_query"]["p99_ms"]


def test_evaluation_asks_all_in_one_batch(tmp_path: Path) -> None:
    dataset = load_locomo(stored(tmp_path, "conv-26", "conv-42"))
    summary, found, memory = evaluated(dataset, latency_samples=0)
    batches = [(len(texts), view, limit) for texts, view, limit in memory.searches]
    rankings = [(2, "both", 12), (8, "both", 12), (8, "graph", 12), (8, "hierarchy", 12)]
    assert batches == [*rankings, (8, "both", None)], "and the evidence set of the headline"
    assert summary["single_query"] is None
    ranked = [one.id for one in found.rankings["both"][0].ranked]
    assert ranked == ["D2:1", "D2:2", "D10:1"], "no trace twice"


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"depth": 11}, "depth"),
        ({"depth": 0}, "depth"),
        ({"views": ("both", "both")}, "views"),
        ({"views": ("flat",)}, "views"),
        ({"views": ()}, "views"),
        ({"latency_samples": -1}, "latency_samples"),
        ({"k": 0}, "k"),
        ({"limit": 0}, "limit"),
        ({"chunk": -1}, "chunk"),
        ({"budget": (5, 0)}, "budget"),
        ({"budget": (5, 5)}, "budget"),
        ({"ablations": ("no-graph",)}, "ablate"),
        ({"ablations": ("no-closure",), "config": Config(closure=False)}, "ablate"),
        ({"baselines": ("bm42",)}, "baselines"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_evaluation_refuses(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Plan(**options)
    assert caught.value.argument == argument


def test_written_files_repeat_the_numbers(tmp_path: Path) -> None:
    """The TREC files alone give the metrics; keys of metrics.json are exactly the agreed ones."""
    import ir_measures

    dataset = load_locomo(stored(tmp_path, "conv-26", "conv-42"))
    numbers, found, _ = evaluated(dataset, views=("graph", "both"))
    out = report.prepare(tmp_path / "new" / "out")
    extra = {"encoder": "minilm", "machine": report.machine(), "versions": report.versions()}
    report.write(dataset, found, numbers | extra, out)
    summary = json.loads((out / "metrics.json").read_text())
    assert set(summary) == set(KEYS.split())
    qrels = list(ir_measures.read_trec_qrels(str(out / "qrels.trec")))
    for name, block in (("run.trec", summary), ("run.both.trec", summary["views"]["both"])):
        run_file = list(ir_measures.read_trec_run(str(out / name)))
        again = ir_measures.calc_aggregate([ir_measures.R @ 5, ir_measures.RR], qrels, run_file)
        assert again[ir_measures.R @ 5] == pytest.approx(block["recall@5"])
        assert again[ir_measures.RR] == pytest.approx(block["mrr"])
    for line in (out / "run.trec").read_text().splitlines():
        assert len(line.split(" ")) == 6
    rows = [json.loads(line) for line in (out / "evidence.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert {key: value for key, value in rows[1].items() if key != "ranked"} == {
        "bank": "conv-26",
        "qa_index": 1,
        "category": 2,
        "question": "When did the kiln crack?",
        "gold": ["D10:1", "D2:2"],
        "scored": True,
        "route": "relational",
    }
    assert rows[1]["ranked"][0] == {
        "id": "D10:1",
        "score": 0.5,
        "graph": 0.25,
        "hierarchy": None,
        "rule": "view",
    }


def test_tables_show_every_view_and_part(tmp_path: Path) -> None:
    """At 100 columns nothing is cut, and one side of the split alone is not shown apart."""
    console = Console(width=100, record=True, file=io.StringIO())
    summary, _, _ = evaluated(load_locomo(stored(tmp_path, "conv-26", "conv-42")))
    console.print(tables(summary))
    text = console.export_text()
    assert all(name in text for name in ("graph", "hierarchy", "reporting", "tuning", "open-domain"))
    assert "…" not in text
    assert "8 questions, 4 without gold evidence left out" in text
    half, _, _ = evaluated(load_locomo(tmp_path, conversations=["conv-42"]))
    console.print(tables(half))
    assert "reporting" not in console.export_text()


def test_unwritable_output_is_found_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="out: got"):
        report.prepare(tmp_path / "file")


def test_tuning_split_is_the_agreed_one() -> None:
    assert LOCOMO_TUNING == ("conv-26", "conv-30", "conv-41")


def test_traces_survive_the_file(tmp_path: Path) -> None:
    """Every field comes back: order, Unicode, lone surrogates, turn 0, an empty text."""
    full = Trace(
        id="1",
        text="naïve 記憶 \ud83d\n",
        bank="b",
        session="s",
        turn=0,
        time="2024-02-10T10:12:00+01:00",
        speaker="Ines",
        role="user",
        source="x",
        caption="c",
        entities=("E1", "E2"),
        metadata={"k": [1, None]},
    )
    path = tmp_path / "traces.jsonl"
    assert write_traces(path, [full, Trace(id="2", text="")]) == 2
    assert list(read_traces(path)) == [full, Trace(id="2", text="")]
    assert list(tmp_path.iterdir()) == [path], "nothing is left beside the file"


def test_failed_writing_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    write_traces(path, [Trace(id="1", text="kept")])

    def broken() -> Any:
        yield Trace(id="2", text="half")
        raise OSError("source broke")

    with pytest.raises(OSError, match="source broke"):
        write_traces(path, broken())
    assert [trace.id for trace in read_traces(path)] == ["1"]
    assert list(tmp_path.iterdir()) == [path]


def test_trace_file_with_mark_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"id": "1", "text": "a", "time": null}\r\n\n  \n{"id": "2", "text": "b"}'
    )
    assert [(trace.id, trace.time) for trace in read_traces(path)] == [("1", None), ("2", None)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"id": "2", "text": "b"', "invalid JSON"),
        (b'["2", "b"]', "a JSON list"),
        (b'{"id": "2"}', "no 'text'"),
        (b'{"text": "b"}', "no 'id'"),
        (b'{"id": 2, "text": "b"}', "id as a string"),
        (b'{"id": "2", "text": null}', "text as a string"),
        (b'{"id": "2", "text": "b", "speakr": "Ada"}', "unknown field 'speakr'"),
        (b'{"id": "2", "text": "b", "turn": true}', "turn as a whole number"),
        (b'{"id": "2", "text": "b", "turn": 1.5}', "turn as a whole number"),
        (b'{"id": "2", "text": "b", "entities": "Ada"}', "entities as a list"),
        (b'{"id": "2", "text": "b", "metadata": []}', "metadata as an object"),
        (b'{"id": "2", "text": "\xff"}', "not UTF-8"),
        (b'{"id": "2", "text": ' + b"[" * 100_000, "JSON"),
    ],
    ids=[
        "torn",
        "list",
        "no-text",
        "no-id",
        "id",
        "null",
        "unknown",
        "bool",
        "float",
        "names",
        "meta",
        "bytes",
        "deep",
    ],
)
def test_malformed_line_names_file_and_line(tmp_path: Path, line: bytes, said: str) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b'{"id": "1", "text": "a"}\n' + line + b'\n{"id": "3", "text": "c"}\n')
    with pytest.raises(InvalidInput, match=r"traces\.jsonl:2: ") as caught:
        list(read_traces(path))
    assert said in str(caught.value)
