"""The prompt of a question: its evidence in the order of telling, and the form its own profile asks for."""

from __future__ import annotations

from datetime import datetime

from zeromem_gpu.types import Evidence, SearchResult

_FORMS = {
    "date": "Give the date only, such as 7 May 2023. Count words like 'yesterday' from the day they were said.",
    "duration": "Give the length of time only.",
    "frequency": "Say how often, in a few words.",
    "count": "Give the number only.",
    "number": "Give the number with its unit only.",
    "age": "Give the age only.",
    "yes/no": "Begin with yes or no.",
    "choice": "Give one of the options, in the words of the question.",
    "list": "Give all items that the evidence supports, with commas between them.",
    "person": "Give the name or names only.",
    "place": "Give the place only.",
    "title": "Give the title only.",
    "entity": "Answer with the shortest phrase that is complete.",
    "reason": "Give the reason in one short sentence.",
    "description": "Answer in one short sentence.",
    "inference": "Say what most likely follows, in one short sentence.",
}


def build_prompt(result: SearchResult) -> str:
    """The whole prompt for one question; it depends on the question's own profile and evidence only.

    Evidence is told in the order of its times (units without one first, as ranked), each line with its
    time and speaker. Without evidence the prompt says so.

    >>> from zeromem_gpu import QueryProfile, SearchResult
    >>> print(build_prompt(SearchResult("Who?", "b", QueryProfile("Who?", answer_type="person"))))
    Answer the question from the evidence alone. Give the name or names only.
    <BLANKLINE>
    Evidence:
    (none)
    <BLANKLINE>
    Question: Who?
    Answer:
    """
    order = sorted(enumerate(result), key=lambda pair: (_moment(pair[1]), pair[0]))
    lines = [_line(one) for _, one in order] or ["(none)"]
    form = _FORMS.get(result.profile.answer_type, _FORMS["entity"])
    return (
        f"Answer the question from the evidence alone. {form}\n\nEvidence:\n"
        + "\n".join(lines)
        + f"\n\nQuestion: {_flat(result.query)}\nAnswer:"
    )


def _line(one: Evidence) -> str:
    parts = [f"[{_said(one)}]" if one.trace.time is not None else "", _flat(one.trace.speaker or "")]
    head = " ".join(filter(None, parts))
    text = _flat(one.text) + (f" (shared: {_flat(one.trace.caption)})" if one.trace.caption else "")
    return f"{head}: {text}" if head else text


def _said(one: Evidence) -> str:
    time = _time(one)
    return str(one.trace.time) if time is None else f"{time:%A} {time.day} {time:%B %Y, %H:%M}"


def _time(one: Evidence) -> datetime | None:
    try:
        value = one.trace.time
        return datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _moment(one: Evidence) -> float:
    time = _time(one)
    try:
        return float("-inf") if time is None else time.timestamp()
    except (OverflowError, ValueError):
        return float("-inf")


def _flat(text: str) -> str:
    """One line that UTF-8 can hold: a trace must not break out of its line or the request."""
    return " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
