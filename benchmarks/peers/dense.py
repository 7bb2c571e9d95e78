"""Exact dense search, the ten best by inner product: ours against faiss-cpu's flat index."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.calibration import Calibration
from benchmarks.facts import gate
from benchmarks.machine import installed
from benchmarks.peers.rows import OURS, Comparison, Entry, timed
from benchmarks.stand_ins import WIDTH
from zeromem_kernels.similarity import Placed, similarities
from zeromem_kernels.tiles import Tiles
from zeromem_kernels.topk import ordered_topk

KEPT, TILE = 10, 32
_NOTE = (
    "Ours multiplies a tile of 32 queries at a time, as a search does whose questions are in many banks; "
    "where all ask one small bank, faiss's wide products use the processor better."
)


def compare_dense(
    rows: int, queries: int, threads: int, rounds: int, calibration: Calibration
) -> Comparison:
    """Random unit vectors: `rows` stored, `queries` asked at once."""
    rng = np.random.default_rng([5, rows])
    stored, asked = (_unit(rng.standard_normal((n, WIDTH), dtype=np.float32)) for n in (rows, queries))
    tiles = Tiles(torch.zeros(-(-queries // TILE), dtype=torch.int64), TILE)
    axis = tiles.axis(torch.tensor([0, rows]))
    padded = np.zeros((len(tiles) * TILE, WIDTH), np.float32)
    padded[:queries] = asked
    blocks = torch.from_numpy(padded).reshape(len(tiles), TILE, WIDTH).transpose(1, 2).contiguous()
    vectors = torch.from_numpy(stored)

    def ours() -> np.ndarray:
        found = ordered_topk(similarities([Placed(vectors)], blocks, axis), axis, KEPT)
        return found.scores.permute(0, 2, 1).reshape(-1, KEPT)[:queries].numpy()

    expected = -np.sort(-(asked[:40].astype(np.float64) @ stored.T), axis=1)[:, :KEPT]
    gate("our dense scores", ours()[:40], expected)
    entries = [Entry(f"{OURS}, batch", ours, queries, threads, "exact")]
    left_out = {}
    if installed("faiss"):
        import faiss

        faiss.omp_set_num_threads(threads)
        index = faiss.IndexFlatIP(WIDTH)
        index.add(stored)
        gate("faiss", index.search(asked[:40], KEPT)[0], expected)
        entries.append(
            Entry("faiss IndexFlatIP, batch", lambda: index.search(asked, KEPT), queries, threads, "exact")
        )
    else:
        left_out["faiss-cpu"] = "not installed"
    about = {
        "workload": f"random-{rows}",
        "stand_in": True,
        "rows": rows,
        "width": WIDTH,
        "queries": queries,
    }
    return Comparison(
        f"dense {rows:,} × {WIDTH}", about, timed(entries, rounds, calibration), left_out, _NOTE
    )


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)
