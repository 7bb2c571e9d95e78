"""Evidence calibration (method.md 6): R(q) = Rank_φ(Filter(C(q))), an order over what closure collected.

Hidden units never enter C(q), so the filter is what the mask already did. The ranking adds to the fused
score how well a unit fits the question's subject, time and answer type; content stays as it is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zeromem_gpu.retrieve.closure import Closed
from zeromem_gpu.retrieve.signals import Signals
from zeromem_kernels.topk import places_of


def calibrate(signals: Signals, closed: Closed, scores: Tensor) -> Tensor:
    """The order of evidence: indices [T, n, width] that sort the rows of `closed`, the best first.

    Args:
        signals: the group's signals and configuration.
        closed: the evidence, row −1 where there is none.
        scores: fused scores float32 [T, n, width].
    """
    config = signals.config
    total = scores.clone()
    for weight, signal in (
        (config.calibrate_subject, signals.subject),
        (config.calibrate_temporal, signals.temporal),
        (config.calibrate_type, signals.answer_type),
    ):
        if signal is not None and weight > 0:
            total += weight * at_rows(signal, closed.rows, signals)
    total = torch.where(closed.rows >= 0, total, -torch.inf)
    # stable: equal scores keep the order of closure, primary units first
    return torch.argsort(total, dim=1, descending=True, stable=True)


def at_rows(matrix: Tensor, rows: Tensor, signals: Signals) -> Tensor:
    """The values of a unit matrix [unit rows, width] at evidence rows [T, n, width]; row −1 reads row 0."""
    units = signals.units
    if units.rows == 0:
        return torch.zeros(rows.shape, device=matrix.device)
    place = places_of(rows, units).reshape(-1, matrix.shape[1])
    return matrix.gather(0, place).reshape(rows.shape)
