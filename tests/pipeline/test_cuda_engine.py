"""`Memory(device="cuda")` on a simulated device: what it finds, how often it waits, what is replayed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import pairwise

import pytest
import torch

from tests.pipeline.test_triton_engine import QUESTIONS, filled
from tests.simulated_cuda import Device, OnDevice, simulated_cuda
from tests.support import HashEncoder, small_memory
from zeromem_gpu import Boundary, Config, Memory, SearchResult, Trace
from zeromem_gpu.device import say_what_serves
from zeromem_gpu.doctor import examine
from zeromem_gpu.retrieve.eager import weights_of
from zeromem_gpu.retrieve.related import links_of
from zeromem_kernels import tiles
from zeromem_kernels.replay import Replays

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="simulates the device that is here")

OTHERS = ('Did Bob say "in Oslo" to Ann?', "Who likes rain?", "What was red on 2 May 2023?")
BANKS = ["one", "two", "one"]
BOUNDED = [None, Boundary(sessions="s1"), None]
# every sweep and every round of a top-k takes the interpreter long
CONFIG = Config(learned_weights=True, gamma=0.3, tolerance=1e-3, candidates=4)


@pytest.fixture(scope="module")
def plain() -> Memory:
    return filled(CONFIG)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with simulated_cuda() as simulated:
        yield simulated


@pytest.fixture(scope="module")
def memory(device: Device) -> Memory:
    """A memory that has searched once: what is made once for its banks is made."""
    made = filled(CONFIG, device="cuda")
    search(made, QUESTIONS)
    return made


def search(memory: Memory, questions: tuple[str, ...], **options: object) -> list[SearchResult]:
    asked = {"bank": BANKS, "top_k": 3, "config": CONFIG} | options
    return memory.search(questions, **asked)  # type: ignore[call-overload, no-any-return]


def same(found: list[SearchResult], expected: list[SearchResult]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert [e.trace.id for e in one] == [e.trace.id for e in other]
        assert [e.rule for e in one] == [e.rule for e in other]
        assert [e.score for e in one] == pytest.approx([e.score for e in other], abs=2e-4)
    assert any(len(one.evidence) for one in found)


@pytest.mark.parametrize(
    ("questions", "boundary"), [(QUESTIONS, BOUNDED), (OTHERS, None)], ids=["bounded", "phrases and dates"]
)
def test_a_batch_waits_once_and_finds_what_the_cpu_finds(
    memory: Memory, plain: Memory, device: Device, boundary: list[Boundary | None] | None,
    questions: tuple[str, ...],
) -> None:  # fmt: skip
    memory._searcher._replays.drop()  # type: ignore[union-attr]
    device.waits.clear()
    found = search(memory, questions, boundary=boundary)
    waits: Counter[str] = Counter()
    for why, count in device.waits.items():
        waits[why.partition(":")[0]] += count
    same(found, search(plain, questions, boundary=boundary))
    # the answers of both groups of tiles in one transfer
    assert waits == {"transfer.py": 1}, device.waits


def test_banks_that_grew_shrank_or_hold_no_words(device: Device) -> None:
    """Words in several segments, units that are gone, axes without rows; views alone."""
    both = []
    for memory in (filled(CONFIG), filled(CONFIG, device="cuda")):
        memory.add([Trace("blank", "…", "blank"), Trace("smile", "😀", "smile")])
        memory.prepare()
        memory.add(Trace(f"late{at}", f"Zoe told Ann of kayak {at}.", "one", "s9") for at in range(3))
        memory.delete(["one1", "late1"], bank="one")
        names = ["one", "blank", "smile", "two"]
        asked = ["Did Zoe tell Ann of a kayak?", "What is red?", "Who is Zoe?", '"with Bob"']
        found = []
        for views in ("both", "graph", "hierarchy"):
            config = CONFIG.replace(views=views, candidates=2)
            found += memory.search(asked, bank=names, top_k=2, config=config)
        both.append(found)
    same(*both)


def test_token_weights_are_laid_out_once_and_bring_no_wait(
    memory: Memory, plain: Memory, device: Device
) -> None:
    config = CONFIG.replace(learned=1.0, graph_learned=1.0)
    expected = search(plain, QUESTIONS, config=config)
    same(search(memory, QUESTIONS, config=config), expected)
    device.waits.clear()
    same(search(memory, QUESTIONS, config=config), expected)
    assert sum("reads the device" in why for why in device.waits) == 1, device.waits
    off = search(plain, QUESTIONS)
    assert [e.score for one in off for e in one] != [e.score for one in expected for e in one]


def test_shapes_that_return_are_replayed_with_the_values_of_the_day(
    memory: Memory, plain: Memory, device: Device
) -> None:
    """Other questions of the same shapes, in one graph for each width of tiles, boundaries apart."""
    replays = memory._searcher._replays
    assert replays is not None
    replays.drop()
    spoken = (QUESTIONS, QUESTIONS[::-1], QUESTIONS)
    for at, questions in enumerate(spoken):
        same(search(memory, questions), search(plain, questions))
        assert len(replays) == (2 if at == 2 else 0)
    eager = device.launches
    device.launches, device.replays = 0, 0
    asked = ("Who met Cleo in Bergen?", "What did Dan sell?", "Did Ann like Oslo, Bob?")
    device.waits.clear()
    found = search(memory, asked)
    assert device.replays == 2
    assert device.launches * 3 < eager, "what is left are the questions' own words"
    assert sum("reads the device" in why for why in device.waits) == 1
    same(found, search(plain, asked))
    bounded = search(memory, asked, boundary=BOUNDED)
    assert device.replays == 3, "a group without boundaries is replayed"
    same(bounded, search(plain, asked, boundary=BOUNDED))


def test_explain_measures_stages_by_events(memory: Memory, plain: Memory, device: Device) -> None:
    """The simulated events count themselves: a stage is a millisecond in each of two groups."""
    device.replays = 0
    found = search(memory, QUESTIONS, explain=True)
    assert device.replays == 0
    timings, expected = found[0].timings, search(plain, QUESTIONS, explain=True)[0]
    assert timings is not None
    assert expected.timings is not None
    assert timings.keys() == expected.timings.keys()
    for stage in ("signals_s", "graph_view_s", "hierarchy_view_s", "fusion_s", "evidence_s"):
        assert timings[stage] == pytest.approx(2e-3)


def test_graphs_end_with_the_stack_that_they_read(memory: Memory) -> None:
    replays = memory._searcher._replays
    assert replays is not None
    replays.drop()
    for _ in range(3):
        search(memory, QUESTIONS)
    assert len(replays) == 2
    memory._searcher._stacks.drop()
    assert len(replays) == 0


def test_what_cannot_be_captured_runs_without_a_graph(
    memory: Memory, plain: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """Above γ = 0.8 PageRank asks the device after each sweep whether to go on."""
    config = CONFIG.replace(gamma=0.85)
    for _ in range(4):
        found = search(memory, QUESTIONS, config=config)
    same(found, search(plain, QUESTIONS, config=config))
    (said,) = [one.getMessage() for one in caplog.records if "CUDA graph" in one.getMessage()]
    assert "reads a value" in said
    assert "kayak" not in said


def held(value: object, seen: set[int]) -> int:
    """Bytes of the device's memory that something holds, what was seen before aside."""
    if isinstance(value, OnDevice):
        store = value.inner.untyped_storage()
        fresh = store.data_ptr() not in seen
        seen.add(store.data_ptr())
        return store.nbytes() * fresh
    if is_dataclass(value):
        return sum(held(getattr(value, one.name), seen) for one in fields(value))
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return sum(held(one, seen) for one in parts)


def test_the_budget_counts_what_a_stack_takes_of_a_card(device: Device) -> None:
    memory = small_memory(device="cuda", encoder=HashEncoder(128))
    memory.add(
        Trace(f"t{at}", f"Ada{at % 50} met Bob{at % 70} in Rome by day {at}.", f"b{at % 4}", f"s{at // 20}")
        for at in range(1200)
    )
    index, searcher = memory._index, memory._searcher
    assert index is not None
    views, stack = searcher.refresh(index, list(index.banks), CONFIG)
    counted = sum(searcher._stacks.bytes_of(index.banks[name], view, 4) for name, view in views.items())
    for level in ("units", "spans", "windows", "episodes"):
        found = weights_of(stack, level, CONFIG.bm25_k1, CONFIG.bm25_b)
        assert found is weights_of(stack, level, CONFIG.bm25_k1, CONFIG.bm25_b)
        assert found.peaks is not None
        ptr, weights = found.indptr.tolist(), found.weights.tolist()
        highest = [max(weights[a:b], default=0.0) for a, b in pairwise(ptr)]
        assert found.peaks.tolist() == highest
    links_of(stack, CONFIG.bm25_k1, CONFIG.bm25_b)
    assert 0.9 <= held(stack, set()) / counted <= 1.1


def test_the_defaults_fit_a_card_of_24_gb() -> None:
    """Banks and work, graphs, and BGE-M3's weights in float16 beside the batch that it encodes."""
    graphs, encoder = Replays()._most_bytes, 4 << 30
    assert Config().device_bytes + graphs + encoder < 24_000_000_000


def test_what_is_missing_for_a_card_is_said_once_and_named_by_doctor(
    device: Device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("zeromem_gpu.device.find_spec", lambda name: None if name != "cuvs" else name)
    say_what_serves.cache_clear()
    for _ in range(2):
        filled(device="cuda")
    (record,) = caplog.records
    assert "without triton, torch's operations serve" in record.getMessage()
    assert "without cupy-cuda13x, a Triton kernel serves BM25" in record.getMessage()
    assert "cuvs" not in record.getMessage()
    say_what_serves.cache_clear()
    (check,) = [one for one in examine() if one.name == "extra cuda"]
    assert not check.ok
    assert "cupy-cuda13x" in check.detail
    assert "a Triton kernel serves BM25" in check.detail
    assert "pip install" in check.remedy


def test_without_triton_a_card_answers_the_same(
    plain: Memory, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiles._fit_for_triton.cache_clear()
    monkeypatch.setattr(tiles, "find_spec", lambda name: None)
    device.launches = 0
    found = search(filled(CONFIG, device="cuda"), QUESTIONS, boundary=BOUNDED)
    tiles._fit_for_triton.cache_clear()
    assert device.launches == 0
    same(found, search(plain, QUESTIONS, boundary=BOUNDED))


def test_running_out_of_memory_on_a_card_halves_the_budget_and_goes_on(
    memory: Memory, plain: Memory, device: Device, caplog: pytest.LogCaptureFixture
) -> None:
    """In a product of a library, and inside a kernel that says in its own words for what."""
    memory._searcher._replays.drop()  # type: ignore[union-attr]
    device.failing.update({"aten.bmm": 1, "sweep": 1})
    same(search(memory, QUESTIONS), search(plain, QUESTIONS))
    assert not device.failing.total()
    assert memory._searcher._budget.halvings == 2
    said = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(said) == 1, said
    assert "out of memory on cuda:0" in said[0]
