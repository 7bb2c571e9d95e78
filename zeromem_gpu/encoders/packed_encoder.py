"""Encoders by the packed forward: MiniLM, BGE-M3, and every BERT or XLM-R of the same layout."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zeromem_gpu.encoders.checkpoint import Pooling, Weights, load_weights, read_layout
from zeromem_gpu.encoders.hub import revision_of
from zeromem_gpu.encoders.pieces import Piece, Pieces
from zeromem_gpu.encoders.protocol import Mask, Progress, Vectors, fingerprint, normalise
from zeromem_gpu.encoders.workers import computed
from zeromem_gpu.errors import MissingDependency
from zeromem_gpu.text.normalize import clean

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from zeromem_gpu.encoders.packed import Packed


class _Amounts(NamedTuple):
    """Tokens of one batch and texts between two calls of progress."""

    tokens: int
    texts: int


# more special tokens than any of these models adds to a text
_SPECIAL = 8

# on two cores of an EPYC 7003, 512 tokens a batch measured best (256: 1.0x, 128: 0.9x, 1024: 0.95x); a
# GPU wants batches that fill it, and text enough to sort
_CPU, _CUDA = _Amounts(512, 1024), _Amounts(32_768, 16_384)


class PackedEncoder:
    """Dense vectors without padding; texts too long for the model are cut at sentence ends.

    A long text's vector is the mean of its pieces', weighted by their tokens. Half precision on CUDA,
    float32 on the CPU, where every core computes batches of its own.

    Args:
        directory: a checkpoint that `read_layout` accepts; else its `UnsupportedCheckpoint` is raised.
        name: what indexes remember.
        revision: which weights; found from the files unless given.
        device: "cpu" or "cuda:0".
        pooling: "cls" or "mean"; None reads it from the sentence-transformers files.
        batch_tokens: tokens of one forward pass (a text with more is a batch of its own); None chooses by
            the device.

    Tokenizer and weights are loaded at the first text; `MissingDependency` without the tokenizers package
    is raised when constructed.
    """

    def __init__(
        self,
        directory: Path,
        *,
        name: str,
        revision: str | None = None,
        device: str = "cpu",
        pooling: Pooling | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        if util.find_spec("tokenizers") is None:
            raise MissingDependency(
                f"tokenizers is needed for {name!r}: pip install 'zeromem-gpu[encoders]'."
            )
        self._directory = directory
        self._layout = read_layout(directory, pooling)
        self._amounts = _CUDA if device.startswith("cuda") else _CPU
        self._batch_tokens = batch_tokens or self._amounts.tokens
        self.name = name
        self.revision = revision or revision_of(directory)
        self.device = device
        self.dim = self._layout.dim
        self.max_tokens = self._layout.max_tokens
        self._pieces: Pieces | None = None
        self._weights: Weights | None = None
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Name, revision and width."""
        return fingerprint(self.name, self.revision, self.dim)

    @property
    def precision(self) -> str:
        """Half ("fp16") on CUDA, "fp32" elsewhere; they differ beyond rounding: caches keep them apart."""
        return "fp16" if self.device.startswith("cuda") else "fp32"

    def splits(self, texts: Sequence[str]) -> Mask:
        """Which texts are cut into pieces, bool [n]; texts short in characters load no tokenizer."""
        seen = [clean(text) for text in texts]
        found = np.zeros(len(seen), np.bool_)
        # a token stands for at least one character, special ones aside
        maybe = [at for at, text in enumerate(seen) if len(text) + _SPECIAL > self.max_tokens]
        if maybe:
            found[maybe] = self._tokenizer().too_long([seen[at] for at in maybe])
        return found

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Vectors float32 [n, D], rows of length 1; no texts give [0, D]. Each distinct text runs once."""
        rows: dict[str, list[int]] = {}
        for at, text in enumerate(texts):
            rows.setdefault(clean(text), []).append(at)
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for part, pieces in self._cut(sorted(rows, key=lambda text: (-len(text), text))):
            found = _joined(len(part), pieces, self._vectors(pieces))
            for text, vector in zip(part, found, strict=True):
                vectors[rows[text]] = vector
            if progress is not None:
                progress(sum(len(rows[text]) for text in part))
        return vectors

    def _cut(self, texts: list[str]) -> Iterator[tuple[list[str], list[Piece]]]:
        """Parts of the texts with their pieces; the next part is tokenized while this one computes."""
        step = self._amounts.texts
        parts = [texts[first : first + step] for first in range(0, len(texts), step)]
        if len(parts) < 2:
            yield from ((part, self._tokenizer().cut(part)) for part in parts)
            return
        cut = self._tokenizer().cut
        with ThreadPoolExecutor(1, "zeromem-tokens") as ahead:
            coming = ahead.submit(cut, parts[0])
            for part, after in zip(parts, [*parts[1:], None], strict=True):
                pieces = coming.result()
                if after is not None:
                    coming = ahead.submit(cut, after)
                yield part, pieces

    def _vectors(self, pieces: Sequence[Piece]) -> Vectors:
        """The vector of each piece, float32 [pieces, D]; a piece without tokens has a zero one."""
        from zeromem_kernels.pool import pool_texts

        found = np.zeros((len(pieces), self.dim), np.float32)
        for batch, vectors in self._run(
            pieces, lambda hidden, packed: pool_texts(hidden, packed.starts, self._layout.pooling)
        ):
            found[batch] = vectors
        return found

    def _run(
        self, pieces: Sequence[Piece], read: Callable[[Tensor, Packed], Tensor]
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Batches of places in `pieces`, each with what `read` makes of its hidden states [T, D]."""
        from zeromem_gpu.encoders.packed import forward, pack

        weights, device = self._loaded()

        def compute(batch: Sequence[int]) -> Tensor:
            packed = pack([pieces[at].tokens for at in batch], self._layout.first_position, device)
            return read(forward(weights, self._layout, packed), packed)

        batches = token_batches([len(piece.tokens) for piece in pieces], self._batch_tokens)
        return zip(batches, computed(compute, batches, device), strict=True)

    def _loaded(self) -> tuple[Weights, torch.device]:
        import torch

        device = torch.device(self.device)
        with self._lock:
            if self._weights is None:
                dtype = torch.float16 if self.precision == "fp16" else torch.float32
                self._weights = load_weights(self._directory, self._layout, device, dtype)
            return self._weights, device

    def _tokenizer(self) -> Pieces:
        with self._lock:
            if self._pieces is None:
                self._pieces = Pieces(self._directory, self.max_tokens)
            return self._pieces


def token_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Places of texts in batches of at most `budget` tokens, longest first; a longer text stands alone.

    Texts without tokens are in no batch.

    >>> token_batches([3, 9, 0, 4, 4], 8)
    [[1], [3, 4], [0]]
    """
    batches: list[list[int]] = []
    room = 0
    for at in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if not lengths[at]:
            break
        if not batches or lengths[at] > room:
            batches.append([])
            room = budget
        batches[-1].append(at)
        room -= lengths[at]
    return batches


def _joined(count: int, pieces: Sequence[Piece], vectors: Vectors) -> Vectors:
    """The vectors of `count` texts from those of their pieces, the mean weighted by tokens."""
    place = np.fromiter((piece.text for piece in pieces), np.int64, len(pieces))
    if len(pieces) == count and np.array_equal(place, np.arange(count)):
        return vectors
    weight = np.fromiter((len(piece.tokens) for piece in pieces), np.float32, len(pieces))
    alone = np.bincount(place, minlength=count)[place] == 1
    joined = np.zeros((count, vectors.shape[1]), np.float32)
    np.add.at(joined, place, vectors * weight[:, None])
    scaled = normalise(joined)
    scaled[place[alone]] = vectors[alone]  # to the bit
    return scaled
