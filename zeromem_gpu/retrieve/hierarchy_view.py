"""The time-hierarchy view: episodes, windows, turns and their local spans, coarse to fine (method.md 4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from zeromem_gpu.build.stack import StackedLevel
from zeromem_gpu.config import Config
from zeromem_gpu.retrieve.signals import Signals
from zeromem_kernels.combine import plus_rows, weighted_sum
from zeromem_kernels.scale import min_max
from zeromem_kernels.similarity import Placed, similarities
from zeromem_kernels.spmm import tile_spmax, tile_spmm
from zeromem_kernels.tiles import Axis
from zeromem_kernels.topk import TopK, kept_alone, ordered_topk, places_of


@dataclass(frozen=True, eq=False)
class HierarchyView:
    """S_h of every unit (−inf where it is no candidate) and the candidates that are returned."""

    scores: Tensor
    candidates: TopK


def hierarchy_view(signals: Signals) -> HierarchyView:
    """Rank the units of a group by the time hierarchy."""
    group, config = signals.group, signals.config
    stack, axes, units = group.stack, group.axes, signals.units
    episodes, windows = axes["episodes"], axes["windows"]

    kept = _beam(_level(signals, "episodes"), episodes, config.episode_beam)
    inherited = torch.where(kept > -torch.inf, config.episode_share * kept, -torch.inf)
    parent = stack.episode_of_window[windows.stacked_row].long() + episodes.starts[windows.tile_of_row]
    window_score = plus_rows(_level(signals, "windows"), inherited, parent, windows)
    offered = _offered(window_score, inherited, parent, windows, config)
    above = tile_spmax(stack.windows_of_unit, offered, windows, units)

    own = _own(signals, config)
    local = _level(signals, "spans")
    parts: list[tuple[float | Tensor, Tensor]] = [(1.0, own), (config.local_share, local), (1.0, above)]
    if config.neighbour_share > 0:
        parts.append((config.neighbour_share, _beside(signals, own)))
    scores = weighted_sum(parts, units)
    if group.hidden is not None:
        scores = scores.masked_fill(group.hidden, -torch.inf)
    return HierarchyView(scores, ordered_topk(scores, units, config.candidates))


def _level(signals: Signals, name: str) -> Tensor:
    """s_L = mm(cos) + lexical · sc(BM25) of a level, −inf where an interval holds no visible unit."""
    level: StackedLevel = getattr(signals.group.stack, name)
    axis = signals.group.axes[name]
    visible = signals.visible_at(level.members, axis)
    if level.vectors is None:
        cosine = signals.pooled(level.members, level.inverse_norm, axis)
    else:
        cosine = similarities([Placed(one) for one in level.vectors], signals.questions.queries, axis)
    bm25 = signals.bm25_of(name, axis, visible)
    score = weighted_sum([(1.0, min_max(cosine, axis, visible)), (signals.config.lexical, bm25)], axis)
    return score if visible is None else score.masked_fill(~visible, -torch.inf)


def _own(signals: Signals, config: Config) -> Tensor:
    """A turn's own score: its semantic and lexical relevance with the structural corrections."""
    parts: list[tuple[float | Tensor, Tensor]] = [(1.0, signals.dense), (config.lexical, signals.lexical)]
    for weight, signal in (
        (config.phrase, signals.phrase),
        (config.subject, signals.subject),
        (config.temporal, signals.temporal),
        (config.answer_type, signals.answer_type),
        (config.reply, signals.asked),
        (config.learned, signals.learned),
    ):
        if signal is not None and weight > 0:
            parts.append((weight, signal))
    return weighted_sum(parts, signals.units)


def _beside(signals: Signals, own: Tensor) -> Tensor:
    """The own scores of the visible turns beside each turn, added up."""
    shown = own if signals.visible is None else own.masked_fill(~signals.visible, 0.0)
    return tile_spmm(signals.group.stack.neighbours, shown, signals.units, signals.units)


def _beam(scores: Tensor, axis: Axis, size: int) -> Tensor:
    """The scores of the `size` best rows of each tile and column, −inf beside them."""
    if len(axis.tiles) == 0 or size >= axis.tallest:
        return scores
    return kept_alone(ordered_topk(scores, axis, size), axis)


def _offered(scores: Tensor, inherited: Tensor, parent: Tensor, axis: Axis, config: Config) -> Tensor:
    """What the best windows pass to their turns: share · s_W, and what they have from their episodes."""
    size = config.window_beam
    if len(axis.tiles) == 0 or size >= axis.tallest:
        passed = config.window_share * scores + inherited[parent]
        return torch.where(scores > -torch.inf, passed, -torch.inf)
    best = ordered_topk(scores, axis, size)
    place = parent[places_of(best.rows, axis)].reshape(-1, axis.tiles.width)
    above = inherited.gather(0, place).reshape(best.rows.shape)
    passed = torch.where(best.rows >= 0, config.window_share * best.scores + above, -torch.inf)
    return kept_alone(TopK(passed, best.rows), axis)
