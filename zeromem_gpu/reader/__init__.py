"""Readers: what turns a question and its evidence into an answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.reader.base import CallableReader, Reader, ReaderReply
from zeromem_gpu.reader.prompt import build_prompt

__all__ = ["Reader", "ReaderReply", "build_prompt", "make_reader"]


def make_reader(spec: str | Callable[[str], str] | Reader, **options: Any) -> Reader:
    """A reader from its name, from a function that answers a prompt, or the reader itself.

    "extractive" (text rules, no model; options: `zone`) and "openai" (a server of the OpenAI chat protocol;
    options: those of `OpenAIReader`) are the names. Anything else, and an option that the named reader does
    not have, raises `InvalidInput`.
    """
    if spec == "extractive":
        from zeromem_gpu.reader.extractive import ExtractiveReader

        return ExtractiveReader(**_known(spec, ExtractiveReader, options))
    if spec == "openai":
        from zeromem_gpu.reader.openai import OpenAIReader

        return OpenAIReader(**_known(spec, OpenAIReader, options))
    if isinstance(spec, str) or options:
        got = repr(spec) if isinstance(spec, str) else f"options for a {type(spec).__name__}"
        raise InvalidInput("reader", got, "'extractive', 'openai', a function of the prompt, or a Reader")
    if isinstance(spec, Reader) and not isinstance(spec, type):
        return spec
    if callable(spec):
        return CallableReader(spec)
    raise InvalidInput("reader", repr(spec)[:60], "'extractive', 'openai', a function, or a Reader")


def _known(name: str, reader: type, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options, if the reader has them all."""
    allowed = list(inspect.signature(reader).parameters)
    for option in options:
        if option not in allowed:
            raise InvalidInput(option, f"it for the {name} reader", f"{', '.join(allowed)} there")
    return options
