"""The packed forward of BERT and XLM-R: the tokens of many texts in one row after another, no padding.

Every matrix product runs over real tokens only, [T, D]. Attention runs on a GPU by torch's variable-length
kernel, elsewhere by runs of texts of equal length, which need no mask. Texts of a batch are sorted by
length, so that such runs are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import util
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from zeromem_gpu.encoders.checkpoint import Layout, Weights

_VARLEN_DTYPES = (torch.float16, torch.bfloat16)


class Run(NamedTuple):
    """`texts` neighbours of `length` tokens each, from token row `first` on."""

    first: int
    texts: int
    length: int


class Packed(NamedTuple):
    """One batch: token ids and position rows int64 [T], text boundaries int32 [n + 1], runs in order."""

    ids: Tensor
    places: Tensor
    starts: Tensor
    runs: tuple[Run, ...]


def pack(tokens: Sequence[Sequence[int]], first_position: int, device: torch.device) -> Packed:
    """Lay texts, at least one and each of at least one token, one behind the other on `device`."""
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    starts = np.zeros(len(tokens) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    ids = np.fromiter((token for text in tokens for token in text), np.int64, int(starts[-1]))
    places = np.arange(len(ids)) - np.repeat(starts[:-1] - first_position, lengths)
    runs: list[Run] = []
    at = 0
    for length, texts in groupby(lengths.tolist()):
        count = sum(1 for _ in texts)
        runs.append(Run(at, count, length))
        at += count * length
    return Packed(
        _moved(ids, device), _moved(places, device), _moved(starts.astype(np.int32), device), tuple(runs)
    )


def forward(weights: Weights, layout: Layout, batch: Packed) -> Tensor:
    """The last hidden states [T, D], in the dtype of the weights."""

    def norm(x: Tensor, affine: tuple[Tensor, Tensor]) -> Tensor:
        return functional.layer_norm(x, (layout.dim,), *affine, layout.eps)

    x = norm(weights.words[batch.ids] + weights.places[batch.places], weights.norm)
    for layer in weights.layers:
        mixed = _attention(functional.linear(x, *layer.qkv), layout.heads, batch)
        x = norm(functional.linear(mixed, *layer.out).add_(x), layer.middle)
        inner = functional.gelu(functional.linear(x, *layer.up))
        x = norm(functional.linear(inner, *layer.down).add_(x), layer.end)
    return x


def _attention(qkv: Tensor, heads: int, batch: Packed) -> Tensor:
    """Softmax attention inside each text: [T, 3D] to [T, D]."""
    rows, width = qkv.shape[0], qkv.shape[1] // 3
    qkv = qkv.view(rows, 3, heads, width // heads)
    if qkv.is_cuda and qkv.dtype in _VARLEN_DTYPES and _has_varlen(qkv.device.index or 0):
        from torch.nn.attention.varlen import varlen_attn

        longest = max(run.length for run in batch.runs)
        query, key, value = qkv.unbind(1)
        starts = batch.starts
        mixed = varlen_attn(query, key, value, starts, starts, longest, longest)
        return mixed.reshape(rows, width)  # type: ignore[union-attr]
    out = qkv.new_empty(rows, heads, width // heads)
    for first, texts, length in batch.runs:
        part = slice(first, first + texts * length)
        # [3, texts, heads, length, width of a head]
        query, key, value = qkv[part].view(texts, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value)
        out[part].view(texts, length, heads, -1).copy_(found.transpose(1, 2))
    return out.view(rows, width)


@lru_cache
def _has_varlen(index: int) -> bool:
    """Whether torch has its variable-length kernel, and the card the flash attention behind it (sm_80)."""
    found = util.find_spec("torch.nn.attention.varlen") is not None
    return found and torch.cuda.get_device_capability(index) >= (8, 0)


def _moved(values: np.ndarray, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(values)
    # pinned memory lets the copy run beside the batch before
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
