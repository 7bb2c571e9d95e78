"""CUDA graphs by shape: a function that asks the device nothing, launched whole when its shapes return.

A search of a small bank is some thousand launches of a few microseconds of work each; a graph of them is
one. A graph reads its inputs where they lay when it was captured, so that they are copied there before each
replay, and its results are copied out behind it.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

Matrices = dict[str, Tensor]
Call = Callable[[Matrices], Matrices]
# capture a call without running it: what replays it, and its results, which each replay fills anew
Capture = Callable[[Callable[[], Matrices]], tuple[Callable[[], None], Matrices]]

# a capture costs some hundred ordinary calls: shapes that come once or twice are not worth it
_CAPTURED_AT = 3
_MOST_SEEN = 1024


@dataclass(eq=False)
class _Graph:
    """A captured call; `call` owns what else its kernels read."""

    owner: object
    size: int
    inputs: Matrices
    outputs: Matrices
    replay: Callable[[], None]
    call: Call


class Replays:
    """At most `most` graphs of at most `most_bytes` of working memory together; those used last stay."""

    def __init__(self, most: int = 8, most_bytes: int = 2 << 30, capture: Capture | None = None) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._capture = capture or CudaCapture()
        self._graphs: OrderedDict[Hashable, _Graph] = OrderedDict()
        # how often a shape came that has no graph; −1 for one that cannot have any
        self._seen: OrderedDict[Hashable, int] = OrderedDict()
        self._said = False
        # one graph at a time: all of them share their memory
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many graphs there are."""
        return len(self._graphs)

    def run(self, owner: object, key: Hashable, size: int, inputs: Matrices, call: Call) -> Matrices:
        """`call(inputs)`, replayed where that was captured.

        Args:
            owner: whose tensors `call` reads; `drop(owner)` ends all of its graphs.
            key: what else the call depends on, the owner aside: equal keys with inputs of equal names,
                shapes and dtypes must launch the same.
            size: bytes of working memory that the call takes.
            inputs: the tensors of the call; it may read them only.
            call: what to run. It must not ask the device anything, copy from the host, or keep results.

        Returns:
            What it returns, in memory that no later call writes.
        """
        shapes = tuple((name, tuple(one.shape), one.dtype) for name, one in sorted(inputs.items()))
        whole = (id(owner), key, shapes)
        with self._lock:
            graph = self._graphs.get(whole)
            if graph is None and self._worth_it(whole, size):
                graph = self._captured(whole, owner, size, inputs, call)
            if graph is not None:
                self._graphs.move_to_end(whole)
                for name, given in inputs.items():
                    graph.inputs[name].copy_(given)
                graph.replay()
                return {name: one.clone() for name, one in graph.outputs.items()}
        return call(inputs)

    def drop(self, owner: object | None = None) -> None:
        """End all graphs of an owner, or all there are."""
        with self._lock:
            for key in [key for key, one in self._graphs.items() if owner in (None, one.owner)]:
                del self._graphs[key]
            # an id may be taken again
            self._seen.clear()

    def _worth_it(self, key: Hashable, size: int) -> bool:
        seen = self._seen.pop(key, 0)
        self._seen[key] = seen if seen < 0 else seen + 1
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)
        return seen + 1 >= _CAPTURED_AT and size <= self._most_bytes

    def _captured(
        self, key: Hashable, owner: object, size: int, inputs: Mapping[str, Tensor], call: Call
    ) -> _Graph | None:  # fmt: skip
        """A new graph, for which others make room; None where the call cannot be captured."""
        while self._graphs and (
            len(self._graphs) >= self._most
            or size + sum(one.size for one in self._graphs.values()) > self._most_bytes
        ):
            self._graphs.popitem(last=False)
        static = {name: one.clone() for name, one in inputs.items()}
        try:
            replay, outputs = self._capture(lambda: call(static))
        except Exception as error:
            self._seen[key] = -1
            if not self._said:
                self._said = True
                logger.warning(
                    "no CUDA graph of this search (%s: %s): it is launched kernel by kernel (said once)",
                    type(error).__name__, str(error).partition("\n")[0],
                )  # fmt: skip
            return None
        del self._seen[key]
        self._graphs[key] = _Graph(owner, size, static, outputs, replay, call)
        return self._graphs[key]


class CudaCapture:
    """Captures into one pool of memory."""

    def __init__(self) -> None:
        self._pool: Any = None

    def __call__(self, call: Callable[[], Matrices]) -> tuple[Callable[[], None], Matrices]:
        """Warm up, which compiles kernels and makes what is made once, then capture."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # other threads may go on with theirs
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            outputs = call()
        return graph.replay, outputs
