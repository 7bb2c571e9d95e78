"""The entity–context graph of a bank as one symmetric weight matrix in three colours (method.md 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeromem_gpu.build.ragged import Rows, from_pairs


@dataclass(frozen=True)
class EntityContextGraph:
    """W over nodes (units, then entities), its row sums, and the rows of each colour.

    Colours: entities, even units, odd units (parity of the place in the session). `colours` int32 lists
    all rows by colour, `colour_sizes` int64 [3] how many each has.
    """

    weights: Rows
    degree: np.ndarray
    colours: np.ndarray
    colour_sizes: np.ndarray


def build_graph(
    counts: tuple[np.ndarray, np.ndarray, np.ndarray],
    bounds: np.ndarray,
    entities: int,
    chain_weight: float,
) -> EntityContextGraph:
    """E_de with w(d, e) = c(e, d)/Σ_e' c(e', d), and E_dd between neighbours of a session.

    Args:
        counts: (unit, entity, count), distinct pairs.
        bounds: int64 [sessions + 1] of the units.
        entities: number of entities.
        chain_weight: weight of E_dd; 0 leaves the chain out.
    """
    unit, entity, count = counts
    units = int(bounds[-1])
    share = count / np.bincount(unit, count, units)[unit] if len(unit) else count.astype(float)
    session = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    left = np.flatnonzero(session[:-1] == session[1:]) if chain_weight > 0 else np.empty(0, np.int64)
    node = entity + units
    row = np.concatenate([unit, node, left, left + 1])
    column = np.concatenate([node, unit, left + 1, left])
    chain = np.full(2 * len(left), chain_weight)
    weights = from_pairs(row, column, units + entities, np.concatenate([share, share, chain]))
    degree = np.bincount(row, np.concatenate([share, share, chain]), units + entities)
    odd = (np.arange(units) - bounds[session]) % 2 == 1
    colours = [np.arange(units, units + entities), np.flatnonzero(~odd), np.flatnonzero(odd)]
    return EntityContextGraph(
        weights,
        degree.astype(np.float32),
        np.concatenate(colours).astype(np.int32),
        np.array([len(rows) for rows in colours], np.int64),
    )
