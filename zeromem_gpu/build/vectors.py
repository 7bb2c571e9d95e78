"""What an index holds of given traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.errors import InvalidInput


def trace_vectors(index: MemoryIndex, bank: Bank, ids: Sequence[str]) -> np.ndarray:
    """A vector for each trace, float32 [n, D]: its unit's, or the mean of its units' scaled to length 1.

    Zero where the encoder gave nothing usable. An id that the bank does not have is an `InvalidInput`.
    """
    unknown = [one for one in ids if one not in bank.ids]
    if unknown:
        raise InvalidInput("ids", f"{unknown[0]!r}, not in bank {bank.name!r}", "ids of stored traces")
    traces, place = np.unique([bank.ids[one] for one in ids], return_inverse=True)
    trace_of = index.column(bank, "units", "trace")
    unit = np.flatnonzero(np.isin(trace_of, traces))
    total = np.zeros((len(traces), index.dim), np.float32)
    np.add.at(total, np.searchsorted(traces, trace_of[unit]), index.column(bank, "units", "vector")[unit])
    lengths = np.linalg.norm(total, axis=1, keepdims=True)
    return (total / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)[place]
