"""zeromem-gpu: agent memory in which nothing but the final answer calls an LLM.

The public names load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeromem_gpu.calibrate import calibrate_answer
    from zeromem_gpu.config import Config
    from zeromem_gpu.encoders.protocol import Encoder
    from zeromem_gpu.errors import (
        InvalidInput,
        MissingDependency,
        ModelUnavailable,
        OutOfMemory,
        StoreError,
        ZeroMemError,
    )
    from zeromem_gpu.memory import AddReport, Memory
    from zeromem_gpu.reader import Reader, ReaderReply, build_prompt, make_reader
    from zeromem_gpu.text.entities import EntityExtractor, Mention, SpacyExtractor
    from zeromem_gpu.text.normalize import entity_name
    from zeromem_gpu.text.tokens import Analyzer
    from zeromem_gpu.traces import read_traces, write_traces
    from zeromem_gpu.types import Answer, Boundary, Change, Evidence, QueryProfile, SearchResult, Trace

_HOME = {
    "AddReport": "memory",
    "Analyzer": "text.tokens",
    "Answer": "types",
    "Boundary": "types",
    "Change": "types",
    "Config": "config",
    "Encoder": "encoders.protocol",
    "EntityExtractor": "text.entities",
    "Evidence": "types",
    "InvalidInput": "errors",
    "Memory": "memory",
    "Mention": "text.entities",
    "MissingDependency": "errors",
    "ModelUnavailable": "errors",
    "OutOfMemory": "errors",
    "QueryProfile": "types",
    "Reader": "reader",
    "ReaderReply": "reader",
    "SearchResult": "types",
    "SpacyExtractor": "text.entities",
    "StoreError": "errors",
    "Trace": "types",
    "ZeroMemError": "errors",
    "build_prompt": "reader",
    "calibrate_answer": "calibrate",
    "entity_name": "text.normalize",
    "make_reader": "reader",
    "read_traces": "traces",
    "write_traces": "traces",
}

__all__ = [
    "AddReport",
    "Analyzer",
    "Answer",
    "Boundary",
    "Change",
    "Config",
    "Encoder",
    "EntityExtractor",
    "Evidence",
    "InvalidInput",
    "Memory",
    "Mention",
    "MissingDependency",
    "ModelUnavailable",
    "OutOfMemory",
    "QueryProfile",
    "Reader",
    "ReaderReply",
    "SearchResult",
    "SpacyExtractor",
    "StoreError",
    "Trace",
    "ZeroMemError",
    "build_prompt",
    "calibrate_answer",
    "entity_name",
    "make_reader",
    "read_traces",
    "write_traces",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module that holds it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"zeromem_gpu.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
