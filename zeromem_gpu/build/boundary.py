"""Hard boundaries as masks over the units of a bank."""

from __future__ import annotations

import numpy as np

from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.units import Rows
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.text.dates import parse_time
from zeromem_gpu.text.normalize import entity_name
from zeromem_gpu.text.tokens import term_key
from zeromem_gpu.types import Boundary


def hidden_units(index: MemoryIndex, bank: Bank, rows: Rows, boundary: Boundary, zone: str) -> np.ndarray:
    """True for every unit that the boundary hides, bool [units] in canonical order.

    Values that the bank does not know match nothing. An empty string is an `InvalidInput`, as is a time
    that cannot be read.
    """
    hidden = np.zeros(len(rows.unit_rows), bool)
    if boundary.sessions is not None:
        names = _names("boundary.sessions", boundary.sessions)
        allowed = [bank.sessions[name] for name in names if name in bank.sessions]
        session = index.column(bank, "units", "session")[rows.unit_rows]
        hidden |= ~np.isin(session, allowed)
    if boundary.speakers is not None:
        names = _names("boundary.speakers", boundary.speakers)
        keys = [term_key(entity_name(name)) for name in names]
        allowed = [bank.entities[key] for key in keys if key in bank.entities]
        speaker = index.column(bank, "units", "speaker")[rows.unit_rows]
        hidden |= ~np.isin(speaker, allowed)
    for name, limit in (("after", boundary.after), ("before", boundary.before)):
        if limit is None:
            continue
        try:
            instant, _ = parse_time(limit, zone)
        except InvalidInput as error:
            readable = "None, a datetime, or text that reads as a date"
            raise InvalidInput(f"boundary.{name}", repr(limit), readable) from error
        # a unit without a time compares false with everything and so stays hidden
        hidden |= ~(rows.time >= instant) if name == "after" else ~(rows.time <= instant)
    return hidden


def _names(argument: str, given: tuple[str, ...] | str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if any(not isinstance(name, str) or not name for name in names):
        raise InvalidInput(argument, repr(given), "names that are not empty, or None for no filter")
    return names
