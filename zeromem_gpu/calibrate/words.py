"""Words of questions, answers and evidence with their stems, so that "went" supports "go"."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from zeromem_gpu.text.normalize import clean
from zeromem_gpu.text.tokens import Analyzer

_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*")
_POSSESSIVE = re.compile(r"['’]s?$")
_ANALYZER = Analyzer("english")

# past and participle → base, for verbs whose stems do not meet
_FORMS = """
    ate eaten:eat became:become began begun:begin bought:buy bore born:bear broke broken:break brought:bring
    built:build came:come caught:catch chose chosen:choose did done does:do drank drunk:drink drew drawn:draw
    drove driven:drive fell fallen:fall felt:feel found:find flew flown:fly forgot forgotten:forget
    fought:fight gave given:give went gone:go got gotten:get grew grown:grow heard:hear held:hold hid hidden:hide
    kept:keep knew known:know laid:lay led:lead left:leave lent:lend lost:lose made:make meant:mean met:meet
    paid:pay ran:run rode ridden:ride rose risen:rise said:say sang sung:sing sat:sit saw seen:see sent:send
    shot:shoot showed shown:show slept:sleep sold:sell spent:spend spoke spoken:speak stood:stand stole stolen:steal
    swam swum:swim taught:teach thought:think threw thrown:throw told:tell took taken:take understood:understand
    woke woken:wake won:win wore worn:wear wrote written:write
"""
_BASE: dict[str, str] = {}
for _group in re.findall(r"[a-z ]+:[a-z]+", _FORMS.replace("\n", " ")):
    _past, _, _verb = _group.partition(":")
    _BASE |= dict.fromkeys(_past.split(), _verb)


class Word(NamedTuple):
    """One word as written, lower-cased without possessive, its stem ("" for a stop word), its span."""

    text: str
    lower: str
    stem: str
    start: int
    end: int


def words(text: str) -> list[Word]:
    """The words of `text` in order; none for text without letters and digits."""
    found = []
    for match in _WORD.finditer(clean(text)):
        lower = _POSSESSIVE.sub("", match.group().lower())
        found.append(Word(match.group(), lower, stem(lower), match.start(), match.end()))
    return found


@lru_cache(maxsize=1 << 16)
def stem(lower: str) -> str:
    """The stem under which a lower-cased word is compared; "" for a stop word."""
    base = _BASE.get(lower, lower)
    stems = _ANALYZER.stems(_ANALYZER.tokens(base))
    return stems[0] if stems else ""


@lru_cache(maxsize=1 << 14)
def stem_set(text: str) -> frozenset[str]:
    """The stems of a text of any script, stop words left out."""
    tokens = _ANALYZER.tokens(text)
    return frozenset(filter(None, _ANALYZER.stems([_BASE.get(token, token) for token in tokens])))
