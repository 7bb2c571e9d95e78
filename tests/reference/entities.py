"""Which entities a unit and a sentence hold, and which ones a question aligns with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tests.reference.facts import Array, Sentence, Token, Unit
from tests.reference.lexical import said_tokens_of
from tests.reference.scaling import cosines


def entity_counts(
    unit: Unit, speakers: Sequence[str], name_token: Mapping[str, Token], speaker_entities: bool
) -> dict[str, int]:
    """entities(i) as name -> c(e, i), in order of first appearance.

    c = max(mentions, occurrences of a known single-token speaker name in the unit's text and caption)
    + (1 if `speaker_entities` and e is the unit's speaker).
    """
    counts: dict[str, int] = {}
    for name, count in unit.mentions:
        counts[name] = counts.get(name, 0) + count
    tokens = said_tokens_of(unit)
    for name in speakers:
        if name in name_token:
            seen = sum(1 for token in tokens if token == name_token[name])
            counts[name] = max(counts.get(name, 0), seen)
    if speaker_entities and unit.speaker:
        counts[unit.speaker] = counts.get(unit.speaker, 0) + 1
    return {name: count for name, count in counts.items() if count > 0}


def sentence_entities(
    sentence: Sentence,
    unit: Unit,
    speakers: Sequence[str],
    name_token: Mapping[str, Token],
    speaker_entities: bool,
) -> list[str]:
    """The entities e with M[z, e] = 1, each once.

    A mention of e starts in z, or e is a known single-token speaker name among z's tokens, or
    `speaker_entities` and e is the speaker of z's unit.
    """
    names = list(sentence.entities)
    names += [name for name in speakers if name in name_token and name_token[name] in sentence.tokens]
    if speaker_entities and unit.speaker:
        names.append(unit.speaker)
    return list(dict.fromkeys(names))


def incidence(members: Sequence[Sequence[str]], rows: Mapping[str, int]) -> Array:
    """M, [sentences, entities] of 0 and 1."""
    matrix = np.zeros((len(members), len(rows)))
    for z, names in enumerate(members):
        for name in names:
            matrix[z, rows[name]] = 1.0
    return matrix


def align(
    query: Sequence[tuple[str, Array]], rows: Mapping[str, int], vectors: Array, floor: float
) -> tuple[dict[int, float], float]:
    """Entity row -> η₀, and the margin of the closest decision.

    The entity of the same name with 1, else the one of largest cosine (ties: the earlier) if that is
    ≥ floor, with that cosine (never below 0); two query entities on one row: the larger.
    """
    aligned: dict[int, float] = {}
    margin = math.inf
    for name, vector in query:
        if name in rows:
            row, value = rows[name], 1.0
        elif len(rows) == 0:
            continue
        else:
            similarity = cosines(vector, vectors)
            row = int(similarity.argmax())
            best = float(similarity[row])
            margin = min(margin, abs(best - floor))
            if best < floor:
                continue
            if len(rows) > 1:
                margin = min(margin, best - float(np.sort(similarity)[-2]))
            value = max(0.0, best)
        aligned[row] = max(aligned.get(row, 0.0), value)
    return aligned, margin
