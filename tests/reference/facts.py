"""What the oracle is told about a bank and a question: plain facts, no scores.

Tokens are words or their 64-bit keys; the two are never mixed in one bank. Names are in their
normalised form (`text.normalize.entity_name`). Rows are positions in the lists below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Token = str | int
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Span = tuple[int, int]  # first and last row, both included


@dataclass
class Unit:
    """A context unit. `parts` are (raw, stem) pairs of speaker, text and caption: always three, some empty.

    A falsy stem is a stop word. `mentions` counts NER, capitalised and caller's names whose label is kept.
    `time` is UTC seconds; `given` are the names that the caller gave.
    `replies` is True behind a unit of the session that ends with a question, by another speaker. `learned`
    are the encoder's weights of its tokens.
    """

    trace_id: str
    session: str
    time: float | None
    speaker: str | None
    parts: Sequence[Sequence[tuple[Token, Token]]]
    type_mask: int
    mentions: Sequence[tuple[str, int]]
    vector: Array
    given: Sequence[str] = ()
    replies: bool = False
    learned: Mapping[int, float] = field(default_factory=dict)


@dataclass
class Sentence:
    """A sentence of unit row `unit`: its raw tokens and the kept entities whose mention starts in it."""

    unit: int
    tokens: Sequence[Token]
    entities: Sequence[str]
    vector: Array


@dataclass
class BankFacts:
    """A bank. `entities` is in the bank's row order and holds speakers and known names too.

    `given_words` are the raw tokens of the names that callers gave, `terms` the vectors of stems.
    `windows` and `episodes` (first row, last row) -> vector are read when `window_vectors="encoded"`.
    """

    units: Sequence[Unit]
    sentences: Sequence[Sentence]
    entities: Mapping[str, Array]
    speakers: Sequence[str] = ()
    name_token: Mapping[str, Token] = field(default_factory=dict)
    given_words: Mapping[str, Sequence[Token]] = field(default_factory=dict)
    terms: Mapping[Token, Array] = field(default_factory=dict)
    windows: Mapping[Span, Array] | None = None
    episodes: Mapping[Span, Array] | None = None


@dataclass
class QueryFacts:
    """A question. `type_bit` is a mask with the bit of the expected type (0: none), `dated`: it is a date.

    `hidden[i]` is True where the boundary excludes unit i; None hides nothing. `words` are the stems of
    letters outside of names with their vectors (of those that a bank knows, its own counts there).
    `learned` are the encoder's weights of its tokens.
    """

    vector: Array
    stems: Sequence[Token] = ()
    words: Mapping[Token, Array] = field(default_factory=dict)
    phrases: Sequence[Sequence[Token]] = ()
    entities: Sequence[tuple[str, Array]] = ()
    subjects: Sequence[str] = ()
    validity: tuple[float | None, float | None] | None = None
    type_bit: int = 0
    dated: bool = False
    route: str = "local"
    hidden: Sequence[bool] | None = None
    learned: Mapping[int, float] = field(default_factory=dict)


@dataclass
class OracleResult:
    """The best rows with their fused scores, the raw scores of each view's candidates, and π.

    `pi` runs over units, then entities. `margins` names each yes/no decision on the way with the distance
    of the closest score to its threshold: below float32 noise the engine may rightly decide otherwise (0 is
    an exact tie, inf no decision). Keys that end in `_spread` are the divisors max − min of a min-max: the
    input's noise grows by their inverse.
    """

    rows: list[int]
    scores: list[float]
    graph_scores: dict[int, float]
    hierarchy_scores: dict[int, float]
    pi: Array
    eta: Array
    aligned: dict[int, float]
    margins: dict[str, float]
