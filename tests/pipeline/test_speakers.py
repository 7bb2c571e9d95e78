"""Speakers found by the words of a question: the same as by trying each of them, in far fewer tries."""

from __future__ import annotations

import random
import re
import unicodedata

import pytest

from zeromem_gpu.query.speakers import Directory, _fold, pattern

FIRST = (
    "Ada",
    "Will",
    "José",
    "Zoë",
    "Jean-Luc",
    "İpek",
    "Ms.",
    "@ada",
    "(bot)",
    "R2",
    "user",
    "ẞara",
    "K",
)
LAST = ("", "", "Smith", "van Dyke", "O'Neil", "2", "- 7", "(work)", "😀")


def crowd(count: int, seed: int) -> tuple[str, ...]:
    rng = random.Random(seed)
    return tuple(dict.fromkeys(f"{rng.choice(FIRST)} {rng.choice(LAST)}".strip() for _ in range(count)))


@pytest.mark.parametrize("seed", range(20))
def test_nobody_who_stands_in_a_text_is_missed(seed: int) -> None:
    """Every spelling that a search of the whole text finds is among those that are tried."""
    rng = random.Random(seed)
    speakers = crowd(60, seed)
    known = Directory(speakers)
    for _ in range(50):
        words = [
            rng.choice([*speakers, *FIRST, *LAST, "tell", "and", "?"]) for _ in range(rng.randint(0, 8))
        ]
        text = rng.choice([str, str.upper, str.lower])(rng.choice([" ", "", ", "]).join(words))
        tried = known.spelt_in(text)
        found = [one for one in known._spellings if re.search(pattern(one.form), text)]
        assert [one for one in tried if one in found] == found, text


def test_few_of_a_thousand_speakers_are_tried() -> None:
    known = Directory(tuple(f"Person{at} Surname{at % 7}" for at in range(1000)))
    assert [one.speaker for one in known.spelt_in("What did person77 surname0 tell Person5?")] == [
        "Person77 Surname0", "Person5 Surname5", "Person77 Surname0",
    ]  # fmt: skip
    assert known.spelt_in("Who?") == Directory(()).spelt_in("Ada") == []


def test_letters_that_ignoring_case_takes_for_equal_are_equal() -> None:
    """Over all letters with a case: what `re` matches must meet in the directory."""
    cased = [
        c for at in range(0x20000) if (c := chr(at)).lower() != c or c.upper() != c or c.casefold() != c
    ]
    whole = "".join(c for c in cased if not unicodedata.category(c).startswith("C"))
    assert len(whole) > 2000
    for character in whole:
        for other in re.findall(re.escape(character), whole, re.IGNORECASE):
            assert _fold(other) == _fold(character), (character, other)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("Caro", "Caroline Smith"), ("Mel", ""), ("Melanie", ""), ("Carolin", ""), ("Ca", ""), ("caro", ""),
        ("Jonathan", ""), ("Jon", ""), ("Sue", ""), ("Zzz", ""),
    ],
)  # fmt: skip
def test_nicknames(word: str, meant: str) -> None:
    """Only a prefix of one speaker's first name, shorter by two letters, that is no name of its own."""
    speakers = ("Melanie", "Melissa", "Caroline Smith", "Jon", "Jonathan", "Suellen", " ")
    assert Directory(speakers).nickname(word) == meant
