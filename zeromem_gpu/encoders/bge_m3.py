"""BGE-M3 through FlagEmbedding, dense vectors only: the library's default encoder."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np

from zeromem_gpu.encoders.hub import model_directory, revision_of
from zeromem_gpu.encoders.protocol import Progress, Vectors, fingerprint, normalise
from zeromem_gpu.errors import MissingDependency, ModelUnavailable
from zeromem_gpu.text.normalize import clean

NAME = "BAAI/bge-m3"
_MAX_TOKENS = 8192
_CHUNK = 16  # batches between two calls of progress


class BgeM3Encoder:
    """BGE-M3's dense vectors on exactly one device; half precision on CUDA, float32 elsewhere.

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
