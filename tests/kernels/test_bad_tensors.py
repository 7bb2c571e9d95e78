"""What the array operations say to arguments that they cannot take, in every form alike."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from tests.kernels.layout import float64, interpreted, pointer, stacked
from zeromem_kernels import pagerank as pagerank_module
from zeromem_kernels.activation import propagate
from zeromem_kernels.errors import InvalidTensor, NoDevice
from zeromem_kernels.fusion import fuse
from zeromem_kernels.gpu import launch
from zeromem_kernels.pagerank import Graph, is_sound, personalized_pagerank
from zeromem_kernels.reset import reset_vector
from zeromem_kernels.slices import build_slices
from zeromem_kernels.sweeps import sweeps_for
from zeromem_kernels.tiles import Axis, Csr, Tiles, on_triton, torch_forms, triton_forms
from zeromem_kernels.topk import TopK, ordered_topk

# a path of four nodes: 0 - 1 - 2 - 3, coloured 1, 2, 1, 2, none of colour 0
PATH = [(0, 1), (1, 2), (2, 3)]


def graph_of(edges: list[tuple[int, int]], directed: bool = False) -> tuple[Graph, np.ndarray]:
    """Four nodes; W and the float64 matrix of weights 1. Of a directed edge (i, j) row j holds i."""
    dense = np.zeros((4, 4))
    for i, j in edges:
        dense[i, j] = 1.0
        if not directed:
            dense[j, i] = 1.0
    incoming = dense.T
    row, column = np.nonzero(incoming)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=4))])
    csr = stacked([(indptr, column, np.ones(len(row)))])
    colours = torch.tensor([0, 2, 1, 3], dtype=torch.int32)
    return Graph(csr, torch.from_numpy(dense.sum(1)).float(), colours, torch.tensor([0, 0, 2, 4])), dense


AXIS = Tiles(torch.tensor([0]), 2).axis(pointer([4]))
RESET = torch.tensor([[1.0, 0.25], [0.0, 0.25], [0.0, 0.25], [0.0, 0.25]])
TOP = TopK(torch.ones((1, 3, 2)), torch.zeros((1, 3, 2), dtype=torch.int32))


def solve(**changed: Any) -> Any:
    given: dict[str, Any] = {
        "graph": graph_of(PATH)[0],
        "reset": RESET,
        "axis": AXIS,
        "hidden": None,
        "gamma": 0.6,
    }
    return personalized_pagerank(**given | changed)


def spread(**changed: Any) -> Any:
    table = graph_of(PATH)[0].weights
    given: dict[str, Any] = {
        "seeds": RESET, "similarity": RESET, "hidden": None, "incidence": table, "transposed": table,
        "sentences": AXIS, "entities": AXIS, "steps": 1, "floor": 0.0, "sentence_floor": 0.0,
        "exclude_self": False,
    }  # fmt: skip
    return propagate(**given | changed)


def reset(**changed: Any) -> Any:
    nodes = Tiles(torch.tensor([0]), 2).axis(pointer([8]))
    given: dict[str, Any] = {
        "eta": RESET,
        "prior": RESET,
        "entities": AXIS,
        "units": AXIS,
        "nodes": nodes,
        "entity_share": 0.5,
    }
    return reset_vector(**given | changed)


def top(**changed: Any) -> Any:
    return ordered_topk(**{"x": RESET, "axis": AXIS, "k": 2} | changed)


def mix(**changed: Any) -> Any:
    given: dict[str, Any] = {
        "graph": TOP,
        "hierarchy": TOP,
        "weight": torch.full((1, 2), 0.5),
        "axis": AXIS,
        "k": 2,
    }
    return fuse(**given | changed)


BAD: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "reset of float64": (
        solve, {"reset": RESET.double()}, r"reset: got float64 \[4, 2\] on cpu; .*float32",
    ),
    "reset of another shape": (solve, {"reset": RESET[:, :1].clone()}, r"reset: got float32 \[4, 1\]"),
    "reset of another order": (solve, {"reset": RESET.T.contiguous().T}, r"reset: got strides .*"),
    "reset on another device": (solve, {"reset": RESET.to("meta")}, "reset: got .* on meta; .* on cpu"),
    "reset that is no tensor": (solve, {"reset": [[1.0]]}, "reset: got list"),
    "hidden of bytes": (solve, {"hidden": torch.zeros((4, 2)).byte()}, r"hidden: got uint8 .*bool"),
    "gamma of 1": (solve, {"gamma": 1.0}, r"gamma: got 1.0; allowed: a number in \[0, 1\)"),
    "gamma of NaN": (solve, {"gamma": float("nan")}, "gamma: got nan"),
    "tolerance of 0": (solve, {"tolerance": 0.0}, "tolerance: got 0.0"),
    "solver unknown": (solve, {"solver": "jacobi"}, "solver: got 'jacobi'; allowed: one of sor, power"),
    "storage unknown": (solve, {"storage": torch.bfloat16}, "storage: got torch.bfloat16"),
    "no sweeps": (solve, {"sweeps": 0}, "sweeps: got 0"),
    "half a sweep": (solve, {"sweeps": 2.5}, "sweeps: got 2.5; allowed: a whole number"),
    "colours of another graph": (
        solve, {"graph": graph_of(PATH)[0]._replace(colour_rows=torch.zeros(1).int())}, "graph.colour_rows",
    ),
    "half a step": (spread, {"steps": 1.5}, "steps: got 1.5"),
    "nodes of other tiles": (reset, {"nodes": AXIS}, "nodes: got an axis of 4 rows"),
    "k of 1.5": (top, {"k": 1.5}, "k: got 1.5"),
    "degree of another graph": (
        solve, {"graph": graph_of(PATH)[0]._replace(degree=torch.ones(3))}, r"graph.degree: got float32",
    ),
    "seeds of another width": (spread, {"seeds": RESET[:, :1].contiguous()}, "seeds: got"),
    "similarity of half": (spread, {"similarity": RESET.half()}, "similarity: got float16"),
    "hidden of another shape": (spread, {"hidden": torch.zeros((3, 2)).bool()}, "hidden: got bool"),
    "steps below 0": (spread, {"steps": -1}, "steps: got -1"),
    "floor above 1": (spread, {"floor": 1.5}, "floor: got 1.5"),
    "sentence floor of text": (spread, {"sentence_floor": "0.5"}, "sentence_floor: got '0.5'"),
    "prior of another shape": (reset, {"prior": RESET[:3]}, "prior: got float32"),
    "eta of integers": (reset, {"eta": RESET.int()}, "eta: got int32"),
    "share above 1": (reset, {"entity_share": 2}, "entity_share: got 2"),
    "scores of half": (top, {"x": RESET.half()}, "x: got float16"),
    "k below 0": (top, {"k": -1}, "k: got -1"),
    "rows of int64": (mix, {"graph": TOP._replace(rows=TOP.rows.long())}, "graph.rows: got int64"),
    "scores of another shape": (mix, {"hierarchy": TOP._replace(scores=RESET)}, "hierarchy.scores: got"),
    "weight of another shape": (mix, {"weight": torch.ones((2, 2))}, "weight: got"),
}  # fmt: skip


@pytest.mark.parametrize("form", ["compiled", "torch", "triton"])
@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named(name: str, form: str) -> None:
    call, changed, message = BAD[name]
    run = {"compiled": _compiled, "torch": _torch, "triton": interpreted}[form]
    with pytest.raises(InvalidTensor, match=message):
        run(lambda: call(**changed))
    if form != "triton":
        run(call)  # as given it is taken


def _torch(call: Callable[[], Any]) -> Any:
    with torch_forms():
        return call()


def _compiled(call: Callable[[], Any]) -> Any:
    return call()


every_form = pytest.mark.parametrize(
    "form", [_compiled, _torch, interpreted], ids=["compiled", "torch", "triton"]
)


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([0, 2, 3], [0, 1, 2], "the id 2 at entry 2; allowed: 0 to 1"),
        ([0, 2, 3], [0, -1, 1], "the id -1 at entry 1"),
        ([0, 3, 2], [0, 1, 1], "does not ascend"),
        ([0, 3], [0, 1, 1], "does not ascend"),
        ([0, 2, 4], [0, 1, 1], "does not ascend"),
    ],
)
def test_ids_out_of_range_do_not_become_slices(indptr: list[int], indices: list[int], message: str) -> None:
    with pytest.raises(InvalidTensor, match=message):
        build_slices(
            torch.tensor(indptr), torch.tensor(indices, dtype=torch.int32), torch.ones(len(indices)),
            pointer([2]), pointer([2]),
        )  # fmt: skip


def test_a_tile_of_two_billion_elements_is_refused() -> None:
    axis = Tiles(torch.tensor([0]), 128).axis(pointer([1 << 24]))
    with pytest.raises(InvalidTensor, match=r"axis: got a tile of 16777216 rows and 128 columns.*2\^31"):
        launch.check_size(axis)
    launch.check_size(Tiles(torch.tensor([0]), 64).axis(axis.ptr))


@pytest.mark.parametrize(
    "form", [_torch, interpreted, lambda call: call()], ids=["torch", "triton", "compiled"]
)
def test_an_empty_batch_gives_empty_results(form: Callable[..., Any]) -> None:
    axis = Tiles(torch.zeros(0, dtype=torch.int64), 4).axis(pointer([4]))
    nothing = torch.empty((0, 4))
    empty = TopK(torch.empty((0, 3, 4)), torch.empty((0, 3, 4), dtype=torch.int32))
    assert form(lambda: solve(reset=nothing, axis=axis)).pi.shape == (0, 4)
    assert form(lambda: solve(reset=nothing, axis=axis, storage=torch.float16)).sweeps.shape == (0, 4)
    assert form(lambda: spread(seeds=nothing, similarity=nothing, sentences=axis, entities=axis)).shape == (
        0,
        4,
    )
    assert form(lambda: top(x=nothing, axis=axis)).rows.shape == (0, 2, 4)
    assert form(
        lambda: mix(graph=empty, hierarchy=empty, weight=torch.empty((0, 4)), axis=axis)
    ).rows.shape == (0, 2, 4)
    built = form(lambda: reset(eta=nothing, prior=nothing, entities=axis, units=axis, nodes=axis))
    assert built.shape == (0, 4)


@pytest.mark.parametrize(
    "form", [_torch, interpreted, lambda call: call()], ids=["torch", "triton", "compiled"]
)
def test_nan_stays_in_its_own_column(form: Callable[..., Any]) -> None:
    poisoned = RESET.clone()
    poisoned[1, 0] = torch.nan
    clean = form(lambda: solve(reset=RESET, sweeps=9)).pi
    found = form(lambda: solve(reset=poisoned, sweeps=9)).pi
    assert found[:, 0].isnan().any()
    assert torch.equal(found[:, 1], clean[:, 1])
    assert form(lambda: top(x=poisoned, k=4)).rows[0, :, 0].tolist() == [0, 2, 3, -1]


# node 3 passes nothing on
DIRECTED = [(0, 1), (1, 2), (2, 0), (0, 3)]


@pytest.mark.parametrize(
    "form", [_torch, interpreted, lambda call: call()], ids=["torch", "triton", "compiled"]
)
def test_sor_on_directed_edges_becomes_power_iteration_and_says_so_once(
    form: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    graph, dense = graph_of(DIRECTED, directed=True)
    assert not is_sound(graph, AXIS.ptr)
    pagerank_module._say_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        found = [form(lambda: solve(graph=graph, gamma=0.3)) for _ in range(2)]
    assert [record.message for record in caplog.records].count(caplog.records[0].message) == 1
    assert "power iteration in place of SOR" in caplog.text
    for c in range(2):
        system = np.eye(4) - 0.3 * (dense / np.maximum(dense.sum(1, keepdims=True), 1.0)).T
        expected = np.linalg.solve(system, 0.7 * float64(RESET[:, c]))
        np.testing.assert_allclose(found[0].pi[:, c].numpy(), expected / expected.sum(), atol=2e-6)


def test_soundness_sees_weights_and_colours() -> None:
    graph, _ = graph_of(PATH)
    assert is_sound(graph, AXIS.ptr)
    weights = graph.weights.weights.clone()
    weights[0] = 2.0
    lopsided = Csr(graph.weights.indptr, graph.weights.indices, weights)
    assert not is_sound(graph._replace(weights=lopsided), AXIS.ptr)
    # two rows without a colour
    twice = torch.tensor([0, 0, 1, 1], dtype=torch.int32)
    assert not is_sound(graph._replace(colour_rows=twice), AXIS.ptr)
    # 0 and 1 are neighbours and now of one colour
    assert not is_sound(graph._replace(colour_rows=torch.tensor([0, 1, 2, 3], dtype=torch.int32)), AXIS.ptr)


def test_sweeps_grow_with_gamma_and_precision() -> None:
    assert sweeps_for(0.6, 1e-6, "power") == 28
    assert sweeps_for(0.6, 1e-6, "sor") == 9
    assert sweeps_for(0.0, 1e-6, "sor") == sweeps_for(0.0, 1e-6, "power") == 1
    counts = [sweeps_for(gamma, 1e-6, "sor") for gamma in (0.2, 0.6, 0.9, 0.99)]
    assert counts == sorted(counts)


def cuda_like() -> Any:
    """What `on_triton` looks at of a tensor on the first CUDA device."""
    return mock.Mock(is_cuda=True, device=torch.device("cuda", 0))


def test_a_gpu_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from zeromem_kernels import tiles

    tiles._fit_for_triton.cache_clear()
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "GTX 1080")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (6, 1))
    with pytest.raises(NoDevice, match=r"GTX 1080 has compute capability 6\.1; the kernels need 8\.0"):
        on_triton(cuda_like())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (8, 9))
    assert on_triton(cuda_like())
    tiles._fit_for_triton.cache_clear()


def test_cuda_without_triton_takes_the_torch_forms_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from zeromem_kernels import tiles

    tiles._fit_for_triton.cache_clear()
    monkeypatch.setattr(tiles, "find_spec", lambda name: None)
    assert not on_triton(cuda_like())
    assert not on_triton(cuda_like())
    (record,) = caplog.records
    assert "pip install 'zeromem-gpu[cuda]'" in record.getMessage()
    tiles._fit_for_triton.cache_clear()


def test_a_gpu_too_full_is_named() -> None:
    def full(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    graph = graph_of(PATH)[0]._replace(sound=True)
    with (
        mock.patch.object(torch, "empty", full),
        mock.patch.object(torch, "empty_like", full),
        triton_forms(),
    ):
        with pytest.raises(
            NoDevice, match=r"cpu is too full for PageRank of 4 rows of 2 columns .*smaller"
        ):
            solve(graph=graph)
        with pytest.raises(NoDevice, match="too full for activation"):
            spread()


def test_a_launch_without_a_driver_speaks_plainly() -> None:
    class Kernel:
        def __getitem__(self, grid: tuple[int]) -> Any:
            def run(*args: Any, **meta: Any) -> None:
                raise RuntimeError("0 active drivers ([]). There should only be one.")

            return run

    with pytest.raises(NoDevice, match="no GPU driver"):
        launch.launch(Kernel(), 1)
    launch.launch(Kernel(), 0)  # nothing to launch


def test_waves_cover_the_tiles_once_and_fit() -> None:
    sizes = [5, 0, 7, 100, 1, 1, 0, 3]
    axis = Axis(Tiles(torch.arange(8), 1), pointer(sizes), pointer(sizes))
    with mock.patch.object(launch, "_L2_BYTES", 40):
        found = list(launch.waves(axis.host_starts, 4, torch.device("cpu")))
    assert len(found) < 8
    covered = [tile for wave in found for tile in range(wave.first, wave.first + wave.size)]
    assert covered == list(range(8))
    for wave in found:
        rows = sum(sizes[wave.first : wave.first + wave.size])
        assert wave.size == 1 or rows <= 7
