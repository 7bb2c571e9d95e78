"""Banks side by side on one device: the arrays of a batch, with `ptr` boundaries per bank.

A stack of one bank copies nothing on the CPU; vectors are never copied, whatever the number of banks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from zeromem_gpu.build.hierarchy import Level
from zeromem_gpu.build.ragged import Rows as Table
from zeromem_gpu.build.ragged import from_ranges, pointer
from zeromem_gpu.build.views import BankView
from zeromem_kernels.lexical import Stream
from zeromem_kernels.pagerank import Graph, slice_graph
from zeromem_kernels.tiles import Csr, slice_table

LEVELS = ("units", "spans", "windows", "episodes")


@dataclass(frozen=True, eq=False)
class StackedLevel:
    """One level of the hierarchy: its members, and how their cosines become the level's.

    `members` lists the units of each interval; `inverse_norm` float32 scales their summed cosines;
    `vectors` per bank replaces that for encoded levels; `postings` are its BM25 weights per term.
    """

    members: Csr
    inverse_norm: Tensor
    vectors: list[Tensor] | None
    postings: Csr


@dataclass(frozen=True, eq=False)
class Stack:
    """All arrays that retrieval reads for the banks of a batch.

    `ptr` holds int64 [banks + 1] boundaries for units, spans, windows, episodes, sentences, entities,
    nodes, terms and words. Ids inside arrays are local to their bank.
    """

    device: torch.device
    ptr: dict[str, Tensor]
    unit_vectors: list[Tensor]
    sentence_vectors: list[Tensor]
    entity_vectors: list[Tensor]
    term_vectors: list[Tensor]
    term_of_vector: list[Tensor]
    entity_keys: Tensor
    term_keys: Tensor
    word_keys: Tensor
    session: Tensor
    time: Tensor
    types: Tensor
    speaker: Tensor
    is_speaker: Tensor
    sentence_unit: Tensor
    sentences_of_unit: Csr
    spans: StackedLevel
    windows: StackedLevel
    episodes: StackedLevel
    unit_postings: Csr
    episode_of_window: Tensor
    windows_of_unit: Csr
    neighbours: Csr
    incidence: Csr
    incidence_transposed: Csr
    given: Csr
    told: Csr
    replies: Csr
    graph: Graph
    stream: Stream


def stack_banks(views: Sequence[BankView], device: torch.device) -> Stack:
    """Put the views of at least one bank side by side."""

    def flat(pick: Callable[[BankView], np.ndarray]) -> Tensor:
        return _tensor(_join([pick(view) for view in views]), device)

    def csr(pick: Callable[[BankView], Table]) -> Csr:
        tables = [pick(view) for view in views]
        shift = pointer(np.array([len(table.indices) for table in tables]))
        indptr = tables[0].indptr
        if len(tables) > 1:
            starts = [table.indptr[:-1] + at for table, at in zip(tables, shift, strict=False)]
            indptr = np.concatenate([*starts, shift[-1:]])
        return Csr(
            _tensor(indptr, device),
            _tensor(_join([table.indices for table in tables]), device),
            _tensor(_join([table.weights for table in tables]), device),
        )

    def level(name: str) -> StackedLevel:
        picked: list[Level] = [getattr(view, name) for view in views]
        vectors = [part.vectors for part in picked if part.vectors is not None]
        return StackedLevel(
            csr(lambda view: from_ranges(getattr(view, name).first, getattr(view, name).end)),
            flat(lambda view: getattr(view, name).inverse_norm),
            [_tensor(part, device) for part in vectors] if len(vectors) == len(views) else None,
            csr(lambda view: view.lexicon.postings[name]),
        )

    def boundaries(size: Callable[[BankView], int]) -> Tensor:
        return _tensor(pointer(np.array([size(view) for view in views])), device)

    ptr = {
        "units": boundaries(lambda view: view.units),
        "spans": boundaries(lambda view: len(view.spans.first)),
        "windows": boundaries(lambda view: len(view.windows.first)),
        "episodes": boundaries(lambda view: len(view.episodes.first)),
        "sentences": boundaries(lambda view: len(view.rows.sentence_rows)),
        "entities": boundaries(lambda view: len(view.rows.entity_keys)),
        "nodes": boundaries(lambda view: len(view.graph.degree)),
        "terms": boundaries(lambda view: len(view.lexicon.terms)),
        "words": boundaries(lambda view: len(view.stream.keys)),
        "stream": boundaries(lambda view: len(view.stream.words)),
    }
    sizes = np.concatenate([view.graph.colour_sizes for view in views])
    stack = Stack(
        device=device,
        ptr=ptr,
        unit_vectors=[_tensor(view.rows.vectors, device) for view in views],
        sentence_vectors=[_tensor(view.rows.sentence_vectors, device) for view in views],
        entity_vectors=[_tensor(view.rows.entity_vectors, device) for view in views],
        term_vectors=[_tensor(view.term_vectors, device) for view in views],
        term_of_vector=[_tensor(view.term_of_vector, device) for view in views],
        entity_keys=flat(lambda view: view.rows.entity_keys),
        term_keys=flat(lambda view: view.lexicon.terms),
        word_keys=flat(lambda view: view.stream.keys),
        session=flat(lambda view: view.rows.session.astype(np.int32)),
        time=flat(lambda view: view.rows.time),
        types=flat(lambda view: view.rows.types),
        speaker=flat(lambda view: view.rows.speaker.astype(np.int32)),
        is_speaker=flat(_speaker_mask),
        sentence_unit=flat(lambda view: view.rows.sentence_unit.astype(np.int32)),
        sentences_of_unit=csr(_sentence_ranges),
        spans=level("spans"),
        windows=level("windows"),
        episodes=level("episodes"),
        unit_postings=csr(lambda view: view.lexicon.postings["units"]),
        episode_of_window=flat(lambda view: view.episode_of_window.astype(np.int32)),
        windows_of_unit=csr(lambda view: view.windows_of_unit),
        neighbours=csr(lambda view: view.neighbours),
        incidence=csr(lambda view: view.incidence),
        incidence_transposed=csr(lambda view: view.incidence_transposed),
        given=csr(lambda view: view.given),
        told=csr(lambda view: view.told),
        replies=csr(lambda view: view.replies),
        graph=Graph(
            csr(lambda view: view.graph.weights),
            flat(lambda view: view.graph.degree),
            flat(lambda view: view.graph.colours),
            _tensor(pointer(sizes), device),
            sound=True,
        ),
        stream=Stream(
            flat(lambda view: view.stream.words),
            flat(lambda view: view.stream.unit),
            ptr["stream"],
            ptr["words"],
            csr(lambda view: view.stream.places),
        ),
    )
    return stack if device.type != "cuda" else _sliced(stack)


def _sliced(stack: Stack) -> Stack:
    """The tables that the Triton forms gather from, as slices too."""
    sentences, entities, nodes = (stack.ptr[name] for name in ("sentences", "entities", "nodes"))
    forward = slice_table(stack.incidence, sentences, entities)
    backward = slice_table(stack.incidence_transposed, entities, sentences)
    weights = stack.graph.weights._replace(slices=slice_graph(stack.graph, nodes))
    return replace(
        stack,
        incidence=stack.incidence._replace(slices=forward),
        incidence_transposed=stack.incidence_transposed._replace(slices=backward),
        graph=stack.graph._replace(weights=weights),
    )


def _sentence_ranges(view: BankView) -> Table:
    """The sentences of each unit; sentences stand in unit order."""
    edges = np.searchsorted(view.rows.sentence_unit, np.arange(view.units + 1))
    return from_ranges(edges[:-1], edges[1:])


def _speaker_mask(view: BankView) -> np.ndarray:
    """Which entities of a bank speak, bool [entities]."""
    return np.isin(np.arange(len(view.rows.entity_keys)), view.rows.speaker)


def _join(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """A tensor on the device; on the CPU it shares the array's memory where that is contiguous."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)
