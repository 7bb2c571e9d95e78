"""What must not stand in a message: keys, in whole or in part, and credentials in addresses."""

from __future__ import annotations

import re

_MASK = "***"
_PART = 6
_READ = 4000
_SHOWN = 300

_BEARER = re.compile(r"\bbearer\s+[^\s,;\"'<>]+", re.IGNORECASE)
_KEY_LIKE = re.compile(r"\b[sp]k-[\w*.…•-]{4,}")
_CREDENTIALS = re.compile(r"//[^/@\s]+@")
_WORD = re.compile(r"[\w*.…•+/=~-]+")
# how servers shorten a key: sk-ab***yz, sk-ab...yz, sk-abXXXXyz
_LEFT_OUT = re.compile(r"\*+|\.{2,}|[…•]+|[xX]{3,}")


def without_secrets(message: str, key: str = "") -> str:
    """`message` on one short line without `key`, parts of it, bearer tokens or `sk-…` keys.

    A word that shares six characters with the key goes, and one that gives the key's beginning or end
    around something left out. Of a key of fewer than six characters only the whole word goes.

    >>> without_secrets("bad key zm-4f***9xyz in Bearer abc", "zm-4f83aa109xyz")
    'bad key *** in Bearer ***'
    """
    text = " ".join(message.split())[:_READ]
    if len(key) >= _PART:
        text = text.replace(key, _MASK)
    text = _CREDENTIALS.sub(f"//{_MASK}@", text)
    text = _KEY_LIKE.sub(_MASK, _BEARER.sub(f"Bearer {_MASK}", text))
    if key:
        text = _WORD.sub(lambda word: _masked(word[0], key.casefold()), text)
    return text[:_SHOWN]


def _masked(word: str, key: str) -> str:
    folded = word.casefold()
    if len(key) < _PART:
        return _MASK if folded.strip(".") == key else word
    shares = any(key[at : at + _PART] in folded for at in range(len(key) - _PART + 1))
    return _MASK if shares or _shortened(folded.strip("."), key) else word


def _shortened(word: str, key: str) -> bool:
    """Whether the word is the key with something left out: two of its first or last characters stand."""
    parts = _LEFT_OUT.split(word)
    if len(parts) < 2:
        return False
    head, tail = parts[0], parts[-1]
    return (len(head) > 1 and key.startswith(head)) or (len(tail) > 1 and key.endswith(tail))
