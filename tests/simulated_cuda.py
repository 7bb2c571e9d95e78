"""A CUDA device for machines without one: its tensors say `cuda:0`, what is done to them runs on the CPU.

Code takes the very path that it takes on a card, kernels run in Triton's interpreter, and `Device` counts
what makes the host wait there. A tensor of the host among those of the device is an error, as on a card.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import triton.runtime.interpreter as interpreter
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

WHERE = torch.device("cuda:0")
aten = torch.ops.aten
# operations whose result's size only the device knows: the host waits to learn it
_SIZED_BY_VALUES = {
    aten.nonzero, aten.masked_select, aten._unique2, aten.unique_dim, aten.unique_consecutive,
    aten.unique_dim_consecutive, aten.bincount,
}  # fmt: skip
_INDEXED = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
_KEPT = "_kept_on_the_device"


class OnDevice(torch.Tensor):
    """A tensor of the simulated device; `inner` holds its values."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> OnDevice:
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, device="meta",  # a torch without CUDA cannot guard a CUDA tensor
        )  # fmt: skip
        made.inner = inner
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return WHERE

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} on a tensor of a simulated device that was left")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")

    def data_ptr(self) -> int:
        return self.inner.data_ptr()


class Device(TorchDispatchMode):
    """Runs operations on the device. `waits` counts what made the host wait, by the line that did it.

    `failing` says how often an operation or a kernel of Triton's, by name, finds no memory left.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.failing: Counter[str] = Counter()
        # what runs again in a replay, while a graph is captured
        self.capturing: list[Callable[[], None]] | None = None
        self.launches = self.replays = 0

    def wait(self, why: str) -> None:
        if self.capturing is not None:
            raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing: {why}")
        stack = [one for one in traceback.extract_stack() if "/zeromem_" in one.filename]
        # not the helper that expands lists for others
        here = [one for one in stack if one.name != "expand"]
        line = f"{here[-1].filename.rpartition('/')[2]}:{here[-1].lineno}" if here else "a test"
        self.waits[f"{line} {why}"] += 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        here = any(isinstance(one, OnDevice) for one in given)
        packet, asked = func.overloadpacket, kwargs.get("device")
        to = here if asked is None else torch.device(asked).type == "cuda"
        if packet in (aten._to_copy, aten.copy_):
            self._copied(packet, given, to, kwargs)
        elif here:
            self._check(func, given)
            self._waits_for(packet, args, kwargs)
        self.operations[str(packet)] += here or to
        self._fails(str(packet))
        out = self._run(func, tree_map(_inner, args), tree_map(_inner, kwargs))
        if packet is aten._local_scalar_dense:
            return out
        return tree_map(lambda one: OnDevice(one) if to and _is(one) else one, out)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        if self.capturing is not None:
            held = {one.untyped_storage().data_ptr() for one in tree_leaves((args, kwargs)) if _is(one)}
            fresh = [at for at, one in enumerate(tree_leaves(out)) if _is(one) and _store(one) not in held]

            def again() -> None:
                made, kept = tree_leaves(func(*args, **kwargs)), tree_leaves(out)
                for at in fresh:
                    kept[at].copy_(made[at])

            self.capturing.append(again)
        return out

    def launch(self, name: str, run: Callable[[], None]) -> None:
        """A kernel of Triton's."""
        self._fails(name)
        self.launches += 1
        run()
        if self.capturing is not None:
            self.capturing.append(run)

    def _fails(self, name: str) -> None:
        if self.failing[name] > 0:
            self.failing[name] -= 1
            raise torch.cuda.OutOfMemoryError(f"CUDA out of memory. Tried to allocate 20.00 MiB for {name}")

    def _check(self, func: Any, given: list[torch.Tensor]) -> None:
        host = [one for one in given if not isinstance(one, OnDevice) and one.dim() > 0]
        if host:
            raise RuntimeError(f"{func}: expected all tensors to be on the same device, cuda:0 and cpu")

    def _copied(self, packet: Any, given: list[torch.Tensor], to: bool, kwargs: dict[str, Any]) -> None:
        source = given[-1] if packet is aten.copy_ else given[0]
        from_device = isinstance(source, OnDevice)
        if packet is aten.copy_:
            to = isinstance(given[0], OnDevice)
        if to and not from_device and self.capturing is not None:
            self.wait("copies from the host")
        if from_device and not to:
            self.wait("reads the device")
        elif to and not from_device and not (kwargs.get("non_blocking") and hasattr(source, "pinned")):
            self.wait("copies from memory that is not pinned")

    def _waits_for(self, packet: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if packet is aten._local_scalar_dense:
            self.wait("reads a value")
        elif packet is aten.equal:
            self.wait("compares tensors")
        elif packet in _SIZED_BY_VALUES:
            self.wait(f"{packet} sizes its result by values")
        elif packet is aten.repeat_interleave and kwargs.get("output_size") is None:
            self.wait("repeat_interleave without output_size")
        elif packet in _INDEXED and any(
            one is not None and one.dtype in (torch.bool, torch.uint8) for one in args[1]
        ):
            self.wait("indexes by a mask")


def _is(one: Any) -> bool:
    return isinstance(one, torch.Tensor)


def _store(one: torch.Tensor) -> int:
    return one.untyped_storage().data_ptr()


def _inner(one: Any) -> Any:
    if isinstance(one, OnDevice):
        return one.inner
    return torch.device("cpu") if isinstance(one, torch.device) else one


class Event:
    """Counts in milliseconds what was recorded before it."""

    count = 0

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0

    def record(self, stream: Any = None) -> None:
        Event.count += 1
        self.at = Event.count

    def elapsed_time(self, other: Event) -> float:
        return float(other.at - self.at)


class Graph:
    """A CUDA graph: its operations run again, on the memory that they had."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.operations: list[Callable[[], None]] = []

    def replay(self) -> None:
        self.device.replays += 1
        with _disable_current_modes():
            for operation in self.operations:
                operation()


@contextmanager
def simulated_cuda() -> Iterator[Device]:
    """Within this block torch has one CUDA device of compute capability 8.9."""
    device = Device()
    grid = interpreter.GridExecutor.__call__

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = tree_map(_inner, args), tree_map(_inner, kwargs)

        def once() -> None:
            with _disable_current_modes():
                grid(self, *given[0], **given[1])

        device.launch(self.fn.__name__, once)

    def pinned(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.clone()
        copy.pinned = True  # type: ignore[attr-defined]
        return copy

    @contextmanager
    def capture(graph: Graph, **_: Any) -> Iterator[None]:
        device.capturing = graph.operations
        try:
            yield
        finally:
            device.capturing = None

    stream = SimpleNamespace(wait_stream=lambda _: None)
    facts = SimpleNamespace(L2_cache_size=72 << 20, total_memory=24 << 30, name="simulated")
    cuda: dict[str, Callable[..., Any]] = {
        "_lazy_init": lambda: None, "is_available": lambda: True, "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda *_: (8, 9), "get_device_properties": lambda *_: facts,
        "get_device_name": lambda *_: "simulated", "device": lambda *_: nullcontext(),
        "mem_get_info": lambda *_: (0, 24 << 30), "empty_cache": lambda: None,
        "synchronize": lambda *_: None, "Event": Event, "CUDAGraph": lambda: Graph(device),
        "graph": capture, "graph_pool_handle": lambda: (0, 0), "Stream": lambda *_: stream,
        "current_stream": lambda *_: stream, "stream": lambda _: nullcontext(),
    }  # fmt: skip
    with (
        mock.patch.multiple(torch.cuda, **cuda),
        mock.patch.object(interpreter.GridExecutor, "__call__", run),
        mock.patch.object(torch.Tensor, "pin_memory", pinned),
        device,
    ):
        # torch.tensor(…, device="cuda") makes it on the CPU and copies, as it does for torch's fake tensors
        torch._C._set_only_lift_cpu_tensors(True)
        try:
            yield device
        finally:
            torch._C._set_only_lift_cpu_tensors(False)
