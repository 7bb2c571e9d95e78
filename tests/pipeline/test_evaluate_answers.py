"""Answer metrics: the goldens of the data, the recorded reader's table, and each rule by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from zeromem_gpu.evaluate.answers import PROTOCOLS, average, gam, locomo, squad

# F1 or BLEU-1 in percent: single-hop, multi-hop, temporal, open-domain, micro average
RECORDED = {
    "gam f1": (60.03, 40.15, 47.43, 30.81, 51.94),
    "gam bleu1": (53.03, 31.65, 41.74, 24.26, 44.97),
    "locomo f1": (61.22, 37.85, 47.76, 30.79, 52.24),
    "amem f1": (58.95, 38.33, 43.56, 28.63, 50.07),
    "amem bleu1": (45.94, 27.36, 37.70, 20.76, 39.25),
}


def test_golden_pairs(data_dir: Path) -> None:
    rows = json.loads((data_dir / "metric_golden.json").read_text())
    assert len(rows) == 14
    for row in rows:
        for name in RECORDED:
            protocol, metric = name.split()
            value = PROTOCOLS[protocol](row["gold"], row["pred"], row["category"])[metric]
            assert value == pytest.approx(row[f"{protocol}_{metric}"], abs=1e-5), (name, row)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_reader(data_dir: Path, name: str) -> None:
    """The table that other papers' numbers compare with, to two decimals."""
    protocol, metric = name.split()
    scores: dict[Any, list[dict[str, float]]] = defaultdict(list)
    lines = (data_dir / "locomo" / "reader_answers_gpt4o_mini.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        score = PROTOCOLS[protocol](str(row["gold"]), row["answer"], row["category"])
        scores[row["category"]].append(score)
        scores["all"].append(score)
    found = tuple(round(100 * average(scores[part])[metric], 2) for part in (4, 1, 2, 3, "all"))
    assert found == RECORDED[name]


@pytest.mark.parametrize(
    ("gold", "answer", "em", "f1", "official"),
    [
        ("yes", "Yes.", 1.0, 1.0, 1.0),
        ("yes", "yes it is", 0.0, 0.5, 0.0),
        ("no", "yes", 0.0, 0.0, 0.0),
        ("Chief of Protocol", "the chief of protocol", 1.0, 1.0, 1.0),
        ("Chief of Protocol", "Protocol", 0.0, 0.5, 0.5),
        ("noanswer here", "noanswer", 0.0, 2 / 3, 0.0),
        ("", "", 1.0, 1.0, 1.0),
        ("a", "", 1.0, 1.0, 1.0),
        ("x", "", 0.0, 0.0, 0.0),
    ],
)
def test_squad_and_the_yes_no_rule(gold: str, answer: str, em: float, f1: float, official: float) -> None:
    assert squad(gold, answer) == pytest.approx({"em": em, "f1": f1, "f1_yes_no": official})


def test_rules_that_only_one_protocol_has() -> None:
    """Splitting at commas is category 1's, cutting at ';' category 3's, and neither is GAM's."""
    assert locomo("tea, coffee", "coffee, tea", 1)["f1"] == 1.0
    assert locomo("tea, coffee", "coffee", 1)["f1"] == 0.5
    assert locomo("tea, coffee", "coffee", 4)["f1"] == pytest.approx(2 / 3)
    assert locomo("no; she left", "no", 3)["f1"] == 1.0
    assert locomo("no; she left", "no", 2)["f1"] == 0.5
    assert gam("no; she left", "no", 3)["f1"] == 0.5
    assert gam("the dogs", "dog")["f1"] == 0.0, "no stemming"
    assert locomo("the dogs", "dog", 4)["f1"] == 1.0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_empty_answers(protocol: str) -> None:
    """Both empty agree, one empty does not, and no score leaves 0 to 1."""
    score = PROTOCOLS[protocol]
    assert set(score("", "", 4).values()) == {1.0}
    for gold, answer in (("tea", ""), ("", "tea"), ("tea", "?!"), ("🐝", "tea")):
        assert set(score(gold, answer, 4).values()) == {0.0}
    long = " ".join(["tea"] * 10_000)
    assert all(0.0 <= value <= 1.0 for value in score("tea", long, 4).values())


def test_average_over_questions() -> None:
    assert average([]) == {"questions": 0}
    assert average([{"f1": 1.0}, {"f1": 0.0}]) == {"questions": 2, "f1": 0.5}
