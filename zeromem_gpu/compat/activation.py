"""Activation over the incidence of sentences and entities, for one question or a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from zeromem_gpu import InvalidInput
from zeromem_gpu.compat.columns import as_columns, as_rows, not_negative, read_rows, tiles_for
from zeromem_kernels.activation import propagate
from zeromem_kernels.tiles import Csr


def propagate_activation(
    incidence: Any, similarity: Any, seeds: Any, *, steps: int = 2, entity_floor: float = 0.05,
    sentence_floor: float = 0.8, exclude_self: bool = False,
) -> Any:  # fmt: skip
    """Spread activation from entities through the sentences that name them: η ← Mᵀ (S ∘ (M η)), summed.

    S is the similarity of question and sentence, below 0 taken as 0. After each step the largest activation
    is 1.

    Args:
        incidence: M, a SciPy or torch sparse matrix [sentences, entities], or pairs (sentence, entity), int
            [m, 2]; its values do not count.
        similarity: [sentences] or [k, sentences], finite.
        seeds: [entities] or [k, entities], not negative: how well the question's names match each entity.
        steps: how often to propagate, 0 to 1,000; 0 gives the seeds that pass the floor.
        entity_floor: entities below this share of the best pass nothing on; 0 keeps all, 1 the best.
        sentence_floor: the same for sentences.
        exclude_self: an entity does not activate itself.

    Returns:
        float32 of the shape of `seeds`, the sum over all steps, seeds included; a tensor for a tensor, else
        a NumPy array. No questions give [0, entities]. Raises `InvalidInput` for anything else.

    >>> propagate_activation([[0, 0], [0, 1]], [0.9], [1.0, 0.0]).round(2).tolist()
    [3.0, 2.0]
    """
    _check(steps, entity_floor, sentence_floor)
    eta, single = read_rows("seeds", seeds)
    not_negative("seeds", eta)
    near, _ = read_rows("similarity", similarity)
    if len(near) != len(eta):
        raise InvalidInput("similarity", f"{len(near)} questions", f"{len(eta)}, as many as seeds")
    pairs = _pairs(incidence, near.shape[1], eta.shape[1])
    if not eta.size:
        nothing = eta.astype(np.float32)[0 if single else slice(None)]
        return torch.from_numpy(nothing) if isinstance(seeds, torch.Tensor) else nothing
    tiles = tiles_for(len(eta))
    sentences, entities = (tiles.axis(torch.tensor([0, one.shape[1]])) for one in (near, eta))
    found = propagate(
        as_columns(eta, tiles), as_columns(near, tiles), None,
        _rows_of(pairs[:, 0], pairs[:, 1], near.shape[1]), _rows_of(pairs[:, 1], pairs[:, 0], eta.shape[1]),
        sentences, entities,
        steps=steps, floor=entity_floor, sentence_floor=sentence_floor, exclude_self=exclude_self,
    )  # fmt: skip
    return as_rows(found, tiles, len(eta), seeds, single)


def _check(steps: int, entity_floor: float, sentence_floor: float) -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or not 0 <= steps <= 1000:
        raise InvalidInput("steps", repr(steps), "a whole number from 0 to 1000")
    for name, floor in (("entity_floor", entity_floor), ("sentence_floor", sentence_floor)):
        if not isinstance(floor, int | float) or not 0 <= floor <= 1:
            raise InvalidInput(name, repr(floor), "a number from 0 to 1")


def _pairs(incidence: Any, sentences: int, entities: int) -> np.ndarray:
    """Distinct pairs (sentence, entity) int64 [m, 2], sorted."""
    if hasattr(incidence, "tocoo"):
        shape, coo = tuple(incidence.shape), incidence.tocoo()
        pairs = np.stack([coo.row, coo.col], 1)[np.asarray(coo.data) != 0]
    elif isinstance(incidence, torch.Tensor) and incidence.layout != torch.strided:
        shape, coo = tuple(incidence.shape), incidence.detach().cpu().to_sparse_coo().coalesce()
        pairs = coo.indices().T.numpy()[coo.values().numpy() != 0]
    else:
        shape, pairs = (sentences, entities), np.asarray(incidence)
        pairs = pairs.reshape(0, 2).astype(np.int64) if pairs.size == 0 else pairs
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InvalidInput(
            "incidence", f"shape {list(np.shape(incidence))}", "a sparse matrix, or int pairs [m, 2]"
        )
    if shape != (sentences, entities):
        raise InvalidInput("incidence", f"shape {list(shape)}", f"[{sentences}, {entities}]")
    if len(pairs) and (pairs.min() < 0 or (pairs.max(0) >= np.array(shape)).any()):
        raise InvalidInput("incidence", "a sentence or entity that there is not", f"below {list(shape)}")
    return np.unique(pairs.astype(np.int64), axis=0).reshape(-1, 2)


def _rows_of(row: np.ndarray, column: np.ndarray, rows: int) -> Csr:
    order = np.lexsort((column, row))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int64)
    indices = torch.from_numpy(column[order].astype(np.int32))
    return Csr(torch.from_numpy(indptr), indices, torch.ones(len(indices)))
