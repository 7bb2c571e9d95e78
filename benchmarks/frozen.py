"""Nested records of arrays in one .npz, read again where only numpy and torch are: no pickle, no code.

A float32 array that float16 holds exactly is written as float16, half of the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

_SHAPE = "shape"


def freeze(value: Any, path: Path) -> None:
    """Write a value made of tensors, arrays, plain values, lists, tuples, dicts, named tuples, dataclasses.

    Raises:
        TypeError: something else is in it.
    """
    arrays: dict[str, np.ndarray] = {}
    shape = json.dumps(_frozen(value, arrays))
    np.savez_compressed(path, **arrays, **{_SHAPE: np.array(shape)})


def thaw(path: Path, kinds: Iterable[type], device: torch.device) -> Any:
    """What `freeze` wrote, tensors on `device`; records may be of these kinds only."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    shape = json.loads(str(arrays.pop(_SHAPE)))
    return _thawed(shape, arrays, {kind.__name__: kind for kind in kinds}, device)


def _frozen(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, Tensor | np.ndarray):
        array = value.cpu().numpy() if isinstance(value, Tensor) else value
        name = f"a{len(arrays)}"
        kept = array
        if array.dtype == np.float32:
            with np.errstate(over="ignore"):
                narrow = array.astype(np.float16)
            kept = narrow if np.array_equal(narrow.astype(np.float32), array) else array
        arrays[name] = kept
        return {"tensor" if isinstance(value, Tensor) else "array": name, "dtype": str(array.dtype)}
    if value is None or isinstance(value, bool | int | float | str):
        return {"plain": value}
    if isinstance(value, torch.device):
        return {"device": True}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
        return {"record": type(value).__name__, "parts": _each(parts, arrays)}
    if hasattr(value, "_asdict"):
        return {"record": type(value).__name__, "parts": _each(value._asdict(), arrays)}
    if isinstance(value, dict):
        return {"dict": [[_frozen(key, arrays), _frozen(one, arrays)] for key, one in value.items()]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_frozen(one, arrays) for one in value]}
    raise TypeError(f"cannot freeze {type(value).__name__}")


def _each(parts: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: _frozen(one, arrays) for name, one in parts.items()}


def _thawed(
    shape: dict[str, Any], arrays: dict[str, np.ndarray], kinds: dict[str, type], device: torch.device
) -> Any:
    def again(part: dict[str, Any]) -> Any:
        return _thawed(part, arrays, kinds, device)

    if "tensor" in shape:
        return torch.from_numpy(arrays[shape["tensor"]].astype(shape["dtype"])).to(device)
    if "array" in shape:
        return arrays[shape["array"]].astype(shape["dtype"])
    if "record" in shape:
        return kinds[shape["record"]](**{name: again(one) for name, one in shape["parts"].items()})
    if "dict" in shape:
        return {again(key): again(one) for key, one in shape["dict"]}
    if "list" in shape:
        return [again(one) for one in shape["list"]]
    if "tuple" in shape:
        return tuple(again(one) for one in shape["tuple"])
    return device if "device" in shape else shape["plain"]
