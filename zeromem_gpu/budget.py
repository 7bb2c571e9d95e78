"""The memory budget: how much a search may take, and how it goes on when that was too much.

`Config.host_bytes` and `Config.device_bytes` bound what a search holds beside the facts: half of the one
that applies is for the arrays of the banks it asks, half for the work on one part of the batch. Running out
of memory halves the budget of this memory and repeats the part that failed.
"""

from __future__ import annotations

import gc
import logging
import threading

from zeromem_gpu.config import Config
from zeromem_gpu.errors import OutOfMemory

logger = logging.getLogger(__name__)

# below this a part holds one question of one bank; smaller ones would not help
_LEAST_BYTES = 1 << 16
# what allocators say that raise a plain RuntimeError: torch on the host, CUDA's driver, cuBLAS
_SAID = ("can't allocate memory", "not enough memory", "out of memory", "ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on the host or on a device.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("CUDA error: out of memory"))
    (True, True)
    >>> is_out_of_memory(ValueError("out of memory"))
    False
    """
    if error.__cause__ is not None and is_out_of_memory(error.__cause__):
        return not isinstance(error, OutOfMemory)  # a kernel's own words for it
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return not isinstance(error, OutOfMemory)
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID)


def release(device: str) -> None:
    """Give freed memory back: garbage of the failed attempt, kept buffers, what torch keeps of a device."""
    # torch takes seconds to import, and encoders know this module
    import torch

    from zeromem_kernels.buffers import drop

    gc.collect()
    drop()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()


class Budget:
    """The budget of one memory on one device: a configuration's, halved as often as it was too much."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._halvings = 0
        self._lock = threading.Lock()

    @property
    def halvings(self) -> int:
        """How often it was halved so far."""
        return self._halvings

    def banks(self, config: Config) -> int:
        """Bytes for the arrays of the banks of one part."""
        return self._whole(config) // 2 >> self._halvings

    def work(self, config: Config) -> int:
        """Bytes for the work on one part of a batch."""
        return min(config.batch_bytes, self._whole(config) // 2) >> self._halvings

    def halve(self, seen: int, config: Config, error: BaseException) -> None:
        """Halve it, unless another search did since `seen` halvings; the first time is logged.

        Raises `OutOfMemory` where not even one question of one bank fits.
        """
        if self.work(config) // 2 < _LEAST_BYTES:
            name = "device_bytes" if self._device.startswith("cuda") else "host_bytes"
            raise OutOfMemory(
                f"one question does not fit into the memory of {self._device} ({type(error).__name__}). "
                "Free memory there, search smaller banks, or use another device; a smaller "
                f"{name} cannot help any more."
            ) from error
        with self._lock:
            first = self._halvings == 0
            self._halvings = max(self._halvings, seen + 1)
        if first:
            logger.warning(
                "out of memory on %s: searches go on with half the budget, %d bytes for the work on one "
                "part (said once; less may follow)", self._device, self.work(config),
            )  # fmt: skip

    def restore(self, halvings: int) -> None:
        """Forget the halvings of a search that failed in the end: others may fit."""
        with self._lock:
            self._halvings = min(self._halvings, halvings)

    def _whole(self, config: Config) -> int:
        return config.device_bytes if self._device.startswith("cuda") else config.host_bytes
