"""The models of a memory, loaded when first needed, and the fingerprint that ties an index to them."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zeromem_gpu.build.ingest import Tools
from zeromem_gpu.cache import DiskCache, default_cache_dir
from zeromem_gpu.config import Config
from zeromem_gpu.encoders import export_vectors, resolve_encoder
from zeromem_gpu.encoders.protocol import Encoder
from zeromem_gpu.encoders.vector_file import vector_namespace
from zeromem_gpu.errors import InvalidInput, StoreError
from zeromem_gpu.query.profile import Profiler
from zeromem_gpu.text.entities import CachedExtractor, EntityExtractor, SpacyExtractor
from zeromem_gpu.text.tokens import Analyzer

# banks with an extractor of their own, in a fingerprint
NER_OF_BANKS = "ner_of_banks"
# "minilm", or a name on the Hugging Face hub: owner/model; "plain:" before it names another form of it
_MODEL_NAME = re.compile(r"(plain:)?[\w-][\w.-]*(/[\w-][\w.-]*)?")


class Toolbox:
    """Encoder, entity extractor, analyzer and profiler of one memory."""

    def __init__(
        self,
        config: Config,
        encoder: str | Encoder,
        device: str,
        vectors: Path | None,
        cache_dir: str | Path | bool | None,
        extractor: EntityExtractor | Mapping[str, EntityExtractor] | None,
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._device = device
        self._vectors = vectors
        self._cache = None if cache_dir is False else DiskCache(_cache_path(cache_dir))
        self._extractor = None if isinstance(extractor, Mapping) else extractor
        self._bank_extractors = dict(extractor) if isinstance(extractor, Mapping) else {}
        self._expected: dict[str, Any] | None = None
        self._named_by_index = False
        self._tools: Tools | None = None
        self._profiler: Profiler | None = None
        self._lock = threading.Lock()

    def expect(self, fingerprint: Mapping[str, Any], *, named_by_index: bool = False) -> None:
        """Belong to an opened index: tools that differ from its fingerprint are refused by name.

        Where it is the index that named the encoder, the name of a directory is refused as well.
        """
        self._expected = dict(fingerprint)
        self._named_by_index = named_by_index

    def tools(self) -> Tools:
        """What reads text; loads the models at the first call."""
        with self._lock:
            if self._tools is None:
                if self._named_by_index and self._vectors is None:
                    _refuse_path(self._encoder)
                encoder = resolve_encoder(
                    self._encoder, device=self._device, vectors=self._vectors, cache=self._cache
                )
                extractor = self._extractor or SpacyExtractor(
                    self._config.ner_model, capitalised=self._config.capitalised_entities
                )
                tools = Tools(
                    encoder,
                    self._kept(extractor),
                    Analyzer(self._config.stemmer),
                    {bank: self._kept(one) for bank, one in self._bank_extractors.items()},
                )
                _compare(_fingerprint(tools), self._expected or {})
                self._tools = tools
            return self._tools

    def _kept(self, extractor: EntityExtractor) -> EntityExtractor:
        """Behind the cache, where there is one."""
        return extractor if self._cache is None else CachedExtractor(extractor, self._cache)

    def profiler(self) -> Profiler:
        """What reads questions; loads spaCy at the first one."""
        with self._lock:
            if self._profiler is None:
                self._profiler = Profiler(self._config.ner_model, self._config.timezone)
            return self._profiler

    def fingerprint(self) -> dict[str, Any]:
        """Names and versions of everything that read the index's text; an opened index knows its own."""
        if self._expected is None:
            return _fingerprint(self.tools())
        told = dict(self._expected)
        if self._bank_extractors:  # a bank that was added since may have brought its own
            told[NER_OF_BANKS] = told.get(NER_OF_BANKS, {}) | _fingerprint(self.tools())[NER_OF_BANKS]
        return told

    def export_vectors(self, path: Path) -> int:
        """Write the encoder's cached vectors to a file that `vectors=` reads; returns how many."""
        if self._cache is None:
            raise InvalidInput("cache_dir", "False", "a cache to export from")
        encoder = self.tools().encoder
        namespace = vector_namespace(encoder)
        if next(self._cache.items(namespace), None) is None:
            got = f"a cache in {self._cache.path.parent} without vectors of {encoder.fingerprint}"
            raise InvalidInput("cache_dir", got, "some", "Index and search the data with this cache first.")
        return export_vectors(path, self._cache, encoder)


def _fingerprint(tools: Tools) -> dict[str, Any]:
    of_banks = {bank: one.fingerprint for bank, one in sorted(tools.bank_extractors.items())}
    return {
        "encoder": tools.encoder.name,
        "encoder_fingerprint": tools.encoder.fingerprint,
        "dim": tools.encoder.dim,
        "ner": tools.extractor.fingerprint,
        "words": tools.analyzer.fingerprint,
        **({NER_OF_BANKS: of_banks} if of_banks else {}),
    }


def _compare(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse tools other than those that built the index."""
    for name, argument in (("encoder_fingerprint", "encoder"), ("ner", "extractor"), ("words", "stemmer")):
        wanted = expected.get(name, found[name])
        if wanted != found[name]:
            raise InvalidInput(
                argument, repr(found[name]), f"{wanted!r}, which built this index",
                "Open it with the same one, or index the traces again into a new directory.",
            )  # fmt: skip
    for bank, wanted in expected.get(NER_OF_BANKS, {}).items():
        other = found.get(NER_OF_BANKS, {}).get(bank, found["ner"])
        if wanted != other:
            raise InvalidInput(
                "extractor", repr(other), f"{wanted!r} for bank {bank!r}, which built it",
                f"Open the index with extractor={{{bank!r}: …}}, or index the traces again.",
            )  # fmt: skip


def _refuse_path(encoder: str | Encoder) -> None:
    """An index comes from somebody: it may name a model, and its reader says which folders to load from."""
    if isinstance(encoder, str) and not _MODEL_NAME.fullmatch(encoder):
        raise StoreError(
            f"The index names the encoder {encoder!r}, a directory. If you trust it, open the index with "
            "encoder= and that path (--encoder on the command line)."
        )


def _cache_path(cache_dir: str | Path | bool | None) -> Path:
    return default_cache_dir() if cache_dir in (None, True) else Path(str(cache_dir))
