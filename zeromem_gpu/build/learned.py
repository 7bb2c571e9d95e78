"""Token weights of a bank's units, as an encoder learned them, by token: the extra lexical signal.

The table lists them in order of arrival. As with words (`lexical.py`), runs of units are sorted by token in
segments, which never change but for a small last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zeromem_gpu.build.lexical import settled
from zeromem_gpu.build.ragged import Rows, first_from, from_pairs
from zeromem_gpu.encoders.lexical import LexicalWeights, checked_weights
from zeromem_gpu.encoders.protocol import Encoder

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class TextWeights:
    """The weights of texts by what the encoder reads: those of text t are `weights` of row `place[t]`."""

    place: dict[str, int]
    weights: LexicalWeights

    @classmethod
    def of(cls, texts: Sequence[str], encoder: Encoder) -> TextWeights:
        """What the encoder gives for some texts; raises `InvalidInput` where it gives none at all."""
        distinct = list(dict.fromkeys(text for text in texts if text))
        found = checked_weights(encoder, distinct, "learned_weights")
        return cls({text: at for at, text in enumerate(distinct)}, found)

    def rows(self, texts: Sequence[str], first: int) -> Columns:
        """The rows of units from `first` on, of which the encoder reads `texts`; "" has none."""
        mine = self.weights.take(np.array([self.place.get(text, -1) for text in texts], np.int64))
        unit = first + np.repeat(np.arange(len(texts)), np.diff(mine.indptr))
        return {"token": mine.ids, "unit": unit.astype(np.int32), "weight": mine.weights}


@dataclass(frozen=True)
class WeightSegment:
    """The units [first, end) of a bank by token: `tokens` int64 ascend, `postings` has a row for each."""

    first: int
    end: int
    tokens: np.ndarray
    postings: Rows

    @property
    def size(self) -> int:
        """How many units it has."""
        return self.end - self.first


def grow_weights(
    segments: tuple[WeightSegment, ...], facts: Columns, units: int
) -> tuple[WeightSegment, ...]:
    """Segments over all `units` of a bank from those over its first ones; () for a bank without weights.

    `facts` is the bank's table, its units ascending.
    """
    if len(facts["unit"]) == 0 or (segments and segments[-1].end == units):
        return segments
    kept, first = settled(segments, units)
    begin = first_from(facts["unit"], first)
    token, unit, weight = (facts[name][begin:] for name in ("token", "unit", "weight"))
    return (*kept, weight_segment(token, unit, weight, first, units))


def weight_segment(
    token: np.ndarray, unit: np.ndarray, weight: np.ndarray, first: int, end: int
) -> WeightSegment:
    """The segment of the units [first, end), whose rows are given."""
    tokens, row = np.unique(token.astype(np.int64), return_inverse=True)
    return WeightSegment(first, end, tokens, from_pairs(row, unit, len(tokens), weight))
