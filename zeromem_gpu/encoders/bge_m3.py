"""BGE-M3, the library's default encoder: packed, with its lexical weights; and by FlagEmbedding, plain."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zeromem_gpu.encoders.checkpoint import load_linear
from zeromem_gpu.encoders.hub import model_directory, revision_of
from zeromem_gpu.encoders.lexical import LexicalWeights
from zeromem_gpu.encoders.packed_encoder import PackedEncoder
from zeromem_gpu.encoders.protocol import Progress, Vectors, fingerprint, normalise
from zeromem_gpu.errors import MissingDependency, ModelUnavailable
from zeromem_gpu.text.normalize import clean

if TYPE_CHECKING:
    from torch import Tensor

    from zeromem_gpu.encoders.packed import Packed

NAME = "BAAI/bge-m3"
_MAX_TOKENS = 8192
_CHUNK = 16  # batches between two calls of progress
SPARSE = "sparse_linear.pt"


class PackedBgeM3(PackedEncoder):
    """BGE-M3 by the packed forward: the first token's vector, up to 8,192 tokens a piece.

    Args:
        model: "BAAI/bge-m3", or the directory of a checkpoint of its kind: XLM-R and, for lexical weights,
            sparse_linear.pt beside it.
        device: "cpu" or "cuda:0"; half precision on CUDA.
        batch_tokens: tokens of one forward pass; None chooses by the device.

    Needs no FlagEmbedding. Raises `ModelUnavailable` without weights, within seconds when constructed.
    """

    def __init__(self, model: str = NAME, *, device: str = "cpu", batch_tokens: int | None = None) -> None:
        directory = model_directory(model)
        super().__init__(directory, name=model, device=device, pooling="cls", batch_tokens=batch_tokens)

    @property
    def weighs(self) -> bool:
        """Whether the checkpoint has the head that gives token weights."""
        return (self._directory / SPARSE).is_file()

    def lexical_weights(self, texts: Sequence[str]) -> LexicalWeights:
        """How much each token of each text matters by the model's sparse head: ReLU, maximum per token.

        Special tokens have none. A long text takes the maximum over its pieces. Raises `ModelUnavailable`
        without sparse_linear.pt.
        """
        from torch.nn import functional

        weights, device = self._loaded()
        head = load_linear(self._directory / SPARSE, device, weights.words.dtype)
        pieces = self._tokenizer().cut([clean(text) for text in texts])

        def read(hidden: Tensor, _: Packed) -> Tensor:
            return functional.linear(hidden, *head).squeeze(-1).relu().float()

        places: list[int] = []
        weight = [np.empty(0, np.float32)]
        for batch, found in self._run(pieces, read):
            places += batch
            weight.append(found)
        counts = [len(pieces[at].tokens) for at in places]
        text = np.repeat(np.array([pieces[at].text for at in places], np.int64), counts)
        token = np.array([token for at in places for token in pieces[at].tokens], np.int64)
        kept = ~np.isin(token, sorted(self._tokenizer().special()))
        return LexicalWeights.of(text[kept], token[kept], np.concatenate(weight)[kept], len(texts))


class BgeM3Encoder:
    """FlagEmbedding's vectors and token weights, the plain form: half precision on CUDA, float32 elsewhere.

    Args:
        model: "BAAI/bge-m3", or the directory of a checkpoint of its kind.
        device: "cpu" or "cuda:0". Always passed on: FlagEmbedding's default takes every GPU.
        batch_size: texts in one forward pass.
        max_tokens: longer texts are cut here.

    Raises `MissingDependency` without FlagEmbedding and `ModelUnavailable` without weights, both within
    seconds when constructed. The model is loaded at the first text.
    """

    def __init__(
        self,
        model: str = NAME,
        *,
        device: str = "cpu",
        batch_size: int = 32,
        max_tokens: int = _MAX_TOKENS,
    ) -> None:
        if util.find_spec("FlagEmbedding") is None:
            raise MissingDependency(
                f"FlagEmbedding is needed for {model!r}: pip install 'zeromem-gpu[bge-m3]'. "
                "Without it choose encoder 'minilm', or pass vectors made elsewhere with vectors=."
            )
        self._directory = model_directory(model)
        self.name = model
        self.revision = revision_of(self._directory)
        self.device = device
        self.dim = _width(self._directory)
        self.max_tokens = max_tokens
        self._batch_size = batch_size
        self._loaded: Any = None
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Name, revision and width."""
        return fingerprint(self.name, self.revision, self.dim)

    @property
    def precision(self) -> str:
        """Half ("fp16") on CUDA, "fp32" elsewhere; caches keep the two apart."""
        return "fp16" if self.device.startswith("cuda") else "fp32"

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Vectors float32 [n, D], rows of length 1; no texts give [0, D]."""
        seen = [clean(text) for text in texts]
        vectors = np.zeros((len(seen), self.dim), dtype=np.float32)
        order = sorted(range(len(seen)), key=lambda row: (-len(seen[row]), seen[row]))
        step = self._batch_size * _CHUNK
        for start in range(0, len(order), step):
            rows = order[start : start + step]
            found = self._model().encode(
                [seen[row] for row in rows],
                batch_size=self._batch_size,
                max_length=self.max_tokens,
                return_dense=True,
                return_sparse=False,
                return_colbert_vecs=False,
            )
            vectors[rows] = np.asarray(found["dense_vecs"], dtype=np.float32)
            if progress is not None:
                progress(len(rows))
        return normalise(vectors)

    @property
    def weighs(self) -> bool:
        """Whether the checkpoint has the head that gives token weights."""
        return (self._directory / SPARSE).is_file()

    def lexical_weights(self, texts: Sequence[str]) -> LexicalWeights:
        """The token weights of each text, as the packed form gives them but for the cut of long texts."""
        told: list[dict[str, float]] = []
        if len(texts):
            found = self._model().encode(
                [clean(text) for text in texts],
                batch_size=self._batch_size,
                max_length=self.max_tokens,
                return_dense=False,
                return_sparse=True,
                return_colbert_vecs=False,
            )
            told = found["lexical_weights"]
        text = np.repeat(np.arange(len(told)), [len(one) for one in told])
        token = np.array([int(name) for one in told for name in one], np.int64)
        weight = np.array([value for one in told for value in one.values()], np.float32)
        return LexicalWeights.of(text, token, weight, len(texts))

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                try:
                    from FlagEmbedding import BGEM3FlagModel
                except ImportError as error:  # it lags behind transformers
                    raise MissingDependency(
                        f"FlagEmbedding does not import ({error}): pip install 'zeromem-gpu[bge-m3]' "
                        "brings versions that fit."
                    ) from error
                self._loaded = BGEM3FlagModel(
                    str(self._directory),
                    use_fp16=self.device.startswith("cuda"),
                    devices=[self.device],
                )
            return self._loaded


def _width(directory: Path) -> int:
    """D: the hidden size of the checkpoint (1024 for the published one)."""
    path = directory / "config.json"
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["hidden_size"])
    except (OSError, ValueError, KeyError) as error:
        raise ModelUnavailable(f"{path} does not name a hidden_size: {error}") from error
