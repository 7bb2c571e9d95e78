"""From a stack of banks and a batch of questions to ranked unit rows: the whole array side of a search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from zeromem_kernels.fusion import fuse
from zeromem_kernels.tiles import Axis
from zeromem_kernels.topk import TopK, kept_mask

from zeromem_gpu.build.stack import Stack
from zeromem_gpu.config import Config
from zeromem_gpu.query.batch import QueryBatch
from zeromem_gpu.retrieve.graph_view import graph_view
from zeromem_gpu.retrieve.groups import Group, cut
from zeromem_gpu.retrieve.hierarchy_view import hierarchy_view
from zeromem_gpu.retrieve.signals import Signals


@dataclass(frozen=True)
class Hidden:
    """What the boundaries hide: `mask_of` int64 [Q] names a mask of each query (−1 none); `masks` are
    bool [units of the query's bank], True where hidden."""  # fmt: skip

    mask_of: np.ndarray
    masks: Sequence[np.ndarray]


@dataclass(frozen=True)
class Ranked:
    """Per question, best first: [Q, k] unit rows of its bank (−1 past the last) and their scores.

    `graph` and `hierarchy` are the raw view scores, NaN where a view did not return the unit. `timings`
    are seconds of the whole batch by stage; `sweeps` int32 [Q] PageRank's sweeps (0 without the view).
    """

    rows: np.ndarray
    scores: np.ndarray
    graph: np.ndarray
    hierarchy: np.ndarray
    sweeps: np.ndarray
    timings: dict[str, float]


def retrieve(
    stack: Stack, banks: np.ndarray, batch: QueryBatch, hidden: Hidden | None, config: Config
) -> Ranked:
    """Rank every question's units in its own bank.

    Args:
        stack: the banks of the batch.
        banks: int64 [Q], the stacked bank of each question.
        batch: the questions.
        hidden: what boundaries hide, or None.
        config: the method's numbers; `top_k` is the length of the result.
    """
    count, k = len(batch), config.top_k
    out = Ranked(
        rows=np.full((count, k), -1, np.int32),
        scores=np.full((count, k), -np.inf, np.float32),
        graph=np.full((count, k), np.nan, np.float32),
        hierarchy=np.full((count, k), np.nan, np.float32),
        sweeps=np.zeros(count, np.int32),
        timings={},
    )
    for group in cut(banks, stack, batch, config.batch_bytes):
        if hidden is not None:
            group = replace(group, hidden=_hidden_matrix(group, hidden))
        _run(group, config, out)
    return out


def _run(group: Group, config: Config, out: Ranked) -> None:
    """Run one group and write its rows into `out`."""
    signals = Signals(group)
    clock = _Clock(out.timings)
    units = signals.units
    nothing = TopK(*(torch.empty((len(units.tiles), 0, units.tiles.width), dtype=d, device=units.ptr.device)
                     for d in (torch.float32, torch.int32)))  # fmt: skip
    _ = signals.dense, signals.lexical, signals.phrase, signals.subject
    clock.lap("signals_s")
    graph = graph_view(signals, config) if config.views != "hierarchy" else None
    clock.lap("graph_view_s")
    hierarchy = hierarchy_view(signals, config) if config.views != "graph" else None
    clock.lap("hierarchy_view_s")
    relational = group.spread(group.batch.relational)
    weight = torch.where(relational, config.rho, 1.0 - config.rho)
    if graph is None or hierarchy is None:
        weight = torch.full_like(weight, 1.0 if hierarchy is None else 0.0)
    top = fuse(
        graph.candidates if graph else nothing, hierarchy.candidates if hierarchy else nothing,
        weight, units, config.top_k,
    )  # fmt: skip
    taken = group.query >= 0
    target = group.query[taken]
    out.rows[target] = _by_slot(top.rows)[taken]
    out.scores[target] = _by_slot(top.scores)[taken]
    if graph:
        out.graph[target] = _by_slot(_scores_at(graph.scores, graph.candidates, top, units))[taken]
        out.sweeps[target] = graph.pagerank.sweeps.reshape(-1).cpu().numpy()[taken]
    if hierarchy:
        out.hierarchy[target] = _by_slot(_scores_at(hierarchy.scores, hierarchy.candidates, top, units))[taken]
    clock.lap("fusion_s")


def _by_slot(values: Tensor) -> np.ndarray:
    """[T, k, width] → [T·width, k]."""
    return values.transpose(1, 2).reshape(-1, values.shape[1]).cpu().numpy()


def _scores_at(scores: Tensor, candidates: TopK, top: TopK, axis: Axis) -> Tensor:
    """A view's raw scores of the fused rows, NaN where the view did not return them."""
    place = (top.rows.long().clamp(min=0) + axis.starts[:-1, None, None]).reshape(-1, scores.shape[1])
    place = place.clamp(max=max(axis.rows - 1, 0))
    if axis.rows == 0:
        return torch.full(top.rows.shape, torch.nan, device=scores.device)
    value = torch.where(kept_mask(candidates, axis), scores, torch.nan).gather(0, place).reshape(top.rows.shape)
    return torch.where(top.rows >= 0, value, torch.nan)


def _hidden_matrix(group: Group, hidden: Hidden) -> Tensor | None:
    """Each slot's mask in its column, bool on the unit axis; None when no slot has one."""
    mask_of = np.append(hidden.mask_of, -1)[group.query]
    slots = np.flatnonzero(mask_of >= 0)
    if len(slots) == 0:
        return None
    axis, width = group.axes["units"], group.tiles.width
    sizes = np.array([len(mask) for mask in hidden.masks])
    first = np.cumsum(sizes) - sizes
    starts = axis.starts.cpu().numpy()
    mine = mask_of[slots]
    which = np.repeat(np.arange(len(slots)), sizes[mine])
    row = np.arange(len(which)) - np.repeat(np.cumsum(sizes[mine]) - sizes[mine], sizes[mine])
    matrix = np.zeros((axis.rows, width), bool)
    matrix[row + starts[slots[which] // width], slots[which] % width] = np.concatenate(hidden.masks)[
        first[mine[which]] + row
    ]
    return torch.from_numpy(matrix).to(group.stack.device)


class _Clock:
    """Adds laps to a dictionary of stage seconds."""

    def __init__(self, timings: dict[str, float]) -> None:
        self._timings = timings
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self._timings[stage] = self._timings.get(stage, 0.0) + now - self._last
        self._last = now
