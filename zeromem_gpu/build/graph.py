"""The entity–context graph of a bank as one symmetric weight matrix in three colours (method.md 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeromem_gpu.build.ordered import by_column, repeated
from zeromem_gpu.build.ragged import Rows, checked_int32, pointer


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
        counts: (pointer, entity, count) by unit, entities ascending.
        bounds: int64 [sessions + 1] of the units.
        entities: number of entities.
        chain_weight: weight of E_dd; 0 leaves the chain out.
    """
    ptr, entity, count = counts
    units, pairs = int(bounds[-1]), len(entity)
    unit = repeated(ptr)
    total = np.bincount(unit, count, units)
    share = (count / total[unit]).astype(np.float32)
    before, after = np.zeros((2, units), np.int64)
    if chain_weight > 0:
        before[:], after[:] = 1, 1
        before[bounds[:-1]], after[bounds[1:] - 1] = 0, 0
    # a unit's row: the unit before, the one behind, its entities
    chain = before + after
    size = np.diff(ptr) + chain
    back, order = by_column(ptr, entity, entities)
    indptr = np.concatenate([pointer(size), int(size.sum()) + back[1:]])
    checked_int32(np.array([units + entities]))
    indices = np.empty(indptr[-1], np.int32)
    weights = np.full(indptr[-1], chain_weight, np.float32)
    left, right = np.flatnonzero(before), np.flatnonzero(after)
    indices[indptr[left]] = left - 1
    indices[indptr[right] + before[right]] = right + 1
    place = np.arange(pairs) + np.cumsum(chain)[unit]
    indices[place], weights[place] = entity + units, share
    indices[indptr[units] :], weights[indptr[units] :] = unit[order], share[order]
    degree = np.append(
        chain * chain_weight + (total > 0), np.bincount(entity, count / total[unit], entities)
    )
    return EntityContextGraph(Rows(indptr, indices, weights), degree.astype(np.float32), *_colours(bounds, entities))


def _colours(bounds: np.ndarray, entities: int) -> tuple[np.ndarray, np.ndarray]:
    """Entities, even units, odd units, one behind the other, and how many there are of each."""
    units = int(bounds[-1])
    odd = (np.arange(units) - np.repeat(bounds[:-1], np.diff(bounds))) % 2 == 1
    colours = [np.arange(units, units + entities), np.flatnonzero(~odd), np.flatnonzero(odd)]
    return np.concatenate(colours).astype(np.int32), np.array([len(rows) for rows in colours], np.int64)
