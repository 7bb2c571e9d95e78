"""Words of any script, their stems, and the 64-bit keys under which arrays hold them."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.text.normalize import clean

# Words without meaning of their own: they give no stem and so do not enter BM25. "may" is a month too.
_STOP_TEXT = """
    a about after again all also am an and any are aren arent as at be because been before being both
    but by can cannot cant could couldnt d did didnt do does doesnt doing dont down during each few for
    from further had hadnt has hasnt have havent having he her here hers herself him himself his how i if
    im in into is isnt it its itself just ll m me more most my myself no nor not of off on once only or
    other our ours ourselves out over own re s same she should shouldnt so some such t than that the their
    theirs them themselves then there these they this those through to too under until up ve very was
    wasnt we were werent what when where which while who whom whose why will with wont would wouldnt you
    your yours yourself yourselves
"""
_STOP_WORDS = frozenset(_STOP_TEXT.split())

# Scripts that write no spaces between words, and Hangul, whose words carry their particles: pairs of
# characters find what whole runs would miss. A character keeps its combining marks.
_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー々〆"
)
_LOCAL = threading.local()


def term_key(term: str) -> int:
    """The signed 64-bit key of a term: BLAKE2b-8 of its UTF-8 bytes; never 0, which arrays use for "none".

    >>> term_key("paris") == term_key("paris") != term_key("rome")
    True
    """
    return _term_key(term)


def term_keys(terms: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The keys of `terms` as int64 [n]; no terms give an empty array."""
    return np.fromiter(map(_term_key, terms), dtype=np.int64, count=len(terms))


class Analyzer:
    """Splits texts into raw tokens and gives the stems of tokens.

    `stemmer` is "english" (Snowball stems, a small English stop list) or "none" (stems are the tokens).
    `fingerprint` names both rules; an index must be searched with the ones that built it.

    >>> english = Analyzer("english")
    >>> tokens = english.tokens("She didn’t visit the Cafés in 東京都!")
    >>> tokens
    ['she', 'didnt', 'visit', 'the', 'cafés', 'in', '東京', '京都']
    >>> english.stems(tokens)
    ['', '', 'visit', '', 'café', '', '東京', '京都']
    """

    def __init__(self, stemmer: Literal["english", "none"] = "english") -> None:
        """Raises `InvalidInput` for another `stemmer`."""
        if stemmer not in ("english", "none"):
            raise InvalidInput("stemmer", repr(stemmer), "'english' or 'none'")
        self.stemmer = stemmer
        self.fingerprint = f"words-1/{stemmer}"

    def tokens(self, text: str) -> list[str]:
        """Case-folded NFKC words of `text` in order, letters and digits of every script included.

        Runs of scripts without spaces give overlapping pairs of characters, a lone character itself.
        Digits keep an inner decimal point and lose thousands separators; "n't" stays with its verb;
        other apostrophes separate. Blanks, punctuation and emoji give no token.
        """
        rules = _rules()
        if text.isascii():
            return [_plain(word) for word in rules.ascii_words.findall(text.lower())]
        visible = rules.invisible.sub("", rules.emoji.sub(" ", clean(text)))
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
        tokens: list[str] = []
        for match in rules.words.finditer(folded):
            run = match.group("run")
            if run is None:
                tokens.append(_plain(match.group()))
                continue
            characters = rules.characters.findall(run)
            pairs = [a + b for a, b in pairwise(characters)]
            tokens.extend(pairs or characters)
        return tokens

    def stems(self, tokens: Sequence[str]) -> list[str]:
        """The stem of each token, "" for a stop word; as long as `tokens`, which `tokens()` gave."""
        if self.stemmer == "none":
            return list(tokens)
        return [_english_stem(token) for token in tokens]


class _Rules(NamedTuple):
    ascii_words: Any  # regex.Pattern; the package is untyped
    words: Any
    characters: Any
    invisible: Any
    emoji: Any


@cache
def _rules() -> _Rules:
    """The compiled patterns, made at first use; `regex` knows the Unicode properties that `re` lacks."""
    import regex

    marks = r"[\p{Mn}\p{Mc}]*"
    spaced = rf"[[\p{{L}}\p{{N}}]--[{_UNSPACED}]]"
    unspaced = rf"[[{_UNSPACED}]&&[\p{{L}}\p{{N}}]]"
    number = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![,.]?\d)|\d+(?:\.\d+)+"
    return _Rules(
        ascii_words=regex.compile(rf"(?:{number})(?![a-z])|[a-z]+n't(?![a-z0-9])|[a-z0-9]+"),
        words=regex.compile(
            rf"(?V1)(?P<run>(?:{unspaced}{marks})+)"
            rf"|(?:{number})(?!{spaced})|\p{{L}}+n['’]t(?!{spaced})|(?:{spaced}{marks})+"
        ),
        characters=regex.compile(rf".{marks}"),
        # a joiner inside a word is no part of it; the zero-width space does separate
        invisible=regex.compile(r"(?V1)[[\p{Default_Ignorable_Code_Point}\p{Cf}]--[\u200b]]"),
        # NFKC would turn some emoji (™, Ⓜ, 🈁) into letters
        emoji=regex.compile(r"(?V1)[0-9#*]\ufe0f?\u20e3|[\p{Emoji}--[\p{L}0-9#*]]"),
    )


def _plain(word: str) -> str:
    """A matched word without its thousands separators or its apostrophe."""
    return word if word.isalnum() else word.replace(",", "").replace("'", "").replace("’", "")


@lru_cache(maxsize=1 << 18)
def _term_key(term: str) -> int:
    digest = blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


@lru_cache(maxsize=1 << 18)
def _english_stem(token: str) -> str:
    if token in _STOP_WORDS:
        return ""
    stemmer = getattr(_LOCAL, "stemmer", None)
    if stemmer is None:  # one for each thread: a stemmer object works in a buffer of its own
        import Stemmer

        stemmer = _LOCAL.stemmer = Stemmer.Stemmer("english", 0)
    return str(stemmer.stemWord(token)) or token
