"""How PageRank's solvers move and when they stop: relaxation, numbers of sweeps, the scale of float16."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# a residual is worth its pass only near the end: every graph measured needs at least this many sweeps
UNCHECKED_SWEEPS = 6
# float32 sums stop improving the residual near 1e-7; more sweeps than this only repeat rounding
_MOST_SWEEPS = 64
# nearer to 1, SOR overshoots float16's range, and rounding, amplified by 1/(1−γ), outlasts its correction
MOST_HALF_GAMMA = 0.8


def omega(gamma: float) -> float:
    """The relaxation that is optimal for a bipartite graph: 2/(1 + √(1−γ²))."""
    return 2.0 / (1.0 + math.sqrt(1.0 - gamma * gamma))


def most_sweeps(gamma: float, solver: str) -> int:
    """Where to stop at the latest: a sweep gains γ by power iteration, about √(ω−1) at worst by SOR."""
    rate = gamma if solver == "power" else math.sqrt(omega(gamma) - 1.0)
    return max(_MOST_SWEEPS, math.ceil(math.log(1e-9) / math.log(rate))) if rate > 0 else _MOST_SWEEPS


def sweeps_for(gamma: float, tolerance: float, solver: str) -> int:
    """Sweeps after which the L1 error is about `tolerance`, in exact arithmetic.

    Power iteration from r: ‖π_T − π‖₁ ≤ 2γ^(T+1), a bound. SOR: an estimate, a gain of (ω−1)^¾ a sweep (on
    bipartite graphs ω−1). LoCoMo's graphs stay below the tolerance; the worst small ones found, triangles
    of an entity and two neighbours, exceed it 1.2 times at γ = 0.6, twice at 0.8, tenfold at 0.99.
    Only the residual is a certificate.
    """
    rate = gamma if solver == "power" else (omega(gamma) - 1.0) ** 0.75
    if rate <= 0.0:
        return 1
    sweeps = math.ceil(math.log(tolerance / 2.0) / math.log(rate))
    return max(sweeps - (solver == "power"), 1)


def planned_sweeps(gamma: float, tolerance: float, solver: str, storage: torch.dtype) -> tuple[int, int]:
    """Sweeps of y to 2⁻¹⁰, which float16 holds, and of its correction from there to `tolerance`.

    float32 needs no correction: all of its sweeps are y's.
    """
    if storage != torch.float16:
        return sweeps_for(gamma, tolerance, solver), 0
    rest = min(2**10 * tolerance, 1.0)
    return sweeps_for(gamma, 2**-10, solver), sweeps_for(gamma, rest, solver)


def total_sweeps(sweeps: tuple[int, int] | None) -> int:
    """Passes over the graph: y's sweeps and, where it is corrected, the residual and the correction's."""
    return 0 if sweeps is None else sweeps[0] + sweeps[1] + (sweeps[1] > 0)


def power_of_two(peaks: Tensor) -> Tensor:
    """The scale that brings each peak into [2¹³, 2¹⁴), float32 of their shape; 1 for a column without mass.

    The solution is at most max r/d; on the way to it SOR overshoots, at γ ≤ 0.8 by less than 2, for which a
    factor of 4 to 8 is left.
    """
    exponent = torch.frexp(peaks).exponent
    return torch.where(peaks > 0, torch.ldexp(torch.ones_like(peaks), (14 - exponent).clamp(max=126)), 1.0)
