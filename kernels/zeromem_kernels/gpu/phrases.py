"""Phrases and subjects over tiles (formulas in `lexical.py`); nothing asks the device how much there is.

A phrase is looked for where its rarest word stands. Both fill sparse matrices: what names a unit writes there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl
from torch import Tensor

from zeromem_kernels.gpu.blocks import row_block
from zeromem_kernels.gpu.launch import check_size, launch, launch_rows
from zeromem_kernels.tiles import Axis, Csr, owners

if TYPE_CHECKING:
    from zeromem_kernels.lexical import Phrases, Stream

_PLACES, _ROWS = 256, 64
# programs that share a phrase's or a subject's list: a common word stands in many places
_PARTS = 8


@triton.jit
def _matches(stream, o_first, n_stream, words, n_words, m_in):
    """Which of some places of a bank's stream begin a phrase, all of whose words are known."""
    m_same = m_in & (o_first >= 0) & (o_first + n_words <= n_stream)
    for j in range(n_words):
        b_said = tl.load(stream + o_first + j, mask=m_same, other=-1)
        m_same = m_same & (b_said == tl.load(words + j))
    return m_same


@triton.jit
def _phrases(
    bank, word_ptr, indptr, positions, stream_ptr, stream, unit_of, row_ptr, row_of, slot, query_ptr, phrase_ptr,
    words, starts, out, WIDTH: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """A part of the places where a phrase's rarest word stands: its share for every unit that says the phrase.

    All that one element receives are shares of one query, which are equal, so that any order gives the same bits.
    """
    i_phrase, i_part = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS
    i_slot = tl.load(slot + i_phrase)
    i_tile, i_w = i_slot // WIDTH, i_slot % WIDTH
    i_bank = tl.load(bank + i_tile)
    i_words = tl.load(phrase_ptr + i_phrase)
    n_words = (tl.load(phrase_ptr + i_phrase + 1) - i_words).to(tl.int32)
    p_row = indptr + tl.load(word_ptr + i_bank)
    p_words = words + i_words
    i_begin, i_end, i_rare = i_words * 0, i_words * 0, n_words * 0
    for j in range(n_words):
        # an unknown word stands nowhere, which makes it the rarest
        i_word = tl.load(p_words + j)
        i_low = tl.load(p_row + i_word, mask=i_word >= 0, other=0)
        i_high = tl.load(p_row + i_word + 1, mask=i_word >= 0, other=0)
        m_rarer = (j == 0) | (i_high - i_low < i_end - i_begin)
        i_begin, i_end = tl.where(m_rarer, i_low, i_begin), tl.where(m_rarer, i_high, i_end)
        i_rare = tl.where(m_rarer, j, i_rare)
    i_stream = tl.load(stream_ptr + i_bank)
    n_stream = (tl.load(stream_ptr + i_bank + 1) - i_stream).to(tl.int32)
    p_stream, p_unit = stream + i_stream, unit_of + i_stream
    p_place = row_of + tl.load(row_ptr + i_bank)
    p_out = out + tl.load(starts + i_tile) * WIDTH + i_w
    n_phrases = (tl.load(query_ptr + i_slot + 1) - tl.load(query_ptr + i_slot)).to(tl.float32)
    i_share = tl.div_rn(n_phrases * 0.0 + 1.0, n_phrases)
    for o_at in range(i_begin + i_part * PLACES, i_end, PARTS * PLACES):
        o_p = o_at + tl.arange(0, PLACES)
        m_p = o_p < i_end
        o_rare = tl.load(positions + o_p, mask=m_p, other=0)
        m_first = _matches(p_stream, o_rare - i_rare, n_stream, p_words, n_words, m_p)
        b_unit = tl.load(p_unit + o_rare, mask=m_first, other=-1)
        # a unit that says it again has its share: every place looks back for the phrase in its own unit
        o_before = o_p - 1
        m_open = m_first & (o_before >= i_begin)
        while tl.max(m_open.to(tl.int32), axis=0) > 0:
            o_other = tl.load(positions + o_before, mask=m_open, other=0)
            m_beside = m_open & (tl.load(p_unit + o_other, mask=m_open, other=-1) == b_unit)
            m_said = _matches(p_stream, o_other - i_rare, n_stream, p_words, n_words, m_beside)
            m_first = m_first & (m_said == 0)
            o_before -= 1
            m_open = m_beside & (m_said == 0) & (o_before >= i_begin)
        b_row = tl.load(p_place + b_unit, mask=m_first, other=-1)
        b_share = tl.zeros((PLACES,), tl.float32) + i_share
        tl.atomic_add(p_out + b_row * WIDTH, b_share, mask=m_first & (b_row >= 0), sem="relaxed")


@triton.jit(do_not_specialize=["n_most"])
def _speakers(
    bank, unit_ptr, speaker, query_ptr, subjects, starts, out, n_most,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Some unit rows of a tile: 1 where a subject of the column speaks, else 0."""
    i_tile, o_row, o_w, o_x, m_row, m_x, any_row = row_block(starts, 0, n_most, WIDTH, BLOCK, ROWS)
    if any_row:
        m_w = o_w < WIDTH
        i_unit = tl.load(unit_ptr + tl.load(bank + i_tile))
        b_speaker = tl.load(speaker + i_unit + o_row, mask=m_row, other=-1)
        b_begin = tl.load(query_ptr + i_tile * WIDTH + o_w, mask=m_w, other=0)
        b_end = tl.load(query_ptr + i_tile * WIDTH + o_w + 1, mask=m_w, other=0)
        b_x = tl.zeros((ROWS, BLOCK), tl.float32)
        for k in range(tl.max(b_end - b_begin, axis=0)):
            b_subject = tl.load(subjects + b_begin + k, mask=b_begin + k < b_end, other=-1)
            m_speaks = (b_speaker[:, None] == b_subject[None, :]) & (b_subject >= 0)[None, :]
            b_x = tl.where(m_speaks, 1.0, b_x)
        tl.store(out + o_x, b_x, mask=m_x)


@triton.jit
def _mentions(
    bank, unit_ptr, node_ptr, indptr, units, slot, subjects, starts, out,
    WIDTH: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """A part of the units that mention a subject: ½ where it does not speak."""
    i_asked, i_part = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS
    i_subject = tl.load(subjects + i_asked)
    if i_subject >= 0:
        i_slot = tl.load(slot + i_asked)
        i_tile, i_w = i_slot // WIDTH, i_slot % WIDTH
        i_bank = tl.load(bank + i_tile)
        n_units = tl.load(unit_ptr + i_bank + 1) - tl.load(unit_ptr + i_bank)
        p_row = indptr + tl.load(node_ptr + i_bank) + n_units + i_subject
        p_out = out + tl.load(starts + i_tile) * WIDTH + i_w
        o_end = tl.load(p_row + 1)
        for o_at in range(tl.load(p_row) + i_part * PLACES, o_end, PARTS * PLACES):
            o_p = o_at + tl.arange(0, PLACES)
            m_p = o_p < o_end
            p_x = p_out + tl.load(units + o_p, mask=m_p, other=0) * WIDTH
            # whoever else finds 0 here writes the same
            m_p = m_p & (tl.load(p_x, mask=m_p, other=1.0) == 0.0)
            tl.store(p_x, tl.zeros((PLACES,), tl.float32) + 0.5, mask=m_p)


def add_phrases(stream: Stream, phrases: Phrases, axis: Axis, out: Tensor) -> Tensor:
    """`out`, float32 [rows, width], with what `zeromem_kernels.lexical.phrase_support` adds to it."""
    check_size(axis)
    count = len(phrases.word_ptr) - 1
    launch(_phrases, count * _PARTS, axis.tiles.bank, stream.word_ptr, stream.occurrences.indptr,
           stream.occurrences.indices, stream.ptr, stream.words, stream.unit, *stream.rows,
           owners(phrases.ptr, count), phrases.ptr, phrases.word_ptr, phrases.words, axis.starts, out,
           WIDTH=axis.tiles.width, PLACES=_PLACES, PARTS=_PARTS, num_warps=4)  # fmt: skip
    return out


def subjects_of(
    ptr: Tensor, subjects: Tensor, speaker: Tensor, links: Csr, unit_ptr: Tensor, node_ptr: Tensor, axis: Axis
) -> Tensor:  # fmt: skip
    """Float32 [rows, width], as `zeromem_kernels.lexical.subject_support` says; `ptr` bounds `subjects`."""
    check_size(axis)
    out, bank = axis.empty(), axis.tiles.bank
    launch_rows(_speakers, axis, _ROWS, bank, unit_ptr, speaker, ptr, subjects, axis.starts, out)
    launch(_mentions, len(subjects) * _PARTS, bank, unit_ptr, node_ptr, links.indptr, links.indices,
           owners(ptr, len(subjects)), subjects, axis.starts, out,
           WIDTH=axis.tiles.width, PLACES=_PLACES, PARTS=_PARTS, num_warps=4)  # fmt: skip
    return out
