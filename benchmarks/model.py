"""Bytes and FLOPs of every kernel, from the sizes of its launch alone.

`l2` is what programs ask for: every element a load or store touches, padding included. It bounds gathers,
which the L2 has to serve one by one. `dram` is what one operation moves when nothing is evicted inside
it: each byte read once, unless the operation itself wrote it, and written once. An operation is a sweep, a
pass or a whole top-k. Not counted: the int64 tables of boundaries (a few words a program) and atomics on
[T, width] maxima. `flops` counts a multiply-add as two; epilogues count by row and column.

tests/kernels/test_model.py holds all of it against the kernels themselves, counted in the interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.tallies import Tally
from zeromem_kernels.gpu.phrases import _PARTS
from zeromem_kernels.gpu.reduce import CHUNK
from zeromem_kernels.slices import LANES

_F32, _F64, _I32 = 4, 8, 4
# rows a program of the elementwise kernels takes: activation, reset and top-k, and PageRank's
_ROWS, _NODE_ROWS = 64, 32
# blocks into which top-k cuts a tile at the most
_MOST_BLOCKS = 2048
# a slice's lane rows, and its first one again: is it of rows or of segments
_LANE_BYTES = (LANES + 1) * _I32
# a cut row's id, first segment and number of segments
_LONG_BYTES = 3 * _I32


@dataclass(frozen=True)
class Cost:
    """Bytes asked of the L2, bytes that memory must move, floating-point operations."""

    l2: int = 0
    dram: int = 0
    flops: int = 0

    def __add__(self, other: Cost) -> Cost:
        """Both, one after the other."""
        return Cost(self.l2 + other.l2, self.dram + other.dram, self.flops + other.flops)

    def __mul__(self, times: int) -> Cost:
        """So many times."""
        return Cost(self.l2 * times, self.dram * times, self.flops * times)

    __rmul__ = __mul__


def _pass(table: Tally, itemsize: int, row: int, program: int, stored: int) -> Cost:
    """A gather over slices and its combination of cut rows.

    `row` are the epilogue's bytes a row, `program` those a finished slice or cut row reads once, `stored`
    what the whole epilogue moves to and from memory.
    """
    moved, kept, width = table.moved, table.stored, table.width
    scratch = moved.segments * width * _F32
    finished = moved.row_slices + moved.long_rows
    l2 = moved.cells * (_I32 + _F32 + width * itemsize) + moved.slices * _LANE_BYTES + 2 * scratch
    l2 += moved.long_rows * _LONG_BYTES + moved.rows * row + finished * program
    dram = kept.cells * (_I32 + _F32) + kept.slices * LANES * _I32 + kept.long_rows * _LONG_BYTES
    return Cost(l2, dram + scratch + stored, 2 * moved.cells * width)


def sweep(
    graph: Tally, itemsize: int, *, in_place: bool, update: bool = True, residual: bool = False
) -> Cost:
    """One PageRank sweep: all colours of SOR, one power iteration, or (`update=False`) a residual pass."""
    width, rows = graph.width, graph.moved.rows
    line = (1 + update) * width * itemsize + width * _F32
    cost = _pass(
        graph, itemsize, _F32 + line, width * _F32,
        graph.stored.rows * _F32 + rows * line + int((graph.rows > 0).sum()) * width * _F32,
    )  # fmt: skip
    if residual:
        gaps = (graph.moved.slices + graph.moved.long_rows) * width * _F32
        cost += Cost(gaps, gaps)
    # multiply-adds of b + gain·Σ − y and of y + ω·gap; |gap|·d
    return cost + Cost(flops=(4 + (2 if update else 0) + residual) * rows * width)


def refine(graph: Tally, itemsize: int) -> Cost:
    """float16's residual pass, which leaves the gap in b, and the scaled beginning of its correction."""
    width, rows, filled = graph.width, graph.moved.rows, int((graph.rows > 0).sum())
    line = width * itemsize + 2 * width * _F32
    # a finished slice reads ω and the column's known peak
    cost = _pass(
        graph, itemsize, _F32 + line, 2 * width * _F32,
        graph.stored.rows * _F32 + rows * line + 2 * filled * width * _F32,
    )  # fmt: skip
    begun = rows * width * (2 * _F32 + itemsize)
    scales = _blocks(graph.rows, _NODE_ROWS) * width * _F32
    cost += Cost(begun + scales, begun + filled * width * _F32)
    return cost + Cost(flops=6 * rows * width)


def column_sums(rows: np.ndarray, width: int, itemsize: int) -> Cost:
    """Σ over each tile's rows, int64 [T], chunk by chunk."""
    cost = Cost()
    first = int(rows.sum()) * width * itemsize
    while True:
        chunks = np.maximum(-(-rows // CHUNK), 1)
        read, written = int(rows.sum()) * width * itemsize, int(chunks.sum()) * width * _F64
        cost += Cost(read + written, written, int(rows.sum()) * width)
        if chunks.max(initial=1) == 1:
            return cost + Cost(dram=first)
        rows, itemsize = chunks, _F64


def residual(graph: Tally, itemsize: int, gap_rows: np.ndarray) -> Cost:
    """‖…‖₁ of each column: a pass without update, and the sums of its gaps (int64 [T] rows of a tile)."""
    sums = column_sums(gap_rows, graph.width, _F32)
    # the gaps were written by the pass
    sums += Cost(dram=-int(gap_rows.sum()) * graph.width * _F32)
    return sweep(graph, itemsize, in_place=True, update=False, residual=True) + sums


def start(graph: Tally, itemsize: int, *, masked: bool = False) -> Cost:
    """b and the first y; float16 finds each column's peak first."""
    width, rows, half = graph.width, graph.moved.rows, itemsize == 2
    blocks, filled = _blocks(graph.rows, _NODE_ROWS), int((graph.rows > 0).sum())
    once = rows * (_F32 + width * (_F32 + masked))
    out = rows * width * (itemsize + _F32)
    l2 = once * (1 + half) + out + half * blocks * width * _F32
    read = graph.stored.rows * _F32 + rows * width * (_F32 + masked) + half * filled * width * _F32
    return Cost(l2, read + out, 3 * rows * width * (1 + half))


def finish(graph: Tally, itemsize: int, *, refined: bool = False) -> Cost:
    """π = d y/Σ d y, y with its correction where there is one."""
    width, rows = graph.width, graph.moved.rows
    chunks = np.maximum(-(-graph.rows // CHUNK), 1)
    kept = (1 + refined) * itemsize
    line = rows * (_F32 + width * kept)
    written = int(chunks.sum()) * width * _F64
    blocks = _blocks(graph.rows, _NODE_ROWS)
    l2 = 2 * line + written + rows * width * _F32 + blocks * width * _F64
    dram = graph.stored.rows * _F32 + rows * width * (kept + _F32) + written
    if refined:
        # the correction's scale: every 16 rows of a sum, and every block of rows
        l2 += (_blocks(graph.rows, 16) + blocks) * width * _F32
        dram += int((graph.rows > 0).sum()) * width * _F32
    cost = Cost(l2, dram, (4 + 4 * refined) * rows * width)
    if chunks.max(initial=1) > 1:
        sums = column_sums(chunks, width, _F64)
        cost += sums + Cost(dram=-written)
    return cost


def solve(
    graph: Tally,
    itemsize: int,
    sweeps: tuple[int, int],
    *,
    in_place: bool,
    lost: float = 1.0,
    masked: bool = False,
) -> Cost:
    """A whole solve: sweeps of y and of its correction (0: none).

    `lost` is the share of a sweep's memory traffic that the L2 does not save: 0 when y, b and the graph
    stay there throughout, 1 when nothing does.
    """
    refined = sweeps[1] > 0
    whole = start(graph, itemsize, masked=masked) + finish(graph, itemsize, refined=refined)
    passes = sum(sweeps) * sweep(graph, itemsize, in_place=in_place)
    if refined:
        passes += refine(graph, itemsize)
    kept, cells = graph.stored, graph.moved.rows * graph.width
    table = kept.cells * (_I32 + _F32) + kept.slices * LANES * _I32 + kept.rows * _F32
    # once from memory and back is what no cache saves
    least = table + cells * (2 * _F32 + masked)
    dram = least + lost * max(whole.dram + passes.dram - least, 0)
    return Cost(whole.l2 + passes.l2, int(dram), whole.flops + passes.flops)


def lost_share(needed: int, l2: int) -> float:
    """The share of `needed` bytes that an L2 of so many cannot keep, however well it chooses."""
    return max(0.0, 1.0 - l2 / needed) if needed else 0.0


def resident_bytes(graph: Tally, itemsize: int, *, in_place: bool, tiles: int = 1) -> int:
    """What a wave of so many tiles of one bank needs in the L2 to sweep without going to memory."""
    kept = graph.stored
    row = graph.moved.rows // max(graph.tiles, 1) * graph.width * ((1 if in_place else 2) * itemsize + _F32)
    table = kept.cells * (_I32 + _F32) + kept.slices * LANES * _I32 + kept.rows * _F32
    return tiles * row + table


def to_sentences(forward: Tally, entities: int, *, masked: bool = False) -> Cost:
    """The first pass of activation: entities (so many rows of η) into sentences, gated by sim(q, z)."""
    line, rows = forward.width * _F32, forward.moved.rows
    row = 2 * line + masked * forward.width
    seen = int((forward.rows > 0).sum()) * line
    cost = _pass(forward, _F32, row, line, rows * row + seen + entities * line)
    return cost + Cost(flops=3 * rows * forward.width)


def to_entities(backward: Tally, sentences: int, *, exclude: bool = False) -> Cost:
    """The second pass: sentences (so many rows) into entities; `exclude` takes out e = e'."""
    line, rows = backward.width * _F32, backward.moved.rows
    row = (1 + 2 * exclude) * line
    seen = int((backward.rows > 0).sum()) * line
    cost = _pass(backward, _F32, row, line, rows * row + seen + sentences * line)
    return cost + Cost(flops=(1 + 3 * exclude) * rows * backward.width)


def best_of(rows: np.ndarray, width: int, *, masked: bool = False) -> Cost:
    """The maximum of each column over rows int64 [T]."""
    read = int(rows.sum()) * width * (_F32 + masked)
    return Cost(read, read, int(rows.sum()) * width)


def settle(rows: np.ndarray, width: int, *, seeds: bool) -> Cost:
    """η scaled, cut off and added up, over entity rows int64 [T]."""
    line, filled = width * _F32, int((rows > 0).sum())
    each = int(rows.sum()) * line * (3 if seeds else 4)
    return Cost(each + _blocks(rows) * line, each + filled * line, 3 * int(rows.sum()) * width)


def propagate(
    forward: Tally, backward: Tally, steps: int, *, masked: bool = False, exclude: bool = False
) -> Cost:
    """Σ_t η_t: `forward` has sentences as rows, `backward` entities. S itself (`exclude`) is torch's."""
    width = forward.width
    cost = best_of(forward.rows, width, masked=masked) + best_of(backward.rows, width)
    cost += settle(backward.rows, width, seeds=True)
    sentences, entities = forward.moved.rows, backward.moved.rows
    if exclude:
        cost += to_entities(backward, sentences)
    step = to_sentences(forward, entities, masked=masked) + to_entities(
        backward, sentences, exclude=exclude
    )
    return cost + steps * (step + settle(backward.rows, width, seeds=False))


def reset(units: np.ndarray, entities: np.ndarray, width: int) -> Cost:
    """r from prior (unit rows int64 [T]) and η (entity rows): both sums, then the scaled copy."""
    nodes = units + entities
    line, filled = width * _F32, int((nodes > 0).sum())
    sums = column_sums(units, width, _F32) + column_sums(entities, width, _F32)
    copy = 2 * int(nodes.sum()) * line
    return sums + Cost(
        copy + 2 * _blocks(nodes) * line, copy + 2 * filled * line, 2 * int(nodes.sum()) * width
    )


def ordered_topk(rows: np.ndarray, width: int, k: int) -> Cost:
    """Ordered top-k at the most: each of k rounds searches a full block again, 4 bytes in every row."""
    if k == 0:
        return Cost()
    tiles, n, tallest = len(rows), int(rows.sum()), int(rows.max(initial=0))
    rows_a_block = max(_ROWS, 1 << (-(-tallest // _MOST_BLOCKS) - 1).bit_length())
    blocks = tiles * max(-(-tallest // rows_a_block), 1)
    best, kept = blocks * width * (_F32 + _I32), tiles * k * width * (_F32 + _I32)
    again = tiles * width * k * rows_a_block * _F32
    dram = n * width * _F32 + best + kept
    return Cost(dram + best + again, dram, n * width + tiles * width * k * rows_a_block)


def bm25(postings: int, terms: int, cells: int, *, shared: bool = False) -> Cost:
    """BM25's Triton form: `terms` terms of all queries, their `postings`, and so many scores.

    Each posting reads a document and a weight, reads its score and writes it back; scores begin as zeros.
    Memory is the most that there is: no posting is met twice.
    """
    moved = cells * _F32 + postings * (_I32 + _F32)
    each = _I32 + shared * _F32
    return Cost(terms * each + postings * (_I32 + 3 * _F32), moved, (1 + shared) * postings)


def bm25_tile(postings: int, cells: int) -> Cost:
    """BM25 in shared memory: postings read once, scores written once; peaks and bisection are left out."""
    moved = postings * (_I32 + _F32) + cells * _F32
    return Cost(moved, moved, postings)


def phrases(words: int, places: int, compared: int, cells: int) -> Cost:
    """Phrases at the most: their `words`, the `places` of each one's rarest, the words held against those.

    Every place may be a hit that looks back to the one before it. `cells` begin as zeros; what is added to
    them are atomics.
    """
    looked = places * 5 * _I32 + 2 * (compared + words * _PARTS) * _I32
    return Cost(looked, cells * _F32 + places * 3 * _I32 + compared * _I32)


def subjects(rows: np.ndarray, width: int, asked: int, mentions: int) -> Cost:
    """Subjects over unit rows int64 [T]: `asked` in all, as many in every column, and their `mentions`.

    At the most: every mention finds 0 and becomes ½, and memory gives no list twice.
    """
    n, columns = int(rows.sum()), max(len(rows), 1) * width
    cells, listed = n * width * _F32, mentions * (_I32 + 2 * _F32)
    spoken = n * _I32 + _blocks(rows) * (asked * width // columns) * _I32
    return Cost(
        cells + spoken + listed + asked * _PARTS * _I32, cells + n * _I32 + mentions * _I32 + asked * _I32
    )


def fuse(tiles: int, width: int, graph: int, hierarchy: int, k: int) -> Cost:
    """Fusion of two lists of `graph` and `hierarchy` candidates a column."""
    if k == 0:
        return Cost()
    moved = tiles * width * ((graph + hierarchy + k) * (_F32 + _I32) + _F32)
    return Cost(moved, moved, tiles * width * (graph * hierarchy + (4 + k) * (graph + hierarchy)))


def _blocks(rows: np.ndarray, size: int = _ROWS) -> int:
    """Blocks of so many rows that have any."""
    return int((-(-rows // size)).sum())
