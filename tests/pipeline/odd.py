"""Invented histories that use every path of the facts: late turns, updates, blanks, captions, names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import numpy as np

from tests.support import HashEncoder, small_memory
from zeromem_gpu import Config, Memory
from zeromem_gpu.text.entities import ANSWER_TYPES
from zeromem_gpu.types import QueryProfile, Trace

NAMES = ("Ann", "Bob", "Oslo", "Rex", "Mary Lou", "Zürich", "Vega")
WORDS = (
    *NAMES,
    *"the red door opened again while 7 dogs sang in May 2023 and running nobody ran home".split(),
)
START = datetime(2023, 5, 1)


class Faulty(HashEncoder):
    """A hash encoder whose vector of some texts is zero."""

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Zero where the text speaks of dogs and a door."""
        rows = super().encode(texts, progress)
        rows[[at for at, text in enumerate(texts) if "dogs" in text and "door" in text]] = 0.0
        return rows


def odd_memory(seed: int, config: Config | None = None, encoder: HashEncoder | None = None) -> Memory:
    """Four banks, added in several parts and with updates; one has a single trace, one no entity at all."""
    rng = np.random.default_rng(seed)
    memory = small_memory(config, encoder=encoder or Faulty())
    traces = [_trace(rng, bank, at) for bank, size in (("a", 60), ("b", 25)) for at in range(size)]
    order = rng.permutation(len(traces))
    for part in np.array_split(order, 3):
        memory.add([traces[at] for at in part])
    memory.add([_trace(rng, "a", int(at)) for at in rng.choice(60, size=12, replace=False)])
    memory.add(Trace("only", "Ann met Bob in Oslo.", bank="single", speaker="Ann", time=START))
    memory.add([Trace(f"n{at}", "red doors and dogs sang"[: 5 * at], bank="bare") for at in range(5)])
    return memory


def _trace(rng: np.random.Generator, bank: str, at: int) -> Trace:
    def words(low: int, high: int) -> str:
        return " ".join(rng.choice(WORDS, size=int(rng.integers(low, high))))

    text = ". ".join(words(0, 7) for _ in range(int(rng.choice([0, 1, 2, 40], p=[0.1, 0.4, 0.45, 0.05]))))
    return Trace(
        id=f"t{at}",
        text=text + "?" * (at % 3 == 0),
        bank=bank,
        session=f"s{rng.integers(0, 4)}",
        turn=int(rng.integers(0, 30)) if rng.random() < 0.8 else None,
        time=START + timedelta(hours=int(rng.integers(0, 900))) if rng.random() < 0.9 else None,
        speaker=str(rng.choice(["Ann", "Bob", "Mary Lou"])) if rng.random() < 0.8 else None,
        caption=words(1, 4) if rng.random() < 0.2 else None,
        entities=tuple(map(str, rng.choice(NAMES, size=2))) if rng.random() < 0.2 else (),
    )  # fmt: skip


def odd_questions(memory: Memory, seed: int, count: int = 40) -> tuple[list[str], list[QueryProfile]]:
    """Banks and profiles; some entities are unknown to their bank, some phrases hold unknown words."""
    rng = np.random.default_rng(seed + 1000)
    names = (*NAMES, "Ann Oslo", "Atlantis", "the Zürich")

    def some(of: Sequence[str], most: int) -> tuple[str, ...]:
        return tuple(str(one) for one in rng.choice(of, size=int(rng.integers(0, most + 1))))

    def phrase() -> str:
        return " ".join(rng.choice([*WORDS[len(NAMES) :], "unheard"], size=int(rng.integers(1, 4))))

    # without "dogs": a question must have a vector
    spoken = [word for word in (*WORDS, "unheard") if word != "dogs"]
    begin = START.timestamp()
    profiles = [
        QueryProfile(
            text=" ".join(rng.choice(spoken, size=int(rng.integers(1, 9)))),
            subjects=some(names, 2),
            entities=some(names, 3),
            phrases=tuple(phrase() for _ in range(int(rng.integers(0, 4)))),
            answer_type=str(rng.choice([*ANSWER_TYPES, "entity"])),
            validity=(
                None if rng.random() < 0.3 else begin + 86400.0 * float(rng.integers(0, 30)),
                None if rng.random() < 0.3 else begin + 86400.0 * float(rng.integers(30, 40)),
            ) if rng.random() < 0.6 else None,
            route="relational" if rng.random() < 0.5 else "local",
        )
        for _ in range(count)
    ]  # fmt: skip
    return [str(bank) for bank in rng.choice(["a", "a", "b", "single", "bare"], size=count)], profiles
