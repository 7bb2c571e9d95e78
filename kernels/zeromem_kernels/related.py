"""Words near others in meaning, and BM25 over them: Σ near(t, t′) · rarity(t′)² · w(t′, d).

    near(t, t′) = max(0, (cos(t, t′) − τ) / (1 − τ)), 0 for the word itself, which plain BM25 counts
    rarity(t′) = idf(t′) / idf of a word of one document; common words are near to everything

Word vectors stand on a grid: whole numbers round(2048 · v). A product of two is below 2^24, so float32 sums
it without rounding in any order, and cosines do not depend on the size of a batch or on the device.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from zeromem_kernels.tiles import Csr

GRID = 2048
# cosines at once, 64 MiB of them: a question may be as long as a book
_BLOCK = 1 << 24


def on_grid(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1 (or 0) rounded to the grid, float32 [n, D] of whole numbers."""
    return np.rint(vectors * np.float32(GRID)).astype(np.float32)


def near(words: Tensor, own: Tensor, vectors: Tensor, places: Tensor, floor: float) -> Csr:
    """The stored words of one bank that are near to each of some words.

    Args:
        words: float32 [m, D] on the grid.
        own: int32 [m], the place of the stored word that the word itself is, or −1.
        vectors: float32 [n, D] on the grid, in any order.
        places: int64 [n], the place of each stored word in an order that does not depend on theirs.
        floor: τ, at least 0 and below 1.

    Returns:
        A row a word: places ascending (int32), near(t, t′) above 0.
    """
    step = max(_BLOCK // max(len(vectors), 1), 1)
    blocks = [_above(words[a : a + step], vectors, floor) for a in range(0, max(len(words), 1), step)]
    word = torch.cat([of + step * block for block, (of, _, _) in enumerate(blocks)])
    at, above = (torch.cat([block[column] for block in blocks]) for column in (1, 2))
    place = places[at]
    other = place != own[word]
    word, above, place = word[other], above[other], place[other]
    order = torch.argsort(word * max(len(places), 1) + place)
    ptr = torch.zeros(len(words) + 1, dtype=torch.int64, device=words.device)
    torch.cumsum(torch.bincount(word, minlength=len(words)), 0, out=ptr[1:])
    return Csr(ptr, place[order].int(), above[order] * (1.0 / ((1.0 - floor) * GRID**2)))


def _above(words: Tensor, vectors: Tensor, floor: float) -> tuple[Tensor, Tensor, Tensor]:
    """The pairs of a word and a vector whose product exceeds the floor, and by how much."""
    product = words @ vectors.T
    word, at = torch.nonzero(product > floor * GRID**2, as_tuple=True)
    # the difference first: it is exact, however little a word is above the floor
    return word, at, product[word, at] - floor * GRID**2


def nearness(words: Tensor, vectors: Tensor, floor: float) -> Tensor:
    """near(t, t′) of every word with every vector, float32 [m, n], a word and itself included.

    Args:
        words: float32 [m, D] on the grid.
        vectors: float32 [n, D] on the grid.
        floor: τ, at least 0 and below 1.
    """
    product = words @ vectors.T
    above = torch.where(product > floor * GRID**2, product - floor * GRID**2, 0.0)
    return above * (1.0 / ((1.0 - floor) * GRID**2))


def rarity(documents: Tensor, total: Tensor) -> Tensor:
    """rarity² of terms that occur in `documents` of `total` documents (int64 [terms] both), float32."""
    count, total = documents.double(), total.double()
    idf = torch.log1p((total - count + 0.5) / (count + 0.5))
    return (idf / torch.log1p((total - 0.5) / 1.5)).square().float()
