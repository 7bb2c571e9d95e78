"""Between host and device: copies up that nobody waits for, and one copy down for many arrays.

A blocking copy waits for all that was launched before it; a batch should wait once, for its answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """A host array on a device, queued behind what was launched there; on the CPU it shares its memory.

    The array may be written again as soon as this returns, except on the CPU.
    """
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor
    # torch keeps pinned memory until the copy has read it
    return tensor.pin_memory().to(device, non_blocking=True)


def to_host(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """Tensors of 4-byte elements on the host, in one transfer; waits for all that was launched before.

    On the CPU they share their memory where they are contiguous.
    """
    if not tensors or not tensors[0].is_cuda:
        return [tensor.numpy() for tensor in tensors]
    flat = torch.cat([tensor.contiguous().view(torch.int32).reshape(-1) for tensor in tensors]).cpu()
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [
        part.view(tensor.dtype).reshape(tensor.shape).numpy()
        for part, tensor in zip(parts, tensors, strict=True)
    ]
