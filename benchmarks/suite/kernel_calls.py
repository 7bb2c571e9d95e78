"""Every kernel with the inputs that a real batch gives it, and the facts of its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.facts import WrongResult, digest, gate, projection
from zeromem_gpu import Config
from zeromem_gpu.retrieve.align import align
from zeromem_gpu.retrieve.groups import Group, cut
from zeromem_gpu.retrieve.signals import Signals
from zeromem_gpu.search import Prepared
from zeromem_kernels.activation import propagate
from zeromem_kernels.fusion import fuse
from zeromem_kernels.lexical import bm25, lookup, phrase_support, slot_banks, subject_support
from zeromem_kernels.pagerank import Graph, PageRank, personalized_pagerank
from zeromem_kernels.reset import reset_vector
from zeromem_kernels.scale import min_max, scale_to_max, tile_reduce
from zeromem_kernels.similarity import best_match, similarities
from zeromem_kernels.spmm import tile_spmax, tile_spmm
from zeromem_kernels.tiles import Axis, torch_forms
from zeromem_kernels.topk import TopK, ordered_topk
from zeromem_kernels.weights import weigh

KERNELS = (
    "similarities", "best_match", "lookup", "bm25", "phrase_support", "subject_support", "min_max",
    "scale_to_max", "tile_reduce", "tile_spmm", "tile_spmax", "propagate", "reset_vector", "pagerank_sor",
    "pagerank_power", "ordered_topk", "fuse",
)  # fmt: skip


@dataclass(eq=False)
class KernelInputs:
    """The widest group of a prepared batch, with what one kernel leaves for the next."""

    ready: Prepared
    config: Config

    def __post_init__(self) -> None:
        """Compute each stage's input once, by the code that is measured afterwards."""
        config, ready = self.config, self.ready
        self.group: Group = next(cut(ready.bank_of, ready.stack, ready.batch, config.batch_bytes))
        self.signals = Signals(self.group, config)
        self.units = self.signals.units
        self.axes = self.group.axes
        self.eta = align(self.group, config.align_floor)
        self.spread = self.call("propagate")()
        self.prior = self.signals.dense.pow(config.prior_power)
        self.reset = self.call("reset_vector")()

    @property
    def about(self) -> dict[str, Any]:
        """The sizes that the kernels saw."""
        return {
            "queries": int((self.group.query >= 0).sum()),
            "tiles": len(self.group.tiles),
            "width": self.group.tiles.width,
            "unit_rows": self.units.rows,
            "node_rows": self.axes["nodes"].rows,
        }

    def call(self, name: str) -> Callable[[], Any]:
        """A kernel ready to run."""
        stack, signals, axes, units = self.ready.stack, self.signals, self.axes, self.units
        group, config, batch = self.group, self.config, self.ready.batch
        if name == "similarities":
            return lambda: similarities(stack.unit_vectors, group.queries, units)
        if name == "best_match":
            order = torch.argsort(torch.from_numpy(self.ready.bank_of), stable=True)
            banks = torch.from_numpy(self.ready.bank_of)[order].to(stack.device)
            asked = torch.from_numpy(batch.vectors)[order].to(stack.device)
            return lambda: best_match(stack.entity_vectors, asked, banks)
        if name == "lookup":
            keys = batch.terms.take(group.query)
            values, ptr = torch.from_numpy(keys.values), torch.from_numpy(keys.ptr).to(stack.device)
            banks, values = slot_banks(ptr, group.tiles), values.to(stack.device)
            counts = stack.lexicons[0].counts
            return lambda: lookup(banks, values, counts.ptr, counts.keys)
        if name == "bm25":
            asked, term_ptr, terms = group.asked_terms()
            postings = weigh(asked, stack.ptr["units"], stack.documents, config.bm25_k1, config.bm25_b)
            return lambda: bm25(postings, term_ptr, terms, units)
        if name == "phrase_support":
            lexicon = stack.lexicons[0]
            phrases = group.phrases(lexicon)
            return lambda: phrase_support(lexicon.stream, phrases, units)
        if name == "subject_support":
            subjects = group.look_up(batch.subjects, "entities", stack.entity_keys)
            graph, ptr = stack.graph.weights, stack.ptr
            return lambda: subject_support(
                subjects, stack.speaker, graph, ptr["units"], ptr["nodes"], units
            )
        if name in ("min_max", "scale_to_max"):
            scale, given = (
                (min_max, signals.cosine) if name == "min_max" else (scale_to_max, signals.lexical)
            )
            return lambda: scale(given, units, None)
        if name == "tile_reduce":
            cosine = signals.cosine
            return lambda: tile_reduce(cosine, units, "sum")
        if name == "tile_spmm":
            members, cosine = stack.windows.members, signals.cosine
            return lambda: tile_spmm(members, cosine, units, axes["windows"])
        if name == "tile_spmax":
            table, cosine = stack.sentences_of_unit, signals.sentence_cosine
            return lambda: tile_spmax(table, cosine, axes["sentences"], units)
        if name == "propagate":
            sentence_cosine = signals.sentence_cosine
            return lambda: propagate(
                self.eta, sentence_cosine, None, stack.incidence, stack.incidence_transposed,
                axes["sentences"], axes["entities"], steps=config.activation_steps,
                floor=config.activation_floor, sentence_floor=config.sentence_floor, exclude_self=False,
            )  # fmt: skip
        if name == "reset_vector":
            return lambda: reset_vector(
                self.spread, self.prior, axes["entities"], units, axes["nodes"], config.entity_share
            )
        if name.startswith("pagerank_"):
            return pagerank_call(stack.graph, self.reset, axes["nodes"], name.removeprefix("pagerank_"))
        if name == "ordered_topk":
            lexical = signals.lexical
            return lambda: ordered_topk(lexical, units, config.candidates)
        if name == "fuse":
            views = [ordered_topk(x, units, config.candidates) for x in (signals.dense, signals.lexical)]
            share = torch.full((len(group.tiles), group.tiles.width), config.rho, device=stack.device)
            return lambda: fuse(views[0], views[1], share, units, config.top_k)
        raise KeyError(name)


def pagerank_call(graph: Graph, reset: Tensor, axis: Axis, solver: str) -> Callable[[], PageRank]:
    """PageRank at γ = 0.6 to an L1 error of 1e-6."""
    return lambda: personalized_pagerank(graph, reset, axis, None, gamma=0.6, tolerance=1e-6, solver=solver)


def checked_facts(name: str, call: Callable[[], Any]) -> dict[str, Any]:
    """The facts of a kernel's result after it was held against its torch form; `WrongResult` otherwise."""
    found = call()
    with torch_forms():
        expected = call()
    facts: dict[str, Any] = {"bytes": 0}
    for at, (one, other) in enumerate(zip(_tensors(found), _tensors(expected), strict=True)):
        facts["bytes"] += one.nbytes
        values = one.cpu().numpy()
        if isinstance(found, PageRank) and at > 0:
            continue  # sweeps and residuals are kept below; forms may stop a sweep apart
        if one.is_floating_point():
            gate(f"{name}[{at}]", values, other.cpu().numpy(), 2e-6 if "pagerank" in name else 1e-5)
            facts[f"output_{at}"] = projection(values)
        else:
            if not isinstance(
                found, TopK
            ):  # rows of equal scores may differ where sums differ in a last bit
                gate(f"{name}[{at}]", values, other.cpu().numpy())
            facts[f"output_{at}"] = digest(values)
    if isinstance(found, PageRank):
        facts["sweeps"] = int(found.sweeps.sum())
    return facts


def checked_pagerank(
    name: str, graph: Graph, reset: Tensor, found: PageRank, gamma: float = 0.6
) -> dict[str, Any]:
    """The facts of PageRank on one graph after its residual was taken in float64, tile by tile."""
    w = graph.weights
    size = len(graph.degree)
    matrix = torch.sparse_csr_tensor(
        w.indptr.cpu(), w.indices.cpu().long(), w.weights.cpu().double(), (size, size)
    )
    degree = graph.degree.cpu().double()[:, None]
    worst = 0.0
    for pi, r in zip(found.pi.cpu().split(size), reset.cpu().split(size), strict=True):
        flow = matrix @ (pi.double() / torch.where(degree > 0, degree, 1.0))
        residual = ((1.0 - gamma) * r + gamma * flow - pi).abs().sum(0) / (1.0 - gamma)
        worst = max(worst, float(residual.max()))
    if not worst <= 3e-6:
        raise WrongResult(f"{name}: L1 error up to {worst:.2g} in float64, 1e-6 was asked for; not timed")
    return {
        "sweeps": int(found.sweeps.sum()),
        "bytes": found.pi.nbytes,
        "output_0": projection(found.pi.cpu().numpy()),
    }


def _tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)
