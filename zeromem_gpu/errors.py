"""The errors that callers may catch; every one derives from `ZeroMemError`."""

from __future__ import annotations


class ZeroMemError(Exception):
    """Base of all errors raised on purpose by this package."""


class InvalidInput(ZeroMemError, ValueError):
    """An argument has a value that is not allowed; nothing was stored or changed."""

    def __init__(self, argument: str, got: object, allowed: str, remedy: str = "") -> None:
        """Name the `argument`, what it `got`, what is `allowed` and how to repair it."""
        self.argument = argument
        message = f"{argument}: got {got}; allowed: {allowed}."
        super().__init__(f"{message} {remedy}".rstrip())


class MissingDependency(ZeroMemError, ImportError):
    """An optional package is needed and not installed; the message names the extra."""


class ModelUnavailable(ZeroMemError, RuntimeError):
    """An encoder or NER model cannot be loaded here; the message says how to get it."""


class StoreError(ZeroMemError, OSError):
    """An index directory cannot be written or read as it stands."""


class OutOfMemory(ZeroMemError, MemoryError):
    """Not even the smallest step of a search or an encoder fits into memory; nothing was changed."""
