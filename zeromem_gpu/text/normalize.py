"""What every reader of text sees: no lone surrogates, no control characters, one form of a name."""

from __future__ import annotations

import re
import unicodedata

# tab, line feed and carriage return stay: they separate words and sentences
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_ARTICLE = re.compile(r"^(?:the|an|a)\s+")
_POSSESSIVE = re.compile(r"(?:['’ʼ]s|(?<=s)['’ʼ])$")
_BLANKS = re.compile(r"\s+")


def clean(text: str) -> str:
    r"""`text` as encoders, NER and tokenizer see it; character offsets stay valid.

    A lone surrogate becomes U+FFFD, NUL and other control characters become a space; tab, line feed and
    carriage return are kept. The length never changes; empty text stays empty.

    >>> clean("a\x00b\ud800")
    'a b�'
    """
    return _UNSAFE.sub(_replace, text)


def entity_name(text: str) -> str:
    """The form under which two mentions are the same entity; "" where nothing nameable is left.

    NFKC, case folding, blanks collapsed, outer punctuation and quotes stripped, the possessive and a
    leading article removed.

    >>> entity_name("The  Smiths’ "), entity_name("“Caroline’s”"), entity_name("!!")
    ('smiths', 'caroline', '')
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", clean(text)).casefold())
    name, before = _BLANKS.sub(" ", folded), None
    while name != before:  # to the fixed point, so that a normalised name stays as it is
        before = name
        name = _ARTICLE.sub("", _POSSESSIVE.sub("", _strip(name)), count=1)
    return name


def _replace(match: re.Match[str]) -> str:
    return "�" if match.group() >= "\ud800" else " "


def _strip(name: str) -> str:
    """Cut everything from both ends that is no part of a name.

    A possessive apostrophe at the end is punctuation of the word and survives for the next step.
    """
    start, end = 0, len(name)
    while start < end and _outer(name[start]):
        start += 1
    while end > start and _outer(name[end - 1]):
        if name[end - 1] in "'’ʼ" and end - 2 >= start and name[end - 2] == "s":
            break
        end -= 1
    return name[start:end]


def _outer(character: str) -> bool:
    """Whether a character is no part of a name when it stands at its edge."""
    if character in "+#":  # C++, C#
        return False
    return unicodedata.category(character)[0] in "PZSC"
