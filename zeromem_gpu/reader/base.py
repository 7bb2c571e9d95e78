"""What a reader is, and any function of a prompt as one."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from zeromem_gpu.reader.prompt import build_prompt
from zeromem_gpu.reader.secrets import without_secrets
from zeromem_gpu.types import SearchResult

logger = logging.getLogger(__name__)

KEY_VARIABLE = "OPENAI_API_KEY"
MAX_ANSWER_CHARS = 8000


class ReaderReply(NamedTuple):
    """What a reader said to one question; without an answer `text` is "" and `error` says why."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    error: str | None = None


@runtime_checkable
class Reader(Protocol):
    """Answers questions from their evidence: the only step that may call a language model."""

    name: str

    def read(self, results: Sequence[SearchResult]) -> list[ReaderReply]:
        """One reply a result, in order; what fails for one question is in its reply and stops no other."""
        ...


class CallableReader:
    """A function from prompt to answer as a reader. What it raises becomes that question's error."""

    def __init__(self, function: Callable[[str], str], name: str | None = None) -> None:
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        self._function = function

    def read(self, results: Sequence[SearchResult]) -> list[ReaderReply]:
        """Ask the function once a result, one after the other."""
        return [self._one(result) for result in results]

    def _one(self, result: SearchResult) -> ReaderReply:
        try:
            said = self._function(build_prompt(result))
        except Exception as error:
            logger.warning("reader %s failed: %s", self.name, type(error).__name__)
            return ReaderReply("", error=told(error, (os.environ.get(KEY_VARIABLE) or "").strip()))
        return reply_of(said)


def told(error: BaseException, key: str = "") -> str:
    """An exception as one short line that holds neither `key` nor another secret."""
    try:
        message = f"{type(error).__name__}: {error}"
    except Exception:
        # an exception of somebody else's may fail to say what it is
        message = type(error).__name__
    return without_secrets(message, key)


def reply_of(said: object, prompt_tokens: int = 0, completion_tokens: int = 0) -> ReaderReply:
    """What came back as a reply: only text that is not blank is an answer, and of it a bounded part."""
    tokens = (prompt_tokens, completion_tokens)
    if not isinstance(said, str):
        return ReaderReply("", *tokens, error=f"the reader gave {type(said).__name__}, not text")
    text = said.strip()
    if not text:
        return ReaderReply("", *tokens, error="the reader gave an empty answer")
    if len(text) > MAX_ANSWER_CHARS:
        logger.warning("an answer of %d characters was cut to %d", len(text), MAX_ANSWER_CHARS)
        text = text[:MAX_ANSWER_CHARS].rsplit(None, 1)[0]
    return ReaderReply(text, *tokens)
