"""Key look-ups, BM25, phrases and subjects, from the bank builders to the scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.kernels.layout import TILINGS, blocks, both, by_unit, pointer, stacked, tiles_of
from tests.reference import lexical, views
from tests.reference.examples import unit
from zeromem_gpu.build.graph import build_graph
from zeromem_gpu.build.learned import weight_segment
from zeromem_gpu.build.lexical import Segment, build_segment, build_stream
from zeromem_gpu.config import Config
from zeromem_kernels import weights as weights_module
from zeromem_kernels.lexical import (
    Phrases,
    Ragged,
    Stream,
    bm25,
    bm25_topk,
    lookup,
    phrase_support,
    slot_banks,
    subject_support,
)
from zeromem_kernels.tiles import Tiles, compiled, torch_forms
from zeromem_kernels.topk import ordered_topk
from zeromem_kernels.weights import Asked, Counts, Documents, Places, gather_counts, given, weigh

every_tiling = pytest.mark.parametrize("tiling", TILINGS)
UNITS = (7, 0, 63, 1, 120, 30)
WORDS = 12


@dataclass
class Texts:
    """Per bank and unit, the parts (speaker, text, caption) as word keys; key 1 is a stop word."""

    banks: list[list[list[list[int]]]]

    @classmethod
    def random(cls, seed: int) -> Texts:
        rng = np.random.default_rng(seed)

        def part(most: int) -> list[int]:
            return [int(word) for word in rng.integers(1, WORDS, size=rng.integers(0, most))]

        return cls([[[part(2), part(14), part(4)] for _ in range(n)] for n in UNITS])

    def arrays(self, bank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """raw, stem and unit of each word, a separator after each part, as `ingest` lays them out."""
        raw, unit_of = [], []
        for i, parts in enumerate(self.banks[bank]):
            for words in parts:
                raw += [*words, 0]
                unit_of += [i] * (len(words) + 1)
        keys = np.array(raw, np.int64)
        return keys, np.where(keys == 1, 0, keys), np.array(unit_of, np.int64)


def ragged(slots: Sequence[Sequence[int]]) -> Ragged:
    flat = [value for slot in slots for value in slot]
    return Ragged(pointer([len(slot) for slot in slots]), torch.tensor(flat, dtype=torch.int32))


def test_lookup() -> None:
    rng = np.random.default_rng(1)
    sizes = (40, 0, 1, 77)
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    banks_keys = [np.sort(rng.choice(np.arange(-200, 200), size=n, replace=False)) for n in sizes]
    banks_keys[3][[0, -1]] = low, high
    asked = np.concatenate([rng.integers(-210, 210, size=300), [low, high, 0]])
    banks = rng.integers(0, len(sizes), size=len(asked))
    stack_keys = torch.from_numpy(np.concatenate(banks_keys))
    expected = [
        list(banks_keys[b]).index(key) if key in banks_keys[b] else -1
        for b, key in zip(banks, asked, strict=True)
    ]
    for found in both(
        lambda: lookup(torch.from_numpy(banks), torch.from_numpy(asked), pointer(sizes), stack_keys)
    ):
        assert found.tolist() == expected
    none = torch.zeros(0, dtype=torch.int64)
    for found in both(lambda: lookup(none, none, pointer(sizes), stack_keys)):
        assert found.tolist() == []
    for found in both(lambda: lookup(torch.tensor([0]), torch.tensor([5]), pointer([0]), none)):
        assert found.tolist() == [-1]


def test_slot_banks() -> None:
    tiles = Tiles(torch.tensor([4, 2]), 2)
    assert slot_banks(pointer([2, 0, 1, 3]), tiles).tolist() == [4, 4, 2, 2, 2, 2]


def counts_of(segments: Sequence[Segment]) -> Counts:
    """One segment of each bank, stacked."""
    tables = [(one.indptr, one.units, one.counts) for one in segments]
    table = stacked(tables)
    keys = torch.from_numpy(np.concatenate([one.terms for one in segments]))
    return Counts(pointer([len(one.terms) for one in segments]), keys, *table[:2], table.weights.int())


def places_of(rows: Sequence[np.ndarray]) -> Places:
    """Where the stored units of each bank stand."""
    return Places(pointer([len(one) for one in rows]), torch.from_numpy(np.concatenate(rows)).int())


@every_tiling
@pytest.mark.parametrize("level", ["units", "spans"])
@pytest.mark.parametrize("parts", [1, 3])
def test_bm25(tiling: str, level: str, parts: int) -> None:
    """Every third unit is gone, the others stand in reverse; the words lie in one table or in several."""
    rng = np.random.default_rng(2)
    texts, tiles, config = Texts.random(3), tiles_of(tiling), Config()
    documents, tables, rows, levels = [], [], [], []
    for b, n in enumerate(UNITS):
        _, stem, unit_of = texts.arrays(b)
        left = np.flatnonzero(np.arange(n) % 3 != 1)[::-1]
        place = np.full(n, -1)
        place[left] = np.arange(len(left))
        at = np.arange(len(left))
        first, end = (
            (at, at + 1) if level == "units" else (np.maximum(at - 1, 0), np.minimum(at + 2, len(at)))
        )
        stems = [[word for part in texts.banks[b][u] for word in part if word > 1] for u in left]
        documents.append(
            [[t for part in stems[a:z] for t in part] for a, z in zip(first, end, strict=True)]
        )
        edges = np.linspace(0, n, parts + 1).astype(int)
        tokens = np.searchsorted(unit_of, edges)
        tables.append([
            build_segment(stem[x:y], stem[x:y], unit_of[x:y], p, q)
            for p, q, x, y in zip(edges, edges[1:], tokens, tokens[1:], strict=False)
        ])  # fmt: skip
        rows.append(place)
        levels.append(
            (np.array([len(d) for d in documents[-1]], np.int64), first if level == "spans" else at, end)
        )
    asked = [
        [int(t) for t in rng.integers(2, WORDS + 3, size=rng.integers(0, 5))]
        for _ in range(len(tiles) * tiles.width)
    ]
    units = pointer([len(d) for d in documents])
    held = Documents(
        units, *(torch.from_numpy(np.concatenate([one[at] for one in levels])) for at in (0,)),
        *(torch.from_numpy(np.concatenate([one[at] for one in levels])).int() for at in (1, 2)),
    )  # fmt: skip
    counts = [counts_of([bank[at] for bank in tables]) for at in range(parts)]
    keys = torch.arange(2, WORDS + 3).repeat(len(UNITS))
    banks = torch.arange(len(UNITS)).repeat_interleave(WORDS + 1)
    term_ptr = torch.arange(len(UNITS) + 1) * (WORDS + 1)
    local = ragged([[t - 2 for t in slot] for slot in asked])
    axis = tiles.axis(units)

    def score() -> torch.Tensor:
        terms = [lookup(banks, keys, part.ptr, part.keys) for part in counts]
        found = gather_counts(counts, terms, banks, places_of(rows))
        return bm25(weigh(found, units, held, config.bm25_k1, config.bm25_b), term_ptr, local, axis)

    for found in both(score):
        for block in blocks(axis):
            for c in range(tiles.width):
                expected = lexical.bm25_scores(
                    asked[block.tile * tiles.width + c],
                    documents[block.bank],
                    config.bm25_k1,
                    config.bm25_b,
                )
                np.testing.assert_allclose(found[block.at, c].numpy(), expected, rtol=2e-6, atol=1e-6)


@every_tiling
@pytest.mark.parametrize("parts", [1, 3])
def test_given_weights(tiling: str, parts: int) -> None:
    """The dot product of token weights; units are gone and reversed, in one table or several, as above."""
    rng = np.random.default_rng(21)
    tiles, rows, tables, dense = tiles_of(tiling), [], [], []
    for n in UNITS:
        held = np.where(rng.random((n, WORDS)) < 0.3, rng.random((n, WORDS)), 0).astype(np.float32)
        left = np.flatnonzero(np.arange(n) % 3 != 1)[::-1]
        rows.append(np.full(n, -1))
        rows[-1][left] = np.arange(len(left))
        dense.append(held[left].astype(np.float64))
        edges = np.linspace(0, n, parts + 1).astype(int)
        unit, token = np.nonzero(held)
        of = [(unit >= p) & (unit < q) for p, q in pairwise(edges)]
        tables.append([
            weight_segment(token[mine], unit[mine].astype(np.int32), held[unit, token][mine], p, q)
            for mine, (p, q) in zip(of, pairwise(edges), strict=True)
        ])  # fmt: skip
    levels = [[bank[at] for bank in tables] for at in range(parts)]
    counts = [
        Counts(
            pointer([len(one.tokens) for one in level]),
            torch.from_numpy(np.concatenate([one.tokens for one in level])),
            *stacked([one.postings for one in level])[:3],
        )
        for level in levels
    ]
    keys = torch.arange(WORDS + 1).repeat(len(UNITS))
    banks = torch.arange(len(UNITS)).repeat_interleave(WORDS + 1)
    term_ptr = torch.arange(len(UNITS) + 1) * (WORDS + 1)
    # WORDS is a token that no unit has
    sizes = rng.integers(0, 7, size=len(tiles) * tiles.width)
    asked = [np.sort(rng.choice(WORDS + 1, size=size, replace=False)) for size in sizes]
    shares = [rng.random(size).astype(np.float32) for size in sizes]
    local = ragged([tokens.tolist() for tokens in asked])
    share = torch.from_numpy(np.concatenate([np.empty(0, np.float32), *shares]))
    axis = tiles.axis(pointer([len(one) for one in dense]))

    def score() -> torch.Tensor:
        terms = [lookup(banks, keys, part.ptr, part.keys) for part in counts]
        found = given(gather_counts(counts, terms, banks, places_of(rows)))
        assert found.weights.dtype == torch.float32
        if compiled(found.indices) is None:
            of = torch.repeat_interleave(torch.arange(len(keys)), found.indptr.diff())
            assert ((of << 32 | found.indices.long()).diff() > 0).all(), "a card's kernel bisects them"
        return bm25(found, term_ptr, local, axis, share)

    for found in both(score):
        for block in blocks(axis):
            for c in range(tiles.width):
                slot = block.tile * tiles.width + c
                wanted = np.append(dense[block.bank], np.zeros((len(dense[block.bank]), 1)), 1)
                wanted = wanted[:, asked[slot]] @ shares[slot].astype(np.float64)
                np.testing.assert_allclose(found[block.at, c].numpy(), wanted, rtol=2e-6, atol=1e-6)


@every_tiling
@pytest.mark.parametrize("k", [0, 1, 5, 200])
def test_the_best_documents_are_those_of_the_dense_scores(tiling: str, k: int) -> None:
    rng = np.random.default_rng(12)
    tiles = tiles_of(tiling)
    axis = tiles.axis(pointer(UNITS))
    # few weights, so that many scores are equal
    tables = []
    for n in UNITS:
        row, column = np.nonzero(rng.random((WORDS, n)) < 0.3)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=WORDS))])
        tables.append((indptr, column, rng.integers(1, 3, len(row)) / 4))
    postings, term_ptr = stacked(tables), pointer([WORDS] * len(UNITS))
    slots = len(tiles) * tiles.width
    terms = ragged([rng.integers(-1, WORDS, size=rng.integers(0, 5)).tolist() for _ in range(slots)])
    with torch_forms():
        expected = ordered_topk(bm25(postings, term_ptr, terms, axis), axis, k)
    for found in both(lambda: bm25_topk(postings, term_ptr, terms, axis, k)):
        assert torch.equal(found.scores, expected.scores)
        assert torch.equal(found.rows, expected.rows)


def phrase_case(
    texts: Texts, tiles: Tiles, asked: Sequence[Sequence[Sequence[int]]]
) -> tuple[Stream, Phrases]:
    """`asked` holds per slot its phrases in word keys."""
    streams = []
    for b in range(len(UNITS)):
        raw, _, unit_of = texts.arrays(b)
        streams.append(build_stream(raw, unit_of))
    banks = np.repeat(tiles.bank.numpy(), tiles.width)
    known = [list(stream.keys) for stream in streams]
    words = [
        [known[b].index(word) if word in known[b] else -1 for word in phrase]
        for b, slot in zip(banks, asked, strict=True)
        for phrase in slot
    ]
    stream = Stream(
        torch.from_numpy(np.concatenate([s.words for s in streams])),
        torch.from_numpy(np.concatenate([s.unit for s in streams])),
        pointer([len(s.words) for s in streams]),
        pointer([len(s.keys) for s in streams]),
        stacked([s.occurrences for s in streams]),
        places_of([np.arange(n) for n in UNITS]),
    )
    lists = ragged(words)
    return stream, Phrases(pointer([len(slot) for slot in asked]), lists.ptr, lists.values)


@every_tiling
def test_phrases(tiling: str) -> None:
    rng = np.random.default_rng(4)
    texts, tiles = Texts.random(5), tiles_of(tiling)

    def phrase() -> list[int]:
        # WORDS is a word that no bank has
        return [int(w) for w in rng.integers(1, WORDS + 1, size=rng.integers(1, 4))]

    asked = [[phrase() for _ in range(rng.integers(0, 5))] for _ in range(len(tiles) * tiles.width)]
    stream, phrases = phrase_case(texts, tiles, asked)
    axis = tiles.axis(pointer(UNITS))
    units = [
        [
            unit(text, speaker=speaker or None, caption=caption)
            for speaker, text, caption in ([" ".join(map(str, part)) for part in parts] for parts in bank)
        ]
        for bank in texts.banks
    ]  # fmt: skip
    plain, fast = both(lambda: phrase_support(stream, phrases, axis))
    for block in blocks(axis):
        for c in range(tiles.width):
            said = [[str(w) for w in p] for p in asked[block.tile * tiles.width + c]]
            expected = lexical.phrase_support(said, units[block.bank])
            for found in (plain, fast):
                np.testing.assert_allclose(found[block.at, c].numpy(), expected, atol=1e-6)


def test_a_phrase_with_an_unknown_word_matches_no_separator() -> None:
    texts = Texts([[[[9], [2, 3], [4]]], [], [], [], [], []])
    tiles = Tiles(torch.tensor([0]), 4)
    asked = [[[3, 77]], [[3, 77, 4]], [[77]], [[2, 3], [3, 4], [9, 2], [4, 77]]]
    stream, phrases = phrase_case(texts, tiles, asked)
    axis = tiles.axis(pointer([1, 0, 0, 0, 0, 0]))
    for found in both(lambda: phrase_support(stream, phrases, axis)):
        assert found.tolist() == [[0.0, 0.0, 0.0, 0.25]]


def subject_case(tiling: str, most: int) -> tuple[Callable[[], torch.Tensor], np.ndarray]:
    """Fewer than `most` random subjects a question: the call, and the reference's answer [rows, width]."""
    rng = np.random.default_rng(6)
    tiles, names = tiles_of(tiling), (4, 0, 9, 1, 20, 3)
    tables, speakers, held = [], [], []
    for n, m in zip(UNITS, names, strict=True):
        pairs = np.argwhere(rng.random((n, m)) < 0.15)
        counts = by_unit(pairs[:, 0], pairs[:, 1], np.ones(len(pairs), np.int64), n)
        tables.append(build_graph(counts, np.array([0, n] if n else [0]), m, 1.0).weights)
        speakers.append(rng.integers(-1, m, size=n).astype(np.int32))
        held.append([{str(e): 1 for i, e in pairs if i == row} for row in range(n)])
    asked = [
        # one asked twice and an unknown one among them
        [int(s) for s in rng.integers(-1, names[bank], size=rng.integers(0, most))]
        for bank in np.repeat(tiles.bank.numpy(), tiles.width)
    ]
    axis = tiles.axis(pointer(UNITS))
    node_ptr = pointer([n + m for n, m in zip(UNITS, names, strict=True)])
    speaker = torch.from_numpy(np.concatenate(speakers))
    expected = np.full((axis.rows, tiles.width), np.nan)
    for block in blocks(axis):
        for c in range(tiles.width):
            subjects = [str(s) for s in asked[block.tile * tiles.width + c] if s >= 0]
            expected[block.at, c] = [
                views.subject_consistency(
                    subjects, unit(speaker=str(s) if s >= 0 else None), held[block.bank][i]
                )
                for i, s in enumerate(speakers[block.bank])
            ]
    return (
        lambda: subject_support(ragged(asked), speaker, stacked(tables), pointer(UNITS), node_ptr, axis),
        expected,
    )


@every_tiling
def test_subjects(tiling: str) -> None:
    support, expected = subject_case(tiling, 4)
    plain, fast = both(support)
    assert torch.equal(plain, fast)
    assert fast.tolist() == expected.tolist()


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("width", [1, 32])
def test_bm25_of_a_bank_of_several_blocks(width: int, ascending: bool) -> None:
    # more rows than the compiled form fills at a time
    rng = np.random.default_rng(6)
    rows, terms = (1 << 17) // width + 77, 9
    axis = Tiles(torch.tensor([1, 1]), width).axis(pointer([5, rows]))
    tables = [(np.zeros(3), [], []), []]
    documents = [rng.permutation(rows)[: rng.integers(0, rows)] for _ in range(terms)]
    documents = [np.sort(one) for one in documents] if ascending else documents
    ptr = np.append(0, np.cumsum([len(one) for one in documents]))
    tables[1] = (ptr, np.concatenate(documents), rng.random(ptr[-1]))
    slots = [rng.integers(-1, terms, size=rng.integers(0, 6)).tolist() for _ in range(2 * width)]
    asked = ragged(slots)
    shares = torch.from_numpy(rng.random(len(asked.values))).float()
    plain, fast = both(lambda: bm25(stacked(tables), pointer([2, terms]), asked, axis, shares))
    np.testing.assert_allclose(fast.numpy(), plain.numpy(), rtol=1e-5, atol=1e-6)


def test_terms_weighed_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    units, terms = 300, 40
    begin = np.cumsum(rng.integers(0, 9, size=terms))
    end = np.append(begin[1:], begin[-1] + 5)
    at = torch.from_numpy(np.concatenate([np.sort(rng.choice(units, n, False)) for n in end - begin])).int()
    first = int(begin[0])
    asked = Asked(
        torch.zeros(terms, dtype=torch.int64), torch.from_numpy(begin - first),
        torch.from_numpy(end - first), at, torch.ones_like(at),
    )  # fmt: skip
    row = torch.arange(units, dtype=torch.int32)
    documents = Documents(pointer([units]), torch.arange(units) % 7 + 1, (row - 1).clamp(min=0), row + 1)
    alone = weigh(asked, pointer([units]), documents, 1.2, 0.3)
    monkeypatch.setattr(weights_module, "_LEAST_ROOM", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        together = weigh(asked, pointer([units]), documents, 1.2, 0.3)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(alone[:3], together[:3], strict=True):
        assert torch.equal(one, other)
