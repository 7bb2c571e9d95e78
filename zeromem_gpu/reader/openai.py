"""A reader behind any server that speaks the OpenAI chat protocol."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from zeromem_gpu.errors import InvalidInput, MissingDependency
from zeromem_gpu.reader.base import KEY_VARIABLE, ReaderReply, reply_of, told
from zeromem_gpu.reader.prompt import build_prompt
from zeromem_gpu.reader.secrets import without_secrets
from zeromem_gpu.types import SearchResult

logger = logging.getLogger(__name__)

URL_VARIABLE, MODEL_VARIABLE = "OPENAI_BASE_URL", "ZEROMEM_READER_MODEL"


class OpenAIReader:
    """Asks one chat completion a question, several at once.

    Args:
        model: the model's name; default ZEROMEM_READER_MODEL, else gpt-4o-mini.
        base_url: the server; default OPENAI_BASE_URL, else OpenAI's own.
        timeout: seconds of silence, in connecting or between two pieces of an answer, that end one attempt.
        deadline: seconds for the whole of a question once it is under way: every attempt, however the
            server drips, with the pauses between; default `timeout` for each attempt.
        retries: further attempts after a dropped connection, a timeout, or a 408, 409, 429 or 5xx answer,
            with the growing pauses of the openai library.
        concurrency: requests under way at once.
        max_tokens: most tokens of an answer. One that was cut there is kept as far as it goes, with a
            warning in the log; it is an error where no text came before the cut.
        temperature: 0 for the most repeatable answers.

    The key is read from OPENAI_API_KEY and from nowhere else. It is in no message, log or `repr`, nor is a
    part of it that a server quotes. Raises `MissingDependency` without the openai package and
    `InvalidInput` without a key, both when constructed. What a content filter cut off is an error.
    `prompt_tokens` and `completion_tokens` sum what the server reported over all calls.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        timeout: float = 60.0,
        deadline: float | None = None,
        retries: int = 2,
        concurrency: int = 8,
        max_tokens: int = 256,
        temperature: float = 0.0,
    ) -> None:
        _check("timeout", timeout, 1e-3, (int, float))
        _check("temperature", temperature, 0, (int, float))
        whole = {"retries": (retries, 0), "concurrency": (concurrency, 1), "max_tokens": (max_tokens, 1)}
        for name, (value, low) in whole.items():
            _check(name, value, low, (int,))
        self._deadline = timeout * (retries + 1) if deadline is None else deadline
        _check("deadline", self._deadline, 1e-3, (int, float))
        self.model = model or os.environ.get(MODEL_VARIABLE) or "gpt-4o-mini"
        self.name = f"openai {self.model}"
        self.prompt_tokens = self.completion_tokens = 0
        self._options = {"model": self.model, "max_tokens": max_tokens, "temperature": temperature}
        self._concurrency = concurrency
        self._counting = threading.Lock()
        self._openai, self._key = _openai(), _key()
        url = base_url or os.environ.get(URL_VARIABLE) or None
        if url is not None and not _is_address(url):
            got = without_secrets(repr(url), self._key)
            raise InvalidInput("base_url", got, "an address that begins with http:// or https://")
        self._client_options = {"base_url": url, "timeout": timeout, "max_retries": retries}

    def __repr__(self) -> str:
        return f"OpenAIReader({self.model!r})"

    def read(self, results: Sequence[SearchResult]) -> list[ReaderReply]:
        """One reply a result, in order; a request that fails for good is an error of its own question."""
        if not results:
            return []
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            replies = asyncio.run(self._all(results))
        else:
            # the caller's own loop is busy with this very call: a notebook has one
            with ThreadPoolExecutor(1, thread_name_prefix="zeromem-reader") as pool:
                replies = pool.submit(asyncio.run, self._all(results)).result()
        with self._counting:
            self.prompt_tokens += sum(reply.prompt_tokens for reply in replies)
            self.completion_tokens += sum(reply.completion_tokens for reply in replies)
        return replies

    async def _all(self, results: Sequence[SearchResult]) -> list[ReaderReply]:
        # a client belongs to one event loop
        places = asyncio.Semaphore(self._concurrency)
        async with self._openai.AsyncOpenAI(api_key=self._key, **self._client_options) as client:
            return list(await asyncio.gather(*(self._one(client, places, one) for one in results)))

    async def _one(self, client: Any, places: asyncio.Semaphore, result: SearchResult) -> ReaderReply:
        async with places:
            try:
                messages = [{"role": "user", "content": build_prompt(result)}]
                async with asyncio.timeout(self._deadline):
                    completion = await client.chat.completions.create(messages=messages, **self._options)
                reply = self._safe(_reply(completion))
            except TimeoutError:
                bound = f"{self._deadline:g} s, retries included"
                reply = ReaderReply("", error=f"no whole answer within {bound}")
            except Exception as error:
                reply = ReaderReply("", error=told(error, self._key))
        if reply.error is not None:
            logger.warning("reader %s: %s", self.name, reply.error)
        return reply

    def _safe(self, reply: ReaderReply) -> ReaderReply:
        """The reply without the key, which a server may quote in a refusal or send back as the answer."""
        error = None if reply.error is None else without_secrets(reply.error, self._key)
        text = reply.text.replace(self._key, "***") if len(self._key) > 5 else reply.text
        return reply._replace(text=text, error=error)


def _check(name: str, value: object, low: float, kinds: tuple[type, ...]) -> None:
    fits = isinstance(value, kinds) and not isinstance(value, bool)
    if not fits or not low <= value < float("inf"):  # type: ignore[operator]
        raise InvalidInput(name, repr(value), f"a {'' if float in kinds else 'whole '}number from {low}")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return url.startswith(("http://", "https://")) and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        remedy = "pip install 'zeromem-gpu[reader]'"
        raise MissingDependency(f"the openai reader needs the openai package: {remedy}") from error
    return openai


def _key() -> str:
    key = (os.environ.get(KEY_VARIABLE) or "").strip()
    if not key:
        raise InvalidInput(
            "reader", f"openai without {KEY_VARIABLE} in the environment", "a key there",
            "Servers of your own that check none take any text; the extractive reader needs no server.",
        )  # fmt: skip
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput("reader", f"a key in {KEY_VARIABLE} that no request can carry", "plain ASCII")
    return key


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
        return ReaderReply("", *tokens, error=f"the model refused: {refusal.strip()}")
    ended = getattr(choices[0], "finish_reason", None)
    if ended == "content_filter":
        return ReaderReply("", *tokens, error="refused: the server's content filter cut the answer off")
    content = getattr(message, "content", None)
    reply = reply_of("" if content is None else content, *tokens)
    if ended == "length":
        if content is None or content == "":
            return reply._replace(error="max_tokens were used up before the answer began")
        logger.warning("an answer was cut at max_tokens and kept as far as it goes")
    return reply


def _count(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
