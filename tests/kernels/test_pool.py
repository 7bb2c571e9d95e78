"""Pooling of packed texts: torch's form and Triton's (interpreted) against float64 NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.kernels.layout import interpreted
from zeromem_kernels.errors import InvalidTensor
from zeromem_kernels.pool import pool_texts

LENGTHS = {"texts": (1, 7, 3, 1, 12, 5), "one": (9,), "none": ()}


def hidden_of(lengths: tuple[int, ...], width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    starts = torch.zeros(len(lengths) + 1, dtype=torch.int32)
    starts[1:] = torch.tensor(lengths, dtype=torch.int32).cumsum(0)
    drawn = torch.randn((sum(lengths), width), generator=torch.Generator().manual_seed(width))
    return (drawn + 0.3).to(dtype), starts


def pooled(hidden: Tensor, starts: Tensor, mode: str) -> np.ndarray:
    """The formula, text by text."""
    rows = hidden.double().numpy()
    taken = [rows[a] if mode == "cls" else rows[a:b].mean(0) for a, b in pairwise(starts.tolist())]
    units = [row / np.linalg.norm(row) for row in taken]
    return np.array(units).reshape(len(starts) - 1, rows.shape[1])


@pytest.mark.parametrize("form", ["torch", "triton"])
@pytest.mark.parametrize("mode", ["cls", "mean"])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(
    ("width", "dtype"), [(64, torch.float32), (37, torch.float16), (96, torch.bfloat16)]
)
def test_texts_are_pooled_and_scaled(
    form: str, mode: str, lengths: str, width: int, dtype: torch.dtype
) -> None:
    hidden, starts = hidden_of(LENGTHS[lengths], width, dtype)

    def call() -> Tensor:
        return pool_texts(hidden, starts, mode)

    if form == "triton":
        pytest.importorskip("triton")
    found = interpreted(call) if form == "triton" else call()
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), pooled(hidden, starts, mode), rtol=0, atol=1e-6)


@pytest.mark.parametrize("form", ["torch", "triton"])
@pytest.mark.parametrize("mode", ["cls", "mean"])
def test_rows_without_a_direction_stay_and_touch_no_other(form: str, mode: str) -> None:
    hidden, starts = hidden_of((2, 2, 2, 2), 8, torch.float32)
    wanted = pooled(hidden, starts, mode)
    hidden[0:2] = 0.0
    hidden[4, 3] = torch.nan
    hidden[6, 1] = torch.inf

    def call() -> Tensor:
        return pool_texts(hidden, starts, mode)

    if form == "triton":
        pytest.importorskip("triton")
    found = (interpreted(call) if form == "triton" else call()).numpy()
    assert not found[0].any()
    np.testing.assert_allclose(found[1], wanted[1], atol=1e-6)
    assert [np.isfinite(row).all() for row in found] == [True, True, False, False]
    # an encoder's check finds both
    assert not np.isfinite(np.sqrt((found[2:] ** 2).sum(1))).any()


def test_bad_tensors_are_named() -> None:
    hidden, starts = hidden_of((2, 1), 8, torch.float32)
    for change, message in (
        ({"hidden": hidden.double()}, r"hidden.*float64"),
        ({"hidden": hidden[:, ::2]}, r"hidden.*strides"),
        ({"hidden": hidden[0]}, r"hidden.*\[8\]"),
        ({"hidden": None}, r"hidden.*NoneType"),
        ({"starts": starts.long()}, r"starts.*int64"),
        ({"mode": "max"}, r"mode.*'max'"),
    ):
        with pytest.raises(InvalidTensor, match=message):
            pool_texts(**{"hidden": hidden, "starts": starts, "mode": "mean"} | change)  # type: ignore[arg-type]
