"""Tiles: the one layout in which a batch over many banks is computed.

Banks are stacked: bank b owns rows `ptr[b] … ptr[b+1]` of every stacked array of an axis (units,
sentences, entities, nodes, windows …). A batch is cut into tiles, each of one bank and at most
`width` queries, so that a score matrix of an axis is `[Σ_t rows(bank of t), width]`, row-major, with the
queries of a tile side by side. Work and memory follow Σ_b rows_b · queries_b, one bank or a thousand.
Columns past a tile's own queries hold defined values that nobody reads.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from zeromem_kernels import buffers
from zeromem_kernels.errors import NoDevice
from zeromem_kernels.slices import Slices, build_slices
from zeromem_kernels.transfer import to_device

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Csr(NamedTuple):
    """Stacked ragged rows: row i of the stack holds `indices[indptr[i]:indptr[i+1]]`.

    `indptr` is int64 [rows + 1] over the whole stack, `indices` int32 with ids local to the bank,
    `weights` float32 beside them. `slices` is the same table for the Triton forms, which make it anew in
    every call where it is None. `host_bounds` int64 [banks + 1], NumPy, are the entries of each bank; where
    it is None the device is asked how many there are. `peaks` float32 [rows] is the largest weight of each
    row, where it is kept (`weights.term_peaks`).
    """

    indptr: Tensor
    indices: Tensor
    weights: Tensor
    slices: Slices | None = None
    host_bounds: np.ndarray | None = None
    peaks: Tensor | None = None


def slice_table(csr: Csr, ptr: Tensor, source_ptr: Tensor) -> Slices:
    """The slices of a table, for `Csr.slices`.

    `ptr` and `source_ptr`, int64 [banks + 1], bound its rows and what its ids refer to.
    """
    return build_slices(csr.indptr, csr.indices, csr.weights, ptr, source_ptr)


@dataclass(frozen=True, eq=False)
class Tiles:
    """Which bank each tile belongs to, and how many queries lie side by side.

    `bank` is int64 [T] (position in the stack), `width` the columns of every matrix. `known_bank` is `bank`
    in NumPy where the host knows it; else the device is asked.
    """

    bank: Tensor
    width: int
    known_bank: np.ndarray | None = None

    @classmethod
    def of(cls, banks: np.ndarray, width: int, device: torch.device) -> Tiles:
        """Tiles of banks (int64 [T]) that the host knows."""
        return cls(to_device(banks, device), width, banks)

    def __len__(self) -> int:
        """The number of tiles T."""
        return len(self.bank)

    @cached_property
    def host_bank(self) -> np.ndarray:
        """`bank` on the host."""
        return self.bank.cpu().numpy() if self.known_bank is None else self.known_bank

    def axis(self, ptr: Tensor, known_ptr: np.ndarray | None = None) -> Axis:
        """The rows that an axis with bank boundaries `ptr` (int64 [banks + 1]) has in these tiles.

        `known_ptr` is `ptr` in NumPy: what is known needs no question to the device.
        """
        counts = ptr.diff()[self.bank]
        starts = torch.zeros(len(self) + 1, dtype=torch.int64, device=ptr.device)
        torch.cumsum(counts, 0, out=starts[1:])
        return Axis(self, ptr, starts, known_ptr)

    def kept(self, key: tuple[str, int], owner: object, make: Callable[[], Tensor]) -> Tensor:
        """What `make` gives for these tiles and `owner`, whose `id` is in `key`; made once.

        A copy from the host cannot be part of a CUDA graph: it is made before one is captured.
        """
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = (owner, make())
        return found[1]

    @cached_property
    def _kept(self) -> dict[tuple[str, int], tuple[object, Tensor]]:
        """By key; the owner is held, so that no other object takes its id."""
        return {}


@dataclass(frozen=True, eq=False)
class Axis:
    """One row axis of a tiled batch.

    `ptr` int64 [banks + 1] are the stacked rows of each bank, `starts` int64 [T + 1] the rows of each tile.
    `known_ptr` is `ptr` in NumPy where the host knows it; else the device is asked.
    """

    tiles: Tiles
    ptr: Tensor
    starts: Tensor
    known_ptr: np.ndarray | None = None

    @cached_property
    def host_starts(self) -> np.ndarray:
        """`starts` on the host."""
        if self.known_ptr is None:
            return self.starts.cpu().numpy()
        return np.append(0, np.cumsum(np.diff(self.known_ptr)[self.tiles.host_bank]))

    @cached_property
    def host_ptr(self) -> np.ndarray:
        """`ptr` on the host."""
        return self.ptr.cpu().numpy() if self.known_ptr is None else self.known_ptr

    @cached_property
    def rows(self) -> int:
        """Rows of a matrix on this axis."""
        return int(self.host_starts[-1])

    @cached_property
    def tallest(self) -> int:
        """Rows of the tallest tile, 0 without tiles."""
        return int(np.diff(self.host_starts).max(initial=0))

    @cached_property
    def tile_of_row(self) -> Tensor:
        """The tile of each row, int64 [rows]."""
        return owners(self.starts, self.rows)

    @cached_property
    def stacked_row(self) -> Tensor:
        """The stacked row that each tile row stands for, int64 [rows]."""
        shift = self.ptr[self.tiles.bank] - self.starts[:-1]
        return torch.arange(self.rows, device=self.ptr.device) + shift[self.tile_of_row]

    def full(self, value: float) -> Tensor:
        """A float32 matrix of this axis filled with `value`."""
        return self.empty().fill_(value)

    def empty(self) -> Tensor:
        """An uninitialised float32 matrix of this axis."""
        return buffers.empty(self.rows, self.tiles.width, self.ptr.device)

    def lift(self, csr: Csr, target: Axis) -> tuple[Tensor, Tensor, Tensor]:
        """All (row of this axis, row of `target`, weight) pairs of `csr` over the tiles, row by row."""
        begin = csr.indptr[self.stacked_row]
        total = None
        if csr.host_bounds is not None:
            total = int(np.diff(csr.host_bounds)[self.tiles.host_bank].sum())
        rows, slot = expand(begin, csr.indptr[self.stacked_row + 1] - begin, total)
        columns = csr.indices[slot].long() + target.starts[self.tile_of_row[rows]]
        return rows, columns, csr.weights[slot]


def owners(ptr: Tensor, total: int | None = None) -> Tensor:
    """The row that each of the entries bounded by `ptr` int64 [rows + 1] belongs to, int64 [entries].

    `total` is how many entries there are where the host knows it; else the device is asked.
    """
    rows = torch.arange(len(ptr) - 1, device=ptr.device)
    return torch.repeat_interleave(rows, ptr.diff(), output_size=total)


def joined(parts: Sequence[Csr]) -> Csr:
    """At least one table, each below the one before; plain tables, without slices."""
    if len(parts) == 1:
        return parts[0]
    sizes = torch.cat([part.indptr.diff() for part in parts])
    ptr = torch.zeros(len(sizes) + 1, dtype=torch.int64, device=sizes.device)
    torch.cumsum(sizes, 0, out=ptr[1:])
    return Csr(ptr, torch.cat([p.indices for p in parts]), torch.cat([p.weights for p in parts]))


def expand(begin: Tensor, counts: Tensor, total: int | None = None) -> tuple[Tensor, Tensor]:
    """The i of each of the places begin[i] … begin[i] + counts[i] − 1, and the places; int64.

    `total` is the sum of the counts where the host knows it; else the device is asked.
    """
    counts = counts.long()
    which = torch.repeat_interleave(
        torch.arange(len(counts), device=counts.device), counts, output_size=total
    )
    first = torch.cumsum(counts, 0) - counts
    return which, torch.arange(len(which), device=counts.device) - first[which] + begin[which]


def mask_of(mask: Tensor | None) -> Tensor:
    """The compiled forms take an empty mask for none."""
    return torch.empty((0, 0), dtype=torch.bool) if mask is None else mask


@lru_cache(maxsize=1)
def _compiled() -> ModuleType | None:
    try:
        from zeromem_kernels import cpu
    except ImportError:
        return None
    return cpu


_form: ContextVar[str] = ContextVar("form", default="")


@contextmanager
def _forms(name: str) -> Iterator[None]:
    token = _form.set(name)
    try:
        yield
    finally:
        _form.reset(token)


def torch_forms() -> AbstractContextManager[None]:
    """Within this block, in this thread or task, every operation takes its torch form."""
    return _forms("torch")


def triton_forms() -> AbstractContextManager[None]:
    """Within this block every operation that has one takes its Triton form, whatever the device.

    For tests: without a GPU that needs Triton's interpreter, which is no way to compute anything.
    """
    return _forms("triton")


def compiled(tensor: Tensor) -> ModuleType | None:
    """The module of compiled CPU forms when it can serve `tensor`, else None: the torch form serves."""
    return _compiled() if tensor.device.type == "cpu" and not _form.get() else None


def compiled_host() -> ModuleType | None:
    """The module of compiled CPU forms for NumPy arrays, None where it is missing or not wanted."""
    return None if _form.get() else _compiled()


def on_triton(tensor: Tensor) -> bool:
    """Whether the Triton form serves: for CUDA tensors, where triton is there (said once where it is not).

    Raises `NoDevice` for a card that is too old for it.
    """
    if _form.get():
        return _form.get() == "triton"
    return tensor.is_cuda and _fit_for_triton(tensor.device.index or 0)


@lru_cache
def _fit_for_triton(index: int) -> bool:
    if find_spec("triton") is None:
        logger.warning(
            "triton is not installed: torch's operations serve in place of its kernels. "
            "pip install 'zeromem-gpu[cuda]' (said once)"
        )
        return False
    major, minor = torch.cuda.get_device_capability(index)
    if major < 8:
        name = torch.cuda.get_device_name(index)
        raise NoDevice(
            f"{name} has compute capability {major}.{minor}; the kernels need 8.0: use device='cpu'"
        )
    return True


@lru_cache(maxsize=1)
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """The pool of this process: a fork inherits the object without its threads."""
    return ThreadPoolExecutor(workers, thread_name_prefix="zeromem")


def _together(part: Callable[[int, int], T], edges: Sequence[int]) -> list[T]:
    """`part(first, last)` between neighbouring edges, on torch's threads; results in that order.

    The thread that calls works too, rather than wait for another that may have to be woken.
    """
    runs = list(enumerate(pairwise(edges)))
    found: dict[int, T] = {}
    left = iter(runs)  # gives each run to one thread

    def work() -> None:
        for place, run in left:
            found[place] = part(*run)

    threads = torch.get_num_threads()
    jobs = [_pool(threads, os.getpid()).submit(work) for _ in range(min(threads, len(runs)) - 1)]
    try:
        work()
    finally:
        wait(jobs)
    for job in jobs:
        job.result()
    return [found[place] for place, _ in runs]


def run_parts(part: Callable[[int, int], T], sizes: np.ndarray, least: int) -> list[T]:
    """`part(first, last)` for runs of items whose `sizes` add up to about the same, on torch's threads.

    One run, in this thread, where all sizes together are below twice `least`.
    """
    ends = np.cumsum(sizes)
    count = min(torch.get_num_threads(), int(ends[-1]) // least if len(ends) else 0)
    if count <= 1:
        return [part(0, len(sizes))]
    shares = ends[-1] * np.arange(1, count) // count
    edges = [0, *np.searchsorted(ends, shares).tolist(), len(sizes)]
    return _together(part, edges)


def run_tiles(kernel: Callable[..., None], tiles: Tiles, *args: Any) -> None:
    """Call `kernel(first, last, *args)` over all tiles, on torch's number of threads.

    The kernels release the GIL. A pool of our own serves instead of numba's, whose default layer
    aborts when two Python threads search at once. Tiles do not share outputs, so how they are cut over
    threads never changes a result.
    """
    count = len(tiles)
    workers = min(torch.get_num_threads(), count)
    arrays = tuple(arg.numpy() if isinstance(arg, Tensor) else arg for arg in args)
    if workers <= 1:
        kernel(0, count, *arrays)
        return
    parts = min(count, 4 * workers)
    edges = [count * part // parts for part in range(parts + 1)]
    _together(lambda first, last: kernel(first, last, *arrays), edges)
