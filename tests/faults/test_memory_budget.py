"""The memory budget: no result depends on it, and running out of memory halves it and goes on."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from thinc.api import NumpyOps
from torch.utils._python_dispatch import TorchDispatchMode
from typer.testing import CliRunner

from tests.support import HashEncoder, small_memory
from zeromem_gpu import Boundary, Config, Memory, OutOfMemory, SearchResult, Trace, write_traces
from zeromem_gpu.budget import is_out_of_memory
from zeromem_gpu.build import estimate
from zeromem_gpu.cli import app
from zeromem_gpu.stacks import Stacks
from zeromem_gpu.text.products import TorchProducts

BANKS = 8
QUESTIONS = [f"Where did Ada{at % 7} meet Bob in Rome {at}?" for at in range(64)]
NAMES = [f"b{at % BANKS}" for at in range(64)]
BOUNDARIES = [Boundary(sessions="s1") if at % 5 == 0 else None for at in range(64)]


class Allocator(TorchDispatchMode):
    """A device whose largest piece of memory is `most` bytes; what is larger fails as torch's does."""

    def __init__(self, most: int, error: Callable[[str], BaseException]) -> None:
        super().__init__()
        self.most, self.error, self.failed = most, error, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.untyped_storage().nbytes() > self.most:
            held = {one.untyped_storage().data_ptr() for one in args if isinstance(one, torch.Tensor)}
            if made.untyped_storage().data_ptr() not in held:
                self.failed += 1
                raise self.error(f"{func}: tried to allocate {made.untyped_storage().nbytes()} bytes")
        return made


@pytest.fixture(autouse=True)
def spacy_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads questions has memory of its own: its products do not meet the allocator."""
    monkeypatch.setattr(TorchProducts, "gemm", NumpyOps.gemm)


def cpu_error(message: str) -> RuntimeError:
    """What torch raises on the host."""
    return RuntimeError(f"[enforce fail] DefaultCPUAllocator: can't allocate memory: {message}")


def filled(longer: int = 1, **config: Any) -> Memory:
    memory = small_memory(Config(**config))
    memory.add([
        Trace(f"t{at}", f"Ada{at % 7} met Bob{at % 5} in Rome {at}. It rained on Carl.", f"b{bank}",
              f"s{at % 3}", speaker=("Ada", "Bob")[at % 2])
        for bank in range(BANKS) for at in range(longer * (10 + 30 * (bank % 4)))
    ])  # fmt: skip
    memory.prepare()  # what a bank needs by itself is no part of a search's budget
    return memory


def ask(memory: Memory, **options: Any) -> list[SearchResult]:
    return memory.search(QUESTIONS, bank=NAMES, boundary=BOUNDARIES, top_k=8, **options)


def same(found: Sequence[SearchResult], wanted: Sequence[SearchResult]) -> None:
    """Equal to the last bit, texts and reasons included."""
    for one, two in zip(found, wanted, strict=True):
        assert one.evidence == two.evidence
    assert any(one.evidence for one in found)


@pytest.fixture(scope="module")
def whole() -> list[SearchResult]:
    """What a memory answers whose budget is never reached."""
    return ask(filled())


@pytest.mark.parametrize("budget", [1 << 20, 3 << 20, 1 << 24])
@pytest.mark.parametrize("field", ["host_bytes", "batch_bytes"])
def test_results_do_not_depend_on_the_budget(whole: list[SearchResult], field: str, budget: int) -> None:
    same(ask(filled(**{field: budget})), whole)
    memory = filled()
    same(ask(memory, config=memory.config.replace(**{field: budget})), whole)


def test_a_small_budget_stacks_fewer_banks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Banks are put side by side only as far as the budget reaches, and no more stacks are kept."""
    seen: list[int] = []
    real = Stacks.get

    def get(self: Stacks, index: Any, views: Any, config: Any, budget: int) -> Any:
        seen.append(sum(self.bytes_of(index.banks[n], v, len(views)) for n, v in views.items()))
        made = real(self, index, views, config, budget)
        assert sum(size for _, size in self._kept.values()) <= max(budget, seen[-1])
        return made

    monkeypatch.setattr(Stacks, "get", get)
    ask(filled(longer=4))
    (together,) = seen
    seen.clear()
    ask(filled(longer=4, host_bytes=1 << 20))
    assert len(seen) > 1
    assert sum(seen) <= together
    assert max(seen) <= 1 << 19


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError, MemoryError, cpu_error], ids=lambda e: e.__name__
)
def test_out_of_memory_halves_the_budget_and_goes_on(
    whole: list[SearchResult], error: Callable[[str], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    memory = filled()
    with Allocator(20_000, error) as device:
        same(ask(memory), whole)
        assert device.failed > 1
        device.failed = 0
        # what was learnt holds for the next search
        same(ask(memory), whole)
        assert device.failed == 0
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1, said
    assert "out of memory on cpu" in said[0]
    assert "bytes" in said[0]


def test_one_question_that_never_fits_is_one_clear_error(whole: list[SearchResult]) -> None:
    memory = filled()
    with (
        Allocator(100, torch.OutOfMemoryError),
        pytest.raises(OutOfMemory, match="one question does not fit"),
    ):
        ask(memory)
    assert memory._searcher._budget.halvings == 0, "others may fit"
    same(ask(memory), whole)


def test_other_errors_are_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = filled()

    def broken(*args: Any) -> Any:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr("zeromem_gpu.search.retrieve", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        ask(memory)
    assert not is_out_of_memory(OutOfMemory("already told"))


def test_searches_at_once_halve_it_together(whole: list[SearchResult]) -> None:
    """Two searches that fail at the same size halve it once; both answer."""
    memory, failures = filled(), []
    alone = filled()
    with Allocator(20_000, torch.OutOfMemoryError):
        ask(alone)

    def run() -> None:
        try:
            with Allocator(20_000, torch.OutOfMemoryError):
                same(ask(memory), whole)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert memory._searcher._budget.halvings == alone._searcher._budget.halvings


class Small(HashEncoder):
    """An encoder that runs out of memory with more than `most` texts at once."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.calls = most, 0

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Says that the first half is done before it fails."""
        self.calls += 1
        if len(texts) > self.most:
            if progress is not None:
                progress(len(texts) // 2)
            raise torch.OutOfMemoryError("CUDA out of memory")
        vectors = super().encode(texts)
        if progress is not None:
            progress(len(texts))
        return vectors


def test_an_encoder_that_runs_out_of_memory_gets_fewer_texts(caplog: pytest.LogCaptureFixture) -> None:
    traces = [Trace(f"t{at}", f"Ada met Bob{at}.") for at in range(40)]
    plain, memory = small_memory(), small_memory(encoder=Small(7))
    plain.add(traces)
    told: list[tuple[int, int]] = []
    memory.add(
        traces,
        progress=lambda stage, done, total: told.append((done, total)) if stage == "encode" else None,
    )
    assert memory.search("Who met Bob7?").evidence == plain.search("Who met Bob7?").evidence
    done = [one for one, _ in told]
    assert done == sorted(done)
    assert told[-1][0] == told[-1][1], "each text is told of once"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "Ada" not in caplog.text


def test_a_text_that_never_fits_stores_nothing() -> None:
    memory = small_memory(encoder=Small(0))
    with pytest.raises(OutOfMemory, match="one text does not fit") as error:
        memory.add(Trace("a", "Ada keeps a secret."))
    assert "secret" not in str(error.value)
    assert memory.banks == ()


# -- how large it will be --


def talk(turns: int) -> list[Trace]:
    return [
        Trace(f"t{at}", f"Ada{at % 50} met Bob{at % 70} in Rome by day {at}. It rained on the harbour.",
              f"b{at % 4}", f"s{at // 20}", speaker=("Ada", "Bob")[at % 2])
        for at in range(turns)
    ]  # fmt: skip


def test_the_estimate_is_near_what_is_built(tmp_path: Path) -> None:
    memory = small_memory(encoder=HashEncoder(256))
    guess = memory.estimate(talk(3000))
    assert memory.banks == ()
    memory.add(talk(3000))
    memory.save(tmp_path)
    info = memory.info()
    assert (guess.traces, guess.banks, guess.units) == (3000, 4, 3000)
    for name in ("sentences", "words", "entities", "vocabulary"):
        assert 0.5 <= getattr(guess, name) / info[name] <= 2, name
    written = sum(path.stat().st_size for path in (tmp_path / "v0001").iterdir())
    assert 0.67 <= guess.disk_bytes / written <= 1.5
    texts = 3000 * 1000
    assert 0.67 <= guess.facts_bytes / (info["bytes"] + texts) <= 1.5


def test_the_estimate_counts_the_vectors_of_words(tmp_path: Path) -> None:
    """Sixty turns of words that nobody says again: their vectors are most of the index."""
    said = [
        " ".join(f"w{chr(97 + at // 26)}{chr(97 + at % 26)}{chr(97 + k)}" for k in range(20))
        for at in range(60)
    ]
    traces = [Trace(f"t{at}", text, caption="A photograph", speaker="Ada") for at, text in enumerate(said)]
    memory = small_memory(encoder=HashEncoder(256))
    guess = memory.estimate(traces)
    memory.add(traces)
    memory.save(tmp_path)
    assert guess.vocabulary == memory.info()["vocabulary"] > 1000
    assert guess.encoded >= guess.vocabulary + 60
    written = sum(path.stat().st_size for path in (tmp_path / "v0001").iterdir())
    assert 0.67 <= guess.disk_bytes / written <= 1.5
    assert guess.search_bytes >= 4 * 256 * guess.vocabulary


def test_a_vocabulary_is_guessed_from_how_it_grew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says a new word after the first turns, and the banks take turns."""
    monkeypatch.setattr(estimate, "_SAMPLE", 200)
    memory = small_memory()
    guess = memory.estimate(talk(2000))
    memory.add(talk(2000))
    assert guess.vocabulary == memory.info()["vocabulary"]


def test_nothing_is_nothing() -> None:
    size = small_memory().estimate([])
    assert (size.units, size.facts_bytes, size.disk_bytes) == (0, 0, 0)


def test_a_large_build_is_announced_with_its_size(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(estimate, "REPORTED_TRACES", 200)
    caplog.set_level(logging.INFO, "zeromem_gpu")
    memory = small_memory(Config(host_bytes=1 << 20), encoder=HashEncoder(256))
    memory.add(talk(100))
    assert caplog.records == []
    memory.add(talk(1000))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "1000 traces in 4 banks" in record.getMessage()
    assert "host_bytes is 1 MB" in record.getMessage()
    assert "harbour" not in caplog.text
    caplog.clear()
    small_memory().add(talk(1000))
    assert [one.levelname for one in caplog.records] == ["INFO"]


def test_a_dry_run_prints_sizes_and_makes_nothing(tmp_path: Path) -> None:
    write_traces(tmp_path / "t.jsonl", talk(50))
    words = ["index", str(tmp_path / "t.jsonl"), "--out", str(tmp_path / "out"), "--encoder", "minilm"]
    done = CliRunner().invoke(app, [*words, "--dry-run", "--no-cache"])
    assert done.exit_code == 0, done.output
    assert "disk_bytes" in done.stdout
    assert not (tmp_path / "out").exists()


@contextmanager
def address_space(spare: int) -> Iterator[None]:
    """The process may take `spare` bytes more than it has."""
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + spare, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_what_the_real_allocators_raise_is_recognised() -> None:
    with address_space(64 << 20):
        for allocate in (
            lambda: torch.empty(1 << 30),
            lambda: np.empty(1 << 30),
            lambda: bytearray(1 << 32),
        ):
            with pytest.raises((RuntimeError, MemoryError)) as error:
                allocate()
            assert is_out_of_memory(error.value), error.value
