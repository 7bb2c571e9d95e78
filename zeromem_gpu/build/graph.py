"""The entity–context graph of a bank as one symmetric weight matrix in three colours (method.md 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zeromem_gpu.build.ragged import Rows, checked_int32
from zeromem_kernels.layout import Continued, Graph, colour_rows, entity_graph


@dataclass(frozen=True)
class EntityContextGraph:
    """W over nodes (units, then entities), its row sums, and the rows of each colour.

    Colours: entities, even units, odd units (parity of the place in the session). `colours` int32 lists
    all rows by colour, `colour_sizes` int64 [3] how many each has. The next version grows from `made`.
    """

    weights: Rows
    degree: np.ndarray
    colours: np.ndarray
    colour_sizes: np.ndarray
    made: Graph


def build_graph(
    counts: tuple[np.ndarray, np.ndarray, np.ndarray],
    bounds: np.ndarray,
    entities: int,
    chain_weight: float,
    before: tuple[Graph, Continued] | None = None,
) -> EntityContextGraph:
    """E_de with w(d, e) = c(e, d)/Σ_e' c(e', d), and E_dd between neighbours of a session.

    Args:
        counts: (pointer, entity, count) by unit, entities ascending.
        bounds: int64 [sessions + 1] of the units.
        entities: number of entities.
        chain_weight: weight of E_dd; 0 leaves the chain out.
        before: the graph of an older version of the bank that this one goes on from.
    """
    units = int(bounds[-1])
    checked_int32(np.array([units + entities]))
    made = entity_graph(*counts, bounds, entities, chain_weight, before)
    colours = colour_rows(bounds, entities)
    return EntityContextGraph(Rows(*made[:3]), made.degree.astype(np.float32), *colours, made)
