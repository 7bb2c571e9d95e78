"""Batches computed in order: one after another on a GPU, side by side on the cores of a CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Batch = TypeVar("Batch")


def computed(
    compute: Callable[[Batch], Tensor], batches: Sequence[Batch], device: torch.device
) -> Iterator[np.ndarray]:
    """The result of each batch on the host, in order.

    On a CPU as many threads as torch has compute a batch each with one thread of torch's: two halves of a
    machine meet at no barrier (EPYC 7003, two cores, MiniLM: 1.4 times the texts a second of torch's own
    threads). A single batch has torch's threads for itself. On a GPU the host waits once, at the end.
    """
    import torch

    def run(batch: Batch) -> Tensor:
        with torch.inference_mode():  # which belongs to a thread
            return compute(batch)

    if device.type != "cpu":
        found = [run(batch) for batch in batches]
        sizes = np.cumsum([len(one) for one in found])[:-1]
        return iter(np.split(torch.cat(found).cpu().numpy(), sizes) if found else [])
    threads = min(torch.get_num_threads(), len(batches))
    if threads < 2:
        return (run(batch).numpy() for batch in batches)
    return iter([one.numpy() for one in _side_by_side(run, batches, threads)])


def _side_by_side(run: Callable[[Batch], Tensor], batches: Sequence[Batch], threads: int) -> list[Tensor]:
    import torch

    before, started = torch.get_num_threads(), threading.Barrier(threads + 1)

    def begin() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # asked once, a thread keeps its count when another sets the common one
        started.wait()

    with ThreadPoolExecutor(threads, "zeromem-encode", initializer=begin) as pool:
        coming = [pool.submit(run, batch) for batch in batches]
        started.wait()
        # each thread has a count of its own; this one is what threads made later begin with
        torch.set_num_threads(before)
        return [one.result() for one in coming]
