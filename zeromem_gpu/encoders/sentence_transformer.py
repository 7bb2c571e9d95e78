"""Any model of sentence-transformers, from a directory or the Hugging Face hub."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np

from zeromem_gpu.encoders.hub import model_directory, revision_of, static_width
from zeromem_gpu.encoders.protocol import Progress, Vectors, fingerprint, normalise
from zeromem_gpu.errors import MissingDependency
from zeromem_gpu.text.normalize import clean

_CHUNK = 16  # batches between two calls of progress


class SentenceTransformerEncoder:
    """Dense vectors of a sentence-transformers model, in float32, texts sorted by length.

    Args:
        model: a Hugging Face name or a model directory.
        device: where it runs, one device; "cpu" or "cuda:0".
        batch_size: texts in one forward pass.
        name: the name that indexes remember; `model` unless given.
        revision: which weights; found from the files unless given.

    The files are found when constructed (`ModelUnavailable` within seconds, `MissingDependency`
    without the library) and loaded at the first text, or when the width stands in no configuration.
    """

    def __init__(
        self,
        model: str,
        *,
        device: str = "cpu",
        batch_size: int = 32,
        name: str | None = None,
        revision: str | None = None,
    ) -> None:
        if util.find_spec("sentence_transformers") is None:
            raise MissingDependency(
                f"sentence-transformers is needed for {model!r}: pip install 'zeromem-gpu[encoders]'."
            )
        self._directory = model_directory(model)
        self.name = name or model
        self.revision = revision or revision_of(self._directory)
        self.device = device
        self._batch_size = batch_size
        self._dim = static_width(self._directory)
        self._max_tokens = _configured_length(self._directory)
        self._loaded: Any = None
        self._lock = threading.Lock()

    @property
    def dim(self) -> int:
        """D, the width of a vector."""
        if self._dim is None:
            self._dim = int(self._model().get_embedding_dimension())
        return self._dim

    @property
    def max_tokens(self) -> int:
        """Longer texts are cut here."""
        if self._max_tokens is None:
            self._max_tokens = int(self._model().max_seq_length or 512)
        return self._max_tokens

    @property
    def fingerprint(self) -> str:
        """Name, revision and width."""
        return fingerprint(self.name, self.revision, self.dim)

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Vectors float32 [n, D], rows of length 1; no texts give [0, D]."""
        seen = [clean(text) for text in texts]
        vectors = np.zeros((len(seen), self.dim), dtype=np.float32)
        # neighbours in this order need little padding; the order is total, so runs repeat exactly
        order = sorted(range(len(seen)), key=lambda row: (-len(seen[row]), seen[row]))
        step = self._batch_size * _CHUNK
        for start in range(0, len(order), step):
            rows = order[start : start + step]
            vectors[rows] = self._forward([seen[row] for row in rows])
            if progress is not None:
                progress(len(rows))
        return normalise(vectors)

    def _forward(self, texts: list[str]) -> Vectors:
        found = self._model().encode(
            texts, batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(found, dtype=np.float32)

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._directory, self.device)
            return self._loaded


def _load(directory: Path, device: str) -> Any:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    drawn = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # a library draws nothing on its caller's terminal
    try:
        return SentenceTransformer(str(directory), device=device, local_files_only=True).eval()
    finally:
        if drawn:
            transformers_logging.enable_progress_bar()


def _configured_length(directory: Path) -> int | None:
    """The token limit in a directory's configuration; None where it does not say."""
    path = directory / "sentence_bert_config.json"
    if not path.is_file():
        return None
    length = json.loads(path.read_text(encoding="utf-8")).get("max_seq_length")
    return int(length) if length is not None else None
