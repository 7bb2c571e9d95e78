"""Encoding with random weights of BGE-M3's full size: packed beside padded, and beside the matrix rate.

Token ids stand in for a tokenizer. What is timed is the real packed forward with its pooling, in float16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.gpu_bench import Bench
from benchmarks.gpu_steps.workloads import Workloads

if TYPE_CHECKING:
    from zeromem_gpu.encoders.checkpoint import Layout, Weights
    from zeromem_gpu.encoders.packed import Packed


class Size(NamedTuple):
    """A model and what it reads: texts of a log-normal number of tokens around 24.

    `budget` tokens make a packed batch, `plain` texts one of those that come unsorted.
    """

    layers: int
    dim: int
    heads: int
    words: int
    places: int
    texts: int
    budget: int
    plain: int


BGE_M3 = Size(24, 1024, 16, 250_002, 8194, 2048, 32_768, 64)
TOY = Size(2, 32, 4, 50, 40, 9, 64, 4)
_SPECIAL, _MEDIAN, _SPREAD, _LONGEST = 2, 24.0, 0.8, 512
_SQUARE = 8192  # of the product that measures the matrix rate
_CHECKED = 24  # texts
# cosine to the same weights in float32, padded; 24 layers round in float16
_LEAST_COSINE = 0.999

Texts = list[list[int]]


def run(bench: Bench, work: Workloads) -> None:
    """Check packed against padded in float32, then time both."""
    # late, because the other steps need nothing of zeromem_gpu
    from zeromem_gpu.encoders.packed import forward, pack
    from zeromem_gpu.encoders.packed_encoder import token_batches
    from zeromem_kernels.pool import pool_texts

    size = TOY if bench.dry else BGE_M3
    layout, weights = random_model(size, bench.device)
    texts = random_texts(size)
    name = f"encoding {size.layers}x{size.dim}"

    def vectors(batch: Packed) -> Tensor:
        return pool_texts(forward(weights, layout, batch), batch.starts, layout.pooling)

    def placed(batch: Texts) -> Packed:
        return pack(batch, layout.first_position, bench.device)

    some = sorted(texts[:: max(len(texts) // _CHECKED, 1)], key=len)
    few = placed(some)

    def fault(found: Tensor) -> str:
        (expected,) = padded(widened(weights), layout, [some], bench.device)()
        least = float(functional.cosine_similarity(found.double(), expected.double()).min())
        return "" if least >= _LEAST_COSINE else f"cosine {least:.6f} to the padded forward in float32"

    bench.check(name, lambda: vectors(few), fault)
    rate = matrix_rate(bench)
    batches = [[texts[at] for at in batch] for batch in token_batches(list(map(len, texts)), size.budget)]
    ready = list(map(placed, batches))
    plain = [texts[at : at + size.plain] for at in range(0, len(texts), size.plain)]
    sorted_s = bench.library(f"{name}, padded, sorted", padded(weights, layout, batches, bench.device))
    plain_s = bench.library(f"{name}, padded as they come", padded(weights, layout, plain, bench.device))
    packed_s = bench.time(f"{name}, packed", lambda: [vectors(one) for one in ready], library=sorted_s)
    # the host lays out each batch while the device computes the one before
    whole_s = bench.time(f"{name}, packed from lists", lambda: [vectors(placed(one)) for one in batches])
    tokens, flops = sum(map(len, texts)), model_flops(size, texts)
    for way, seconds, held in (
        ("packed", packed_s, 0.0), ("packed from lists", whole_s, 0.0),
        ("padded, sorted", sorted_s, padding(batches)), ("padded as they come", plain_s, padding(plain)),
    ):  # fmt: skip
        bench.note(
            f"{name}, {way}", tokens=tokens, tokens_a_second=round(tokens / seconds), padding=held,
            tflops=flops / seconds / 1e12, matrix_tflops=rate / 1e12, of_matrix_rate=flops / seconds / rate,
        )  # fmt: skip


def random_model(size: Size, device: torch.device) -> tuple[Layout, Weights]:
    """A model of XLM-R's layout with normal weights that keep every product's variance."""
    from zeromem_gpu.encoders.checkpoint import Affine, Layer, Layout, Weights

    make = torch.Generator(device=device).manual_seed(31)
    dtype = torch.float16 if device.type == "cuda" else torch.float32

    def normal(*shape: int) -> Tensor:
        drawn = torch.randn(shape, generator=make, device=device, dtype=dtype)
        return drawn * shape[-1] ** -0.5

    def linear(rows: int, columns: int) -> Affine:
        return Affine(normal(rows, columns), torch.zeros(rows, device=device, dtype=dtype))

    def norm() -> Affine:
        ones = torch.ones(size.dim, device=device, dtype=dtype)
        return Affine(ones, torch.zeros_like(ones))

    dim = size.dim

    def layer() -> Layer:
        mixing = linear(3 * dim, dim), linear(dim, dim), norm()
        return Layer(*mixing, linear(4 * dim, dim), linear(dim, 4 * dim), norm())

    layers = tuple(layer() for _ in range(size.layers))
    layout = Layout(size.heads, size.layers, dim, 1e-5, 2, size.places - 2, "cls")
    return layout, Weights(normal(size.words, dim), normal(size.places, dim), norm(), layers)


def widened(weights: Weights) -> Weights:
    """The same weights in float32, for the check."""
    from zeromem_gpu.encoders.checkpoint import Affine, Layer, Weights

    def wide(one: Affine) -> Affine:
        return Affine(one.weight.float(), one.bias.float())

    layers = tuple(Layer(*map(wide, layer)) for layer in weights.layers)
    return Weights(weights.words.float(), weights.places.float(), wide(weights.norm), layers)


def random_texts(size: Size) -> list[list[int]]:
    """Token ids of texts as long as chat turns are, in no order; the same on every machine."""
    make = torch.Generator().manual_seed(32)
    drawn = torch.exp(_SPREAD * torch.randn(size.texts, generator=make)) * _MEDIAN
    lengths = drawn.long().clamp(_SPECIAL + 1, min(_LONGEST, size.places - 2)).tolist()
    ids = torch.randint(size.words, (sum(lengths),), generator=make)
    return [part.tolist() for part in ids.split(lengths)]


def padded(
    weights: Weights, layout: Layout, batches: Sequence[Texts], device: torch.device
) -> Callable[[], list[Tensor]]:
    """A call that gives the first tokens' vectors with every text padded to its batch's longest.

    The batches lie on the device beforehand.
    """
    made = []
    for batch in batches:
        lengths = torch.tensor([len(text) for text in batch])
        ids = torch.zeros((len(batch), int(lengths.max())), dtype=torch.int64)
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        ids[mask] = torch.tensor([token for text in batch for token in text])
        made.append((ids.to(device), mask.to(device)))
    return lambda: [_padded_batch(weights, layout, ids, mask) for ids, mask in made]


def _padded_batch(weights: Weights, layout: Layout, ids: Tensor, mask: Tensor) -> Tensor:
    texts, length = ids.shape
    places = torch.arange(length, device=ids.device) + layout.first_position

    def norm(x: Tensor, affine: tuple[Tensor, Tensor]) -> Tensor:
        return functional.layer_norm(x, (layout.dim,), *affine, layout.eps)

    x = norm(weights.words[ids] + weights.places[places], weights.norm)
    for layer in weights.layers:
        heads = functional.linear(x, *layer.qkv).view(texts, length, 3, layout.heads, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])
        mixed = mixed.transpose(1, 2).reshape(texts, length, layout.dim)
        x = norm(functional.linear(mixed, *layer.out) + x, layer.middle)
        inner = functional.gelu(functional.linear(x, *layer.up))
        x = norm(functional.linear(inner, *layer.down) + x, layer.end)
    return functional.normalize(x[:, 0].float(), dim=-1)


def matrix_rate(bench: Bench) -> float:
    """FLOP a second of a large square product in the dtype of the weights: what the card can do at best."""
    side = 64 if bench.dry else _SQUARE
    dtype = torch.float16 if bench.device.type == "cuda" else torch.float32
    left, right = (torch.randn((side, side), device=bench.device).to(dtype) for _ in range(2))
    seconds = bench.library(f"product {side}x{side}x{side}", lambda: left @ right)
    return 2 * side**3 / seconds


def model_flops(size: Size, texts: Texts) -> int:
    """What the texts themselves need: 24 D² a token and layer in products, 4 n² D a text in attention."""
    tokens, squares = sum(map(len, texts)), sum(len(text) ** 2 for text in texts)
    return size.layers * (24 * size.dim**2 * tokens + 4 * size.dim * squares)


def padding(batches: Sequence[Texts]) -> float:
    """The share of computed tokens that is padding."""
    computed = sum(len(batch) * max(map(len, batch)) for batch in batches)
    return 1.0 - sum(len(text) for batch in batches for text in batch) / computed
