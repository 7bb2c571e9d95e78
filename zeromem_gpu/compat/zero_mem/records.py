"""What goes in and what comes out, in the front end's shapes, and the way to the engine's and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import zeromem_gpu as engine
from zeromem_gpu import InvalidInput

# the front end's types of answer, and the engine's that each stands for
_ANSWER_TYPES = {
    "date": "date", "duration": "time", "frequency": "time", "count": "number", "number": "number",
    "age": "number", "person": "person", "place": "location", "list": "list",
}  # fmt: skip
_BACK = {
    "date": "date", "time": "duration", "number": "number", "person": "person", "location": "place",
    "list": "list", "text": "entity",
}  # fmt: skip


@dataclass
class Trace:
    """One raw interaction; `id` names it in its engine, and giving it again replaces what it said."""

    id: str
    session_id: str
    turn_index: int
    text: str
    created_at: datetime | None = None
    speaker: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class QueryProfile:
    """What a question is about; `answer_type` is date, time, number, person, location, list or text.

    `native` is the engine's own reading, which tells more; None where a caller made the profile.
    """

    query: str
    subjects: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)
    answer_type: str = "text"
    temporal_cues: list[str] = field(default_factory=list)
    session_id: str | None = None
    route: str = "local"
    native: engine.QueryProfile | None = field(default=None, repr=False, compare=False)


@dataclass
class Evidence:
    """A trace that answers, which views found it, and the rule that put it here."""

    trace: Trace
    score: float
    sources: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@dataclass
class Candidate:
    """A trace as one view ranks it."""

    trace_id: str
    score: float
    source: str
    reasons: list[str] = field(default_factory=list)


def native_trace(trace: Trace, place: int = 0) -> engine.Trace:
    """A trace as the engine takes it; its metadata stays with the caller's object."""
    if not isinstance(trace, Trace) and not all(
        hasattr(trace, name) for name in Trace.__dataclass_fields__
    ):
        raise InvalidInput(f"traces[{place}]", type(trace).__name__, "a Trace of the front end")
    return engine.Trace(
        trace.id, trace.text, session=trace.session_id, turn=trace.turn_index, time=trace.created_at,
        speaker=trace.speaker or None,
    )  # fmt: skip


def told_profile(profile: engine.QueryProfile, session_id: str | None) -> QueryProfile:
    """The engine's profile in the front end's shape."""
    return QueryProfile(
        profile.text, list(profile.subjects), list(profile.keywords),
        _ANSWER_TYPES.get(profile.answer_type, "text"), list(profile.temporal_cues), session_id,
        profile.route, profile,
    )  # fmt: skip


def native_profile(profile: QueryProfile) -> engine.QueryProfile:
    """The engine's profile of one in the front end's shape."""
    if profile.native is not None:
        return profile.native
    return engine.QueryProfile(
        profile.query, tuple(profile.subjects), tuple(profile.keywords),
        _BACK.get(profile.answer_type, "entity"), tuple(profile.temporal_cues), tuple(profile.subjects),
        route="relational" if profile.route == "relational" else "local",
    )  # fmt: skip


def native_result(
    query: str, evidence: Sequence[Evidence], profile: engine.QueryProfile
) -> engine.SearchResult:
    """Evidence in the front end's shape as a result of the engine, whole traces in their order."""
    units = tuple(
        engine.Evidence(native_trace(one.trace), one.score, None, None, "primary", 0, len(one.trace.text))
        for one in evidence
    )
    return engine.SearchResult(query, "default", profile, units)


def check_session(session_id: str | None) -> None:
    """Raise `InvalidInput` for a session that is neither None nor a name: "" does not mean all of them."""
    if session_id is not None and (not isinstance(session_id, str) or not session_id):
        raise InvalidInput("session_id", repr(session_id), "None for all sessions, or a name")
