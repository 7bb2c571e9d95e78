"""Invented banks and questions for the tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.reference.facts import Array, BankFacts, QueryFacts, Sentence, Token, Unit

X, Y = np.array([1.0, 0.0]), np.array([0.0, 1.0])
HOUR = 3600.0


def unit(
    text: str = "",
    *,
    session: str = "s",
    vector: Array = X,
    speaker: str | None = None,
    mentions: Sequence[tuple[str, int]] = (),
    time: float | None = None,
    type_mask: int = 0,
    caption: str = "",
) -> Unit:
    """A unit whose stems are its words; "the" is a stop word."""
    parts: list[list[tuple[Token, Token]]] = [
        [(word, "" if word == "the" else word) for word in part.split()]
        for part in (speaker or "", text, caption)
    ]
    return Unit(text or "t", session, time, speaker, parts, type_mask, list(mentions), vector)


def random_bank(seed: int, units: int = 23, known: int = 7, width: int = 5) -> BankFacts:
    """Sessions of uneven length, entities with several mentions, zero vectors, a unit without entities."""
    rng = np.random.default_rng(seed)
    names = [f"e{k}" for k in range(known)]
    rows: list[Unit] = []
    sentences: list[Sentence] = []
    for i in range(units):
        words = " ".join(f"w{w}" for w in rng.integers(0, 9, size=rng.integers(0, 6)))
        held = [(names[k], int(rng.integers(1, 4))) for k in rng.choice(known - 1, size=rng.integers(0, 4))]
        vector = rng.normal(size=width) if i % 11 != 5 else np.zeros(width)
        rows.append(
            unit(
                words,
                session=f"s{i // 9}",
                vector=vector / max(1e-9, float(np.linalg.norm(vector))),
                speaker=("ann", "bob")[i % 2],
                mentions=held,
                time=i * HOUR,
                type_mask=int(rng.integers(0, 4)),
            )
        )
        for half in (held[: len(held) // 2], held[len(held) // 2 :]):
            sentences.append(Sentence(i, words.split(), [name for name, _ in half], rng.normal(size=width)))
    vectors = {name: rng.normal(size=width) for name in [*names, "ann", "bob"]}
    return BankFacts(rows, sentences, vectors, ["ann", "bob"], {"ann": "ann", "bob": "bob"})


def random_query(seed: int, width: int = 5) -> QueryFacts:
    """A relational question that uses every signal."""
    rng = np.random.default_rng(seed)
    return QueryFacts(
        vector=rng.normal(size=width),
        stems=["w1", "w2", "w2"],
        phrases=[["w1"], ["w2", "w3"]],
        entities=[("e1", rng.normal(size=width)), ("ann", rng.normal(size=width))],
        subjects=["ann"],
        validity=(3 * HOUR, 5 * HOUR),
        type_bit=2,
        route="relational",
    )
