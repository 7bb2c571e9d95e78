"""What is shown of measurements: nobody types a figure, losses are said, a missing peer is named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import readme
from benchmarks.calibration import Calibration
from benchmarks.growth import exponent
from benchmarks.machine import device_facts, device_name
from benchmarks.peers import dense
from benchmarks.peers.rows import Comparison, Row
from benchmarks.plot import Bar, log_bars
from benchmarks.stand_ins import HashEncoder, dialogue
from benchmarks.workloads import LOCOMO_SHAPE, load


def test_the_readme_is_what_the_results_say() -> None:
    assert readme.README.read_text(encoding="utf-8") == readme.render(readme.RESULTS, readme.BASELINES)


def test_a_faster_peer_and_a_missing_one_are_named(tmp_path: Path) -> None:
    rows = [Row("zeromem-gpu, batch", 2.0, 2, "exact"), Row("quick", 1.0, 2, "exact")]
    one = Comparison("search", {"rows": 3}, rows, {"absent": "not installed"})
    assert one.times == {"zeromem-gpu, batch": 1.0, "quick": 0.5}
    load_now = {"load_1min": 9.0, "cores": 2, "under_load": True}
    measured = {
        "device": device_facts(1),
        "load": load_now,
        "commit": {"id": "0", "changed": True},
        "day": "x",
    }
    folder = tmp_path / "here"
    folder.mkdir()
    run = {"measured": measured, "rounds": 3, "comparisons": [one.to_dict()]}
    (folder / "peers.json").write_text(json.dumps(run))
    text = readme.render(tmp_path, tmp_path / "none")
    assert "Faster than ours: quick (2 times)." in text
    assert "Left out: absent (not installed)." in text
    assert "taken under load" in text


def test_a_peer_that_is_not_installed_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "installed", lambda name: False)
    found = dense.compare_dense(257, 63, 1, 1, Calibration())
    assert [row.ours for row in found.rows] == [True]
    assert found.left_out == {"faiss-cpu": "not installed"}


def test_exponents_are_slopes_of_logarithms() -> None:
    assert exponent([(10, 4.0), (100, 400.0), (1000, 40_000.0)]) == pytest.approx(2.0)
    assert exponent([(10, 4.0)]) is None


def test_devices_of_other_processors_or_threads_have_other_folders() -> None:
    facts = device_facts(1)
    names = {
        device_name(facts | change) for change in ({}, {"threads": 2}, {"cpu": "Z80"}, {"gpu": "H200"})
    }
    assert len(names) == 4


def test_bars_tell_apart_ours_and_escape_names() -> None:
    svg = log_bars([("a < b", [Bar("ours", 0.1, True), Bar("peer", 10.0, False)])], "t", "ms")
    assert svg.startswith("<svg xmlns=")
    assert svg.count("#0b6e4f") == 1
    assert "a &lt; b" in svg
    assert log_bars([], "t", "ms") == ""


def test_stand_ins_have_the_shape_and_repeat() -> None:
    one, again = load("locomo-1"), load("locomo-1")
    assert (len(one.traces), len(one.questions), one.stand_in) == (*LOCOMO_SHAPE[0], True)
    assert one.digest == again.digest
    assert one.digest != load("hotpot-400").digest


def test_a_longer_invented_conversation_has_more_names_and_words() -> None:
    short, long = (dialogue("x", turns, 3, 0) for turns in (100, 1000))
    words = [{word for trace in one.traces for word in trace.text.split()} for one in (short, long)]
    assert len(words[1]) > 3 * len(words[0])


def test_hash_vectors_repeat_and_share_words() -> None:
    vectors = HashEncoder().encode(["red lamp", "red lamp", "red door", "blue sky", ""])
    assert np.array_equal(vectors[0], vectors[1])
    assert vectors[0] @ vectors[2] > 0.3 > vectors[0] @ vectors[3]
    assert HashEncoder().encode([]).shape == (0, 384)
