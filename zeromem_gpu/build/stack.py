"""Banks side by side on one device: the arrays of a batch, with `ptr` boundaries per bank.

A stack of one bank copies nothing on the CPU; vectors are never copied, whatever the number of banks.
Vectors lie in order of arrival where that order is not the bank's own; `Placed` says which row is where.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zeromem_gpu.build.hierarchy import Level
from zeromem_gpu.build.learned import WeightSegment, weight_segment
from zeromem_gpu.build.lexical import Segment, build_segment
from zeromem_gpu.build.ordered import Vectors
from zeromem_gpu.build.ragged import Rows as Table
from zeromem_gpu.build.ragged import counting, ones
from zeromem_gpu.build.views import BankView
from zeromem_kernels.layout import pointer
from zeromem_kernels.lexical import Stream
from zeromem_kernels.pagerank import Graph, slice_graph
from zeromem_kernels.similarity import Placed
from zeromem_kernels.tiles import Csr, slice_table
from zeromem_kernels.weights import Counts, Documents, Places

# words, low, high of `Level`
Edges = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class StackedLevel:
    """One level of the hierarchy: its members, and how their cosines become the level's.

    `members` lists the units of each interval; `inverse_norm` float32 scales their summed cosines;
    `vectors` per bank replaces that for encoded levels; `documents` are its intervals as BM25 counts them.
    """

    members: Csr
    inverse_norm: Tensor
    vectors: list[Tensor] | None
    documents: Documents


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Words of one segment of every bank (see `build/lexical.py`); `word_keys` ascend inside a bank."""

    counts: Counts
    stream: Stream
    word_keys: Tensor


@dataclass(frozen=True, eq=False)
class Stack:
    """All arrays that retrieval reads for the banks of a batch.

    `ptr` holds int64 [banks + 1] boundaries for units, spans, windows, episodes, sentences, entities,
    nodes and terms (words that have a vector), `host_ptr` the same in NumPy; `host_terms` holds
    `term_keys` and `term_rows` by bank there. Ids inside arrays are local to their bank. `places` is
    where units stand that `lexicons` and `learned` (token weights, () where no bank has any) know by
    arrival. `kept` is what searches make of a stack once.
    """

    device: torch.device
    ptr: dict[str, Tensor]
    host_ptr: dict[str, np.ndarray]
    host_terms: list[tuple[np.ndarray, np.ndarray]]
    unit_vectors: list[Placed]
    sentence_vectors: list[Placed]
    entity_vectors: list[Placed]
    term_vectors: list[Tensor]
    term_keys: Tensor
    term_rows: Tensor
    entity_keys: Tensor
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
    documents: Documents
    places: Places
    lexicons: tuple[Lexicon, ...]
    learned: tuple[Counts, ...]
    episode_of_window: Tensor
    windows_of_unit: Csr
    neighbours: Csr
    incidence: Csr
    incidence_transposed: Csr
    given: Csr
    told: Csr
    replies: Csr
    graph: Graph
    kept: dict[Hashable, Any] = field(default_factory=dict)


def stack_banks(views: Sequence[BankView], device: torch.device, *, half: bool = False) -> Stack:
    """Put the views of at least one bank side by side.

    With `half` the vectors of units, sentences, entities and encoded levels are stored in float16 (see
    `zeromem_kernels.similarity`); those of words, whose products are exact, stay float32.
    """

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
            host_bounds=shift,
        )

    def vectors(pick: Callable[[BankView], Vectors]) -> list[Placed]:
        return [
            Placed(stored_in(stored), None if rows is None else _tensor(rows, device))
            for stored, rows in map(pick, views)
        ]

    def stored_in(array: np.ndarray) -> Tensor:
        # converted on the host: half of the bytes cross to the device
        return _tensor(array.astype(np.float16) if half else array, device)

    def documents(pick: Callable[[BankView], Edges]) -> Documents:
        words, low, high = zip(*map(pick, views), strict=True)
        sizes = _tensor(pointer(np.array([len(one) for one in words])), device)
        return Documents(sizes, *(_tensor(_join(parts), device) for parts in (words, low, high)))

    def level(name: str) -> StackedLevel:
        picked: list[Level] = [getattr(view.levels, name) for view in views]
        encoded = [part.vectors for part in picked if part.vectors is not None]
        return StackedLevel(
            csr(lambda view: getattr(view.levels, name).members),
            flat(lambda view: getattr(view.levels, name).inverse_norm),
            [stored_in(part) for part in encoded] if len(encoded) == len(views) else None,
            documents(lambda view: _edges(getattr(view.levels, name))),
        )

    def boundaries(size: Callable[[BankView], int]) -> np.ndarray:
        return pointer(np.array([size(view) for view in views]))

    host_ptr = {
        "units": boundaries(lambda view: view.units),
        "spans": boundaries(lambda view: len(view.levels.spans.first)),
        "windows": boundaries(lambda view: len(view.levels.windows.first)),
        "episodes": boundaries(lambda view: len(view.levels.episodes.first)),
        "sentences": boundaries(lambda view: len(view.rows.sentence_rows)),
        "entities": boundaries(lambda view: len(view.rows.entity_keys)),
        "nodes": boundaries(lambda view: len(view.graph.degree)),
        "terms": boundaries(lambda view: len(view.term_keys)),
    }
    ptr = {name: _tensor(bounds, device) for name, bounds in host_ptr.items()}
    stored = boundaries(lambda view: len(view.rows.unit_place))
    places = Places(_tensor(stored, device), flat(lambda view: view.rows.unit_place))
    sizes = np.concatenate([view.graph.colour_sizes for view in views])
    stack = Stack(
        device=device,
        ptr=ptr,
        host_ptr=host_ptr,
        host_terms=[(view.term_keys, view.term_rows) for view in views],
        unit_vectors=vectors(lambda view: view.rows.vectors),
        sentence_vectors=vectors(lambda view: view.rows.sentence_vectors),
        entity_vectors=vectors(lambda view: view.rows.entity_vectors),
        term_vectors=[_tensor(view.term_vectors, device) for view in views],
        term_keys=flat(lambda view: view.term_keys),
        term_rows=flat(lambda view: view.term_rows),
        entity_keys=flat(lambda view: view.rows.entity_keys),
        session=flat(lambda view: view.rows.session),
        time=flat(lambda view: view.rows.time),
        types=flat(lambda view: view.rows.types),
        speaker=flat(lambda view: view.rows.speaker),
        is_speaker=flat(lambda view: view.speaks),
        sentence_unit=flat(lambda view: view.rows.sentence_unit),
        sentences_of_unit=csr(_sentences),
        spans=level("spans"),
        windows=level("windows"),
        episodes=level("episodes"),
        documents=documents(_each_unit),
        places=places,
        lexicons=_lexicons(views, places, device),
        learned=_learned(views, device),
        episode_of_window=flat(lambda view: view.levels.episode_of),
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
    )
    return stack if device.type != "cuda" else sliced(stack)


def sliced(stack: Stack) -> Stack:
    """The tables that the Triton forms gather from, as slices too."""
    sentences, entities, nodes = (stack.ptr[name] for name in ("sentences", "entities", "nodes"))

    def level(plain: StackedLevel, name: str) -> StackedLevel:
        slices = slice_table(plain.members, stack.ptr[name], stack.ptr["units"])
        return replace(plain, members=plain.members._replace(slices=slices))

    forward = slice_table(stack.incidence, sentences, entities)
    backward = slice_table(stack.incidence_transposed, entities, sentences)
    weights = stack.graph.weights._replace(slices=slice_graph(stack.graph, nodes))
    return replace(
        stack,
        spans=level(stack.spans, "spans"),
        windows=level(stack.windows, "windows"),
        episodes=level(stack.episodes, "episodes"),
        incidence=stack.incidence._replace(slices=forward),
        incidence_transposed=stack.incidence_transposed._replace(slices=backward),
        graph=stack.graph._replace(weights=weights),
    )


def _lexicons(views: Sequence[BankView], places: Places, device: torch.device) -> tuple[Lexicon, ...]:
    """The segments of all banks, the first ones together, then the second ones …; some banks have fewer."""
    chains = zip_longest(*(view.segments for view in views), fillvalue=_no_words())
    return tuple(_lexicon(level, places, device) for level in chains)


def _learned(views: Sequence[BankView], device: torch.device) -> tuple[Counts, ...]:
    """Token weights as `_lexicons` has words: the first segments of all banks, the second ones …."""
    chains = zip_longest(*(view.learned for view in views), fillvalue=_no_weights())
    return tuple(
        Counts(
            _lengths([one.tokens for one in level], device), _flat([one.tokens for one in level], device),
            _chained([one.postings.indptr for one in level], device),
            _flat([one.postings.indices for one in level], device),
            _flat([one.postings.weights for one in level], device),
        )
        for level in chains
    )  # fmt: skip


@cache
def _no_words() -> Segment:
    none = np.empty(0, np.int64)
    return build_segment(none, none, none, 0, 0)


@cache
def _no_weights() -> WeightSegment:
    none = np.empty(0, np.int32)
    return weight_segment(none, none, np.empty(0, np.float32), 0, 0)


def _flat(parts: Sequence[np.ndarray], device: torch.device) -> Tensor:
    return _tensor(_join(parts), device)


def _lengths(parts: Sequence[np.ndarray], device: torch.device) -> Tensor:
    """The boundaries of parts that lie one behind the other."""
    return _tensor(pointer(np.array([len(part) for part in parts])), device)


def _chained(parts: Sequence[np.ndarray], device: torch.device) -> Tensor:
    """The pointers of tables that lie one below the other."""
    shift = pointer(np.array([part[-1] for part in parts]))
    starts = [part[:-1] + at for part, at in zip(parts, shift, strict=False)]
    return _tensor(parts[0] if len(parts) == 1 else np.concatenate([*starts, shift[-1:]]), device)


def _lexicon(segments: Sequence[Segment], places: Places, device: torch.device) -> Lexicon:
    streams = [segment.stream for segment in segments]
    flat, ptr, chained = (partial(put, device=device) for put in (_flat, _lengths, _chained))
    terms, keys = [segment.terms for segment in segments], [stream.keys for stream in streams]
    counts = Counts(
        ptr(terms), flat(terms), chained([segment.indptr for segment in segments]),
        flat([segment.units for segment in segments]), flat([segment.counts for segment in segments]),
    )  # fmt: skip
    words = [stream.words for stream in streams]
    tables = [stream.occurrences for stream in streams]
    occurrences = Csr(
        chained([table.indptr for table in tables]),
        flat([table.indices for table in tables]),
        flat([table.weights for table in tables]),
    )
    stream = Stream(
        flat(words), flat([stream.unit for stream in streams]), ptr(words), ptr(keys), occurrences, places
    )
    return Lexicon(counts, stream, flat(keys))


def _edges(level: Level) -> Edges:
    """A level's intervals as BM25 counts them."""
    return level.words, level.low, level.high


def _each_unit(view: BankView) -> Edges:
    """Every unit as an interval of its own."""
    unit = counting(view.units + 1)
    return view.rows.words, unit[:-1], unit[1:]


def _sentences(view: BankView) -> Table:
    """The sentences of each unit, which stand in the order of units."""
    ptr = view.rows.sentence_ptr
    return Table(ptr, counting(int(ptr[-1])), ones(int(ptr[-1])))


def _join(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """A tensor on the device; on the CPU it shares the array's memory where that is contiguous."""
    # columns of an opened index may be read-only, which torch does not know
    plain = array.flags.c_contiguous and array.flags.writeable
    return torch.from_numpy(array if plain else np.array(array, order="C")).to(device)
