"""Which types of answer a text may hold a candidate of: NER labels and general patterns, as bits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

ANSWER_TYPES = (
    "date",
    "duration",
    "frequency",
    "count",
    "number",
    "age",
    "yes/no",
    "choice",
    "list",
    "person",
    "place",
    "title",
    "entity",
    "reason",
    "description",
    "inference",
)
# what can only be judged, not checked against the evidence by a rule
OPEN_TYPES = frozenset(("reason", "description", "inference"))
CHECKED_TYPES = frozenset(ANSWER_TYPES) - OPEN_TYPES
_BIT = {name: 1 << at for at, name in enumerate(ANSWER_TYPES)}

_LABELS = {
    "DATE": ("date",),
    "TIME": ("date",),
    "PERSON": ("person",),
    "PER": ("person",),
    "NAME": ("person",),
    "GPE": ("place",),
    "LOC": ("place",),
    "FAC": ("place",),
    "WORK_OF_ART": ("title",),
    "CARDINAL": ("count", "number"),
    "QUANTITY": ("number",),
    "PERCENT": ("number",),
    "MONEY": ("number",),
}
_LABEL_BITS = {label: sum(_BIT[name] for name in names) for label, names in _LABELS.items()}

_COUNTED = (
    r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozens?|twenty|thirty|forty"
    r"|fifty|sixty|seventy|eighty|ninety|hundred|several|(?:a )?few|(?:a )?couple(?: of)?|many|half an?)"
)
_UNIT = (
    r"(?:seconds?|minutes?|mins?|hours?|hrs?|days?|nights?|weeks?|weekends?|months?|years?|yrs?|decades?)"
)
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|march|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_PART = r"(?:night|morning|afternoon|evening|summer|winter|spring|autumn|fall)"
_PATTERNS = {
    "date": rf"{_MONTH}|\d{{1,2}}(?:st|nd|rd|th)? may|may \d{{1,4}}|{_DAY}|yesterday|today|tonight|tomorrow"
    rf"|(?:last|next|this|previous|past) (?:\w+ )?(?:{_UNIT}|{_PART})"
    rf"|{_COUNTED} {_UNIT} (?:ago|later|before|earlier)|(?:1[5-9]|20)\d\d|\d{{1,2}}:\d\d",
    "duration": rf"{_COUNTED}[ -](?:(?:more|full|whole|long|straight) )?{_UNIT}"
    r"|for (?:years|months|weeks|days|hours|ages|decades)|since \w+"
    r"|(?:all|whole|entire) (?:day|night|week|month|year|summer|winter|weekend)",
    "frequency": rf"every (?:\w+ )?(?:{_UNIT}|{_DAY}|{_PART})"
    rf"|(?:once|twice|{_COUNTED} times) (?:an?|each|every|per)(?: \w+)?|daily|weekly|monthly"
    rf"|yearly|annually|(?:each|per) {_UNIT}|{_COUNTED} {_UNIT} (?:a|per) {_UNIT}|always|usually|often"
    r"|rarely|regularly|never|sometimes|occasionally|on weekends"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days",
    "count": rf"{_COUNTED.replace('|an?|', '|')} (?:[a-z]+ )?(?:[a-z]+s|people|men|women|children)"
    r"|once|twice|both",
    "number": r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|hundreds?"
    r"|thousands?|millions?|billions?|half|percent",
    "age": r"\d{1,3}[ -](?:years?|yrs?|months?)[ -]old|aged? \d{1,3}|turn(?:s|ed|ing)? \d{1,3}"
    r"|\d{1,3}(?:st|nd|rd|th) birthday|(?:in (?:his|her|my|their|your) )?(?:early |mid |late )?"
    r"(?:teens|twenties|thirties|forties|fifties|sixties)|born (?:in|on)|years old",
    "reason": r"because|since (?:i|we|he|she|they|it|you)|so that|in order to|due to|thanks to|that's why"
    r"|reasons?|caused?|led to|inspired|motivat\w+|as a result|made me|helps? me|to (?:help|raise|support)",
}
_COMPILED = {
    name: re.compile(rf"(?<![\w])(?:{pattern})(?!\w)", re.IGNORECASE) for name, pattern in _PATTERNS.items()
}
# the types whose candidates `type_spans` finds
PATTERNED = frozenset(_COMPILED)
_DIGIT = re.compile(r"\d")  # also beside the letters of scripts without spaces
# a title is a quotation that begins with a capital and does not end as a spoken sentence does
_TITLE = re.compile(r"""["“«]\s*[A-Z0-9][^"“”«»\n]{0,80}[^"“”«»\n.!?,]["”»]""")


class _Labelled(Protocol):
    @property
    def label(self) -> str: ...


def type_mask(text: str, mentions: Sequence[_Labelled]) -> int:
    """The bits of the answer types that cleaned `text`, with its `mentions`, may hold a candidate of.

    Bit i stands for `ANSWER_TYPES[i]`. Types whose answers no pattern can recognise (a choice, a
    description, …) have no bit in any text. Empty text gives 0.

    >>> [name for i, name in enumerate(ANSWER_TYPES) if type_mask("It took three weeks.", []) >> i & 1]
    ['duration', 'count', 'number']
    """
    mask = 0
    for mention in mentions:
        mask |= _LABEL_BITS.get(mention.label, 0)
    if _DIGIT.search(text):
        mask |= _BIT["number"]
    straight = text.replace("’", "'")
    for name, pattern in _COMPILED.items():
        if not mask & _BIT[name] and pattern.search(straight):
            mask |= _BIT[name]
    if not mask & _BIT["title"] and _TITLE.search(text):
        mask |= _BIT["title"]
    return mask


def type_spans(text: str, kind: str) -> list[str]:
    """The candidates for an answer of type `kind` in `text`, in order; none where no pattern tells them.

    >>> type_spans("We waited three weeks, then two more days.", "duration")
    ['three weeks', 'two more days']
    """
    pattern = _COMPILED.get(kind)
    return [match.group() for match in pattern.finditer(text.replace("’", "'"))] if pattern else []
