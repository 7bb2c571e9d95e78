"""The time-hierarchy view: episodes, windows, turns and their local spans, coarse to fine (method.md 4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from zeromem_gpu.build.stack import StackedLevel
from zeromem_gpu.config import Config
from zeromem_gpu.retrieve.signals import Signals
from zeromem_kernels.scale import min_max
from zeromem_kernels.similarity import Placed, similarities
from zeromem_kernels.spmm import tile_spmax, tile_spmm
from zeromem_kernels.tiles import Axis
from zeromem_kernels.topk import TopK, kept_mask, ordered_topk


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

    episode_score, shown = _level(signals, "episodes", config)
    kept = _beam(episode_score, shown, episodes, config.episode_beam)
    parent = stack.episode_of_window[windows.stacked_row].long() + episodes.starts[windows.tile_of_row]
    inherited = config.episode_share * episode_score[parent]

    window_score, shown = _level(signals, "windows", config)
    window_score = window_score + inherited
    kept = _beam(window_score, shown & kept[parent], windows, config.window_beam)
    offered = torch.where(kept, config.window_share * window_score + inherited, -torch.inf)
    above = tile_spmax(stack.windows_of_unit, offered, windows, units)

    own = _own(signals, config)
    local, _ = _level(signals, "spans", config)
    scores = own + config.local_share * local + above
    if config.neighbour_share > 0:
        scores = scores + config.neighbour_share * _beside(signals, own)
    if group.hidden is not None:
        scores = scores.masked_fill(group.hidden, -torch.inf)
    return HierarchyView(scores, ordered_topk(scores, units, config.candidates))


def _level(signals: Signals, name: str, config: Config) -> tuple[Tensor, Tensor]:
    """s_L = mm(cos) + lexical · sc(BM25) of a level, and which intervals hold a visible unit."""
    level: StackedLevel = getattr(signals.group.stack, name)
    axis = signals.group.axes[name]
    visible = signals.visible_at(level.members, axis)
    if level.vectors is None:
        cosine = signals.pooled(level.members, level.inverse_norm, axis)
    else:
        cosine = similarities([Placed(one) for one in level.vectors], signals.questions.queries, axis)
    score = min_max(cosine, axis, visible) + config.lexical * signals.bm25_of(name, axis, visible)
    return score, torch.ones_like(score, dtype=torch.bool) if visible is None else visible


def _own(signals: Signals, config: Config) -> Tensor:
    """A turn's own score: its semantic and lexical relevance with the structural corrections."""
    own = signals.dense + config.lexical * signals.lexical
    for weight, signal in (
        (config.phrase, signals.phrase),
        (config.subject, signals.subject),
        (config.temporal, signals.temporal),
        (config.answer_type, signals.answer_type),
        (config.reply, signals.asked),
        (config.learned, signals.learned),
    ):
        if signal is not None and weight > 0:
            own = own + weight * signal
    return own


def _beside(signals: Signals, own: Tensor) -> Tensor:
    """The own scores of the visible turns beside each turn, added up."""
    shown = own if signals.visible is None else own.masked_fill(~signals.visible, 0.0)
    return tile_spmm(signals.group.stack.neighbours, shown, signals.units, signals.units)


def _beam(scores: Tensor, allowed: Tensor, axis: Axis, size: int) -> Tensor:
    """The `size` best allowed rows of each tile and column, as a bool matrix."""
    if len(axis.tiles) == 0 or size >= axis.tallest:
        return allowed
    return kept_mask(ordered_topk(scores.masked_fill(~allowed, -torch.inf), axis, size), axis)
