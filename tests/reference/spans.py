"""Windows, episodes, local spans and their vectors. Spans are (first row, last row), both included."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tests.reference.facts import Array, Mask, Span
from tests.reference.scaling import cosine

# equal cosines must not break by the rounding of their own mean
ROUNDING = 1e-12


def sessions(names: Sequence[str]) -> list[Span]:
    """The runs of equal session names; a session that comes back later is an error of the facts."""
    runs: list[Span] = []
    for row, name in enumerate(names):
        if row > 0 and names[row - 1] == name:
            runs[-1] = (runs[-1][0], row)
        elif name in names[:row]:
            raise ValueError(f"units are not in session order: {name!r} comes back at row {row}")
        else:
            runs.append((row, row))
    return runs


def windows(n: int, size: int, stride: int) -> list[Span]:
    """Windows of a session of n units: starts 0, stride, …, the last the first with s + size ≥ n."""
    result: list[Span] = []
    start = 0
    while n > 0:
        result.append((start, min(start + size, n) - 1))
        if start + size >= n:
            break
        start += stride
    return result


def local_span(row: int, session: Span, radius: int) -> Span:
    """Rows i − radius … i + radius inside the session."""
    return max(session[0], row - radius), min(session[1], row + radius)


def pooled(vectors: Array, span: Span) -> Array:
    """The L2-normalised sum of the vectors of a span; zero when the sum is zero."""
    total: Array = vectors[span[0] : span[1] + 1].sum(axis=0)
    norm = math.sqrt(float((total * total).sum()))
    return total / norm if norm > 0 else np.zeros_like(total)


def span_vectors(vectors: Array, spans: Sequence[Span], given: Mapping[Span, Array] | None) -> Array:
    """[spans, D]: the `given` (encoded) vectors, else pooled ones."""
    if not spans:
        return np.zeros((0, vectors.shape[1]))
    rows = [pooled(vectors, span) if given is None else given[span] for span in spans]
    return np.array(rows, dtype=np.float64)


def break_threshold(similarities: Sequence[float], sigma: float) -> float:
    """μ − sigma·σ of the cosines of consecutive windows of a session (population deviation)."""
    mean = sum(similarities) / len(similarities)
    variance = sum((value - mean) ** 2 for value in similarities) / len(similarities)
    return mean - sigma * math.sqrt(variance)


def silence(before: float | None, after: float | None, hours: float) -> bool:
    """Whether `after` comes more than `hours` after `before`; unknown times are no silence."""
    return before is not None and after is not None and after - before > hours * 3600.0


def episodes(
    spans: Sequence[Span],
    vectors: Array,
    times: Sequence[float | None],
    sigma: float,
    gap_hours: float,
) -> tuple[list[list[int]], float]:
    """Windows of one session grouped into episodes, and the margin of the closest decision.

    Between w and w + 1 there is a break when cos(w, w+1) < μ − sigma·σ, or when the unit that starts w + 1
    comes more than `gap_hours` after the unit that starts w. `times` is by unit row.
    """
    groups: list[list[int]] = [[index] for index in range(min(1, len(spans)))]
    pairs = range(len(spans) - 1)
    similarities = [cosine(vectors[w], vectors[w + 1]) for w in pairs]
    threshold = break_threshold(similarities, sigma) if similarities else 0.0
    margin = math.inf
    for w in pairs:
        distance = similarities[w] - threshold
        margin = min(margin, abs(distance) if len(similarities) > 1 else math.inf)
        far = silence(times[spans[w][0]], times[spans[w + 1][0]], gap_hours)
        if distance < -ROUNDING or far:
            groups.append([w + 1])
        else:
            groups[-1].append(w + 1)
    return groups, margin


def visible_spans(spans: Sequence[Span], visible: Mask) -> Mask:
    """A span is visible when one of its units is."""
    return np.array([visible[first : last + 1].any() for first, last in spans], dtype=bool)
