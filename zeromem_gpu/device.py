"""The one place that decides on which device a memory computes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zeromem_gpu.errors import InvalidInput

if TYPE_CHECKING:
    import torch


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
