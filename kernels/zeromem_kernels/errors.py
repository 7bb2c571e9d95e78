"""What the kernels raise for bad input."""

from __future__ import annotations


class InvalidTensor(ValueError):
    """An argument that no kernel can take: names it, what came and what is allowed."""

    def __init__(self, name: str, got: str, allowed: str) -> None:
        super().__init__(f"{name}: got {got}; allowed: {allowed}.")
        self.name = name


class NoDevice(RuntimeError):
    """CUDA was asked for where there is none, or one that is too old or too full."""
