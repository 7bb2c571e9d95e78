"""Where the files of a model lie on this machine, without waiting for a hub that cannot be reached."""

from __future__ import annotations

import json
import threading
from hashlib import blake2b
from importlib import util
from pathlib import Path

from zeromem_gpu.errors import MissingDependency, ModelUnavailable

_WAIT_S = 2.0  # for the hub's first answer; huggingface_hub itself retries for 46 s
_WEIGHTS = (
    "model.safetensors",
    "pytorch_model.bin",
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
)


def model_directory(name: str) -> Path:
    """The directory of model `name`: a local path, the Hugging Face cache, or a fresh download.

    Raises `ModelUnavailable` within seconds when it is none of these, and `MissingDependency` without
    huggingface_hub.
    """
    local = Path(name).expanduser()
    if local.is_dir():
        if not has_weights(local):
            raise ModelUnavailable(f"{local} holds no model weights ({', '.join(_WEIGHTS[:2])}).")
        return local
    cached = _cached(name)
    if cached is not None:
        return cached
    reason = _unreachable(name)
    if reason:
        raise ModelUnavailable(
            f"The weights of {name} are not on this machine, and {reason}. Where there is a network: "
            f"`hf download {name}`, then copy that cache here; or give the path of a model directory; or "
            "encode elsewhere and pass the file with vectors=; or choose encoder 'minilm', which needs no "
            "download."
        )
    return _download(name)


def has_weights(directory: Path) -> bool:
    """Whether a model directory holds a configuration and weights; its modules may lie one level down."""
    configured = any((directory / file).is_file() for file in ("config.json", "modules.json"))
    return configured and any(
        (folder / file).is_file()
        for folder in (directory, *(path for path in directory.iterdir() if path.is_dir()))
        for file in _WEIGHTS
    )


def revision_of(directory: Path) -> str:
    """The commit of a directory in the Hugging Face cache, else a digest of its files' names and ends."""
    if directory.parent.name == "snapshots":
        return directory.name
    digest = blake2b(digest_size=8)
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.suffix in (".json", ".safetensors", ".bin", ".pt", ".model", ".txt"):
            digest.update(f"{path.relative_to(directory).as_posix()}:{path.stat().st_size}\n".encode())
            with path.open("rb") as file:  # the ends tell weights apart without reading gigabytes
                digest.update(file.read(1 << 20))
                file.seek(max(0, path.stat().st_size - (1 << 20)))
                digest.update(file.read(1 << 20))
    return digest.hexdigest()


def static_width(directory: Path) -> int | None:
    """D of a sentence-transformers directory, read from its configuration; None where it does not say."""
    width: int | None = None
    modules = directory / "modules.json"
    if not modules.is_file():
        return None
    for module in json.loads(modules.read_text(encoding="utf-8")):
        config = directory / module["path"] / "config.json"
        if not module["path"] or not config.is_file():
            continue
        values = json.loads(config.read_text(encoding="utf-8"))
        kind = module["type"].rsplit(".", 1)[-1]
        if kind == "Dense":
            width = int(values["out_features"])
        elif kind == "Pooling":
            modes = [key for key, on in values.items() if key.startswith("pooling_mode_") and on is True]
            size = values.get("word_embedding_dimension", values.get("embedding_dimension"))
            width = int(size) * max(1, len(modes)) if size is not None else None
    return width


def _cached(name: str) -> Path | None:
    if util.find_spec("huggingface_hub") is None:
        raise MissingDependency(
            f"huggingface_hub is needed to find {name!r}: pip install 'zeromem-gpu[encoders]'."
        )
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        raise ModelUnavailable(f"{name!r} is neither a model directory nor a Hugging Face name.") from None
    if not isinstance(found, str):
        return None
    directory = Path(found).parent
    return directory if has_weights(directory) else None


def _unreachable(name: str) -> str:
    """Why the hub does not offer `name`; "" when it answers that it does."""
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    answers: list[str] = []

    def ask() -> None:
        try:
            HfApi().model_info(name, timeout=_WAIT_S)
            answers.append("")
        except Exception as error:
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            answers.append(f"{constants.ENDPOINT} says: {first_line[:120]}")

    # a thread, because neither name resolution nor the client's own retries keep to a timeout
    asking = threading.Thread(target=ask, name="zeromem-hub", daemon=True)
    asking.start()
    asking.join(_WAIT_S + 1.0)
    return answers[0] if answers else f"{constants.ENDPOINT} cannot be reached"


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(name, ignore_patterns=["*.onnx", "*.h5", "*.msgpack", "onnx/*", "openvino/*"])
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelUnavailable(f"{name} could not be downloaded: {error}") from error
