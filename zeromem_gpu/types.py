"""What goes in and what comes out: traces, boundaries, profiles, evidence. Plain data, no arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, overload

Route = Literal["relational", "local"]


@dataclass(frozen=True, slots=True)
class Trace:
    """One raw interaction trace; its text is stored and returned untouched.

    `id` is the caller's name for it inside its `bank` (one history: a conversation, a user, a
    document collection). `session` groups traces that follow each other; a document is a session of
    its own. `turn` orders the traces of a session and defaults to the order of arrival. `time` is the
    trace's own time: an aware or naive datetime, or a string that ISO 8601 or dateparser reads.
    `caption` describes something shared along with the text (an image, a file) and is searched too.
    `entities` are names the caller knows to belong to this trace, such as a document's title; texts that
    tell of such a name lead to this trace.
    """

    id: str
    text: str
    bank: str = "default"
    session: str = "default"
    turn: int | None = None
    time: datetime | str | None = None
    speaker: str | None = None
    role: str | None = None
    source: str | None = None
    caption: str | None = None
    entities: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Boundary:
    """A hard filter given by the caller inside one bank; what it hides takes no part in scoring.

    `None` leaves a field open. Values that the bank does not know match nothing, so a boundary can
    only ever shrink the result. `after` and `before` are inclusive; traces without a time are hidden
    by either of them.
    """

    sessions: tuple[str, ...] | None = None
    speakers: tuple[str, ...] | None = None
    after: datetime | str | None = None
    before: datetime | str | None = None

    def __post_init__(self) -> None:
        """Accept a single name or a list where a tuple is meant."""
        for name in ("sessions", "speakers"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, (value,))
            elif isinstance(value, (list, set, frozenset)):
                object.__setattr__(self, name, tuple(value))


@dataclass(frozen=True, slots=True)
class QueryProfile:
    """φ(q), read from the question and metadata alone (method.md 2).

    `subjects` and `entities` are surface names (subjects are who or what the question is about;
    entities are everything that should align with graph nodes, subjects included). `phrases` are
    spans to be matched word for word: quoted text, multi-word names, values, dates. `validity` is the
    soft interval (UTC seconds, either side may be None) read from an explicit date in the question.
    `options` are what a question offers to choose from ("tea or coffee"), as written in it.
    """

    text: str
    subjects: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    answer_type: str = "entity"
    temporal_cues: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    validity: tuple[float | None, float | None] | None = None
    route: Route = "local"
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One returned unit: the text as it was said, why it is here, and where it comes from.

    `start` and `end` are the character span inside the trace's text (the whole text unless a long
    trace was split). `graph_score` and `hierarchy_score` are the raw view scores, None where the view
    did not return the unit. `rule` names what put the unit into the result.
    """

    trace: Trace
    score: float
    graph_score: float | None
    hierarchy_score: float | None
    rule: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The unit's own characters of the trace."""
        return self.trace.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class SearchResult(Sequence[Evidence]):
    """The evidence of one question, best first, with the profile that shaped it.

    When `explain=True` was asked for, `timings` has the seconds of the whole batch by stage, and `rankings`
    the traces that each view ("graph", "hierarchy") ranked first with its raw scores, at most ten.
    """

    query: str
    bank: str
    profile: QueryProfile
    evidence: tuple[Evidence, ...] = ()
    timings: Mapping[str, float] | None = None
    rankings: Mapping[str, tuple[tuple[str, float], ...]] | None = None

    @overload
    def __getitem__(self, index: int) -> Evidence: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Evidence]: ...
    def __getitem__(self, index: int | slice) -> Evidence | Sequence[Evidence]:
        """Evidence by rank, best first."""
        return self.evidence[index]

    def __len__(self) -> int:
        """How many units were returned."""
        return len(self.evidence)

    def __iter__(self) -> Iterator[Evidence]:
        """Iterate from the best unit down."""
        return iter(self.evidence)


@dataclass(frozen=True, slots=True)
class Change:
    """One step of answer calibration: the rule, the answer before and after, the trace ids it rests on."""

    rule: str
    before: str
    after: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question with everything it came from.

    `text` is what the reader gave (`reader_text`) after the `changes` of answer calibration, in order.
    Tokens are those of the reader's one call; memory spends none. `error` says why there is no answer.
    """

    query: str
    text: str
    reader_text: str
    changes: tuple[Change, ...]
    result: SearchResult
    prompt_tokens: int
    completion_tokens: int
    reader: str
    error: str | None = None
