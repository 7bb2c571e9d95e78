"""Random search over the weights of both views, on LoCoMo's tuning conversations only.

    python -m benchmarks.quality.tune --data ../shared/data/locomo --draws 2000 --seed 3

A quarter of the draws is uniform, the rest moves one to three fields of the best so far. It maximises
recall@5 + recall@10. What the paper fixes (γ, ρ, K) is not searched. Every improvement is printed.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality.locomo import Locomo
from zeromem_gpu import Config
from zeromem_gpu.evaluate.datasets import LOCOMO_TUNING

# fields and the range in which they are drawn
SPACE: dict[str, tuple[float, float]] = {
    "lexical": (0.5, 2.0),
    "phrase": (0.0, 1.0),
    "subject": (0.1, 3.0),
    "temporal": (0.0, 1.0),
    "answer_type": (0.0, 0.5),
    "local_share": (0.0, 1.5),
    "window_share": (0.0, 2.0),
    "episode_share": (0.0, 0.5),
    "neighbour_share": (0.0, 0.4),
    "graph_lexical": (0.2, 6.0),
    "graph_phrase": (0.0, 1.5),
    "graph_subject": (0.0, 3.0),
    "entity_share": (0.1, 0.6),
    "prior_power": (1.0, 40.0),
    "sentence_floor": (0.2, 0.9),
    "chain_weight": (0.1, 2.0),
    "candidates": (12.0, 100.0),
}
_WHOLE = {"candidates"}


def main(
    data: Annotated[Path, typer.Option(help="Folder with locomo10.json.")],
    draws: Annotated[int, typer.Option(help="Configurations to try.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the random search.")] = 0,
    encoder: Annotated[str, typer.Option(help="As for `zeromem-gpu eval`.")] = "minilm",
    cache: Annotated[Path | None, typer.Option(help="Encoder and NER cache.")] = None,
) -> None:
    """Search, print each improvement, then the best configuration."""
    generator = random.Random(seed)
    locomo = Locomo(data, LOCOMO_TUNING, Config(), encoder, cache)
    best, goal = Config(), -1.0
    for draw in range(draws + 1):
        config = best if draw == 0 else _draw(generator, best, fresh=draw <= draws // 4)
        recall = locomo.recall(config)
        value = float(sum(recall[k][locomo.scored].mean() for k in (5, 10)))
        if value > goal:
            best, goal = config, value
            typer.echo(f"{draw:5d} {value:.4f} {locomo.line(recall)}")
    typer.echo({name: getattr(best, name) for name in SPACE})


def _draw(generator: random.Random, best: Config, *, fresh: bool) -> Config:
    """A configuration drawn uniformly, or one to three fields away from the best."""
    names = list(SPACE) if fresh else generator.sample(list(SPACE), generator.choice((1, 2, 3)))
    changes: dict[str, float] = {}
    for name in names:
        low, high = SPACE[name]
        centre = float(getattr(best, name))
        value = generator.uniform(low, high) if fresh else generator.gauss(centre, 0.2 * (high - low))
        value = min(max(value, low), high)
        changes[name] = round(value) if name in _WHOLE else round(value, 3)
    return best.replace(**changes)


if __name__ == "__main__":
    typer.run(main)
