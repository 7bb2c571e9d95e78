"""HotpotQA's memory variant: splits, banks, seeds, supporting sentences, damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zeromem_gpu import InvalidInput
from zeromem_gpu.evaluate.hotpotqa import load_hotpotqa


def paragraph(title: str, *sentences: str) -> dict[str, Any]:
    sentences = sentences or (f"{title} is a place.", " It is old.")
    return {"title": title, "text": "".join(sentences), "sentences": list(sentences)}


def asked(number: int, gold: tuple[str, str], context: list[str], **more: Any) -> dict[str, Any]:
    row = {
        "id": f"q{number}",
        "dev_index": number,
        "question": f"Q{number}?",
        "answer": "A",
        "type": "bridge",
    }
    return row | {"gold_titles": list(gold), "context_titles": context, **more}


def stored(folder: Path) -> Path:
    """Twelve paragraphs in the corpus, three more outside it, two dev questions and one of train."""
    write(folder / "corpus.jsonl", [paragraph(f"P{at}") for at in range(12)])
    write(folder / "extra_distractors.jsonl", [paragraph(f"X{at}") for at in range(3)])
    facts = [["P0", 1], ["P1", 0]]
    write(
        folder / "dev500.jsonl",
        [
            asked(0, ("P0", "P1"), ["P0", "P1", "P2"], supporting_facts=facts),
            asked(200, ("P3", "P4"), ["P3", "P4"]),
        ],
    )
    train = {"id": "t0", "split": "train", "question": "T?", "answer": "no", "type": "comparison"}
    context = [["Own", ["Own one.", " Own two."]], ["P5", ["Another text of P5."]]]
    train |= {"supporting_facts": [["Own", 1], ["P5", 0]], "context": context}
    write(folder / "sentence_level.jsonl", [train])
    return folder


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_banks_hold_context_and_distractors(tmp_path: Path) -> None:
    data = load_hotpotqa(stored(tmp_path), documents=6)
    (one,) = data.conversations
    ids = [trace.id for trace in one.traces]
    assert len(set(ids)) == len(one.traces) == 6
    assert {"P0", "P1", "P2"} < set(ids)
    assert not any(name.startswith("X") for name in ids), "the corpus comes first"
    trace = one.traces[ids.index("P0")]
    assert (trace.bank, trace.session, trace.entities) == ("q0", "P0", ("P0",))
    assert (trace.text, trace.speaker) == ("P0: P0 is a place. It is old.", None)
    (question,) = data.questions
    assert (question.id, question.kind, question.gold) == ("q0/0", "bridge", ("P0", "P1"))
    text = {name: one.traces[ids.index(name)].text for name in ("P0", "P1")}
    spans = [(span.id, text[span.id][span.start : span.end]) for span in question.support]
    assert spans == [("P0", "It is old."), ("P1", "P1 is a place.")]
    assert [trace.id for trace in one.traces[1:3]] == ids[1:3]


def test_order_and_choice_are_seeded_per_question(tmp_path: Path) -> None:
    def banks(**options: Any) -> list[list[str]]:
        data = load_hotpotqa(stored(tmp_path), **options)
        return [[trace.id for trace in one.traces] for one in data.conversations]

    assert banks(documents=8) == banks(documents=8)
    assert banks(documents=8) != banks(documents=8, seed=1)
    assert set(banks(documents=6)[0]) < set(banks(documents=9)[0]), "a larger bank holds the smaller one"
    both = banks(documents=13, split="tuning")
    assert set(both[0]) != set(both[1])
    assert sum(name.startswith("X") for name in both[0]) == 1, "outside the corpus only when it is used up"
    whole = banks(documents=15)[0]
    assert sorted(whole) != whole


def test_splits(tmp_path: Path) -> None:
    """Dev 0 to 199 are reported; the other dev questions and train are for tuning, dev first."""
    folder = stored(tmp_path)
    reporting, tuning = (load_hotpotqa(folder, documents=5, split=name) for name in ("reporting", "tuning"))
    assert [one.id for one in reporting.conversations] == ["q0"]
    assert (reporting.tuning, tuning.tuning) == ((), ("q200", "t0"))
    assert [
        one.id for one in load_hotpotqa(folder, documents=5, split="tuning", questions=1).questions
    ] == ["q200/0"]
    own = {trace.id: trace.text for trace in tuning.conversations[1].traces}
    assert own["Own"] == "Own: Own one. Own two."
    assert own["P5"] == "P5: P5 is a place. It is old.", "the corpus has the text that all banks show"
    assert tuning.questions[1].support == (), "a sentence that its document lacks is not known"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"documents": 2}, "docs: got 2; allowed: 3 to 15"),
        ({"documents": 16}, "docs: got 16"),
        ({"questions": 0}, "questions: got 0; allowed: 1 to 1"),
        ({"questions": 2}, "questions: got 2"),
        ({"split": "test"}, "split: got 'test'"),
    ],
)
def test_refused(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_hotpotqa(stored(tmp_path), **({"documents": 5} | options))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("dev500.jsonl", None, "dev500.jsonl"),
        ("corpus.jsonl", None, "No such file"),
        ("corpus.jsonl", "", "an empty file"),
        ("corpus.jsonl", '{"title": "P0", "te', "corpus.jsonl:1: got invalid JSON"),
        ("corpus.jsonl", '{"name": "P0"}', "corpus.jsonl:1: got no 'title'"),
        ("corpus.jsonl", '{"title": "P0", "text": 7}', "another schema"),
        ("corpus.jsonl", '{"title": "P0", "text": "a"}', "no 'P1'"),
        ("dev500.jsonl", '{"id": "q0"}', "dev500.jsonl:1: got no 'dev_index'"),
        ("dev500.jsonl", "[]", "a JSON list"),
        ("sentence_level.jsonl", '{"id": "t0"}', "sentence_level.jsonl:1: got no 'split'"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, content: str | None, said: str) -> None:
    stored(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content)
    with pytest.raises(InvalidInput) as caught:
        load_hotpotqa(tmp_path, documents=5)
    assert said in str(caught.value)


def test_the_release(data_dir: Path) -> None:
    """Counts of the real files; half of corpus.jsonl is one clear error."""
    data = load_hotpotqa(data_dir, documents=400, questions=100)
    assert len(data.questions) == 100
    assert {len(one.traces) for one in data.conversations} == {400}
    assert all(len(one.gold) == 2 and one.support for one in data.questions)
    orders = [[trace.id for trace in one.traces[:20]] for one in data.conversations[:5]]
    assert len({tuple(order) for order in orders}) == 5
    assert len(load_hotpotqa(data_dir, split="tuning").questions) == 500
    assert len(load_hotpotqa(data_dir).questions) == 200
