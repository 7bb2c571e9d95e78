"""The matrix products that spaCy's pipelines are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("thinc")

from thinc.api import Linear, chain

from zeromem_gpu.text.products import TorchProducts, multiply_by_torch


@pytest.mark.parametrize("rows", [0, 1, 7, 15, 16, 200])
@pytest.mark.parametrize("trans1", [False, True])
@pytest.mark.parametrize("trans2", [False, True])
def test_products_are_those_of_float64(rows: int, trans1: bool, trans2: bool) -> None:
    rng = np.random.default_rng(rows)
    x, y = rng.normal(size=(rows, 96)).astype(np.float32), rng.normal(size=(96, 50)).astype(np.float32)
    expected = x.astype(np.float64) @ y.astype(np.float64)
    given = (x.T if trans1 else x), (y.T if trans2 else y)
    found = TorchProducts().gemm(*given, trans1=trans1, trans2=trans2)
    assert found.dtype == np.float32
    assert found.shape == (rows, 50)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    out = np.full((rows, 50), 7.0, np.float32)
    assert TorchProducts().gemm(*given, out=out, trans1=trans1, trans2=trans2) is out
    np.testing.assert_array_equal(out, found)


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    rng = np.random.default_rng(1)
    for inner, width in ((288, 288), (96, 128), (64, 74)):
        x = rng.normal(size=(300, inner)).astype(np.float32)
        y = rng.normal(size=(width, inner)).astype(np.float32)
        every = TorchProducts().gemm(x, y, trans2=True)
        for rows in (1, 2, 5, 15, 16, 17, 31, 100, 299):
            alone = TorchProducts().gemm(x[:rows].copy(), y, trans2=True)
            np.testing.assert_allclose(alone, every[:rows], atol=2e-5)  # any library's blocks
            assert np.array_equal(np.argmax(alone, 1), np.argmax(every[:rows], 1))


def test_what_a_caller_has_set_changes_nothing(recwarn: pytest.WarningsRecorder) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(20, 9)).astype(np.float32), rng.normal(size=(9, 4)).astype(np.float32)
    expected = TorchProducts().gemm(x, y)
    y.setflags(write=False)  # as parameters that are mapped from a file
    with torch.autocast("cpu", dtype=torch.bfloat16):
        np.testing.assert_array_equal(TorchProducts().gemm(x, y), expected)
    assert not [one for one in recwarn if "writable" in str(one.message)]


def test_only_layers_on_the_cpu_are_given_them() -> None:
    mine, other = Linear(3, 4), Linear(2, 3)
    elsewhere = other.ops = object()
    pipeline: Any = SimpleNamespace(
        components=[
            ("tagger", SimpleNamespace(model=chain(mine, other))),
            ("ruler", object()), ("odd", SimpleNamespace(model="a name")),
        ]
    )  # fmt: skip
    multiply_by_torch(pipeline)
    assert type(mine.ops) is TorchProducts
    assert other.ops is elsewhere
