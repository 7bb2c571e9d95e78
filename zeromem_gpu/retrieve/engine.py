"""From a stack of banks and a batch of questions to ranked unit rows: the whole array side of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
from zeromem_gpu.stopwatch import Stopwatch, stopwatch
from zeromem_kernels.fusion import fuse, scaled
from zeromem_kernels.layout import pointer
from zeromem_kernels.replay import Replays
from zeromem_kernels.topk import TopK
from zeromem_kernels.transfer import to_host


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
    budget: int | None = None, listed: int = 0, replays: Replays | None = None,
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
        replays: graphs of what ran before, on a device that has them.
    """
    timings: dict[str, float] = {}
    ran: list[tuple[Group, dict[str, Tensor], Stopwatch]] = []
    for group in cut(banks, stack, batch, budget or config.batch_bytes):
        if hidden is not None:
            group = group.within(_hidden_matrix(group, hidden))
        clock = stopwatch(timings, stack.device)
        signals = Signals(group, _within(config, group))
        found = (
            _run(signals, clock, listed) if replays is None else _replayed(signals, clock, listed, replays)
        )
        ran.append((group, found, clock))
    parts = _on_the_host(ran)
    empty = {"rows": -1, "rules": -1, "scores": 0.0, "graph": np.nan, "hierarchy": np.nan, "sweeps": 0}
    out = {name: _gather(parts, name, len(batch), value) for name, value in empty.items()}
    lists = {}
    for view in ("graph", "hierarchy") if listed else ():
        rows = _gather(parts, f"{view}_rows", len(batch), -1)
        lists[view] = rows, _gather(parts, f"{view}_scores", len(batch), np.nan)
    return Ranked(**out | {"sweeps": out["sweeps"][:, 0]}, timings=timings, lists=lists)


def _within(config: Config, group: Group) -> Config:
    """Lengths that fit the group: no list longer than its tallest bank, no view shorter than the answer."""
    tallest = max(group.axes["units"].tallest, 1)
    top_k = min(config.top_k, tallest)
    return config.replace(top_k=top_k, candidates=min(max(config.candidates, top_k), tallest))


def _replayed(signals: Signals, clock: Stopwatch, listed: int, replays: Replays) -> dict[str, Tensor]:
    """`_run`, all of it that does not depend on how long the questions are as one graph."""
    group, config = signals.group, signals.config
    matrices = signals.questions.matrices()
    clock.lap("signals_s")
    inputs = {name: one for name, one in matrices.items() if one is not None}
    if group.hidden is not None:
        inputs["hidden"] = group.hidden
    still = group.within(None)
    missing = dict.fromkeys(name for name, one in matrices.items() if one is None)

    def call(given: dict[str, Tensor]) -> dict[str, Tensor]:
        # what a graph is kept with must not hold the matrices of the batch that it was captured with
        mine = still.within(given.get("hidden"))
        return _run(Signals.fixed(mine, config, {**given, **missing}), Stopwatch(), listed)

    key = (group.tiles.host_bank.tobytes(), group.tiles.width, config, listed)
    found = replays.run(group.stack, key, group.size, inputs, call)
    clock.lap("views_s")
    return found


def _run(signals: Signals, clock: Stopwatch, listed: int) -> dict[str, Tensor]:
    """Run one group: the columns of `Ranked` as [T, n, width]."""
    group, config, units = signals.group, signals.config, signals.units
    _ = signals.dense, signals.lexical, signals.phrase, signals.subject
    clock.lap("signals_s")
    graph = graph_view(signals) if config.views != "hierarchy" else None
    clock.lap("graph_view_s")
    hierarchy = hierarchy_view(signals) if config.views != "graph" else None
    clock.lap("hierarchy_view_s")
    share = torch.where(signals.questions.relational, config.rho, 1.0 - config.rho)
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


def _on_the_host(
    ran: list[tuple[Group, dict[str, Tensor], Stopwatch]],
) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """What groups found, [T, k, width] by name, as rows of their questions: the one wait for the device."""
    arrays = iter(to_host([values for _, found, _ in ran for values in found.values()]))
    parts = []
    for group, found, clock in ran:
        clock.read()
        taken = group.query >= 0
        rows = {name: next(arrays).swapaxes(1, 2).reshape(len(taken), -1)[taken] for name in found}
        parts.append((group.query[taken], rows))
    return parts


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
    axis = group.axes["units"]
    mine, mask = np.unique(mask_of[slots], return_inverse=True)
    bits = [np.packbits(hidden.masks[one], bitorder="little") for one in mine.tolist()]
    first = np.full(len(mask_of), -1, np.int64)
    first[slots] = pointer(np.array([len(one) for one in bits]))[mask]
    packed = group.upload(np.concatenate(bits))
    begin = group.upload(first.reshape(len(group.tiles), group.tiles.width))[axis.tile_of_row]
    row = (torch.arange(axis.rows, device=packed.device) - axis.starts[axis.tile_of_row])[:, None]
    held = packed[(begin + row // 8).clamp(min=0, max=max(len(packed) - 1, 0))]
    return (begin >= 0) & ((held >> (row % 8)) & 1 > 0)
