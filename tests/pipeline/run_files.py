"""Run folders written by hand, for tests of what reads them."""

import json

KINDS = {1: "multi-hop", 4: "single-hop"}


def question_row(at, ranked, *, bank="c1", category=4, gold=("g",), scored=True, text=None):
    return {
        "bank": bank, "qa_index": at, "category": category, "question": text or f"question {at}?",
        "gold": list(gold), "scored": scored, "route": "local",
        "ranked": [{"id": one, "score": 1.0, "graph": None, "hierarchy": None, "rule": "x"}
                   for one in ranked],
    }  # fmt: skip


def answer_row(at, after, before, *, bank="c1"):
    scores = {"gam": {"f1": after, "bleu1": after / 2}, "squad": None}
    return {"bank": bank, "qa_index": at, "scores": scores, "reader_scores": {"gam": {"f1": before}}}


def write_run(folder, rows, *, answers=None, summary=None):
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("evidence.jsonl", rows), ("answers.jsonl", answers)):
        if lines is not None:
            (folder / name).write_text("".join(json.dumps(row) + "\n" for row in lines), encoding="utf-8")
    if summary is not None:
        (folder / "metrics.json").write_text(json.dumps(summary), encoding="utf-8")
    return folder
