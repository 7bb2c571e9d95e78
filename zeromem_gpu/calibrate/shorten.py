"""Extractive shortening: the part of an answer that answers, never a word that the answer did not have."""

from __future__ import annotations

import re

from zeromem_gpu.calibrate.words import Word, words

_PRONOUNS = frozenset("i you he she it we they this that these those there both".split())
_DETERMINERS = frozenset("a an the my your his her its our their some".split())
_VERBS = frozenset(
    "am is are was were be been being has have had do does did will would can could should may might must".split()
)
# they join a restated clause to what it leads to
_LINKS = frozenset("to of for in on at with by from as about into and or also not just called named".split())
_LEAD = re.compile(
    r"^(?:the|my|his|her|their) (?:(?:correct|final|short|best) )?answer (?:is|was|would be)(?: that)?[:,]?\s+"
    r"|^(?:answer|a)\s*:\s*"
    r"|^(?:based on|according to|from) the (?:evidence|context|conversation|memories|text|given \w+)[^,:]{0,40}[,:]\s*"
    r"|^(?:well|sure|so|okay|ok),\s+",
    re.IGNORECASE,
)
_REMARK = re.compile(
    r"\s*[(\[][^()\[\]]*[)\]]\s*(?=[.!]?$)"  # a closing bracket
    r"|\s*(?:;|\s[-–—]\s|,? (?:because|since|which|where|who|so that|as (?:he|she|they|it))\b).*$",
    re.IGNORECASE | re.DOTALL,
)
_QUOTE = re.compile(r"""["“]([^"“”]{1,120}?)[,.]?["”]""")
_IN_PLACE = re.compile(r"^(?:in|at|from|on|to|near) (?=\S)", re.IGNORECASE)
_NUMBER = (
    r"(?:\d[\d,.]*|zero|no|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|once|twice|both|several"
    r"|(?:at least|about|around|over|nearly|almost|more than) (?:\d[\d,.]*|\w+))"
)
_COUNT = re.compile(rf"^({_NUMBER})\s+(.+?)[.!]?$", re.IGNORECASE)
_YES = re.compile(r"^(yes|no)\b[,;.:]?\s*(.*)$", re.IGNORECASE | re.DOTALL)


def drop_lead(answer: str) -> str:
    """The answer without the words that only announce it; unchanged where nothing would be left.

    >>> drop_lead("The answer is 42.")
    '42.'
    """
    shorter = answer
    while (match := _LEAD.match(shorter)) and shorter[match.end() :].strip():
        shorter = shorter[match.end() :]
    return _kept(answer, shorter)


def drop_restated(answer: str, question: str) -> str:
    """The answer without a clause at its beginning that says the question again.

    A clause is a subject (a pronoun, or words of the question) with a verb (an auxiliary, or one of the
    question). Only one-sentence answers are cut, never inside a quotation, and something must be left.

    >>> drop_restated("Ada moved from Norway.", "Where did Ada move from?")
    'Norway.'
    >>> drop_restated("Two cats", "How many cats are there?")
    'Two cats'
    """
    found = words(answer)
    asked = {word.stem or word.lower for word in words(question)}
    end = _clause(found, asked, answer)
    if end == 0 or end >= len(found):
        return answer
    return _kept(answer, answer[found[end].start - _opening(answer, found[end].start) :])


def _clause(found: list[Word], asked: set[str], answer: str) -> int:
    """How many words at the beginning restate the question; 0 when they are no clause."""
    verb, subject, content = False, False, False
    end = kept = 0
    for place, word in enumerate(found):
        restated = (word.stem or word.lower) in asked
        known = word.lower in _PRONOUNS | _DETERMINERS | _VERBS | _LINKS
        if not (restated or known):
            break
        if place and re.search(r"[,;:.!?\"“(]", answer[found[place - 1].end : word.start]):
            break
        contracted = "'" in word.text or "’" in word.text
        if word.lower in _VERBS or (restated and place and word.stem and subject and not contracted):
            verb = verb or subject
        elif word.lower in _PRONOUNS or (restated and word.stem):
            subject = True
        content = content or bool(restated and word.stem)
        end = place + 1
        # articles and possessives belong to what follows
        if word.lower not in _DETERMINERS and word.lower not in ("not", "and", "or"):
            kept = end
    return kept if verb and content and kept < len(found) and end <= len(found) else 0


def _opening(answer: str, start: int) -> int:
    """1 when a quotation mark or a bracket stands before the character at `start`."""
    return int(start > 0 and answer[start - 1] in "\"“'‘($€£")


def drop_tail(answer: str, question: str) -> str:
    """The answer without a final clause that only says the question again ("Her aunt inspired her.").

    It must begin with a verb of the question and hold nothing but words of the question and pronouns.
    """
    found = words(answer)
    asked = {word.stem or word.lower for word in words(question)}
    for place in range(1, len(found)):
        if not found[place].stem or found[place].stem not in asked:
            continue
        rest = found[place:]
        small = _PRONOUNS | _DETERMINERS | _VERBS | _LINKS | {"him", "them", "me", "us"}
        if len(rest) > 1 and all((w.stem or w.lower) in asked or w.lower in small for w in rest):
            following = rest[1].lower
            if following in small and not set("\"“”") & set(answer[found[place].start :]):
                return _kept(answer, answer[: found[place].start].rstrip(" ,"))
        return answer
    return answer


def drop_remark(answer: str) -> str:
    """The answer without a closing bracket or an explanation behind a semicolon, a dash or "because"."""
    return _kept(answer, _REMARK.sub("", answer, count=1))


def quoted_title(answer: str) -> str:
    """The only quotation in an answer, with its marks; the answer where there is none or several."""
    quotes = list(_QUOTE.finditer(answer))
    return quotes[0].group() if len(quotes) == 1 else answer


def bare_place(answer: str) -> str:
    """A place without its preposition."""
    return _kept(answer, _IN_PLACE.sub("", answer))


def bare_count(answer: str, question: str) -> str:
    """A number without the noun that the question counts ("Two dogs." for "How many dogs …?")."""
    match = _COUNT.match(answer)
    asked = {word.stem for word in words(question) if word.stem}
    if match is None or not all(word.stem in asked for word in words(match[2])):
        return answer
    return match[1]


def bare_yes(answer: str, question: str) -> str:
    """Yes or no without a clause that adds nothing to the question ("Yes, they both do.")."""
    match = _YES.match(answer)
    if match is None or not match[2]:
        return answer
    asked = {word.stem or word.lower for word in words(question)}
    small = _PRONOUNS | _DETERMINERS | _VERBS | {"not", "all", "indeed"}
    same = all((w.stem or w.lower) in asked or w.lower in small for w in words(match[2]))
    return match[1] if same else answer


def _kept(answer: str, shorter: str) -> str:
    """The shorter text unless it lost every letter and digit; its first letter as it stands."""
    shorter = shorter.strip()
    return shorter if any(map(str.isalnum, shorter)) else answer
