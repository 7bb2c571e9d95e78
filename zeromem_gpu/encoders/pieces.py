"""Texts as tokens, and texts too long for a model cut at sentence ends into pieces that fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zeromem_gpu.text.sentences import split_units

# of the characters that would fit on average, so that a piece denser than the average mostly fits too
_SLACK = 0.9


class Piece(NamedTuple):
    """A part of text `text` (its place in the call) as token ids, special ones included."""

    text: int
    tokens: list[int]


class Pieces:
    """A checkpoint's tokenizer, without the truncation and padding that its file asks for.

    Args:
        directory: with tokenizer.json.
        max_tokens: of one piece, special tokens included.
    """

    def __init__(self, directory: Path, max_tokens: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer: Any = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._max_tokens = max_tokens

    def cut(self, texts: Sequence[str]) -> list[Piece]:
        """Every text as pieces of at most `max_tokens` tokens, in order; most texts are one piece."""
        found: list[Piece] = []
        for at, tokens in enumerate(self._tokens(texts)):
            if len(tokens) <= self._max_tokens:
                found.append(Piece(at, tokens))
            else:
                found += (Piece(at, part) for part in self._parts(texts[at], tokens))
        return found

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Which texts are cut into more than one piece."""
        return [len(tokens) > self._max_tokens for tokens in self._tokens(texts)]

    def special(self) -> frozenset[int]:
        """The ids of special tokens: those that stand for no part of a text."""
        added = self._tokenizer.get_added_tokens_decoder()
        return frozenset(at for at, token in added.items() if token.special)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in self._tokenizer.encode_batch_fast(list(texts))]

    def _parts(self, text: str, tokens: list[int]) -> list[list[int]]:
        """The pieces of one long text; a single character of too many tokens is cut hard."""
        if len(tokens) <= self._max_tokens or len(text) < 2:
            return [tokens[: self._max_tokens]]
        room = max(1, int(len(text) * _SLACK * self._max_tokens / len(tokens)))
        parts = [text[start:end] for start, end in split_units(text, room)]
        return [
            piece
            for part, inner in zip(parts, self._tokens(parts), strict=True)
            for piece in self._parts(part, inner)
        ]
