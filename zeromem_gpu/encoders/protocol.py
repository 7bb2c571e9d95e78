"""What an encoder is, and the check that every encoded batch passes before it enters an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from zeromem_gpu.errors import InvalidInput

Vectors: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float32]]  # [n, D]
Mask: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]  # [n]
Progress: TypeAlias = Callable[[int], None]  # called with how many more texts are done

_UNIT_TOLERANCE = 1e-3  # half-precision encoders leave lengths this far from 1


@runtime_checkable
class Encoder(Protocol):
    """Texts → vectors. The same text gives the same vector up to rounding, whatever else is in the call."""

    @property
    def name(self) -> str:
        """The model's public name, which an index remembers."""
        ...

    @property
    def revision(self) -> str:
        """Which weights: a commit, a version or a digest."""
        ...

    @property
    def dim(self) -> int:
        """D, the width of a vector."""
        ...

    @property
    def max_tokens(self) -> int:
        """Longer texts are cut here."""
        ...

    @property
    def fingerprint(self) -> str:
        """Equal fingerprints give vectors that may be compared with each other."""
        ...

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Vectors float32 [n, D], rows of length 1, in the order of `texts`; no texts give [0, D].

        A row that the model returns as NaN or zero stays so. `progress` hears how many texts are done
        since it last heard.
        """
        ...


@runtime_checkable
class Splitting(Protocol):
    """An encoder that cuts texts beyond `max_tokens` into pieces, instead of dropping what is behind."""

    def splits(self, texts: Sequence[str]) -> Mask:
        """Which texts are cut, bool [n]."""
        ...


def count_split(encoder: Encoder, texts: Sequence[str]) -> int:
    """How many of the texts the encoder cuts into pieces; 0 for one that never does."""
    return int(encoder.splits(texts).sum()) if isinstance(encoder, Splitting) else 0


def vector_form(encoder: Encoder) -> str:
    """The fingerprint, and the precision where vectors differ from those of float32 beyond rounding.

    Vectors of one form are the same up to rounding: caches keep forms apart. All forms of a fingerprint may
    be compared with each other.
    """
    precision = getattr(encoder, "precision", "fp32")
    return encoder.fingerprint if precision == "fp32" else f"{encoder.fingerprint}/{precision}"


def fingerprint(name: str, revision: str, dim: int) -> str:
    """The fingerprint of an encoder of that name, revision and width.

    >>> fingerprint("minilm", "0.1.0", 384)
    'minilm@0.1.0/384'
    """
    return f"{name}@{revision}/{dim}"


def normalise(vectors: Vectors) -> Vectors:
    """Rows [n, D] scaled to length 1 as float32; rows that are zero or not finite stay as they are."""
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
    usable = np.isfinite(lengths) & (lengths > 0)
    scaled: Vectors = (rows / np.where(usable, lengths, 1.0)[:, None]).astype(np.float32)
    return scaled


def checked_encode(
    encoder: Encoder, texts: Sequence[str], progress: Progress | None = None
) -> tuple[Vectors, Mask]:
    """Encode and verify: (vectors float32 [n, D], bad bool [n]).

    Rows that hold NaN or infinity or are zero are marked in `bad` and zeroed. Raises `InvalidInput` when
    the encoder returns another shape or dtype than it promises, or rows that are not of length 1.
    """
    found = np.asarray(encoder.encode(texts, progress))
    wanted = (len(texts), encoder.dim)
    if found.shape != wanted:
        raise InvalidInput(
            "encoder",
            f"{encoder.name} returned {list(found.shape)}",
            f"{list(wanted)} (width {encoder.dim} for {len(texts)} texts)",
            "Use the encoder that the index names, or build the index anew.",
        )
    if found.dtype != np.float32:
        raise InvalidInput("encoder", f"{encoder.name} returned {found.dtype}", "float32")
    lengths = np.sqrt(np.einsum("nd,nd->n", found, found, dtype=np.float64))
    bad = ~(np.isfinite(lengths) & (lengths > 0))
    if np.any(np.abs(lengths[~bad] - 1.0) > _UNIT_TOLERANCE):
        raise InvalidInput("encoder", f"{encoder.name} returned rows of other length", "rows of length 1")
    vectors = np.where(bad[:, None], np.float32(0), found)
    return vectors, bad
