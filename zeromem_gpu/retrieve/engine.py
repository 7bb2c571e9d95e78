"""From a stack of banks and a batch of questions to ranked unit rows: the whole array side of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from zeromem_gpu.build.stack import Stack
from zeromem_gpu.config import Config
from zeromem_gpu.query.batch import QueryBatch
from zeromem_gpu.retrieve.closure import Closed, close
from zeromem_gpu.retrieve.evidence import at_rows, calibrate
from zeromem_gpu.retrieve.graph_view import graph_view
from zeromem_gpu.retrieve.groups import Group, cut
from zeromem_gpu.retrieve.hierarchy_view import hierarchy_view
from zeromem_gpu.retrieve.signals import Signals
from zeromem_gpu.stopwatch import Stopwatch
from zeromem_kernels.buffers import reused
from zeromem_kernels.fusion import fuse, scaled
from zeromem_kernels.topk import TopK


@dataclass(frozen=True)
class Hidden:
    """What the boundaries hide.

    `mask_of` int64 [Q] names a mask of each query (−1 none); `masks` are bool [units of the query's bank],
    True where hidden.
    """

    mask_of: np.ndarray
    masks: Sequence[np.ndarray]


@dataclass(frozen=True)
class Ranked:
    """Per question, best first: [Q, n] unit rows of its bank (−1 past the last) and what put them there.

    n is the longest answer of the batch.

    `rules` int32 index `closure.RULES`; `scores` are the fused scores (0 for a unit that closure added and
    neither view returned); `graph` and `hierarchy` the raw view scores, NaN where a view did not return the
    unit. `sweeps` int32 [Q] are PageRank's, `timings` seconds of the whole batch by stage. `lists` holds,
    per view, the rows [Q, listed] that it ranked first (−1 past the last) and their raw scores.
    """

    rows: np.ndarray
    rules: np.ndarray
    scores: np.ndarray
    graph: np.ndarray
    hierarchy: np.ndarray
    sweeps: np.ndarray
    timings: dict[str, float]
    lists: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


def retrieve(
    stack: Stack, banks: np.ndarray, batch: QueryBatch, hidden: Hidden | None, config: Config,
    budget: int | None = None, listed: int = 0,
) -> Ranked:  # fmt: skip
    """Rank every question's units in its own bank.

    Args:
        stack: the banks of the batch.
        banks: int64 [Q], the stacked bank of each question.
        batch: the questions.
        hidden: what boundaries hide, or None.
        config: the method's numbers.
        budget: bytes of working memory, `config.batch_bytes` where it is None; no score depends on it.
        listed: how many units of each view's own ranking to return in `lists`.
    """
    timings: dict[str, float] = {}
    parts: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
    literal = config.activation == "literal" or not config.sentence_floor or stack.device.type != "cpu"
    with reused():
        for group in cut(banks, stack, batch, budget or config.batch_bytes, literal=literal):
            if hidden is not None:
                group = replace(group, hidden=_hidden_matrix(group, hidden))
            found = _run(group, _within(config, group), Stopwatch(timings), listed)
            taken = group.query >= 0
            parts.append((group.query[taken], {name: _by_slot(x)[taken] for name, x in found.items()}))
    empty = {"rows": -1, "rules": -1, "scores": 0.0, "graph": np.nan, "hierarchy": np.nan, "sweeps": 0}
    out = {name: _gather(parts, name, len(batch), value) for name, value in empty.items()}
    lists = {}
    for view in ("graph", "hierarchy") if listed else ():
        rows = _gather(parts, f"{view}_rows", len(batch), -1)
        lists[view] = rows, _gather(parts, f"{view}_scores", len(batch), np.nan)
    return Ranked(**out | {"sweeps": out["sweeps"][:, 0]}, timings=timings, lists=lists)


def _within(config: Config, group: Group) -> Config:
    """Lengths that fit the group: no list longer than its tallest bank, no view shorter than the answer."""
    tallest = max(int(group.axes["units"].starts.diff().max()), 1)
    top_k = min(config.top_k, tallest)
    return config.replace(top_k=top_k, candidates=min(max(config.candidates, top_k), tallest))


def _run(group: Group, config: Config, clock: Stopwatch, listed: int) -> dict[str, Tensor]:
    """Run one group: the columns of `Ranked` as [T, n, width]."""
    signals = Signals(group, config)
    units = signals.units
    _ = signals.dense, signals.lexical, signals.phrase, signals.subject
    clock.lap("signals_s")
    graph = graph_view(signals) if config.views != "hierarchy" else None
    clock.lap("graph_view_s")
    hierarchy = hierarchy_view(signals) if config.views != "graph" else None
    clock.lap("hierarchy_view_s")
    share = torch.where(group.spread(group.batch.relational), config.rho, 1.0 - config.rho)
    if graph is None or hierarchy is None:
        share = torch.full_like(share, 1.0 if hierarchy is None else 0.0)
    shape = (len(units.tiles), 0, units.tiles.width)
    nothing = TopK(
        torch.empty(shape, device=units.ptr.device),
        torch.empty(shape, dtype=torch.int32, device=units.ptr.device),
    )
    graph_list = graph.candidates if graph else nothing
    hierarchy_list = hierarchy.candidates if hierarchy else nothing
    top = fuse(graph_list, hierarchy_list, share, units, config.top_k)
    clock.lap("fusion_s")
    found = Closed(top.rows, torch.where(top.rows >= 0, 0, -1).int())
    if config.closure:
        found = close(group, top, graph.candidates if graph else None, config)
    graph_at = _scores_at(graph.scores if graph else None, graph_list, found.rows, signals)
    hierarchy_at = _scores_at(hierarchy.scores if hierarchy else None, hierarchy_list, found.rows, signals)
    scores = share[:, None] * scaled(graph_at, graph_list)
    scores = scores + (1.0 - share[:, None]) * scaled(hierarchy_at, hierarchy_list)
    columns = {"rows": found.rows, "rules": found.rules, "scores": scores}
    columns |= {"graph": graph_at, "hierarchy": hierarchy_at}
    if config.calibrate:
        order = calibrate(signals, found, scores)
        columns = {name: values.gather(1, order) for name, values in columns.items()}
    for view, ranked in (("graph", graph_list), ("hierarchy", hierarchy_list)) if listed else ():
        columns |= {f"{view}_rows": ranked.rows[:, :listed], f"{view}_scores": ranked.scores[:, :listed]}
    columns["sweeps"] = graph.pagerank.sweeps[:, None] if graph else torch.zeros_like(found.rows[:, :1])
    clock.lap("evidence_s")
    return columns


def _gather(
    parts: list[tuple[np.ndarray, dict[str, np.ndarray]]], name: str, count: int, empty: float
) -> np.ndarray:
    """Put the groups' rows in the order of the questions, padded to one length."""
    length = max((found[name].shape[1] for _, found in parts), default=1)
    dtype = np.int32 if name.endswith("rows") or name in ("rules", "sweeps") else np.float32
    out = np.full((count, length), empty, dtype)
    for query, found in parts:
        out[query, : found[name].shape[1]] = found[name]
    return out


def _by_slot(values: Tensor) -> np.ndarray:
    """[T, k, width] → [T·width, k]."""
    return values.transpose(1, 2).flatten(0, 1).cpu().numpy()


def _scores_at(scores: Tensor | None, candidates: TopK, rows: Tensor, signals: Signals) -> Tensor:
    """A view's raw scores of some rows [T, n, width], NaN where the view did not return them."""
    if scores is None or candidates.rows.shape[1] == 0:
        return torch.full(rows.shape, torch.nan, device=rows.device)
    # what a view returned ranks no later than its last candidate; −inf was never one
    score, last, row = at_rows(scores, rows, signals), candidates.scores[:, -1:], candidates.rows[:, -1:]
    returned = (score > last) | ((score == last) & (rows <= row))
    return torch.where(returned & (rows >= 0), score, torch.nan)


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
