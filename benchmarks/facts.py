"""What must not move when code gets faster: exact facts, and float results within a tolerance.

A fact is a number, a text, or a list of them, compared exactly; or the `projection` of a float array, which
stands for the array without storing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

# relative to the array's own norm: float32 sums in another order stay far below, another answer does not
TOLERANCE = 1e-4


class WrongResult(Exception):
    """A benchmark's result is wrong, so that its time means nothing."""


def digest(array: Any) -> str:
    """A hash of an integer array's shape and values."""
    values = np.ascontiguousarray(array)
    if values.dtype.kind == "f":
        raise TypeError("floats differ in their last bits between machines: use projection()")
    told = blake2b(repr((values.shape, values.dtype.str)).encode(), digest_size=8)
    told.update(values.tobytes())
    return told.hexdigest()


def projection(array: Any) -> dict[str, Any]:
    """A float array's shape, norm, and its inner products with two fixed random vectors."""
    values = np.asarray(array, np.float64)
    known = np.where(np.isfinite(values), values, 0.0).ravel()
    # no two weights are alike, so that values which change places are noticed
    weights = np.random.default_rng(len(known)).standard_normal((2, len(known)))
    return {
        "shape": list(values.shape),
        "finite": int(np.isfinite(values).sum()),
        "norm": float(np.linalg.norm(known)),
        "projections": [float(row @ known) for row in weights],
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of facts that changed, appeared or are gone, each with both values."""
    changed = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        same = _same_projection(old, new) if _is_projection(old) and _is_projection(new) else old == new
        if not same:
            changed.append(f"{name}: {_short(old)} before, {_short(new)} now")
    return changed


def gate(name: str, found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Refuse to go on where two float or integer arrays are not the same answer."""
    one, other = np.asarray(found), np.asarray(expected)
    if one.shape != other.shape:
        raise WrongResult(f"{name}: shape {one.shape} where the reference form has {other.shape}")
    if not np.allclose(one, other, rtol=1e-4, atol=tolerance, equal_nan=True):
        far = float(np.nanmax(np.abs(one.astype(np.float64) - other)))
        raise WrongResult(f"{name}: differs from its reference form by {far:.3g}; not timed")


def _is_projection(value: Any) -> bool:
    return isinstance(value, Mapping) and "projections" in value


def _same_projection(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if old["shape"] != new["shape"] or old["finite"] != new["finite"]:
        return False
    room = TOLERANCE * max(abs(old["norm"]), 1e-30)
    pairs = zip([old["norm"], *old["projections"]], [new["norm"], *new["projections"]], strict=True)
    return all(abs(one - other) <= room for one, other in pairs)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
