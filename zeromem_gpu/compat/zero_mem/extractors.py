"""Entity extractors: capitalised words by a pattern, or a spaCy pipeline."""

from __future__ import annotations

from functools import cache
from typing import Any

from zeromem_gpu import Analyzer, Mention, SpacyExtractor


class RegexEntityExtractor:
    """Runs of capitalised words of any script, without stop words at their ends ("The", "I", "When")."""

    def __init__(self) -> None:
        self._analyzer = Analyzer("english")

    def extract(self, text: str) -> list[str]:
        """Each run once, in reading order."""
        found: dict[str, None] = {}
        for match in _runs().finditer(text):
            words = match[0].split()
            while words and self._empty(words[0]):
                words = words[1:]
            while words and self._empty(words[-1]):
                words = words[:-1]
            if words:
                found[" ".join(words)] = None
        return list(found)

    def _empty(self, word: str) -> bool:
        return not any(self._analyzer.stems(self._analyzer.tokens(word)))


class SpacyEntityExtractor:
    """The entities of a spaCy pipeline; an engine reads texts with it in batches.

    Raises `MissingDependency` without spaCy, `ModelUnavailable` without the pipeline, both when
    constructed.
    """

    def __init__(self, model: str = "xx_ent_wiki_sm") -> None:
        self.model = model
        self.native = SpacyExtractor(model)
        self._plain = SpacyExtractor(model, capitalised=False)

    def extract(self, text: str) -> list[str]:
        """What the pipeline marks, each name once, in reading order."""
        (mentions,) = self._plain.extract([text])
        return list(dict.fromkeys(_surface(one) for one in mentions))


def _surface(mention: Mention) -> str:
    return mention.surface


@cache
def _runs() -> Any:
    """The pattern, made at first use; `regex` knows the Unicode properties that `re` lacks."""
    import regex

    word = r"\p{Lu}[\p{L}\p{M}\p{N}'’-]*"
    return regex.compile(rf"\b{word}(?: {word})*")
