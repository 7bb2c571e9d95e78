"""The scores of the two views and their fusion, from signals that are already there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tests.reference.facts import Array, Mask, Span, Token, Unit
from tests.reference.scaling import cut_margin, min_max, ordered_top_k, scale, spread

DAY = 86400.0


def subject_consistency(subjects: Sequence[str], unit: Unit, names: Mapping[str, int]) -> float:
    """subject(i): 1 when a subject is the speaker, else ½ when one is among entities(i), else 0."""
    if unit.speaker is not None and unit.speaker in subjects:
        return 1.0
    return 0.5 if any(name in names for name in subjects) else 0.0


def temporal_validity(
    validity: tuple[float | None, float | None] | None, time: float | None, days: float
) -> float:
    """temporal(i): 0 without interval or time; 1 inside (ends included); else exp(−distance/days)."""
    if validity is None or time is None:
        return 0.0
    start, end = validity
    before = 0.0 if start is None else max(0.0, start - time)
    after = 0.0 if end is None else max(0.0, time - end)
    return math.exp(-max(before, after) / DAY / days)


def type_support(type_bit: int, type_mask: int) -> float:
    """type(i): 1 when the unit holds a candidate of the expected type."""
    return 1.0 if type_bit & type_mask else 0.0


def level_score(cosine: Array, bm25: Array, visible: Mask, lexical: float) -> Array:
    """s_L = mm(cos_L) + lexical · sc(BM25_L) over the visible rows of the level."""
    return min_max(cosine, visible) + lexical * scale(bm25, visible)


def dense_prior(unit: Array, sentence: Array, sentence_unit: Array, visible: Mask, share: float) -> Array:
    """(1 − share)·mm(cos of units) + share·mm(best cosine of a unit's sentences; its own without any)."""
    best = unit.copy()
    for i in range(len(unit)):
        mine = sentence[sentence_unit == i]
        if len(mine):
            best[i] = mine.max()
    return (1.0 - share) * min_max(unit, visible) + share * min_max(best, visible)


def refine(base: Array, bm25: Array, phrase: Array, visible: Mask, lexical: float, weight: float) -> Array:
    """S_g without the subject: base + graph_lexical · sc(BM25) + graph_phrase · phrase."""
    return base + lexical * scale(bm25, visible) + weight * phrase


def asked(units: Sequence[Unit], cosine: Array, bm25: Array, visible: Mask) -> Array:
    """½(mm(cos) + sc(BM25)) of the unit before, for a unit that replies to it; else 0."""
    fit = 0.5 * (min_max(cosine, visible) + scale(bm25, visible))
    return np.array([fit[row - 1] if unit.replies else 0.0 for row, unit in enumerate(units)])


def bridge(
    scores: Array, units: Sequence[Unit], words: Mapping[str, Sequence[Token]], power: float
) -> Array:
    """The largest sc(S)^power of a unit that tells of a name given to unit i, not to itself; 0 for none.

    A unit tells of a name when its text or its caption has the name's words in a row. `scores` are scaled
    and 0 where hidden.
    """
    result = np.zeros(len(units))
    told = {
        name: [
            row
            for row, unit in enumerate(units)
            if name not in unit.given and any(holds(part, spoken) for part in unit.parts[1:])
        ]
        for name, spoken in words.items()
        if spoken
    }
    for row, unit in enumerate(units):
        for name in unit.given:
            for other in told.get(name, ()):
                result[row] = max(result[row], max(0.0, scores[other]) ** power)
    return result


def holds(part: Sequence[tuple[Token, Token]], spoken: Sequence[Token]) -> bool:
    """Whether the words stand in a row inside a part."""
    raw = [word for word, _ in part]
    return any(raw[at : at + len(spoken)] == list(spoken) for at in range(len(raw) - len(spoken) + 1))


def beam(scores: Array, allowed: Mask, width: int) -> Mask:
    """The `width` best allowed rows as a mask."""
    kept = np.zeros(len(scores), dtype=bool)
    for row in ordered_top_k(scores, allowed, width)[0]:
        if row >= 0:
            kept[row] = True
    return kept


def best_offer(units: int, spans: Sequence[Span], offered: Array, kept: Mask) -> Array:
    """The largest of `offered` [windows] among the kept windows holding each unit, −inf where none does."""
    best = np.full(units, -np.inf)
    for w, (first, last) in enumerate(spans):
        if kept[w]:
            for i in range(first, last + 1):
                best[i] = max(best[i], offered[w])
    return best


def neighbour_sum(own: Array, sessions: Sequence[Span], visible: Mask) -> Array:
    """own(i−1) + own(i+1), neighbours inside the session and visible."""
    result = np.zeros(len(own))
    for first, last in sessions:
        for i in range(first, last + 1):
            for j in (i - 1, i + 1):
                if first <= j <= last and visible[j]:
                    result[i] += own[j]
    return result


def returned(scores: Array, allowed: Mask, k: int) -> tuple[dict[int, float], float]:
    """The k best allowed rows of a view with their scores, best first, and the margin of the cut."""
    rows, values = ordered_top_k(scores, allowed, k)
    found = {row: value for row, value in zip(rows, values, strict=True) if row >= 0}
    return found, cut_margin(scores, allowed, k)


def view_min_max(scores: Mapping[int, float]) -> dict[int, float]:
    """Ŝ = (S − min)/(max − min) over a view's returned rows, 1 for all when max = min."""
    values = np.array(list(scores.values()), dtype=np.float64)
    width = spread(values)
    if width == 0.0:
        return dict.fromkeys(scores, 1.0)
    return {row: (value - float(values.min())) / width for row, value in scores.items()}


def graph_weight(views: str, route: str, rho: float) -> float:
    """w_g: rho for a relational route, else 1 − rho; 1 or 0 when one view is ranked alone."""
    if views != "both":
        return 1.0 if views == "graph" else 0.0
    return rho if route == "relational" else 1.0 - rho


def fuse(graph: Mapping[int, float], hierarchy: Mapping[int, float], weight: float) -> dict[int, float]:
    """fused = w_g · Ŝ_g + (1 − w_g) · Ŝ_h over the union of rows; absent from a view: 0."""
    g, h = view_min_max(graph), view_min_max(hierarchy)
    rows = sorted(set(g) | set(h))
    return {row: weight * g.get(row, 0.0) + (1.0 - weight) * h.get(row, 0.0) for row in rows}
