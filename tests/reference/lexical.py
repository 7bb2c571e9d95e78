"""BM25 and phrase support."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tests.reference.facts import Array, Token, Unit


def stems_of(unit: Unit) -> list[Token]:
    """The stems of a unit in order, parts joined, stop words left out."""
    return [stem for part in unit.parts for _, stem in part if stem]


def said_tokens_of(unit: Unit) -> list[Token]:
    """The raw tokens of a unit's text and caption in order, stop words included; not the speaker's part."""
    return [raw for part in unit.parts[1:] for raw, _ in part]


def concatenated(documents: Sequence[Sequence[Token]], first: int, last: int) -> list[Token]:
    """The tokens of rows first … last, both included."""
    return [token for row in range(first, last + 1) for token in documents[row]]


def bm25_idf(documents: int, df: int) -> float:
    """idf(t) = ln(1 + (N − df + ½)/(df + ½))."""
    return math.log(1.0 + (documents - df + 0.5) / (df + 0.5))


def bm25_weight(idf: float, tf: int, length: int, average: float, k1: float, b: float) -> float:
    """weight = idf · tf·(k1 + 1) / (tf + k1·(1 − b + b·len/avglen)); 0 where tf = 0."""
    if tf == 0:
        return 0.0
    return idf * tf * (k1 + 1.0) / (tf + k1 * (1.0 - b + b * length / average))


def average_length(documents: Sequence[Sequence[Token]]) -> float:
    """avglen: mean number of stems, at least 1."""
    if not documents:
        return 1.0
    return max(1.0, sum(len(document) for document in documents) / len(documents))


def bm25_scores(query: Sequence[Token], documents: Sequence[Sequence[Token]], k1: float, b: float) -> Array:
    """Σ over the question's stems (repeats count again) of the weight of the stem in each document."""
    average = average_length(documents)
    scores = np.zeros(len(documents))
    for token in query:
        if not token:
            continue
        df = sum(1 for document in documents if token in document)
        idf = bm25_idf(len(documents), df)
        for row, document in enumerate(documents):
            tf = sum(1 for other in document if other == token)
            scores[row] += bm25_weight(idf, tf, len(document), average, k1, b)
    return scores


class Bm25:
    """The same scores as `bm25_scores`, with the weights of every term kept for many questions."""

    def __init__(self, documents: Sequence[Sequence[Token]], k1: float, b: float) -> None:
        """Count every (term, document) pair and weigh it."""
        self.size = len(documents)
        average = average_length(documents)
        counts: dict[Token, dict[int, int]] = {}
        for row, document in enumerate(documents):
            for token in document:
                rows = counts.setdefault(token, {})
                rows[row] = rows.get(row, 0) + 1
        self.weights: dict[Token, dict[int, float]] = {}
        for token, rows in counts.items():
            idf = bm25_idf(self.size, len(rows))
            self.weights[token] = {
                row: bm25_weight(idf, tf, len(documents[row]), average, k1, b) for row, tf in rows.items()
            }

    def scores(self, query: Sequence[Token]) -> Array:
        """Σ of weights over the question's stems, [documents]."""
        result = np.zeros(self.size)
        for token in query:
            for row, weight in self.weights.get(token, {}).items():
                result[row] += weight
        return result


def learned_scores(query: Mapping[int, float], units: Sequence[Unit]) -> Array:
    """Σ over the tokens that the question and the unit share of the product of their weights."""
    return np.array(
        [
            sum(weight * unit.learned[token] for token, weight in query.items() if token in unit.learned)
            for unit in units
        ],
        dtype=np.float64,
    )


def occurs(phrase: Sequence[Token], part: Sequence[Token]) -> bool:
    """Whether `phrase` is a run of consecutive tokens of `part`; an empty phrase never is."""
    n = len(phrase)
    return n > 0 and any(list(part[at : at + n]) == list(phrase) for at in range(len(part) - n + 1))


def phrase_support(phrases: Sequence[Sequence[Token]], units: Sequence[Unit]) -> Array:
    """phrase(i) = share of the phrases whose raw tokens occur inside one part of unit i.

    Phrases without tokens do not count; without phrases 0.
    """
    phrases = [phrase for phrase in phrases if len(phrase) > 0]
    result = np.zeros(len(units))
    for row, unit in enumerate(units):
        parts = [[raw for raw, _ in part] for part in unit.parts]
        words = {raw for part in parts for raw in part}
        for phrase in phrases:
            if phrase[0] in words and any(occurs(phrase, part) for part in parts):
                result[row] += 1.0 / len(phrases)
    return result
