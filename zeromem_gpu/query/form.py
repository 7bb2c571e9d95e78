"""What a question asks for: its question word, the noun asked for, and the type of the answer."""

from __future__ import annotations

from dataclasses import dataclass

from zeromem_gpu.query import rules
from zeromem_gpu.query.reading import Reading

_NOUN_TAGS = frozenset(("NN", "NNS", "NNP", "NNPS"))
_BEFORE_NOUN = frozenset(
    "DT PDT PRP$ CD JJ JJR JJS RB RBR RBS VBN VBG POS HYPH `` '' SYM FW WP$ PRP".split()
)


@dataclass(frozen=True)
class Form:
    """The form of one question.

    `wh` is the question word ("how many" with its second word, "" where there is none), `at` its row,
    `noun` the noun asked for in the singular table form, `plural` whether that noun is plural, `polar`
    whether the question begins with its auxiliary, `hypothetical` whether it asks what would or might be,
    `noun_at` the row of the noun and `across` whether it stands behind "be" ("what is the height").
    """

    wh: str = ""
    at: int = -1
    noun: str = ""
    plural: bool = False
    polar: bool = False
    hypothetical: bool = False
    noun_at: int = -1
    across: bool = False
    command: str = ""


def question_form(reading: Reading) -> Form:
    """Find the question word and what it asks for; a text without either gives the empty form."""
    first, last = reading.bounds
    words = reading.words
    while first < last and not words[first].lower[:1].isalnum():
        first += 1
    if first >= last or not reading.english:
        return Form()
    hypothetical = _hypothetical(reading, first, last)
    at = _question_word(reading, first, last)
    if at < 0:
        polar = words[first].lower in rules.AUXILIARIES or _inverted(reading, first, last)
        command = words[first].lower if words[first].lower in rules.COMMANDS else ""
        if command:
            noun, plural, row = _noun(reading, first + 1, last)
            return Form("", first, noun, plural, False, hypothetical, row, command=command)
        # "Both X and Y are birds?": a statement with a question mark
        polar = polar or (
            words[last - 1].text == "?" and any(w.tag in ("VBZ", "VBP", "VBD") for w in words[first:last])
        )
        return Form("", first, polar=polar, hypothetical=hypothetical)
    wh, after = words[at].lower, at + 1
    if wh == "how" and after < last and words[after].lower in rules.HOW:
        wh = f"how {words[after].lower}"
        after += 1
    noun, plural, row = _asked_noun(reading, wh, at, after, last)
    across = after < last and words[after].lower in rules.BE
    return Form(wh, at, noun, plural, False, hypothetical, row, across)


def _question_word(reading: Reading, first: int, last: int) -> int:
    """The row of the word that asks, -1 where none does."""
    words = reading.words
    skip = 1 if words[first].tag in ("IN", "CC", "UH", "TO", "RB") and first + 1 < last else 0
    for start in dict.fromkeys((first, first + skip)):
        if words[start].lower in rules.WH:
            later = _after_clause(reading, start, last)
            return later if later >= 0 else start
    if words[first].lower in rules.AUXILIARIES:
        return -1
    rows = [i for i in range(first, last) if words[i].lower in rules.WH]
    strong = [
        i
        for i in rows
        if words[i].lower in ("what", "how", "whose")
        or (words[i].tag == "WDT" and _determines(reading, i, last))
    ]
    # a pronoun after its preposition or at the end of the sentence asks too: "directed by whom?"
    free = [i for i in rows if words[i].tag != "WDT" and not reading.relative(i)]
    weak = [i for i in rows if i in free or _ends(reading, i, last)]
    for found in (strong, weak):
        if found:
            return found[0]
    return rows[-1] if rows else -1


def _after_clause(reading: Reading, start: int, last: int) -> int:
    """The question word behind an opening clause ("When she was ill, what did …"), else -1."""
    words = reading.words
    if words[start].lower not in ("when", "where", "how", "what") or start + 1 >= last:
        return -1
    if words[start + 1].lower in rules.AUXILIARIES or words[start + 1].lower in rules.HOW:
        return -1
    for i in range(start + 2, last - 2):
        asks = words[i + 1].lower in ("what", "how") or words[i + 2].lower in rules.AUXILIARIES
        if words[i].text == "," and words[i + 1].lower in rules.WH and asks:
            return i + 1
    return -1


def _determines(reading: Reading, index: int, last: int) -> bool:
    """Whether "which" stands before its noun ("which town"), not for one ("the town, which …")."""
    words, after = reading.words, index + 1
    return (after < last and words[after].tag in _NOUN_TAGS | {"JJ", "JJS", "CD", "VBN"}) or (
        after < last and words[after].lower in ("of", "one")
    )


def _ends(reading: Reading, index: int, last: int) -> bool:
    """Whether only punctuation follows."""
    return all(not word.lower[:1].isalnum() for word in reading.words[index + 1 : last])


def _inverted(reading: Reading, first: int, last: int) -> bool:
    """Whether the sentence asks behind an opening phrase ("In May, did she …")."""
    words = reading.words
    return any(
        words[i].text == "," and words[i + 1].lower in rules.AUXILIARIES and words[i + 1].tag != "VBN"
        for i in range(first, last - 1)
        if words[last - 1].text == "?"
    )


def _hypothetical(reading: Reading, first: int, last: int) -> bool:
    """Whether the main clause has "would" or "might", or any modal with "likely"."""
    lowers = [word.lower for word in reading.words[first:last]]
    hedged = any(lower in ("likely", "probably", "possibly", "hypothetically") for lower in lowers)
    for i, lower in enumerate(lowers, first):
        modal = lower in ("would", "wouldn't", "might") or (hedged and lower in rules.AUXILIARIES)
        if modal and reading.words[i].tag != "NN" and not reading.relative(i):
            return True
    return False


_Noun = tuple[str, bool, int]
_NO_NOUN: _Noun = ("", False, -1)


def _asked_noun(reading: Reading, wh: str, at: int, after: int, last: int) -> _Noun:
    """The noun that "what", "which" or "how many" asks for, directly or across "be"."""
    words = reading.words
    if (
        _ends(reading, at, last)
        and at >= 2
        and words[at - 1].lower == "of"
        and words[at - 2].tag in _NOUN_TAGS
    ):
        return (*singular(words[at - 2].lower, words[at - 2].tag), at - 2)  # "has a population of what?"
    if after >= last:
        return _NO_NOUN
    if wh in ("who", "whom"):
        return "", words[after].lower in ("have", "are", "were", "all"), -1
    if words[after].lower in rules.AUXILIARIES and words[after].tag not in _NOUN_TAGS:
        if words[after].lower not in rules.BE or wh in ("where", "when", "why", "how"):
            return _NO_NOUN
        found = _noun(reading, after + 1, last)
        # "what is she reading" and "what is Mount Fuji" ask for no noun
        named = found[2] >= 0 and words[found[2]].tag in ("NNP", "NNPS")
        return _NO_NOUN if named or _has_participle(reading, after + 1, last) else found
    head = words[at].head
    near = words[at].dep == "det" and after <= head < min(last, after + 8)
    plain = all(w.lower not in ("of", "or") and not w.tag.startswith("V") for w in words[after:head])
    if near and plain and words[head].tag in _NOUN_TAGS:
        return (*singular(words[head].lower, words[head].tag), head)
    found = _noun(reading, after, last)
    # "what Ann thinks": a name alone is no noun asked for
    return _NO_NOUN if found[2] >= 0 and words[found[2]].tag in ("NNP", "NNPS") else found


def _has_participle(reading: Reading, start: int, last: int) -> bool:
    """Whether the noun phrase that begins at `start` is the subject of a verb, not what is asked."""
    words = reading.words
    i = noun_phrase(reading, start, last)[1]
    while i < last and words[i].tag in ("RB", "MD"):
        i += 1
    return (
        i < last
        and words[i].tag in ("VBG", "VB", "VBN")
        and words[i].dep not in ("acl", "relcl", "amod", "prep")
    )


def _noun(reading: Reading, start: int, last: int) -> _Noun:
    """The head of the noun phrase at `start` in table form, whether it is plural, and its row.

    "Name of", "one of" and "some of" lead on to the noun behind them.
    """
    words = reading.words
    head, end = noun_phrase(reading, start, last)
    if head < 0:
        if start + 1 < last and words[start].lower in ("of", "one", "all", "any", "some"):
            noun, plural, row = _noun(reading, start + 1, last)
            return noun, plural and words[start].lower not in ("of", "one"), row
        return _NO_NOUN
    noun, plural = singular(words[head].lower, words[head].tag)
    if noun == "name" and end < last and words[end].lower in ("of", "for"):
        inner, inner_plural, row = _noun(reading, end + 1, last)
        return inner or noun, plural or inner_plural, row if inner else head
    return noun, plural, head


def noun_phrase(reading: Reading, start: int, last: int) -> tuple[int, int]:
    """The row of a noun phrase's head (-1 without one) and the row behind the phrase."""
    words, head, i = reading.words, -1, start
    while i < last:
        word = words[i]
        if word.tag in _NOUN_TAGS:
            if head >= 0 and words[head].tag == "NNS" and word.tag in ("NNP", "NNPS"):
                break  # "the changes Ann made"
            head = i
        elif word.tag == "POS" or word.lower in ("'s", "/", "-"):
            head = head if word.lower == "/" else -1
        elif word.tag in _BEFORE_NOUN and (head < 0 or word.tag in ("HYPH", "CD")):
            pass
        else:
            break
        i += 1
    return head, i


def singular(lower: str, tag: str) -> tuple[str, bool]:
    """The singular form that the tables hold, and whether the noun is plural."""
    lower = lower.rsplit("/", 1)[-1]
    plural = tag in ("NNS", "NNPS") and lower not in rules.NOT_PLURAL
    if not plural:
        return lower, False
    if lower in ("people", "men", "women", "children"):
        return {"men": "man", "women": "woman", "children": "child"}.get(lower, lower), True
    for ending, repl in (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("s", "")):
        if lower.endswith(ending) and lower not in ("movies", "species"):
            return lower[: -len(ending)] + repl, True
    return lower.removesuffix("s"), True
