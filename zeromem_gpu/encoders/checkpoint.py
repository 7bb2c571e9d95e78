"""Checkpoints that the packed forward can run: BERT's and XLM-R's layouts, as transformers writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from zeromem_gpu.errors import ModelUnavailable

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Pooling: TypeAlias = Literal["cls", "mean"]

_KINDS = ("bert", "roberta", "xlm-roberta")
_PREFIXES = ("bert.", "roberta.", "model.")
_LAYER = (
    ("attention.output.dense", "out"),
    ("attention.output.LayerNorm", "middle"),
    ("intermediate.dense", "up"),
    ("output.dense", "down"),
    ("output.LayerNorm", "end"),
)


class UnsupportedCheckpoint(ModelUnavailable):
    """A model directory whose layout the packed forward does not know; another path may run it."""


@dataclass(frozen=True)
class Layout:
    """What the forward must know beside the weights.

    `first_position` is the row of the position table that a text's first token takes: 0 for BERT, the row
    after the padding's for XLM-R. `max_tokens` counts the special tokens too.
    """

    heads: int
    layers: int
    dim: int
    eps: float
    first_position: int
    max_tokens: int
    pooling: Pooling


class Affine(NamedTuple):
    """A weight and its bias: of a product [out, in] and [out], or of a norm [D] and [D]."""

    weight: Tensor
    bias: Tensor


class Layer(NamedTuple):
    """One transformer layer; `qkv` holds query, key and value one below the other, [3D, D]."""

    qkv: Affine
    out: Affine
    middle: Affine
    up: Affine
    down: Affine
    end: Affine


class Weights(NamedTuple):
    """All weights on one device. `places` [P, D] are position rows plus the row of token type 0."""

    words: Tensor
    places: Tensor
    norm: Affine
    layers: tuple[Layer, ...]


def read_layout(directory: Path, pooling: Pooling | None = None) -> Layout:
    """The layout of a model directory, without loading weights.

    Args:
        directory: with config.json and tokenizer.json.
        pooling: how a text's vector is taken; None reads it from the sentence-transformers files.

    Raises `UnsupportedCheckpoint`, naming the reason, for what the packed forward would not compute as
    transformers or sentence-transformers do.
    """
    config = _json(directory / "config.json")
    kind = config.get("model_type")
    if kind not in _KINDS:
        raise UnsupportedCheckpoint(f"{directory}: model_type {kind!r} is none of {', '.join(_KINDS)}.")
    for name, wanted in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
        if config.get(name, wanted) != wanted:
            raise UnsupportedCheckpoint(f"{directory}: {name} {config[name]!r} is not {wanted!r}.")
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise UnsupportedCheckpoint(f"{directory} is a decoder.")
    if not (directory / "tokenizer.json").is_file():
        raise UnsupportedCheckpoint(f"{directory} holds no tokenizer.json.")
    first = 0 if kind == "bert" else int(config.get("pad_token_id", 1)) + 1
    rows = int(config["max_position_embeddings"]) - first
    wanted_length, found = _sentence_facts(directory) if pooling is None else (None, pooling)
    return Layout(
        heads=int(config["num_attention_heads"]),
        layers=int(config["num_hidden_layers"]),
        dim=int(config["hidden_size"]),
        eps=float(config["layer_norm_eps"]),
        first_position=first,
        max_tokens=min(rows, wanted_length or rows),
        pooling=found,
    )


def load_weights(directory: Path, layout: Layout, device: torch.device, dtype: torch.dtype) -> Weights:
    """The weights in `dtype` on `device`, from safetensors or a torch file read as weights only.

    Raises `ModelUnavailable` when a tensor that the layout needs is missing.
    """
    stored = _stored(directory)
    names = {_bare(name): name for name in stored}

    def take(name: str) -> Tensor:
        if name not in names:
            raise ModelUnavailable(f"{directory} has no tensor {name!r}: its download may be incomplete.")
        return stored[names[name]].to(device=device, dtype=dtype)

    def affine(name: str) -> Affine:
        return Affine(take(f"{name}.weight"), take(f"{name}.bias"))

    def layer(at: int) -> Layer:
        import torch

        base = f"encoder.layer.{at}."
        parts = [affine(f"{base}attention.self.{name}") for name in ("query", "key", "value")]
        qkv = Affine(torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts]))
        return Layer(qkv, **{field: affine(base + name) for name, field in _LAYER})

    places = take("embeddings.position_embeddings.weight")
    return Weights(
        words=take("embeddings.word_embeddings.weight"),
        places=places + take("embeddings.token_type_embeddings.weight")[0],
        norm=affine("embeddings.LayerNorm"),
        layers=tuple(layer(at) for at in range(layout.layers)),
    )


def load_linear(path: Path, device: torch.device, dtype: torch.dtype) -> Affine:
    """One of BGE-M3's extra heads, such as sparse_linear.pt: a torch file with `weight` and `bias`."""
    import torch

    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
        return Affine(*(stored[name].to(device=device, dtype=dtype) for name in ("weight", "bias")))
    except (OSError, KeyError, RuntimeError) as error:
        raise ModelUnavailable(f"{path} does not hold a linear layer: {error}") from error


def _stored(directory: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint, whole or in shards."""
    from safetensors.torch import load_file

    for whole in ("model.safetensors", "pytorch_model.bin"):
        index = directory / f"{whole}.index.json"
        files = [directory / whole]
        if not files[0].is_file() and index.is_file():
            files = [directory / name for name in sorted(set(_json(index)["weight_map"].values()))]
        if not files[0].is_file():
            continue
        read = load_file if whole.endswith(".safetensors") else _torch_file
        return {name: tensor for file in files for name, tensor in read(file).items()}
    raise ModelUnavailable(f"{directory} holds neither model.safetensors nor pytorch_model.bin.")


def _torch_file(path: Path) -> dict[str, Tensor]:
    import torch

    found: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return found


def _bare(name: str) -> str:
    """The name of a tensor without the prefix of the class that saved it."""
    return next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)


def _sentence_facts(directory: Path) -> tuple[int | None, Pooling]:
    """(token limit, pooling) from sentence-transformers' files; only a chain that ends in a norm."""
    path = directory / "modules.json"
    if not path.is_file():
        raise UnsupportedCheckpoint(f"{directory} has no modules.json that says how to pool.")
    modules = json.loads(path.read_text(encoding="utf-8"))
    kinds = [module["type"].rsplit(".", 1)[-1] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise UnsupportedCheckpoint(f"{directory}: modules {' → '.join(kinds)} are not known.")
    prompts = directory / "config_sentence_transformers.json"
    if prompts.is_file() and _json(prompts).get("default_prompt_name"):
        raise UnsupportedCheckpoint(f"{directory} puts a prompt before every text.")
    values = _json(directory / modules[0]["path"] / "sentence_bert_config.json", missing={})
    if values.get("do_lower_case") or modules[0]["path"]:
        raise UnsupportedCheckpoint(f"{directory}: lower-casing and nested modules are not known.")
    length = values.get("max_seq_length")
    return (None if length is None else int(length)), _pooling(directory / modules[1]["path"])


def _pooling(folder: Path) -> Pooling:
    values = _json(folder / "config.json")
    prefix = "pooling_mode_"
    modes = [
        key.removeprefix(prefix) for key, on in values.items() if key.startswith(prefix) and on is True
    ]
    if "pooling_mode" in values:
        modes = [str(values["pooling_mode"])]
    if modes in (["cls_token"], ["cls"]):
        return "cls"
    if modes in (["mean_tokens"], ["mean"]):
        return "mean"
    raise UnsupportedCheckpoint(f"{folder}: pooling {modes} is neither the first token's nor the mean.")


def _json(path: Path, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    if missing is not None and not path.is_file():
        return missing
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{path} cannot be read: {error}") from error
    return found
