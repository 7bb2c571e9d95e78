"""Words near others in meaning, and BM25 over them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.reference.facts import Array, Token
from tests.reference.lexical import Bm25, bm25_idf


def near(
    words: Mapping[Token, Array], terms: Mapping[Token, Array], floor: float
) -> dict[Token, dict[Token, float]]:
    """near(t, t') = max(0, (cos − floor) / (1 − floor)) of every word and every other term."""
    found: dict[Token, dict[Token, float]] = {}
    for word, vector in words.items():
        cosine = {term: float(vector @ other) for term, other in terms.items() if term != word}
        found[word] = {t: (c - floor) / (1.0 - floor) for t, c in cosine.items() if c > floor}
    return found


def rarity(documents: int, df: int) -> float:
    """idf of a term as a share of that of a term of one document."""
    return bm25_idf(documents, df) / bm25_idf(documents, 1)


def related_scores(
    words: Mapping[Token, Array], terms: Mapping[Token, Array], bm25: Bm25, floor: float
) -> Array:
    """Σ over the question's words and the terms near to them of near · rarity² · BM25 weight.

    `terms` are the vectors of the bank's live terms; a word that is one of them has the vector there.
    """
    scores = np.zeros(bm25.size)
    for others in near({word: terms.get(word, words[word]) for word in words}, terms, floor).values():
        for term, share in others.items():
            rows = bm25.weights[term]
            for row, weight in rows.items():
                scores[row] += share * rarity(bm25.size, len(rows)) ** 2 * weight
    return scores
