"""Signals that both views read: cosines, BM25, phrases, and which rows a query may see."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from zeromem_gpu.config import Config
from zeromem_gpu.retrieve.groups import Group
from zeromem_gpu.retrieve.words import words_near
from zeromem_kernels.combine import weighted_sum
from zeromem_kernels.fit import temporal_fit, type_fit
from zeromem_kernels.lexical import Ragged, bm25, phrase_support, subject_support
from zeromem_kernels.scale import min_max, scale_to_max
from zeromem_kernels.similarity import similarities
from zeromem_kernels.spmm import tile_spmax, tile_spmm
from zeromem_kernels.tiles import Axis, Csr
from zeromem_kernels.weights import Asked, Documents, weigh


@dataclass(frozen=True, eq=False)
class Signals:
    """Lazily computed signals of one group; every matrix is float32 [rows of its axis, width]."""

    group: Group
    config: Config

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
        return similarities(self.group.stack.unit_vectors, self.group.queries, self.units)

    @cached_property
    def sentence_cosine(self) -> Tensor:
        """cos(q, sentence) on the sentence axis."""
        return similarities(
            self.group.stack.sentence_vectors, self.group.queries, self.group.axes["sentences"]
        )

    @cached_property
    def best_sentence(self) -> Tensor:
        """mm of each unit's most similar sentence (of cos(q, unit) where it has none)."""
        best = tile_spmax(
            self.group.stack.sentences_of_unit,
            self.sentence_cosine,
            self.group.axes["sentences"],
            self.units,
            self.cosine,
        )
        return min_max(best, self.units, self.visible)

    @cached_property
    def dense(self) -> Tensor:
        """mm(cos) over visible units."""
        return min_max(self.cosine, self.units, self.visible)

    @cached_property
    def terms(self) -> tuple[Asked, Tensor, Ragged]:
        """The terms of all queries with their units, and those of each query."""
        return self.group.asked_terms()

    @cached_property
    def lexical(self) -> Tensor:
        """sc(BM25) of units."""
        return self.bm25_of(self.group.stack.documents, self.units, self.visible)

    @cached_property
    def phrase(self) -> Tensor | None:
        """Phrase support of units, or None when no query has a phrase."""
        if len(self.group.batch.phrases.values) == 0:
            return None
        total = self.units.full(0.0)
        for lexicon in self.group.stack.lexicons:
            phrase_support(lexicon.stream, self.group.phrases(lexicon), self.units, total)
        return total

    @cached_property
    def subject(self) -> Tensor | None:
        """Subject consistency of units, or None when no query has a subject."""
        stack = self.group.stack
        if len(self.group.batch.subjects.values) == 0:
            return None
        subjects = self.group.look_up(self.group.batch.subjects, "entities", stack.entity_keys)
        return subject_support(
            subjects, stack.speaker, stack.graph.weights, stack.ptr["units"], stack.ptr["nodes"], self.units
        )

    @cached_property
    def temporal(self) -> Tensor | None:
        """Temporal validity of units, or None when no query has an interval."""
        if torch.from_numpy(self.group.batch.validity).isnan().all():
            return None
        validity = self.group.spread(self.group.batch.validity)
        # a slot that holds no query spreads as the interval [0, 0]; nobody reads it
        return temporal_fit(
            validity, self.group.stack.time, self.units, 86400.0 * self.config.temporal_days
        )

    @cached_property
    def answer_type(self) -> Tensor:
        """1 where the unit holds a candidate of the expected answer type."""
        bits = self.group.spread(self.group.batch.type_bits)
        return type_fit(bits, self.group.stack.types, self.units)

    @cached_property
    def asked(self) -> Tensor | None:
        """How well the question that a unit replies to fits, in [0, 1]; None where no unit replies.

        0 for a question that asks for a date: when a thing was is told where it is told, not asked about.
        """
        replies = self.group.stack.replies
        if len(replies.indices) == 0:
            return None
        counts = torch.where(self.group.spread(self.group.batch.dated), 0.0, 0.5)
        fit = weighted_sum([(counts, self.dense), (counts, self.lexical)], self.units)
        return tile_spmm(replies, fit, self.units, self.units)

    @cached_property
    def related(self) -> Tensor:
        """sc(BM25) of words that are near to the question's in meaning."""
        near = words_near(self.group, self.config)
        found = bm25(near.postings, near.ptr, near.terms, self.units, near.shares)
        return scale_to_max(found, self.units, self.visible)

    def bm25_of(self, documents: Documents, axis: Axis, visible: Tensor | None) -> Tensor:
        """sc(BM25) over the documents of a level."""
        asked, ptr, terms = self.terms
        k1, b = self.config.bm25_k1, self.config.bm25_b
        postings = weigh(asked, self.group.stack.ptr["units"], documents, k1, b)
        return scale_to_max(bm25(postings, ptr, terms, axis), axis, visible)

    def visible_at(self, members: Csr, axis: Axis) -> Tensor | None:
        """Intervals with at least one visible unit, bool on `axis`, or None for all."""
        if self.visible is None:
            return None
        return tile_spmax(members, self.visible.float(), self.units, axis) > 0

    def pooled(self, members: Csr, inverse_norm: Tensor, axis: Axis) -> Tensor:
        """cos(q, Σ members) from the members' cosines."""
        total = tile_spmm(members, self.cosine, self.units, axis)
        return total.mul_(inverse_norm[axis.stacked_row][:, None])
