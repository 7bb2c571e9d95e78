"""Activation propagation over the sentence–entity incidence (method.md 3.2), for a batch of queries.

η_{t+1} = Mᵀ (S ∘ (M η_t)) with S[z, q] = max(0, cos(q, z)): the printed double sum over entities and the
sentences they share, e = e' included. The pruned form drops weak sentences from S and weak entities from
η_t. Each η_t is divided by its maximum, which no later stage sees and which keeps hubs inside float32.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from zeromem_kernels.checks import expect, expect_number, expect_whole
from zeromem_kernels.scale import tile_reduce
from zeromem_kernels.spmm import tile_spmm
from zeromem_kernels.tiles import Axis, Csr, compiled, mask_of, on_triton, run_tiles, slice_table

_ROUNDING = 1e-5


def sentence_gate(similarity: Tensor, axis: Axis, hidden: Tensor | None, floor: float) -> Tensor:
    """S: the similarities clamped at 0, without hidden sentences and those below `floor` times the best.

    Args:
        similarity: cos(q, z), float32 [sentence rows, width].
        axis: the sentence axis.
        hidden: bool [sentence rows, width], or None.
        floor: share of the best sentence; 0 keeps all (the literal form).

    Returns:
        float32 [sentence rows, width].
    """
    gate = similarity.clamp(min=0.0)
    if hidden is not None:
        gate = gate.masked_fill(hidden, 0.0)
    return _prune(gate, axis, floor)


def propagate(
    seeds: Tensor,
    similarity: Tensor,
    hidden: Tensor | None,
    incidence: Csr,
    transposed: Csr,
    sentences: Axis,
    entities: Axis,
    *,
    steps: int,
    floor: float,
    sentence_floor: float,
    exclude_self: bool,
) -> Tensor:
    """Σ_t η_t over `steps` propagation steps, the seeds included.

    Args:
        seeds: η₀, float32 [entity rows, width], not negative.
        similarity: cos(q, z), float32 [sentence rows, width].
        hidden: bool [sentence rows, width] of sentences that pass nothing on, or None.
        incidence: M, rows sentences, indices entities, weights 1.
        transposed: Mᵀ, rows entities, indices sentences.
        sentences: the sentence axis.
        entities: the entity axis.
        steps: how many times to propagate.
        floor: entities below this share of the best are not active; 0 keeps all (the literal form).
        sentence_floor: the same for sentences.
        exclude_self: leave e = e' out of the sum.

    Returns:
        float32 [entity rows, width]; zero where the seeds are zero.

    Raises:
        InvalidTensor: an argument of another dtype, shape, device or range.
    """
    device, width = entities.ptr.device, entities.tiles.width
    expect("seeds", seeds, torch.float32, (entities.rows, width), device)
    expect("similarity", similarity, torch.float32, (sentences.rows, width), device)
    if hidden is not None:
        expect("hidden", hidden, torch.bool, (sentences.rows, width), device)
    expect_whole("steps", steps, 0, 1000)
    expect_number("floor", floor, 0.0, 1.0)
    expect_number("sentence_floor", sentence_floor, 0.0, 1.0)
    if on_triton(seeds):
        from zeromem_kernels.gpu import activation
        from zeromem_kernels.gpu.launch import room

        gate = (
            sentence_gate(similarity, sentences, hidden, sentence_floor) if exclude_self and steps else None
        )
        with room(f"activation over {sentences.rows} sentence rows of {width} columns", device):
            return activation.propagate(
                seeds, similarity, hidden,
                incidence.slices or slice_table(incidence, sentences.ptr, entities.ptr),
                transposed.slices or slice_table(transposed, entities.ptr, sentences.ptr),
                sentences, entities,
                steps=steps, floor=floor, sentence_floor=sentence_floor, gate=gate, rounding=_ROUNDING,
            )  # fmt: skip
    if sentence_floor > 0 and (cpu := compiled(seeds)):
        total = torch.zeros_like(seeds)
        floors = (np.float32(floor), np.float32(sentence_floor))
        run_tiles(cpu.propagate, entities.tiles, entities.tiles.bank, incidence.indptr, incidence.indices,
                  sentences.ptr, sentences.starts, entities.starts, seeds, similarity, mask_of(hidden),
                  steps, *floors, exclude_self, np.float32(_ROUNDING), total)  # fmt: skip
        return total
    gate = sentence_gate(similarity, sentences, hidden, sentence_floor)
    own = tile_spmm(transposed, gate, sentences, entities) if exclude_self and steps else None
    total = eta = _prune(seeds, entities, floor)
    for _ in range(steps):
        spread = gate * tile_spmm(incidence, eta, entities, sentences)
        following = tile_spmm(transposed, spread, sentences, entities)
        if own is not None:
            # what is left of an entity that met only itself is rounding, which scaling would blow up
            itself = eta * own
            following = following - itself
            following = torch.where(following > _ROUNDING * itself, following, 0.0)
        top = tile_reduce(following, entities, "amax")
        following = following * torch.where(top > 0, 1.0 / top, 0.0)[entities.tile_of_row]
        eta = _prune(following, entities, floor)
        total = total + eta
    return total


def _prune(x: Tensor, axis: Axis, floor: float) -> Tensor:
    """Zero what lies below `floor` times its column's maximum."""
    if floor <= 0:
        return x
    least = tile_reduce(x, axis, "amax").clamp_(min=0.0) * floor
    return torch.where(x >= least[axis.tile_of_row], x, 0.0)
