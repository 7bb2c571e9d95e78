"""What an encoder is, and the check that every encoded batch passes before it enters an index."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from zeromem_gpu.budget import is_out_of_memory, release
from zeromem_gpu.errors import InvalidInput, OutOfMemory

logger = logging.getLogger(__name__)

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
    the encoder returns another shape or dtype than it promises, or rows that are not of length 1. Where
    memory runs out, the texts go to the encoder in halves, and `OutOfMemory` is raised when one text does
    not fit.
    """
    parts: list[tuple[Vectors, Mask]] = []
    begin, size, ahead = 0, max(len(texts), 1), 0
    while begin < len(texts) or not parts:
        part = texts[begin : begin + size]
        ticks = _Ticks(progress, ahead)
        failed: BaseException | None = None
        try:
            parts.append(_checked(encoder, part, ticks))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if len(part) <= 1:
                raise OutOfMemory(
                    f"one text does not fit into memory beside the encoder {encoder.name}. Free memory, "
                    "choose a smaller encoder or another device, or a smaller unit_chars."
                ) from error
            failed = error.with_traceback(None)  # which would keep the arrays of the attempt alive
        # what was told of a failed attempt is done again and not told again
        ahead = ticks.ahead if failed is None else ticks.ahead + ticks.told
        if failed is None:
            begin += len(part)
            continue
        if size == len(texts):
            logger.warning("out of memory while encoding: %d texts go to the encoder in parts", len(texts))
        size = (len(part) + 1) // 2
        release(str(getattr(encoder, "device", "cuda")))
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


class _Ticks:
    """Passes progress on, but for the first `ahead` texts, of which it was told before."""

    def __init__(self, progress: Progress | None, ahead: int) -> None:
        self._progress, self.ahead, self.told = progress, ahead, 0

    def __call__(self, more: int) -> None:
        known = min(self.ahead, more)
        self.ahead -= known
        self.told += more
        if self._progress is not None and more > known:
            self._progress(more - known)


def _checked(encoder: Encoder, texts: Sequence[str], progress: Progress) -> tuple[Vectors, Mask]:
    """What the encoder returns for some texts, verified."""
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
