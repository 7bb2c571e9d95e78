"""How PageRank's solvers move and when they stop: relaxation, numbers of sweeps, the scale of float16."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# a residual is worth its pass only near the end: every graph measured needs at least this many sweeps
UNCHECKED_SWEEPS = 6
# float32 sums stop improving the residual near 1e-7; more sweeps than this only repeat rounding
_MOST_SWEEPS = 64


def omega(gamma: float) -> float:
    """The relaxation that is optimal for a bipartite graph: 2/(1 + √(1−γ²))."""
    return 2.0 / (1.0 + math.sqrt(1.0 - gamma * gamma))


def most_sweeps(gamma: float, solver: str) -> int:
    """Where to stop at the latest: a sweep gains γ by power iteration, about √(ω−1) at worst by SOR."""
    rate = gamma if solver == "power" else math.sqrt(omega(gamma) - 1.0)
    return max(_MOST_SWEEPS, math.ceil(math.log(1e-9) / math.log(rate))) if rate > 0 else _MOST_SWEEPS


def sweeps_for(gamma: float, tolerance: float, solver: str) -> int:
    """Sweeps after which the L1 error is at most `tolerance`.

    Power iteration from r: ‖π_T − π‖₁ ≤ 2γ^(T+1). SOR: a gain of (ω−1)^¾ a sweep, below what every graph
    measured gained; on a bipartite graph it is ω−1.
    """
    rate = gamma if solver == "power" else (omega(gamma) - 1.0) ** 0.75
    if rate <= 0.0:
        return 1
    sweeps = math.ceil(math.log(tolerance / 2.0) / math.log(rate))
    return max(sweeps - (solver == "power"), 1)


def total_sweeps(sweeps: tuple[int, int] | None) -> int:
    """Passes over the graph: y's sweeps and, where it is corrected, the residual and the correction's."""
    return 0 if sweeps is None else sweeps[0] + sweeps[1] + (sweeps[1] > 0)


def power_of_two(peaks: Tensor) -> Tensor:
    """The scale that brings each peak into [2¹³, 2¹⁴), float32 of their shape; 1 for a column without mass.

    As max y ≤ max r/d holds throughout, float16 does not overflow even where SOR overshoots threefold.
    """
    exponent = torch.frexp(peaks).exponent
    return torch.where(peaks > 0, torch.ldexp(torch.ones_like(peaks), 14 - exponent), 1.0)
