"""Random draws of the strong flat ranking's weights, on LoCoMo's tuning conversations only.

    python -m benchmarks.quality.fit_flat --data ../shared/data/locomo --draws 120 --seed 1

It maximises recall@5 + recall@10, prints every improvement, then the winner, which
`zeromem_gpu/evaluate/flat.py` holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from zeromem_gpu import Memory
from zeromem_gpu.evaluate.datasets import LOCOMO_TUNING, load_locomo
from zeromem_gpu.evaluate.flat import FlatBank, StrongWeights, flat_banks

LOWEST = StrongWeights(words=0.5, near_words=0.0, near_vectors=0.0, speaker=0.1, spread=0.0)
HIGHEST = StrongWeights(words=2.0, near_words=1.5, near_vectors=1.0, speaker=0.6, spread=0.3)
CUTOFFS = (5, 10)


def main(
    data: Annotated[Path, typer.Option(help="Folder with locomo10.json.")],
    draws: Annotated[int, typer.Option(help="Weights to try.")] = 120,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 1,
    encoder: Annotated[str, typer.Option(help="As for `zeromem-gpu eval`.")] = "minilm",
    cache: Annotated[Path | None, typer.Option(help="Encoder and NER cache.")] = None,
) -> None:
    """Draw, print each improvement, then the winner."""
    generator = np.random.default_rng(seed)
    memory = Memory(encoder=encoder, device="cpu", cache_dir=cache)
    banks = list(flat_banks(load_locomo(data, conversations=LOCOMO_TUNING), memory))
    best, goal = None, -1.0
    for draw in range(draws):
        # three digits are what is drawn, so that what is printed is what was measured
        weights = StrongWeights(*np.round(generator.uniform(LOWEST, HIGHEST), 3).tolist())
        recall = mean_recall(banks, weights)
        if sum(recall) > goal:
            best, goal = weights, sum(recall)
            shown = " ".join(f"R@{k} {value:.4f}" for k, value in zip(CUTOFFS, recall, strict=True))
            typer.echo(f"{draw:4d} {shown} {tuple(weights)}")
    typer.echo(best)


def mean_recall(banks: list[FlatBank], weights: StrongWeights) -> list[float]:
    """Recall at each cutoff, averaged over the scored questions of all banks."""
    rows: list[list[float]] = []
    for bank in banks:
        ranked = bank.rank(bank.strong(weights), max(CUTOFFS), "strong")
        for question, ranking in zip(bank.questions, ranked, strict=True):
            if question.scored:
                found = [one.id in question.gold for one in ranking]
                rows.append([sum(found[:k]) / len(question.gold) for k in CUTOFFS])
    return np.mean(rows, axis=0).tolist()  # type: ignore[no-any-return]


if __name__ == "__main__":
    typer.run(main)
