"""Token weights of texts, which some encoders learned beside their vectors: BGE-M3's sparse head.

Two texts fit by Σ of the products of the weights of tokens that both hold. A token is a number of the
encoder's own vocabulary, so that only weights of one encoder may be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from zeromem_gpu.encoders.protocol import Encoder
from zeromem_gpu.errors import InvalidInput

# texts in one call: their tokens pass through Python lists
_AT_ONCE = 4096


class LexicalWeights(NamedTuple):
    """Token weights of texts: text i has `ids[indptr[i]:indptr[i+1]]`, ascending, each once, and `weights`.

    `indptr` int64 [n + 1], `ids` int32 and `weights` float32 of equal length, all weights above 0.
    """

    indptr: np.ndarray
    ids: np.ndarray
    weights: np.ndarray

    @classmethod
    def none(cls, texts: int) -> LexicalWeights:
        """Texts without any."""
        return cls(np.zeros(texts + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))

    @classmethod
    def of(cls, text: np.ndarray, token: np.ndarray, weight: np.ndarray, texts: int) -> LexicalWeights:
        """From triples in any order: the highest weight of each token; NaN and what is ≤ 0 is left out."""
        kept = weight > 0
        text, token, weight = text[kept], token[kept], weight[kept]
        order = np.lexsort((-weight, token, text))
        text, token, weight = text[order], token[order], weight[order]
        first = np.ones(len(text), np.bool_)
        first[1:] = (text[1:] != text[:-1]) | (token[1:] != token[:-1])
        indptr = np.zeros(texts + 1, np.int64)
        np.cumsum(np.bincount(text[first], minlength=texts), out=indptr[1:])
        return cls(indptr, token[first].astype(np.int32), weight[first].astype(np.float32))

    @classmethod
    def joined(cls, parts: Sequence[LexicalWeights]) -> LexicalWeights:
        """The texts of all parts, one part after another; at least one part."""
        sizes = np.concatenate([np.diff(part.indptr) for part in parts])
        indptr = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=indptr[1:])
        ids, weights = (np.concatenate([part[at] for part in parts]) for at in (1, 2))
        return cls(indptr, ids, weights)

    def take(self, rows: np.ndarray) -> LexicalWeights:
        """The given texts in the given order; row −1 is one without weights."""
        begin, end = np.append(self.indptr[:-1], 0)[rows], np.append(self.indptr[1:], 0)[rows]
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(end - begin, out=indptr[1:])
        at = np.repeat(begin - indptr[:-1], end - begin) + np.arange(indptr[-1])
        return LexicalWeights(indptr, self.ids[at], self.weights[at])

    def packed(self) -> list[bytes]:
        """Each text's tokens, then their weights, as bytes."""
        ids, weights = self.ids.astype("<i4"), self.weights.astype("<f4")
        return [
            ids[begin:end].tobytes() + weights[begin:end].tobytes()
            for begin, end in pairwise(self.indptr.tolist())
        ]

    @classmethod
    def unpacked(cls, texts: Sequence[bytes]) -> LexicalWeights:
        """The inverse of `packed`."""
        sizes = [len(text) // 8 for text in texts]
        halves = [(text[: 4 * size], text[4 * size :]) for text, size in zip(texts, sizes, strict=True)]
        ids, weights = (b"".join(half[at] for half in halves) for at in (0, 1))
        return cls(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.frombuffer(ids, "<i4").astype(np.int32),
            np.frombuffer(weights, "<f4").astype(np.float32),
        )

    def score(self, other: LexicalWeights) -> np.ndarray:
        """Σ of products over shared tokens, float32 [n, other's n]; a dense table, for a few texts."""
        width = 1 + max(self.ids.max(initial=-1), other.ids.max(initial=-1))

        def dense(one: LexicalWeights) -> np.ndarray:
            table = np.zeros((len(one.indptr) - 1, width), np.float32)
            table[np.repeat(np.arange(len(table)), np.diff(one.indptr)), one.ids] = one.weights
            return table

        found: np.ndarray = dense(self) @ dense(other).T
        return found


@runtime_checkable
class Weighing(Protocol):
    """An encoder that gives token weights beside vectors."""

    @property
    def weighs(self) -> bool:
        """Whether it does: a checkpoint of its kind may lack the head for it."""
        ...

    def lexical_weights(self, texts: Sequence[str]) -> LexicalWeights:
        """The weights of each text; no texts give none. A text's do not depend on the others."""
        ...


def weighs(encoder: Encoder) -> bool:
    """Whether an encoder gives token weights."""
    return isinstance(encoder, Weighing) and encoder.weighs


def checked_weights(encoder: Encoder, texts: Sequence[str], argument: str) -> LexicalWeights:
    """The token weights of some texts, verified; each distinct text is read once.

    Raises `InvalidInput` for the setting `argument` where the encoder gives no token weights, and for
    weights that are not what `LexicalWeights` says.
    """
    if not isinstance(encoder, Weighing) or not encoder.weighs:
        raise InvalidInput(
            argument,
            f"an encoder without token weights, {encoder.fingerprint}",
            "one that gives them: BAAI/bge-m3 with its sparse_linear.pt, or a file of vectors made with it",
            f"Choose such a one, or leave {argument} at its default.",
        )
    place = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    distinct, parts = list(place), [LexicalWeights.none(0)]
    for first in range(0, len(distinct), _AT_ONCE):
        part = distinct[first : first + _AT_ONCE]
        parts.append(encoder.lexical_weights(part))
        wrong = fault_of(parts[-1], len(part))
        if wrong:
            raise InvalidInput("encoder", f"token weights of {encoder.name} that {wrong}", "LexicalWeights")
    return LexicalWeights.joined(parts).take(np.array([place[text] for text in texts], np.int64))


def fault_of(found: LexicalWeights, texts: int) -> str:
    """What is wrong with weights that an encoder gave, "" for nothing."""
    indptr, ids, weights = found
    if [one.dtype for one in found] != [np.int64, np.int32, np.float32]:
        return "are not int64, int32 and float32"
    if len(indptr) != texts + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        return f"do not divide by {texts} texts"
    if not indptr[-1] == len(ids) == len(weights):
        return "are more or fewer than their tokens"
    if not (np.isfinite(weights) & (weights > 0)).all():
        return "are not all finite and above 0"
    inside = np.ones(len(ids), np.bool_)
    inside[indptr[:-1][np.diff(indptr) > 0]] = False
    if (np.diff(ids, prepend=-1)[inside] <= 0).any() or (ids < 0).any():
        return "do not name each token of a text once, ascending"
    return ""
