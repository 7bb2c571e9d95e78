"""Time and type of answer over tiles (see `fit.py`)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def temporal_fit(first, last, bank, ptr, starts, limits, time, decay, out):
    """exp(outside / decay), decay below 0; only the columns that have an interval are computed."""
    width = out.shape[1]
    columns = np.empty(width, np.int64)
    values = np.empty(width, np.float32)
    for t in range(first, last):
        count = 0
        for c in range(width):
            if not np.isnan(limits[t, c, 0]) and not np.isnan(limits[t, c, 1]):
                columns[count] = c
                count += 1
        values[:] = 0.0
        row0 = ptr[bank[t]] - starts[t]
        before = np.nan
        for i in range(starts[t], starts[t + 1]):
            at = time[row0 + i]
            # the turns of a session often share one time
            if at != before:
                before = at
                for k in range(count):
                    c = columns[k]
                    outside = max(limits[t, c, 0] - at, at - limits[t, c, 1])
                    values[c] = np.exp(max(outside, 0.0) / decay) if not np.isnan(at) else 0.0
            for c in range(width):
                out[i, c] = values[c]


@njit(nogil=True, cache=True)
def type_fit(first, last, bank, ptr, starts, bits, types, out):
    """1 where the types of a unit and a column have a bit in common."""
    for t in range(first, last):
        row0 = ptr[bank[t]] - starts[t]
        for i in range(starts[t], starts[t + 1]):
            held = types[row0 + i]
            for c in range(out.shape[1]):
                out[i, c] = np.float32(1) if held & bits[t, c] else np.float32(0)
