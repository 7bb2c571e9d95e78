"""The one place that decides on which device a memory computes."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from zeromem_gpu.errors import InvalidInput

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

# modules that searches on a card use, the package of each, and what serves where it is missing
_FOR_CARDS = {
    "triton": ("triton", "torch's operations serve in place of its kernels"),
    "cupy": ("cupy-cuda13x", "a Triton kernel serves BM25"),
    "cuvs": ("cuvs-cu13", "matrix products serve similarity"),
}


def missing_for_cards() -> dict[str, str]:
    """What serves in place of each package for CUDA that is not installed."""
    return {
        package: instead for module, (package, instead) in _FOR_CARDS.items() if find_spec(module) is None
    }


@lru_cache
def say_what_serves() -> None:
    """Log once what serves on a card in place of packages that are missing."""
    missing = missing_for_cards()
    if missing:
        told = "; ".join(f"without {package}, {instead}" for package, instead in missing.items())
        logger.warning("%s. To add them: pip install 'zeromem-gpu[cuda]' (said once)", told)


def resolve_device(device: str | torch.device | None = None) -> torch.device:
    """An explicit argument, else ZEROMEM_DEVICE, else CUDA where there is one, else the CPU.

    Asking for CUDA on a machine without it is an `InvalidInput`, never a silent fallback.
    """
    import torch

    asked = device if device is not None else os.environ.get("ZEROMEM_DEVICE") or None
    try:
        resolved = torch.device(asked or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, TypeError) as error:
        raise InvalidInput("device", repr(asked), "cpu, cuda or cuda:N") from error
    if resolved.type not in ("cpu", "cuda"):
        raise InvalidInput("device", repr(asked), "cpu, cuda or cuda:N")
    if resolved.type == "cuda":
        count = torch.cuda.device_count()
        if (resolved.index or 0) >= count:
            raise InvalidInput(
                "device", repr(str(asked)), f"cpu, or one of the {count} CUDA devices that torch sees"
            )
        if resolved.index is None:  # a thread may have another current device later
            return torch.device("cuda", torch.cuda.current_device())
    return resolved
