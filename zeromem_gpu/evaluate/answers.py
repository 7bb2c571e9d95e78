"""Answer metrics: the protocols under which papers compare answers, each from its definition.

A protocol turns (gold, answer, category) into named scores between 0 and 1. Averages are over questions.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from zeromem_gpu.errors import MissingDependency

Scores = dict[str, float]
Category = int | str
Protocol = Callable[[str, str, Category], Scores]

_LOCOMO_MULTI_HOP = 1
_LOCOMO_OPEN_DOMAIN = 3
_ARTICLES = frozenset(("a", "an", "the"))
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SENTENCE_ENDS = str.maketrans(dict.fromkeys(".,!?", " "))
_NOT_WORD = re.compile(r"\W")


def gam(gold: str, answer: str, category: Category = "") -> Scores:
    """GAM's protocol, the primary one: F1 over word multisets and BLEU-1, no stemming.

    >>> gam("by dancing", "dancing")["f1"]
    0.6666666666666666
    """
    wanted, given = _gam_words(gold), _gam_words(answer)
    return {"f1": _multiset_f1(wanted, given), "bleu1": _bleu1(wanted, given)}


def locomo(gold: str, answer: str, category: Category = "") -> Scores:
    """LoCoMo's own protocol: stemmed F1; category 1 by list items, category 3 up to the ";".

    >>> locomo("No; because she is adopting", "No", 3)["f1"]
    1.0
    """
    if category == _LOCOMO_OPEN_DOMAIN:
        gold = gold.split(";")[0]
    if category != _LOCOMO_MULTI_HOP:
        return {"f1": _multiset_f1(_locomo_words(gold), _locomo_words(answer))}
    parts = [_locomo_words(part) for part in gold.split(",")]
    items = [_locomo_words(item) for item in answer.split(",")]
    best = [max(_multiset_f1(part, item) for item in items) for part in parts]
    return {"f1": sum(best) / len(best)}


def amem(gold: str, answer: str, category: Category = "") -> Scores:
    """A-Mem's and SimpleMem's protocol: F1 over word sets, BLEU-1 over NLTK word tokens.

    >>> round(amem("7 May 2023", "7 May, 2023")["bleu1"], 2)
    0.75
    """
    wanted, given = (set(text.lower().translate(_SENTENCE_ENDS).split()) for text in (gold, answer))
    bleu1 = _bleu1(_nltk_words(gold), _nltk_words(answer))
    return {"f1": _f1(len(wanted & given), len(wanted), len(given)), "bleu1": bleu1}


def squad(gold: str, answer: str, category: Category = "") -> Scores:
    """HotpotQA's: exact match and F1 after SQuAD normalisation.

    `f1_yes_no` is F1 under the official rule: where a side is yes, no or noanswer only equality counts.

    >>> squad("yes", "yes, both are")
    {'em': 0.0, 'f1': 0.5, 'f1_yes_no': 0.0}
    """
    wanted, given = _squad_words(gold), _squad_words(answer)
    f1 = _multiset_f1(wanted, given)
    closed = {("yes",), ("no",), ("noanswer",)} & {tuple(wanted), tuple(given)}
    return {"em": float(wanted == given), "f1": f1, "f1_yes_no": 0.0 if closed and wanted != given else f1}


PROTOCOLS: Mapping[str, Protocol] = {"gam": gam, "locomo": locomo, "amem": amem, "squad": squad}


def average(scores: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """How many `questions`, and the mean of each score; no scores give the count alone."""
    names = list(scores[0]) if scores else []
    return {"questions": len(scores)} | {
        name: sum(one[name] for one in scores) / len(scores) for name in names
    }


def _f1(common: int, wanted: int, given: int) -> float:
    """F1 of counts; two empty texts agree, an empty one and another do not."""
    if not wanted or not given:
        return float(wanted == given)
    precision, recall = common / given, common / wanted
    return 2 * precision * recall / (precision + recall) if common else 0.0


def _multiset_f1(wanted: Sequence[str], given: Sequence[str]) -> float:
    common = (Counter(wanted) & Counter(given)).total()
    return _f1(common, len(wanted), len(given))


def _bleu1(wanted: Sequence[str], given: Sequence[str]) -> float:
    """Clipped unigram precision with the brevity penalty, unsmoothed."""
    if not wanted or not given:
        return float(not wanted and not given)
    precision = (Counter(wanted) & Counter(given)).total() / len(given)
    short = len(given) < len(wanted)
    return precision * (math.exp(1 - len(wanted) / len(given)) if short else 1.0)


def _gam_words(text: str) -> list[str]:
    return [word for word in _NOT_WORD.sub(" ", text.lower()).split() if word not in _ARTICLES]


def _squad_words(text: str) -> list[str]:
    words = text.lower().translate(_NO_PUNCTUATION).split()
    return [word for word in words if word not in _ARTICLES]


def _locomo_words(text: str) -> list[str]:
    words = text.replace(",", "").lower().translate(_NO_PUNCTUATION).split()
    return [_stem(word) for word in words if word not in _ARTICLES and word != "and"]


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    return str(_porter().stem(word))


def _nltk_words(text: str) -> list[str]:
    """NLTK's word tokens of the whole text, which need no sentence model from the network."""
    return list(_word_tokenizer().tokenize(text.lower()))


@lru_cache(maxsize=1)
def _porter() -> Any:
    try:
        from nltk.stem.porter import PorterStemmer
    except ImportError as error:
        raise _no_nltk() from error
    return PorterStemmer()


@lru_cache(maxsize=1)
def _word_tokenizer() -> Any:
    try:
        from nltk.tokenize import NLTKWordTokenizer
    except ImportError as error:
        raise _no_nltk() from error
    return NLTKWordTokenizer()


def _no_nltk() -> MissingDependency:
    return MissingDependency("NLTK is not installed: pip install 'zeromem-gpu[evaluate]'")
