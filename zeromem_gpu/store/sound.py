"""Whether the tables of a directory fit each other, before anything is made of them.

A checksum says that a file is what was written, not who wrote it. A row number out of range would be read
by compiled loops that do not check, so every one is compared here with the size of its bank's table.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Columns = Mapping[str, Mapping[str, np.ndarray]]
Lengths = Mapping[str, np.ndarray]

# table.column: what it numbers, and its smallest value (−1 none, −2 what `build.facts` says)
_REFERENCES = {
    ("units", "session"): ("sessions", 0), ("units", "speaker"): ("entities", -1),
    ("units", "trace"): ("traces", 0), ("sentences", "unit"): ("units", 0),
    ("tokens", "unit"): ("units", 0), ("tokens", "sentence"): ("sentences", -2),
    ("mentions", "unit"): ("units", 0), ("mentions", "entity"): ("entities", 0),
    ("learned", "unit"): ("units", 0), ("sentence_entities", "sentence"): ("sentences", 0),
    ("sentence_entities", "entity"): ("entities", 0),
    ("spans", "first"): ("units", 0), ("spans", "last"): ("units", 0),
    ("dead", "dead"): ("units", 0), ("places", "place"): ("traces", -1),
}  # fmt: skip


def check_counts(counts: Mapping[str, int]) -> None:
    """Raise `ValueError` for counts that no index has: they size what is read next.

    Every unit has a vector in a file of a known size; of banks, traces and sessions there are no more.
    """
    if any(not isinstance(count, int) or isinstance(count, bool) or count < 0 for count in counts.values()):
        raise ValueError("the manifest counts something that is no number of rows")
    for table in ("banks", "traces", "sessions"):
        if counts[table] > counts["units"]:
            raise ValueError(
                f"the manifest counts {counts[table]} {table} and only {counts['units']} units"
            )


def check_lengths(names: list[str], lengths: Lengths, counts: Mapping[str, int]) -> None:
    """Raise `ValueError` unless each bank is named once and the banks' rows add up to the counts."""
    if len(set(names)) != len(names):
        raise ValueError("banks.parquet has a bank twice")
    for table, length in lengths.items():
        # each one by itself first, so that the sum cannot wrap around
        if (length < 0).any() or (length > counts[table]).any() or length.sum() != counts[table]:
            raise ValueError(f"banks.parquet divides {counts[table]} rows of {table} wrongly")


def check_references(columns: Columns, lengths: Lengths) -> None:
    """Raise `ValueError` unless every row number lies inside its own bank's table; tables may be absent."""
    for (table, column), (target, lowest) in _REFERENCES.items():
        if table not in columns:
            continue
        length = lengths["traces" if table == "places" else table]
        values = columns[table][column]
        filled = np.flatnonzero(length)
        if len(filled) == 0:
            continue
        starts = (np.cumsum(length) - length)[filled]
        if values.min() < lowest or (np.maximum.reduceat(values, starts) >= lengths[target][filled]).any():
            raise ValueError(f"{table}.{column} numbers a row that its bank does not have")
