"""What the questions of a group bring to it, as matrices of the group's own shape.

Their words, names and phrases are ragged; what they are turned into here is not, so that all that follows
has sizes that the group alone decides and can be replayed for other questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from zeromem_gpu.config import Config
from zeromem_gpu.query.batch import Ragged as Keys
from zeromem_gpu.retrieve import eager
from zeromem_gpu.retrieve.align import align
from zeromem_gpu.retrieve.groups import Group
from zeromem_gpu.retrieve.related import related_bm25
from zeromem_gpu.retrieve.words import words_near
from zeromem_kernels.lexical import Ragged, bm25, phrase_support, subject_support
from zeromem_kernels.tiles import Axis
from zeromem_kernels.weights import Asked, given, weigh

_OF_BOTH = (
    "queries", "phrase", "subject", "validity", "type_bits", "dated", "relational", "learned",
)  # fmt: skip
_OF_GRAPH = ("seeds", "near")
# whose BM25 each view reads
_LEVELS_OF_BOTH, _LEVELS_OF_HIERARCHY = ("units",), ("spans", "windows", "episodes")


@dataclass(frozen=True, eq=False)
class Questions:
    """Lazily made matrices of one group; those of units are float32 [unit rows, width]."""

    group: Group
    config: Config

    def matrices(self) -> dict[str, Tensor | None]:
        """All that the views of the configuration read, by name."""
        views = self.config.views
        names = _OF_BOTH + _OF_GRAPH * (views != "hierarchy")
        levels = _LEVELS_OF_BOTH + _LEVELS_OF_HIERARCHY * (views != "graph")
        scores = {_bm25_of(level): self.bm25(level) for level in levels}
        return {name: getattr(self, name) for name in names} | scores

    @classmethod
    def fixed(cls, group: Group, config: Config, matrices: Mapping[str, Tensor | None]) -> Questions:
        """Questions of a group that are these matrices, whatever its batch holds."""
        made = cls(group, config)
        # where a cached property keeps what it found
        made.__dict__.update(matrices)
        return made

    def bm25(self, level: str) -> Tensor:
        """BM25 over the documents of units, spans, windows or episodes; not kept, it is read once."""
        found: Tensor | None = self.__dict__.get(_bm25_of(level))
        return self._bm25(level) if found is None else found

    @cached_property
    def queries(self) -> Tensor:
        """Question vectors, float32 [T, D, width]."""
        return self.group.queries

    @cached_property
    def phrase(self) -> Tensor | None:
        """Phrase support of units, or None when no query has a phrase."""
        if len(self.group.batch.phrases.values) == 0:
            return None
        units = self._axis("units")
        total = units.full(0.0)
        for lexicon in self.group.stack.lexicons:
            phrase_support(lexicon.stream, self.group.phrases(lexicon), units, total)
        return total

    @cached_property
    def subject(self) -> Tensor | None:
        """Subject consistency of units, or None when no query has a subject."""
        stack = self.group.stack
        if len(self.group.batch.subjects.values) == 0:
            return None
        subjects = self.group.look_up(self.group.batch.subjects, "entities", stack.entity_keys)
        return subject_support(
            subjects, stack.speaker, stack.graph.weights, stack.ptr["units"], stack.ptr["nodes"],
            self._axis("units"),
        )  # fmt: skip

    @cached_property
    def seeds(self) -> Tensor:
        """η₀ on the entity axis."""
        return align(self.group, self.config.align_floor)

    @cached_property
    def near(self) -> Tensor | None:
        """BM25 of words near to the questions' in meaning, or None where they do not count."""
        if self.config.graph_related <= 0:
            return None
        if eager.serves(self.group.stack):
            return related_bm25(self.group, self.config)
        found = words_near(self.group, self.config)
        return bm25(found.postings, found.ptr, found.terms, self._axis("units"), found.shares)

    @cached_property
    def learned(self) -> Tensor | None:
        """Σ of products of the encoder's token weights, or None where they do not count or are not kept."""
        group, stack, told = self.group, self.group.stack, self.group.batch.learned
        if not self.config.asks_learned or not stack.learned:
            return None
        keys = Keys(told.indptr, told.ids.astype(np.int64))
        if eager.serves(stack):
            words, postings = eager.learned_of(stack)
            ptr, tokens = words.ptr, group.find(keys, words.ptr, words.keys)
        else:
            asked, ptr, tokens = group.gathered(keys, stack.learned)
            postings = given(asked)
        weights = group.upload(told.take(group.query).weights)
        return bm25(postings, ptr, tokens, self._axis("units"), weights)

    @cached_property
    def validity(self) -> Tensor | None:
        """The interval of each query, float64 [T, width, 2] seconds, or None when no query has one."""
        intervals = self.group.batch.validity
        return None if np.isnan(intervals).all() else self.group.spread(intervals)

    @cached_property
    def type_bits(self) -> Tensor:
        """The expected answer types, int32 [T, width]."""
        return self.group.spread(self.group.batch.type_bits)

    @cached_property
    def dated(self) -> Tensor:
        """Whether a date is asked for, bool [T, width]."""
        return self.group.spread(self.group.batch.dated)

    @cached_property
    def relational(self) -> Tensor:
        """The route, bool [T, width]."""
        return self.group.spread(self.group.batch.relational)

    @cached_property
    def _terms(self) -> tuple[Asked, Tensor, Ragged]:
        """The terms of all queries with their units, and those of each query."""
        return self.group.asked_terms()

    @cached_property
    def _known(self) -> Ragged:
        """The places of each query's terms among all words of its bank."""
        words = eager.words_of(self.group.stack)
        return self.group.find(self.group.batch.terms, words.ptr, words.keys)

    def _bm25(self, level: str) -> Tensor:
        stack, k1, b = self.group.stack, self.config.bm25_k1, self.config.bm25_b
        axis = self._axis(level)
        if eager.serves(stack):
            words = eager.words_of(stack)
            return bm25(eager.weights_of(stack, level, k1, b), words.ptr, self._known, axis)
        asked, ptr, terms = self._terms
        postings = weigh(asked, stack.ptr["units"], eager.documents_of(stack, level), k1, b)
        return bm25(postings, ptr, terms, axis)

    def _axis(self, name: str) -> Axis:
        return self.group.axes[name]


def _bm25_of(level: str) -> str:
    """The name of a level's BM25 among the matrices."""
    return f"bm25_{level}"
