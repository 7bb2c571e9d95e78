"""Signals that both views read: cosines, scaled BM25, and which rows a query may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from zeromem_gpu.config import Config
from zeromem_gpu.retrieve.groups import Group
from zeromem_gpu.retrieve.questions import Questions
from zeromem_kernels.fit import temporal_fit, type_fit
from zeromem_kernels.scale import min_max, scale_to_max
from zeromem_kernels.similarity import similarities
from zeromem_kernels.spmm import tile_spmax, tile_spmm
from zeromem_kernels.tiles import Axis, Csr


@dataclass(frozen=True, eq=False)
class Signals:
    """Lazily computed signals of one group; every matrix is float32 [rows of its axis, width]."""

    group: Group
    config: Config

    @classmethod
    def fixed(cls, group: Group, config: Config, matrices: Mapping[str, Tensor | None]) -> Signals:
        """Signals of questions that are these matrices."""
        made = cls(group, config)
        # where a cached property keeps what it found
        made.__dict__["questions"] = Questions.fixed(group, config, matrices)
        return made

    @cached_property
    def questions(self) -> Questions:
        """What the questions bring."""
        return Questions(self.group, self.config)

    @cached_property
    def units(self) -> Axis:
        """The unit axis."""
        return self.group.axes["units"]

    @cached_property
    def visible(self) -> Tensor | None:
        """Units that the boundaries leave, bool, or None for all."""
        return None if self.group.hidden is None else ~self.group.hidden

    @cached_property
    def cosine(self) -> Tensor:
        """cos(q, unit)."""
        return similarities(self.group.stack.unit_vectors, self.questions.queries, self.units)

    @cached_property
    def sentence_cosine(self) -> Tensor:
        """cos(q, sentence) on the sentence axis."""
        return similarities(
            self.group.stack.sentence_vectors, self.questions.queries, self.group.axes["sentences"]
        )

    @cached_property
    def best_sentence(self) -> Tensor:
        """mm of each unit's most similar sentence (of cos(q, unit) where it has none)."""
        best = tile_spmax(
            self.group.stack.sentences_of_unit,
            self.sentence_cosine,
            self.group.axes["sentences"],
            self.units,
        )
        return min_max(torch.where(best.isinf(), self.cosine, best), self.units, self.visible)

    @cached_property
    def dense(self) -> Tensor:
        """mm(cos) over visible units."""
        return min_max(self.cosine, self.units, self.visible)

    @cached_property
    def lexical(self) -> Tensor:
        """sc(BM25) of units."""
        return self.bm25_of("units", self.units, self.visible)

    @property
    def phrase(self) -> Tensor | None:
        """Phrase support of units, or None when no query has a phrase."""
        return self.questions.phrase

    @property
    def subject(self) -> Tensor | None:
        """Subject consistency of units, or None when no query has a subject."""
        return self.questions.subject

    @cached_property
    def temporal(self) -> Tensor | None:
        """Temporal validity of units, or None when no query has an interval."""
        validity = self.questions.validity
        if validity is None:
            return None
        # a slot that holds no query spreads as the interval [0, 0]; nobody reads it
        return temporal_fit(
            validity, self.group.stack.time, self.units, 86400.0 * self.config.temporal_days
        )

    @cached_property
    def answer_type(self) -> Tensor:
        """1 where the unit holds a candidate of the expected answer type."""
        return type_fit(self.questions.type_bits, self.group.stack.types, self.units)

    @cached_property
    def asked(self) -> Tensor | None:
        """How well the question that a unit replies to fits, in [0, 1]; None where no unit replies.

        0 for a question that asks for a date: when a thing was is told where it is told, not asked about.
        """
        replies = self.group.stack.replies
        if len(replies.indices) == 0:
            return None
        fit = tile_spmm(replies, 0.5 * (self.dense + self.lexical), self.units, self.units)
        return fit.masked_fill(self.questions.dated[self.units.tile_of_row], 0.0)

    @cached_property
    def related(self) -> Tensor | None:
        """sc(BM25) of words that are near to the question's in meaning, or None where they do not count."""
        near = self.questions.near
        return None if near is None else scale_to_max(near, self.units, self.visible)

    @cached_property
    def learned(self) -> Tensor | None:
        """sc(Σ of products) of the encoder's token weights, or None where they do not count."""
        found = self.questions.learned
        return None if found is None else scale_to_max(found, self.units, self.visible)

    def bm25_of(self, level: str, axis: Axis, visible: Tensor | None) -> Tensor:
        """sc(BM25) over the documents of a level: units, spans, windows or episodes."""
        return scale_to_max(self.questions.bm25(level), axis, visible)

    def visible_at(self, members: Csr, axis: Axis) -> Tensor | None:
        """Intervals with at least one visible unit, bool on `axis`, or None for all."""
        if self.visible is None:
            return None
        return tile_spmax(members, self.visible.float(), self.units, axis) > 0

    def pooled(self, members: Csr, inverse_norm: Tensor, axis: Axis) -> Tensor:
        """cos(q, Σ members) from the members' cosines."""
        total = tile_spmm(members, self.cosine, self.units, axis)
        return total * inverse_norm[axis.stacked_row][:, None]
