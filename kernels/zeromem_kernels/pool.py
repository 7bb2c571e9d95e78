"""One vector a text out of its tokens: the first token's or the mean, scaled to length 1, as float32."""

from __future__ import annotations

import torch
from torch import Tensor

from zeromem_kernels.checks import expect, expect_one_of
from zeromem_kernels.errors import InvalidTensor
from zeromem_kernels.tiles import on_triton

MODES = ("cls", "mean")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def pool_texts(hidden: Tensor, starts: Tensor, mode: str) -> Tensor:
    """v = u/‖u‖ with u the first row of a text ("cls") or the mean of its rows ("mean"), summed in float32.

    Args:
        hidden: float32, float16 or bfloat16 [T, D], the tokens of all texts one behind the other.
        starts: int32 [n + 1], ascending from 0 to T; text i holds rows `starts[i] … starts[i+1]`, at least
            one, which is not checked.
        mode: "cls" or "mean".

    Returns:
        float32 [n, D]. A row that is zero or not finite stays as it is; no texts give [0, D].

    Raises:
        InvalidTensor: an argument of another dtype, shape or device.

    >>> hidden = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])
    >>> pool_texts(hidden, torch.tensor([0, 1, 3], dtype=torch.int32), "mean").tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """
    expect_one_of("mode", mode, MODES)
    if not isinstance(hidden, Tensor) or hidden.dtype not in _DTYPES:
        got = hidden.dtype if isinstance(hidden, Tensor) else type(hidden).__name__
        raise InvalidTensor("hidden", str(got), "float32, float16 or bfloat16 [T, D]")
    expect("hidden", hidden, hidden.dtype, (None, None), hidden.device)
    expect("starts", starts, torch.int32, (None,), hidden.device)
    if on_triton(hidden):
        from zeromem_kernels.gpu import pool

        return pool.pool_texts(hidden, starts, mode == "mean")
    if mode == "cls":
        taken = hidden[starts[:-1].long()].float()
    else:
        taken = torch.segment_reduce(hidden.float(), "mean", lengths=starts.diff().long(), unsafe=True)
    length = torch.linalg.vector_norm(taken, dim=1, keepdim=True)
    return torch.where(length.isfinite() & (length > 0), taken / length, taken)
