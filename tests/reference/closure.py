"""Evidence closure and its order, one question at a time (retrieve/README.md, last two sections)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def close(
    primary: Sequence[int],
    graph_ranking: Sequence[int],
    entities: Sequence[Mapping[str, int]],
    speakers: Sequence[str],
    session: Sequence[str],
    hidden: Sequence[bool],
    most: int,
    neighbours: int,
) -> list[tuple[int, str]]:
    """C(q) = Dedup(M ∪ N_g ∪ N_h) as (row, rule), in order.

    `entities[i]` are those of unit i with their counts; `graph_ranking` the graph view's candidates.
    """
    shared = {name for row in primary for name in entities[row]} - set(speakers)
    bridged = [row for row in graph_ranking if row not in primary and shared & set(entities[row])][:most]
    found = [(row, "primary") for row in primary] + [(row, "graph") for row in bridged]
    for step in range(1, neighbours + 1):
        for shift in (-step, step):
            for row in primary:
                there = row + shift
                if 0 <= there < len(session) and session[there] == session[row] and not hidden[there]:
                    found.append((there, "neighbour"))
    first: dict[int, str] = {}
    for row, rule in found:
        first.setdefault(row, rule)
    return list(first.items())


def order(
    rows: Sequence[int], fused: Mapping[int, float], signals: Sequence[tuple[float, Mapping[int, float]]]
) -> list[int]:
    """Rows by fused(d) + Σ weight · signal(d), the larger first, equal ones in the order given."""

    def score(row: int) -> float:
        return fused.get(row, 0.0) + sum(weight * signal[row] for weight, signal in signals)

    return sorted(rows, key=lambda row: -score(row))
