"""The relational view: align, propagate, reset, PageRank, refine (method.md 3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from zeromem_gpu.retrieve.signals import Signals
from zeromem_kernels.activation import propagate
from zeromem_kernels.pagerank import PageRank, personalized_pagerank
from zeromem_kernels.reset import node_rows, reset_vector
from zeromem_kernels.scale import scale_to_max, tile_reduce
from zeromem_kernels.spmm import tile_spmax
from zeromem_kernels.topk import TopK, ordered_topk


@dataclass(frozen=True, eq=False)
class GraphView:
    """S_g of every unit (−inf where hidden), the candidates, and PageRank as it ran."""

    scores: Tensor
    candidates: TopK
    pagerank: PageRank


def graph_view(signals: Signals) -> GraphView:
    """Rank the units of a group by the graph."""
    group, config = signals.group, signals.config
    axes, stack = group.axes, group.stack
    eta = signals.questions.seeds
    aligned = tile_reduce(eta, axes["entities"], "amax") > 0
    literal = config.activation == "literal"
    eta = propagate(
        eta, signals.sentence_cosine, _hidden_sentences(signals),
        stack.incidence, stack.incidence_transposed, axes["sentences"], axes["entities"],
        steps=config.activation_steps,
        floor=0.0 if literal else config.activation_floor,
        sentence_floor=0.0 if literal else config.sentence_floor,
        exclude_self=config.exclude_self,
    )  # fmt: skip
    dense = signals.dense
    if config.sentence_share > 0:
        dense = (1.0 - config.sentence_share) * dense + config.sentence_share * signals.best_sentence
    prior = dense.pow(config.prior_power)
    if signals.visible is not None:
        prior = prior.masked_fill(~signals.visible, 0.0)
    units, entities, nodes = signals.units, axes["entities"], axes["nodes"]
    reset = reset_vector(eta, prior, entities, units, nodes, config.entity_share)
    unit_node, _ = node_rows(units, entities, nodes)
    hidden = None
    if group.hidden is not None:
        hidden = torch.zeros((nodes.rows, group.tiles.width), dtype=torch.bool, device=stack.device)
        hidden[unit_node] = group.hidden
    # float16 halves what a card has to gather; its correction reaches the same tolerance
    storage = torch.float16 if stack.device.type == "cuda" else torch.float32
    ranked = personalized_pagerank(
        stack.graph, reset, nodes, hidden,
        gamma=config.gamma, tolerance=config.tolerance, solver=config.solver, storage=storage,
    )  # fmt: skip
    # without an aligned entity the dense ranking is the graph ranking (method.md 3.5)
    base = torch.where(aligned[units.tile_of_row], ranked.pi[unit_node], dense)
    scores = scale_to_max(base, units, signals.visible) + config.graph_lexical * signals.lexical
    for weight, signal in (
        (config.graph_phrase, signals.phrase),
        (config.graph_subject, signals.subject),
        (config.graph_temporal, signals.temporal),
        (config.graph_type, signals.answer_type),
        (config.graph_reply, signals.asked),
        (config.graph_related, signals.related),
        (config.graph_learned, signals.learned),
    ):
        if signal is not None and weight > 0:
            scores = scores + weight * signal
    if config.graph_bridge > 0 and len(stack.told.indices):
        scores = scores + config.graph_bridge * _bridge(signals, scores)
    if group.hidden is not None:
        scores = scores.masked_fill(group.hidden, -torch.inf)
    return GraphView(scores, ordered_topk(scores, units, config.candidates), ranked)


def _bridge(signals: Signals, scores: Tensor) -> Tensor:
    """How well the best visible unit that tells of a unit's given name ranks, in [0, 1]."""
    stack, units, entities = signals.group.stack, signals.units, signals.group.axes["entities"]
    share = scale_to_max(scores, units, signals.visible).clamp(min=0.0).pow(signals.config.bridge_power)
    # -inf where nobody tells of a name, and where a unit was given none
    told = tile_spmax(stack.told, share, units, entities).clamp(min=0.0)
    return tile_spmax(stack.given, told, entities, units).clamp(min=0.0)


def _hidden_sentences(signals: Signals) -> Tensor | None:
    """Sentences of hidden units, bool on the sentence axis."""
    hidden = signals.group.hidden
    if hidden is None:
        return None
    sentences = signals.group.axes["sentences"]
    unit = signals.group.stack.sentence_unit[sentences.stacked_row].long()
    return hidden[unit + signals.units.starts[sentences.tile_of_row]]
