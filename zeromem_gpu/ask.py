"""From evidence to answers: one call of the reader, then answer calibration (method.md 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from zeromem_gpu.calibrate import calibrate_answer
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.reader import Reader, ReaderReply, make_reader
from zeromem_gpu.types import Answer, SearchResult

ReaderSpec = str | Callable[[str], str] | Reader

_SEARCH_OPTIONS = ("bank", "boundary", "top_k", "limit", "explain", "config")


def check_options(names: Iterable[str]) -> None:
    """Refuse what is no option of a search; those of a reader go to the reader."""
    for name in names:
        if name not in _SEARCH_OPTIONS:
            allowed = ", ".join(("reader", "calibrate", *_SEARCH_OPTIONS))
            remedy = "Options of a reader go to it: reader=make_reader('openai', model=…)."
            raise InvalidInput(name, "it as an option of ask", allowed, remedy)


def reader_for(spec: ReaderSpec, zone: str) -> Reader:
    """The reader that `spec` names, dates of the extractive one read in `zone`."""
    return make_reader(spec, zone=zone) if spec == "extractive" else make_reader(spec)


def answer_all(
    results: Sequence[SearchResult], reader: Reader, *, calibrate: bool, zone: str
) -> list[Answer]:
    """The answer to each result's question, in order; no results give none and ask nobody.

    A reader's failure is the `error` of its question, with an empty text that is not calibrated.
    """
    if not results:
        return []
    replies = reader.read(results)
    if len(replies) != len(results):
        got = f"{len(replies)} replies to {len(results)} questions from {reader.name}"
        raise InvalidInput("reader", got, "one reply for each question, in order")
    return [_answer(*pair, reader.name, calibrate, zone) for pair in zip(results, replies, strict=True)]


def _answer(result: SearchResult, reply: ReaderReply, name: str, calibrate: bool, zone: str) -> Answer:
    changed = calibrate and reply.error is None
    text, changes = calibrate_answer(reply.text, result, zone) if changed else (reply.text, ())
    tokens = (reply.prompt_tokens, reply.completion_tokens)
    return Answer(result.query, text, reply.text, changes, result, *tokens, name, reply.error)
