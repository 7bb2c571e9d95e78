"""Activation spreading over the sentences that entities share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tests.reference.facts import Array, Mask


def sentence_similarity(cosine: Array, visible: Mask, floor: float | None) -> tuple[Array, float]:
    """S[z] = max(0, cos(q, z)), 0 where z's unit is hidden; with a floor (pruned) 0 below floor · max S.

    Also the margin of the floor, relative to max S.
    """
    similarity = np.where(visible, np.maximum(cosine, 0.0), 0.0)
    best = float(similarity.max()) if similarity.size else 0.0
    if floor is None or best == 0.0:
        return similarity, math.inf
    positive = similarity[similarity > 0]
    margin = float(np.abs(positive / best - floor).min())
    return np.where(similarity < floor * best, 0.0, similarity), margin


def prune(eta: Array, floor: float) -> tuple[Array, float]:
    """η(e) = 0 where η(e) < floor · max η; also the margin, relative to max η."""
    best = float(eta.max()) if eta.size else 0.0
    if best <= 0.0:
        return eta, math.inf
    positive = eta[eta > 0]
    margin = float(np.abs(positive / best - floor).min())
    return np.where(eta < floor * best, 0.0, eta), margin


def step_printed(
    eta: Array, similarity: Array, members: Sequence[Sequence[int]], exclude_self: bool
) -> Array:
    """η'(e') = Σ_e η(e) · Σ_{z ∈ Z(e) ∩ Z(e')} S[z]; `exclude_self` leaves e = e' out.

    `members[z]` lists the entity rows of sentence z, each once.
    """
    result = np.zeros(len(eta))
    for z, rows in enumerate(members):
        if similarity[z] == 0.0:
            continue
        for target in rows:
            for source in rows:
                if source != target or not exclude_self:
                    result[target] += eta[source] * similarity[z]
    return result


def step_matrix(eta: Array, similarity: Array, matrix: Array, exclude_self: bool) -> Array:
    """η' = Mᵀ(S ∘ (M η)), and with `exclude_self` minus η ∘ (MᵀS)."""
    result: Array = matrix.T @ (similarity * (matrix @ eta))
    return result - eta * (matrix.T @ similarity) if exclude_self else result


def to_unit_maximum(eta: Array) -> Array:
    """η / max η; η itself where the maximum is 0."""
    best = float(eta.max()) if eta.size else 0.0
    return eta / best if best > 0.0 else eta


def spread_activation(
    eta: Array,
    similarity: Array,
    members: Sequence[Sequence[int]],
    steps: int,
    floor: float | None,
    exclude_self: bool,
) -> tuple[Array, float]:
    """η = Σ_t η_t over t = 0 … steps, and the margin of the closest pruning decision.

    η₀ as given, each later η_t divided by its maximum. With a floor (pruned), every η_t, the first and
    the last included, is pruned before it enters the sum and the next step.
    """
    margin = math.inf
    total = np.zeros(len(eta))
    for step in range(steps + 1):
        if step > 0:
            eta = to_unit_maximum(step_printed(eta, similarity, members, exclude_self))
        if floor is not None:
            eta, closest = prune(eta, floor)
            margin = min(margin, closest)
        total += eta
    return total, margin
