"""How large an index of some traces will be, from a sample of them and without a model."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zeromem_gpu.build.facts import schema
from zeromem_gpu.build.texts import Words
from zeromem_gpu.config import Config
from zeromem_gpu.text.capitalised import capitalised_names
from zeromem_gpu.text.normalize import clean, entity_name
from zeromem_gpu.text.sentences import split_sentences, split_units
from zeromem_gpu.text.tokens import Analyzer
from zeromem_gpu.types import Trace

logger = logging.getLogger(__name__)

REPORTED_TRACES = 10_000  # smaller builds are not worth a line
_SAMPLE = 1000
# a Trace with its short strings and its place in two dictionaries; measured, without the text
_TRACE_BYTES = 900
# what a search holds of each word: stream, positions, postings of four levels; measured, rounded up
_WORD_BYTES = 60
# and of each token weight: its place in the postings, twice while banks stand side by side
_WEIGHT_BYTES = 16


@dataclass(frozen=True, slots=True)
class SizeReport:
    """What an index of some traces will hold, estimated.

    `vocabulary` are the distinct words of each bank, which have a vector each; `weights` are the token
    weights of units, where they are kept. `encoded` are texts that go to the encoder. `facts_bytes` is what
    the index keeps in memory, `search_bytes` what its searches make of it on their device, `disk_bytes`
    what a save writes; a folder keeps two of them.
    """

    traces: int
    banks: int
    units: int
    sentences: int
    words: int
    vocabulary: int
    weights: int
    entities: int
    encoded: int
    facts_bytes: int
    search_bytes: int
    disk_bytes: int


def estimate_size(traces: Sequence[Trace], config: Config, dim: int) -> SizeReport:
    """Sizes from a drawn sample of at most a thousand traces; `dim` is the encoder's width.

    Entities are capitalised names, told apart within the sample: of a large build there will be fewer.
    The vocabulary grows beyond the sample as it did from half of the sample to the whole.
    """
    # banks or speakers that take turns would be in step with every n-th trace
    drawn = np.random.default_rng(0).permutation(len(traces))[:_SAMPLE]
    sample = [traces[at] for at in drawn]
    analyzer = Analyzer(config.stemmer)
    units = sentences = words = mentions = characters = 0
    names: set[tuple[str, str]] = set()
    heard: tuple[set[tuple[str, str]], ...] = (set(), set())
    for at, trace in enumerate(sample):
        text = clean(trace.text)
        characters += len(text)
        for start, end in split_units(text, config.unit_chars):
            unit = text[start:end]
            found = [entity_name(unit[a:b]) for a, b in capitalised_names(unit, [])]
            found += [entity_name(name) for name in (*trace.entities, trace.speaker or "") if name]
            names.update((trace.bank, name) for name in found)
            units, mentions = units + 1, mentions + len(found)
            sentences += len(split_sentences(unit))
            words += len(analyzer.tokens(unit))
            for part in (unit, trace.speaker or "", trace.caption or ""):
                heard[at % 2].update((trace.bank, term) for term in Words.of(part, analyzer).terms)
    scale = len(traces) / max(len(sample), 1)
    terms = set().union(*heard)
    more = scale ** _growth(len(terms), sum(map(len, heard)) / 2)
    rows = {
        "traces": len(traces), "units": units * scale, "tokens": words * scale,
        "sentences": sentences * scale, "mentions": mentions * scale,
        "sentence_entities": mentions * scale, "entities": len(names) * scale,
        "terms": len(terms) * more,
        # about a token a word, of which those without a weight are left out
        "learned": words * scale if config.learned_weights else 0,
    }  # fmt: skip
    arrays = sum(rows.get(table, 0) * _row_bytes(table, dim) for table in schema(dim))
    vectors = 4 * dim * sum(rows[table] for table in ("units", "sentences", "entities", "terms"))
    # a word that several banks hold is encoded once
    spelt = len({term for _, term in terms}) * more
    texts = characters * scale
    return SizeReport(
        traces=len(traces), banks=len({trace.bank for trace in traces}), units=round(rows["units"]),
        sentences=round(rows["sentences"]), words=round(rows["tokens"]), vocabulary=round(rows["terms"]),
        weights=round(rows["learned"]), entities=round(rows["entities"]),
        encoded=round(rows["units"] + rows["sentences"] + rows["entities"] + spelt),
        facts_bytes=round(arrays + texts + len(traces) * _TRACE_BYTES),
        search_bytes=round(vectors + rows["tokens"] * _WORD_BYTES + rows["learned"] * _WEIGHT_BYTES),
        disk_bytes=round(arrays + texts / 2),
    )  # fmt: skip


def announce(traces: Sequence[Trace], config: Config, dim: int) -> None:
    """Log the size of a large build before it begins, as a warning where it exceeds `host_bytes`."""
    if len(traces) < REPORTED_TRACES:
        return
    size = estimate_size(traces, config, dim)
    large = size.facts_bytes + size.search_bytes > config.host_bytes
    logger.log(
        logging.WARNING if large else logging.INFO,
        "adding %d traces in %d banks: about %d MB in memory, %d MB more to search them, %d MB on disk%s",
        size.traces, size.banks, size.facts_bytes >> 20, size.search_bytes >> 20, size.disk_bytes >> 20,
        f"; host_bytes is {config.host_bytes >> 20} MB" if large else "",
    )  # fmt: skip


def _growth(whole: int, half: float) -> float:
    """The exponent by which a vocabulary grows with its text, from two sizes; 0 … 1."""
    return math.log2(whole / half) if whole and half else 0.0


def _row_bytes(table: str, dim: int) -> int:
    """Bytes of one row in the arrays of a table; a text counts with its reference."""
    return sum(
        np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        for dtype, shape in schema(dim)[table].values()
    )
