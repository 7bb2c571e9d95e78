"""Alignment: the entities of a question in its bank, by name or by the vectors of names (method.md 3.1)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from zeromem_gpu.retrieve.groups import Group
from zeromem_kernels.lexical import lookup
from zeromem_kernels.similarity import best_match


def align(group: Group, floor: float) -> Tensor:
    """η₀: 1 on the entity of the same name, else the cosine of the most similar one if it passes `floor`.

    Returns:
        float32 [entity rows, width]; the larger value where two query entities meet.
    """
    axis, stack, batch = group.axes["entities"], group.stack, group.batch
    keys = batch.entities.take(group.query)
    banks, width = group.banks_of(keys), group.tiles.width
    rows = lookup(group.upload(banks), group.upload(keys.values), stack.ptr["entities"], stack.entity_keys)
    eta = torch.where(rows >= 0, 1.0, 0.0)
    # names that some bank of the batch does not know; in this one they may be known
    at = batch.entity_vectors.find(keys.values)
    asked = np.flatnonzero(at >= 0)
    if len(asked):
        place, wanted = group.upload(asked), group.upload(batch.entity_vectors.vectors[at[asked]])
        cosine, row = best_match(stack.entity_vectors, wanted, torch.from_numpy(banks[asked]))
        unknown, near = rows[place] < 0, cosine >= floor
        eta[place] = torch.where(unknown, torch.where(near, cosine, 0.0), 1.0)
        rows[place] = torch.where(unknown, torch.where(near, row, -1), rows[place])
    out = axis.full(0.0)
    if axis.rows == 0:
        return out
    slot = np.repeat(np.arange(len(group.query)), np.diff(keys.ptr))
    first = group.upload(axis.host_starts[slot // width] * width + slot % width)
    # an entity that was not found adds 0 to a row of its tile, or of the last, where its own has none
    flat = (first + rows.clamp(min=0).long() * width).clamp(max=out.numel() - 1)
    out.view(-1).scatter_reduce_(0, flat, torch.where(rows >= 0, eta, 0.0), "amax")
    return out
