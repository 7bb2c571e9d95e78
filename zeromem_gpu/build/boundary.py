"""Hard boundaries: checked as soon as they are given, then turned into masks over the units of a bank."""

from __future__ import annotations

from typing import Any

import numpy as np

from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.units import Rows
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.text.dates import parse_time
from zeromem_gpu.text.normalize import entity_name
from zeromem_gpu.text.tokens import term_key
from zeromem_gpu.types import Boundary


def check_boundary(boundary: Any, zone: str) -> None:
    """Raise `InvalidInput` unless it is None or a `Boundary` of names that are not empty and of times."""
    if boundary is None:
        return
    if not isinstance(boundary, Boundary):
        raise InvalidInput("boundary", repr(boundary)[:60], "None or a zeromem_gpu.Boundary")
    for name in ("sessions", "speakers"):
        given = getattr(boundary, name)
        fits = given is None or isinstance(given, tuple)
        if not fits or any(not isinstance(one, str) or not one for one in given or ()):
            raise InvalidInput(f"boundary.{name}", repr(given), "None, or names that are not empty")
    for name in ("after", "before"):
        given = getattr(boundary, name)
        try:
            parse_time(given, zone)
        except InvalidInput as error:
            readable = "None, a datetime, or text that reads as a date"
            raise InvalidInput(f"boundary.{name}", repr(given), readable) from error


def hidden_units(index: MemoryIndex, bank: Bank, rows: Rows, boundary: Boundary, zone: str) -> np.ndarray:
    """True for every unit that a checked boundary hides, bool [units] in canonical order.

    Values that the bank does not know match nothing.
    """
    hidden = np.zeros(len(rows.unit_rows), bool)
    if boundary.sessions is not None:
        allowed = [bank.sessions[name] for name in boundary.sessions if name in bank.sessions]
        hidden |= ~np.isin(index.column(bank, "units", "session")[rows.unit_rows], allowed)
    if boundary.speakers is not None:
        keys = [term_key(entity_name(name)) for name in boundary.speakers]
        allowed = [bank.entities[key] for key in keys if key in bank.entities]
        hidden |= ~np.isin(index.column(bank, "units", "speaker")[rows.unit_rows], allowed)
    after, _ = parse_time(boundary.after, zone)
    before, _ = parse_time(boundary.before, zone)
    # a unit without a time (NaN) compares false with everything and so stays hidden
    if after is not None:
        hidden |= ~(rows.time >= after)
    if before is not None:
        hidden |= ~(rows.time <= before)
    return hidden
