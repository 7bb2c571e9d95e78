"""Phrases and subjects in Triton's interpreter, against their formulas and the compiled forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels.layout import TILINGS, blocks, interpreted, pointer, stacked, tiles_of
from tests.kernels.test_lexical import UNITS, WORDS, Texts, phrase_case, places_of, ragged, subject_case
from tests.reference import lexical
from tests.reference.examples import unit
from zeromem_gpu.build.lexical import build_stream
from zeromem_kernels.gpu import phrases as device
from zeromem_kernels.lexical import Phrases, Stream, phrase_support
from zeromem_kernels.tiles import Tiles, torch_forms

every_tiling = pytest.mark.parametrize("tiling", TILINGS)
every_size = pytest.mark.parametrize(("places", "parts"), [(16, 2), (64, 1)])


def sizes(monkeypatch: pytest.MonkeyPatch, places: int, parts: int) -> None:
    """Blocks so small that lists and units go on in the next one."""
    monkeypatch.setattr(device, "_PLACES", places)
    monkeypatch.setattr(device, "_PARTS", parts)


@every_tiling
@every_size
def test_phrases(tiling: str, places: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes(monkeypatch, places, parts)
    rng = np.random.default_rng(4)
    texts, tiles = Texts.random(5), tiles_of(tiling)

    def phrase() -> list[int]:
        # WORDS is a word that no bank has
        return [int(w) for w in rng.integers(1, WORDS + 1, size=rng.integers(1, 4))]

    most = 3 if tiles.width < 32 else 2
    asked = [[phrase() for _ in range(rng.integers(0, most))] for _ in range(len(tiles) * tiles.width)]
    stream, phrases = phrase_case(texts, tiles, asked)
    axis = tiles.axis(pointer(UNITS))
    found = interpreted(lambda: phrase_support(stream, phrases, axis))
    units = [
        [
            unit(text, speaker=speaker or None, caption=caption)
            for speaker, text, caption in ([" ".join(map(str, part)) for part in parts] for parts in bank)
        ]
        for bank in texts.banks
    ]  # fmt: skip
    for block in blocks(axis):
        for c in range(tiles.width):
            said = [[str(w) for w in p] for p in asked[block.tile * tiles.width + c]]
            expected = lexical.phrase_support(said, units[block.bank])
            np.testing.assert_allclose(found[block.at, c].numpy(), expected, atol=1e-6)
    pytest.importorskip("numba")
    assert torch.equal(found, phrase_support(stream, phrases, axis))


def test_a_unit_that_says_a_phrase_again_and_again_counts_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes(monkeypatch, 4, 2)
    # the rarest word alone between two of them, other units in the same block, a part that ends in between
    texts = Texts(
        [
            [
                [[], [2, 3, 2, 2, 3, 3, 3, 2, 3], [2, 3]],
                [[], [2, 3], []],
                [[3], [2], [3, 2]],
                [[2, 3], [], [2, 3]],
            ]
        ]
        + [[]] * 5
    )
    tiles = Tiles(torch.tensor([0]), 3)
    stream, phrases = phrase_case(texts, tiles, [[[2, 3]], [[2, 3], [3, 3]], [[3], [2, 3, 2], [9]]])
    axis = tiles.axis(pointer([4, 0, 0, 0, 0, 0]))
    found = interpreted(lambda: phrase_support(stream, phrases, axis))
    third = 1 / 3
    expected = [[1.0, 1.0, 2 * third], [1.0, 0.5, third], [0.0, 0.0, third], [1.0, 0.5, third]]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_no_phrase_reaches_into_another_bank() -> None:
    """Nothing separates the banks' streams here: the words of one would go on in the next."""
    words = [np.array(raw, np.int64) for raw in ([3, 2], [3, 2, 2], [], [3])]
    streams = [build_stream(raw, np.zeros(len(raw), int)) for raw in words]
    stream = Stream(
        torch.from_numpy(np.concatenate([one.words for one in streams])),
        torch.from_numpy(np.concatenate([one.unit for one in streams])),
        pointer([len(one.words) for one in streams]),
        pointer([len(one.keys) for one in streams]),
        stacked([one.occurrences for one in streams]),
        places_of([np.zeros(n, int) for n in (1, 1, 0, 1)]),
    )
    tiles = Tiles(torch.tensor([0, 1, 2, 3]), 1)
    axis = tiles.axis(pointer([1, 1, 0, 1]))
    # 2 before 3, once as the rarer word and once as the commoner; the last bank ends where the stream does
    ids = ragged([[0, 1], [0, 1], [-1, -1], [0, 0]])
    phrases = Phrases(pointer([1, 1, 1, 1]), ids.ptr, ids.values)
    for form in (lambda call: call(), interpreted):
        assert form(lambda: phrase_support(stream, phrases, axis)).tolist() == [[0.0]] * 3


def test_segments_add_up_and_units_that_are_gone_count_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes(monkeypatch, 4, 2)
    texts = Texts([[[[], [2, 3], []], [[], [2], []], [[], [2, 3, 4], []]], *[[]] * 5])
    tiles = Tiles(torch.tensor([0]), 2)
    stream, phrases = phrase_case(texts, tiles, [[[2, 3], [4]], [[77]]])
    # the first unit is gone, the others moved up
    gone = [np.array([-1, 0, 1]), *[np.empty(0, int)] * 5]
    stream = stream._replace(rows=places_of(gone))
    axis = tiles.axis(pointer([2, 0, 0, 0, 0, 0]))
    before = torch.tensor([[0.5, 0.0], [0.0, 0.0]])
    found = interpreted(lambda: phrase_support(stream, phrases, axis, before.clone()))
    assert found.tolist() == [[0.5, 0.0], [1.0, 0.0]]


def test_phrases_of_unknown_words_and_none_match_nothing() -> None:
    texts = Texts([[[[9], [2, 3], [4]]], [], [], [], [], []])
    tiles = Tiles(torch.tensor([0]), 4)
    asked = [[[3, 77]], [[3, 77, 4]], [[]], [[2, 3], [3, 4], [9, 2], [4, 77]]]
    stream, phrases = phrase_case(texts, tiles, asked)
    axis = tiles.axis(pointer([1, 0, 0, 0, 0, 0]))
    assert interpreted(lambda: phrase_support(stream, phrases, axis)).tolist() == [[0.0, 0.0, 0.0, 0.25]]
    nothing = phrase_case(texts, tiles, [[], [], [], []])[1]
    assert interpreted(lambda: phrase_support(stream, nothing, axis)).tolist() == [[0.0] * 4]


@every_tiling
@every_size
def test_subjects(tiling: str, places: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes(monkeypatch, places, parts)
    # every subject takes the interpreter a program
    support, expected = subject_case(tiling, 4 if tiles_of(tiling).width < 32 else 2)
    found = interpreted(support)
    with torch_forms():
        assert torch.equal(found, support())
    assert found.tolist() == expected.tolist()
