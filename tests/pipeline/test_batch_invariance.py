"""A question's answer does not depend on the batch, its order, its splits, the banks beside it or hashing.

The vectors here have entries 0 and ±1/4, so that every dot product is exact whatever the library does with
the shape of a batch; all that follows must then be equal bit for bit.
"""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.pipeline.engine_runs import Asked, assert_same
from tests.pipeline.odd import odd_memory, odd_questions
from tests.support import HashEncoder, small_memory
from zeromem_gpu import Config, Memory, Trace
from zeromem_gpu.retrieve import groups
from zeromem_gpu.retrieve.engine import retrieve

COUNT = 96


class ExactEncoder(HashEncoder):
    """Unit vectors of sixteen entries ±1/4."""

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """float32 [n, dim], from the hash of each text."""
        rows = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(rows, texts, strict=True):
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            rng = np.random.default_rng(int.from_bytes(digest, "little"))
            row[rng.choice(self.dim, size=16, replace=False)] = rng.choice([-0.25, 0.25], size=16)
        return rows


KINDS: dict[str, dict[str, Any]] = {
    "pooled": {},
    "encoded": {"window_vectors": "encoded"},
    "learned": {"learned_weights": True, "learned": 1.3, "graph_learned": 0.9},
}


@pytest.fixture(scope="module", params=KINDS)
def asked(request: pytest.FixtureRequest) -> Asked:
    memory = odd_memory(11, Config(**KINDS[request.param]), encoder=ExactEncoder(48))
    banks, profiles = odd_questions(memory, 11, COUNT)
    asked = Asked(memory, banks, profiles)
    rng = np.random.default_rng(12)
    asked.hidden = [
        (rng.random(len(asked.facts[bank].units)) < 0.3).tolist() if at % 3 == 0 else None
        for at, bank in enumerate(banks)
    ]
    return asked


@pytest.fixture(
    scope="module", params=[{}, {"activation": "literal", "prior_power": 2.5, "solver": "power"}], ids=str
)
def config(request: pytest.FixtureRequest, asked: Asked) -> Config:
    return asked.memory.config.replace(top_k=20, **request.param)


def part(asked: Asked, rows: Sequence[int]) -> Asked:
    hidden = asked.hidden or []
    return Asked(
        asked.memory, [asked.banks[r] for r in rows], [asked.profiles[r] for r in rows],
        [hidden[r] for r in rows], [asked.queries[r] for r in rows], asked.facts,
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 64])
def test_batches_of_any_size(asked: Asked, config: Config, size: int) -> None:
    whole = asked.engine(config)
    for begin in range(0, min(COUNT, 40 * size), size):
        rows = list(range(begin, min(begin + size, COUNT)))
        assert_same(whole, part(asked, rows).engine(config), rows)


def test_order_and_splits(asked: Asked, config: Config) -> None:
    whole = asked.engine(config)
    order = np.random.default_rng(13).permutation(COUNT).tolist()
    assert_same(whole, part(asked, order).engine(config), order)
    assert_same(whole, asked.engine(config.replace(batch_bytes=1 << 20)))
    assert_same(whole, part(asked, order).engine(config.replace(batch_bytes=1 << 20)), order)


def test_a_tile_for_each_thread(asked: Asked, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = asked.engine(config)
    monkeypatch.setattr(groups, "_LARGE_BYTES", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for rows in (list(range(COUNT)), [5], [7, 8], list(range(11))):
            assert_same(whole, part(asked, rows).engine(config), rows)
    finally:
        torch.set_num_threads(before)


def test_banks_beside_it(asked: Asked, config: Config) -> None:
    whole = asked.engine(config)
    searcher, index = asked.memory._searcher, asked.index
    for bank in dict.fromkeys(asked.banks):
        mine = [at for at, name in enumerate(asked.banks) if name == bank]
        alone = part(asked, mine)
        # a stack that holds this bank only, and one that holds every bank in another order
        assert_same(whole, alone.engine(config), mine)
        others = [name for name in reversed(list(index.banks)) if name != bank]
        ready = searcher.prepare(
            index, [*alone.profiles, *(alone.profiles[0] for _ in others)], [*alone.banks, *others], config
        )
        stack = ready.stack
        batch = searcher.prepare(index, alone.profiles, alone.banks, config).batch
        place = list(ready.views).index(bank)
        found = retrieve(stack, np.full(len(mine), place), batch, alone.masks(), config)
        assert_same(whole, found, mine)


def digest() -> str:
    """Everything that a small memory answers, as one number."""
    memory = odd_memory(14)
    asked = Asked(memory, *odd_questions(memory, 14))
    ranked = asked.engine(memory.config)
    found = hashlib.blake2b(digest_size=16)
    for name in ("rows", "rules", "scores", "graph", "hierarchy"):
        found.update(getattr(ranked, name).tobytes())
    return found.hexdigest()


def test_hash_seeds(repo_root: Path) -> None:
    code = "from tests.pipeline.test_batch_invariance import digest; print(digest())"
    path = os.pathsep.join([str(repo_root), str(repo_root / "kernels")])
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code], text=True, stdout=subprocess.PIPE, cwd=repo_root,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path},
        )
        for seed in ("0", "1", "2")
    ]  # fmt: skip
    found = {run.communicate()[0].strip() for run in runs}
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert found == {digest()}


class TestVersions:
    """What a search reads belongs to the version that it began with, however that came to be."""

    def test_a_cached_stack_keeps_its_banks(self) -> None:
        # a key made of ids would let a newer bank at the same address find an old stack
        memory = small_memory()
        memory.add(Trace("1", "Ann sang"))
        memory.search("who sang")
        assert memory._index is not None
        kept = weakref.ref(memory._index.banks["default"])
        memory.add(Trace("2", "Bob sang"))
        gc.collect()
        assert kept() is not None
        assert [e.trace.id for e in memory.search("who sang", top_k=9)] != []

    def test_a_bank_without_any_entity(self) -> None:
        memory = small_memory()
        memory.add([Trace(str(n), f"nobody sang {n}") for n in range(3)])
        assert len(memory.search("who sang", top_k=9)) == 3

    @pytest.mark.parametrize("vectors", ["pooled", "encoded"])
    def test_an_update_leaves_no_trace_of_what_it_replaced(self, vectors: str) -> None:
        def made(*parts: list[Trace]) -> Memory:
            memory = small_memory(Config(window_vectors=vectors, align_floor=0.05))  # type: ignore[arg-type]
            for part in parts:
                memory.add(part)
            return memory

        def story(second: str) -> list[Trace]:
            texts = ("Ann came home", second, "the red door", "Bob sang")
            return [Trace(f"t{n}", text, turn=n, speaker="Ann") for n, text in enumerate(texts)]

        updated = made(story("Oslo was cold"), story("Bergen was warm")[1:2])
        fresh = made(story("Bergen was warm"))
        for question in ("Was Oslo cold?", "Who was in Bergen?"):
            one, two = (m.search(question, top_k=9) for m in (updated, fresh))
            assert [(e.trace.id, e.score) for e in one] == [(e.trace.id, e.score) for e in two]
