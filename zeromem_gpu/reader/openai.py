"""A reader behind any server that speaks the OpenAI chat protocol."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from zeromem_gpu.errors import InvalidInput, MissingDependency
from zeromem_gpu.reader.base import ReaderReply, reply_of
from zeromem_gpu.reader.prompt import build_prompt
from zeromem_gpu.types import SearchResult

logger = logging.getLogger(__name__)

KEY_VARIABLE, URL_VARIABLE, MODEL_VARIABLE = "OPENAI_API_KEY", "OPENAI_BASE_URL", "ZEROMEM_READER_MODEL"


class OpenAIReader:
    """Asks one chat completion a question, several at once.

    Args:
        model: the model's name; default ZEROMEM_READER_MODEL, else gpt-4o-mini.
        base_url: the server; default OPENAI_BASE_URL, else OpenAI's own.
        timeout: seconds for one attempt.
        retries: further attempts after a dropped connection, a timeout, or a 408, 409, 429 or 5xx answer,
            with the growing pauses of the openai library.
        concurrency: requests under way at once.
        max_tokens: most tokens of an answer.
        temperature: 0 for the most repeatable answers.

    The key is read from OPENAI_API_KEY and from nowhere else. It is in no message, log or `repr`. Raises
    `MissingDependency` without the openai package and `InvalidInput` without a key, both when constructed.
    `prompt_tokens` and `completion_tokens` sum what the server reported over all calls.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        timeout: float = 60.0,
        retries: int = 2,
        concurrency: int = 8,
        max_tokens: int = 256,
        temperature: float = 0.0,
    ) -> None:
        for name, value, low in (
            ("timeout", timeout, 1e-3), ("retries", retries, 0), ("concurrency", concurrency, 1),
            ("max_tokens", max_tokens, 1), ("temperature", temperature, 0),
        ):  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= low:
                raise InvalidInput(name, repr(value), f"a number from {low}")
        self.model = model or os.environ.get(MODEL_VARIABLE) or "gpt-4o-mini"
        self.name = f"openai {self.model}"
        self.prompt_tokens = self.completion_tokens = 0
        self._options = {"model": self.model, "max_tokens": max_tokens, "temperature": temperature}
        self._concurrency = concurrency
        self._counting = threading.Lock()
        self._client, self._key = _client(base_url, timeout, retries)

    def __repr__(self) -> str:
        return f"OpenAIReader({self.model!r})"

    def read(self, results: Sequence[SearchResult]) -> list[ReaderReply]:
        """One reply a result, in order; a request that fails for good is an error of its own question."""
        if not results:
            return []
        workers = min(self._concurrency, len(results))
        with ThreadPoolExecutor(workers, thread_name_prefix="zeromem-reader") as pool:
            return list(pool.map(self._one, results))

    def _one(self, result: SearchResult) -> ReaderReply:
        messages = [{"role": "user", "content": build_prompt(result)}]
        try:
            completion = self._client.chat.completions.create(messages=messages, **self._options)
            reply = _reply(completion)
        except Exception as error:
            message = self._without_key(f"{type(error).__name__}: {error}")
            logger.warning("reader %s: %s", self.name, message)
            return ReaderReply("", error=message)
        with self._counting:
            self.prompt_tokens += reply.prompt_tokens
            self.completion_tokens += reply.completion_tokens
        return reply

    def _without_key(self, message: str) -> str:
        """One short line in which the key, which servers quote, does not stand."""
        return " ".join(message.replace(self._key, "***").split())[:300]


def _client(base_url: str | None, timeout: float, retries: int) -> tuple[Any, str]:
    try:
        import openai
    except ImportError as error:
        remedy = "pip install 'zeromem-gpu[reader]'"
        raise MissingDependency(f"the openai reader needs the openai package: {remedy}") from error
    key = (os.environ.get(KEY_VARIABLE) or "").strip()
    if not key:
        raise InvalidInput(
            "reader", f"openai without {KEY_VARIABLE} in the environment", "a key there",
            "Servers of your own that check none take any text; the extractive reader needs no server.",
        )  # fmt: skip
    url = base_url or os.environ.get(URL_VARIABLE) or None
    if url is not None and not url.startswith(("http://", "https://")):
        raise InvalidInput("base_url", repr(url), "an address that begins with http:// or https://")
    return openai.OpenAI(api_key=key, base_url=url, timeout=timeout, max_retries=retries), key


def _reply(completion: Any) -> ReaderReply:
    """What a completion says; a server may answer with any JSON, so nothing is taken for granted."""
    usage = getattr(completion, "usage", None)
    tokens = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    choices = getattr(completion, "choices", None)
    if not isinstance(choices, list) or not choices:
        return ReaderReply("", *tokens, error="the server's answer holds no choice")
    message = getattr(choices[0], "message", None)
    refusal = getattr(message, "refusal", None)
    if isinstance(refusal, str) and refusal.strip():
        return ReaderReply("", *tokens, error=f"the model refused: {refusal.strip()}"[:300])
    content = getattr(message, "content", None)
    if content is None and getattr(choices[0], "finish_reason", None) == "content_filter":
        return ReaderReply("", *tokens, error="the server's content filter held the answer back")
    return reply_of("" if content is None else content, *tokens)


def _count(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
