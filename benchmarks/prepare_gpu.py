"""Write what `gpu.py` needs of LoCoMo, on a machine that has the encoder.

    python -m benchmarks.prepare_gpu --data ../shared/data/locomo --out benchmarks/gpu_locomo.npz

Runs the pipeline up to the array kernels and stores their inputs: graphs, incidences, aligned entities,
sentence similarities, priors and the scores of both views, all questions in tiles of one width.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from torch import Tensor

from benchmarks.gpu_locomo import AXES
from zeromem_gpu import Config, Memory
from zeromem_gpu.evaluate.datasets import load_locomo
from zeromem_gpu.retrieve.align import align
from zeromem_gpu.retrieve.graph_view import graph_view
from zeromem_gpu.retrieve.groups import Group
from zeromem_gpu.retrieve.hierarchy_view import hierarchy_view
from zeromem_gpu.retrieve.signals import Signals
from zeromem_kernels.tiles import Csr, Tiles

_LIMIT = 40_000_000


def main(
    data: Annotated[Path, typer.Option(help="Folder with locomo10.json.")],
    out: Annotated[Path, typer.Option(help="The .npz to write.")] = Path("benchmarks/gpu_locomo.npz"),
    encoder: Annotated[str, typer.Option(help="As for `zeromem-gpu eval`.")] = "minilm",
    cache: Annotated[Path | None, typer.Option(help="Encoder and NER cache.")] = None,
    width: Annotated[int, typer.Option(help="Questions in a tile.")] = 32,
) -> None:
    """Index LoCoMo, read its questions, store the kernels' inputs."""
    dataset = load_locomo(data)
    memory = Memory(encoder=encoder, device="cpu", cache_dir=cache)
    memory.add(dataset.traces)
    asked = dataset.questions
    arrays = prepared(memory, [one.text for one in asked], [one.bank for one in asked], width)
    np.savez_compressed(out, **arrays)
    size = out.stat().st_size
    typer.echo(f"{out}: {len(asked)} questions, {len(arrays['tile_bank'])} tiles, {size / 1e6:.1f} MB")
    if size > _LIMIT:
        raise typer.BadParameter(f"{size} bytes; allowed: {_LIMIT}", param_hint="--out")


def prepared(
    memory: Memory, texts: Sequence[str], names: Sequence[str], width: int
) -> dict[str, np.ndarray]:
    """The arrays of one batch, each question asked of the bank of the same place."""
    searcher, index, config = memory._searcher, memory._index, memory.config
    if index is None:
        raise ValueError("the memory is empty")
    profiles = searcher.profiles(index, texts, names, config)
    ready = searcher.prepare(index, profiles, names, config)
    banks, query = _tiled(ready.bank_of, width)
    group = Group(ready.stack, ready.batch, Tiles(torch.from_numpy(banks), width), query.reshape(-1))
    signals = Signals(group, config)
    seeds = align(group, config.align_floor)
    at = torch.nonzero(seeds.view(-1)).flatten()
    share = torch.where(group.spread(ready.batch.relational), config.rho, 1.0 - config.rho)
    stack, graph = ready.stack, ready.stack.graph
    arrays = {f"ptr_{name}": stack.ptr[name] for name in AXES}
    arrays |= _table("graph", graph.weights) | {"graph_weights": graph.weights.weights}
    arrays |= _table("incidence", stack.incidence) | _table("transposed", stack.incidence_transposed)
    arrays |= {
        "degree": graph.degree, "colour_rows": graph.colour_rows, "colour_ptr": graph.colour_ptr,
        "tile_bank": group.tiles.bank, "share": share,
        "taken": torch.from_numpy(query >= 0),
        "seed_at": at, "seed": seeds.view(-1)[at],
        "similarity": signals.sentence_cosine.half(), "prior": _prior(signals, config),
        "graph_scores": graph_view(signals).scores.half(),
        "hierarchy_scores": hierarchy_view(signals).scores.half(),
    }  # fmt: skip
    return {name: value.numpy() for name, value in arrays.items()}


def _tiled(bank_of: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The bank of each tile and the questions in its slots, −1 for an empty one."""
    banks, slots = [], []
    for bank in np.unique(bank_of):
        mine = np.flatnonzero(bank_of == bank)
        for first in range(0, len(mine), width):
            part = mine[first : first + width]
            banks.append(bank)
            slots.append(np.pad(part, (0, width - len(part)), constant_values=-1))
    return np.array(banks, np.int64), np.array(slots, np.int64).reshape(-1, width)


def _table(name: str, csr: Csr) -> dict[str, Tensor]:
    return {f"{name}_indptr": csr.indptr, f"{name}_indices": csr.indices}


def _prior(signals: Signals, config: Config) -> Tensor:
    """The dense context prior, as the graph view forms it."""
    share = config.sentence_share
    return ((1.0 - share) * signals.dense + share * signals.best_sentence).pow(config.prior_power)


if __name__ == "__main__":
    typer.run(main)
