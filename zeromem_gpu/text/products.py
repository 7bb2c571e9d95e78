"""Matrix products of a spaCy pipeline by torch, which takes all cores and a third of the time.

A pipeline on the CPU multiplies its matrices with a BLIS that knows few processors. Everything else stays
spaCy's. Sums are rounded in another order, which moves a score by about 1e-6: a mention could only differ
where two readings are as near as that. None does in LoCoMo's 5,882 turns, so fingerprints do not name it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from thinc.api import Model, NumpyOps

if TYPE_CHECKING:
    from spacy.language import Language

# with fewer rows the library takes other kernels, and a row's product would depend on what stands beside it
_LEAST_ROWS = 16


class TorchProducts(NumpyOps):  # type: ignore[misc]  # thinc has no types
    """thinc's operations on the CPU, its matrix product made by torch."""

    def gemm(
        self,
        x: np.ndarray,
        y: np.ndarray,
        out: np.ndarray | None = None,
        trans1: bool = False,
        trans2: bool = False,
    ) -> np.ndarray:
        """x · y float32 [m, n] of x [m, k] and y [k, n], each transposed first where that is said."""
        left, right = (torch.from_numpy(np.require(one, np.float32, ["C", "W"])) for one in (x, y))
        left, right = left.T if trans1 else left, right.T if trans2 else right
        rows = len(left)
        if rows < _LEAST_ROWS:
            left = torch.nn.functional.pad(left, (0, 0, 0, _LEAST_ROWS - rows))
        # given where to write, the product stays float32 within a caller's autocast
        every = torch.empty((len(left), right.shape[1]), device="cpu")
        product = torch.mm(left, right, out=every)[:rows].numpy()
        if out is None:
            return product
        out[:] = product
        return out


def multiply_by_torch(pipeline: Language) -> Language:
    """Give every layer that computes with NumPy these products; layers elsewhere (a GPU) keep theirs."""
    ops = TorchProducts()
    for _, component in pipeline.components:
        model: Any = getattr(component, "model", None)
        for layer in model.walk() if isinstance(model, Model) else ():
            if type(layer.ops) is NumpyOps:
                layer.ops = ops
    return pipeline
