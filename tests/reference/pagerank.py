"""The weighted graph, the reset vector and three ways to the same Personalized PageRank.

Nodes are the units, then the entities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tests.reference.facts import Array, Mask, Span


def edge_weights(
    counts: Sequence[Mapping[str, int]],
    rows: Mapping[str, int],
    sessions: Sequence[Span],
    chain_weight: float,
) -> Array:
    """W: w(i, e) = c(e, i)/Σc in both directions, `chain_weight` between neighbours of a session."""
    units = len(counts)
    weights = np.zeros((units + len(rows), units + len(rows)))
    for i, names in enumerate(counts):
        total = sum(names.values())
        for name, count in names.items():
            weights[i, units + rows[name]] = weights[units + rows[name], i] = count / total
    for first, last in sessions:
        for i in range(first, last):
            weights[i, i + 1] = weights[i + 1, i] = chain_weight
    return weights


def transition(weights: Array) -> Array:
    """Pᵀ = W D⁻¹, d the row sums of W; columns of nodes without edges are zero."""
    degrees = weights.sum(axis=1)
    inverse = np.divide(1.0, degrees, out=np.zeros(len(degrees)), where=degrees > 0)
    scaled: Array = weights * inverse[None, :]
    return scaled


def reset_vector(eta: Array, cosine01: Array, visible: Mask, entity_share: float, power: float) -> Array:
    """r = entity_share · η/Ση on entities + (1 − entity_share) · prior/Σprior on visible units.

    prior = mm(cos)^power (0⁰ = 1). A part without mass leaves all to the other; both without: r = 0.
    """
    prior = np.where(visible, cosine01**power, 0.0)
    on_units, on_entities = float(prior.sum()), float(eta.sum())
    if on_units == 0.0:
        entity_share = 1.0
    elif on_entities == 0.0:
        entity_share = 0.0
    reset = np.zeros(len(prior) + len(eta))
    if on_units > 0.0:
        reset[: len(prior)] = (1.0 - entity_share) * prior / on_units
    if on_entities > 0.0:
        reset[len(prior) :] = entity_share * eta / on_entities
    return reset


def l1_residual(x: Array, reset: Array, matrix: Array, gamma: float, shown: Mask) -> float:
    """‖(1 − γ) r + γ W D⁻¹ x − x‖₁ over shown nodes; the L1 error of x is at most this / (1 − γ)."""
    residual = (1.0 - gamma) * reset + gamma * (matrix @ x) - x
    return float(np.abs(residual[shown]).sum())


def solve(reset: Array, matrix: Array, gamma: float, shown: Mask) -> Array:
    """x of x = (1 − γ) r + γ W D⁻¹ x with x = 0 on nodes not shown, by a dense linear solve."""
    x = np.zeros(len(reset))
    system = np.eye(int(shown.sum())) - gamma * matrix[np.ix_(shown, shown)]
    x[shown] = np.linalg.solve(system, (1.0 - gamma) * reset[shown])
    return x


def power_iteration(
    reset: Array, matrix: Array, gamma: float, shown: Mask, tolerance: float
) -> tuple[Array, int]:
    """x ← (1 − γ) r + γ W D⁻¹ x until residual / (1 − γ) ≤ tolerance; also the number of sweeps."""
    x = np.zeros(len(reset))
    sweeps = 0
    while l1_residual(x, reset, matrix, gamma, shown) / (1.0 - gamma) > tolerance:
        x = np.where(shown, (1.0 - gamma) * reset + gamma * (matrix @ x), 0.0)
        sweeps += 1
    return x, sweeps


def colours(units: int, entities: int) -> list[list[int]]:
    """Entities, even units, odd units: no edge joins two nodes of one colour."""
    return [list(range(units, units + entities)), list(range(0, units, 2)), list(range(1, units, 2))]


def sor_sweep(
    x: Array,
    reset: Array,
    matrix: Array,
    gamma: float,
    shown: Mask,
    groups: Sequence[Sequence[int]],
    omega: float,
) -> Array:
    """One sweep, colour by colour: x_i ← (1 − ω) x_i + ω ((1 − γ) r_i + γ Σ_j (W D⁻¹)_ij x_j)."""
    x = x.copy()
    for group in groups:
        for i in group:
            if shown[i]:
                target = (1.0 - gamma) * reset[i] + gamma * float((matrix[i] * x).sum())
                x[i] = (1.0 - omega) * x[i] + omega * target
    return x


def sor(
    reset: Array,
    matrix: Array,
    gamma: float,
    shown: Mask,
    groups: Sequence[Sequence[int]],
    omega: float,
    tolerance: float,
) -> tuple[Array, int]:
    """Sweeps until residual / (1 − γ) ≤ tolerance; also their number."""
    x = np.zeros(len(reset))
    sweeps = 0
    while l1_residual(x, reset, matrix, gamma, shown) / (1.0 - gamma) > tolerance:
        x = sor_sweep(x, reset, matrix, gamma, shown, groups, omega)
        sweeps += 1
    return x, sweeps


def rescaled(x: Array) -> Array:
    """π = x / Σx over units and entities; zero where x is."""
    total = float(x.sum())
    return x / total if total > 0.0 else x
