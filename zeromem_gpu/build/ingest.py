"""From checked traces to facts: units, words, entities and vectors, appended bank by bank.

Everything that can fail (reading, NER, encoding) happens before the first row is written, and what is
written becomes visible only as a new `MemoryIndex`: a failed `add` leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from zeromem_gpu.build.arena import Span
from zeromem_gpu.build.check import CheckedTrace, same_content
from zeromem_gpu.build.facts import CAPTION_PART, SPEAKER_PART, Bank, MemoryIndex
from zeromem_gpu.build.spans import encode_spans, unit_text
from zeromem_gpu.config import Config
from zeromem_gpu.encoders.protocol import Encoder, checked_encode
from zeromem_gpu.text.entities import EntityExtractor, Mention, type_mask
from zeromem_gpu.text.normalize import clean, entity_name
from zeromem_gpu.text.sentences import split_sentences, split_units
from zeromem_gpu.text.tokens import Analyzer, term_key, term_keys
from zeromem_gpu.types import Trace


@dataclass(frozen=True)
class Tools:
    """What reads text: the encoder, the entity extractor and the analyzer of one memory."""

    encoder: Encoder
    extractor: EntityExtractor
    analyzer: Analyzer


@dataclass
class Report:
    """What an `add` did; ids are trace ids, timings seconds (ner_s, encode_s, text_s)."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    units: int = 0
    quarantined: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)


@dataclass
class _Unit:
    """One context unit on its way into the index."""

    trace: Trace
    instant: float | None
    start: int
    end: int
    text: str
    sentences: list[tuple[int, int]]
    mentions: list[Mention] = field(default_factory=list)


def ingest(
    index: MemoryIndex,
    traces: Sequence[CheckedTrace],
    tools: Tools,
    config: Config,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[MemoryIndex, Report]:
    """Add or update traces; returns the new index version and what happened.

    `progress(stage, done, total)` is called now and then with stage "entities" or "encode".
    """
    report = Report()
    begin = time.perf_counter()
    fresh, replaced = _changes(index, traces, report)
    units = [unit for checked in fresh for unit in _units(checked, config)]
    report.units = len(units)
    report.timings["text_s"] = time.perf_counter() - begin

    begin = time.perf_counter()
    _extract(units, tools.extractor, progress)
    report.timings["ner_s"] = time.perf_counter() - begin

    begin = time.perf_counter()
    vectors = _encode(units, tools.encoder, config, progress, report)
    report.timings["encode_s"] = time.perf_counter() - begin

    begin = time.perf_counter()
    by_bank: dict[str, list[_Unit]] = {}
    for unit in units:
        by_bank.setdefault(unit.trace.bank, []).append(unit)
    banks = dict(index.banks)
    for name, mine in by_bank.items():
        bank = banks.get(name) or Bank(name, {})
        grown = _append(index, bank, mine, vectors, tools.analyzer, config)
        banks[name] = _bury(index, grown, replaced.get(name, ()))
    grown_index = replace(index, banks=banks)
    report.timings["text_s"] += time.perf_counter() - begin
    if config.window_vectors == "encoded":
        # the last step, because it reads the new units; nothing is visible before it returns
        grown_index = encode_spans(grown_index, list(by_bank), tools.encoder, config)
    return grown_index, report


def _changes(
    index: MemoryIndex, traces: Sequence[CheckedTrace], report: Report
) -> tuple[list[CheckedTrace], dict[str, list[int]]]:
    """The traces to write, with their turns settled, and per bank the stored rows that they replace."""
    wanted: dict[tuple[str, str], CheckedTrace] = {}
    for checked in traces:
        key = (checked.trace.bank, checked.trace.id)
        before = wanted.get(key)
        if before is not None and same_content(before.trace, checked.trace):
            report.unchanged += 1
        elif before is not None:
            report.updated += 1
            wanted[key] = replace(checked, trace=_same_place(checked.trace, before.trace))
        else:
            wanted[key] = checked
    fresh: list[CheckedTrace] = []
    replaced: dict[str, list[int]] = {}
    last_turn: dict[tuple[str, str], int] = {}
    for (name, trace_id), checked in wanted.items():
        bank, trace = index.banks.get(name), checked.trace
        row = bank.ids.get(trace_id) if bank else None
        if bank is not None and row is not None:
            stored: Trace = index.column(bank, "traces", "trace")[row]
            if same_content(stored, trace):
                report.unchanged += 1
                continue
            report.updated += 1
            replaced.setdefault(name, []).append(row)
            trace = _same_place(trace, stored)
        else:
            report.added += 1
        place = (name, trace.session)
        if place not in last_turn:
            last_turn[place] = _last_turn(index, bank, trace.session)
        if trace.turn is None:
            trace = replace(trace, turn=last_turn[place] + 1)
        last_turn[place] = max(last_turn[place], trace.turn or 0)
        fresh.append(replace(checked, trace=trace))
    return fresh, replaced


def _same_place(trace: Trace, before: Trace) -> Trace:
    """An update that leaves its turn open keeps the turn that it had in the same session."""
    keeps = trace.turn is None and trace.session == before.session
    return replace(trace, turn=before.turn) if keeps else trace


def _last_turn(index: MemoryIndex, bank: Bank | None, session: str) -> int:
    """The highest turn of a session, −1 for one without units."""
    row = bank.sessions.get(session) if bank else None
    if bank is None or row is None:
        return -1
    mine = index.column(bank, "units", "session") == row
    return int(index.column(bank, "units", "turn")[mine].max(initial=-1))


def _units(checked: CheckedTrace, config: Config) -> Iterable[_Unit]:
    seen = clean(checked.trace.text)
    for start, end in split_units(seen, config.unit_chars):
        body = seen[start:end]
        yield _Unit(checked.trace, checked.instant, start, end, body, split_sentences(body))


def _extract(
    units: list[_Unit], extractor: EntityExtractor, progress: Callable[[str, int, int], None] | None
) -> None:
    step = 1024
    for first in range(0, len(units), step):
        part = units[first : first + step]
        for unit, mentions in zip(part, extractor.extract([unit.text for unit in part]), strict=True):
            unit.mentions = mentions
        if progress:
            progress("entities", first + len(part), len(units))


def _encode(
    units: list[_Unit],
    encoder: Encoder,
    config: Config,
    progress: Callable[[str, int, int], None] | None,
    report: Report,
) -> dict[str, np.ndarray]:
    """Text → vector for every unit, sentence and entity name; a blank text has a zero vector."""
    names = (name for unit in units for name in _entity_names(unit, config))
    texts = dict.fromkeys(unit_text(unit.trace, unit.text, config) for unit in units)
    texts |= dict.fromkeys(text for unit in units for text in _sentence_texts(unit, config))
    texts |= dict.fromkeys(names)
    wanted = [text for text in texts if text]
    done = 0

    def tick(more: int) -> None:
        nonlocal done
        done += more
        if progress:
            progress("encode", done, len(wanted))

    vectors, bad = checked_encode(encoder, wanted, progress=tick)
    faulty = {text for text, broken in zip(wanted, bad, strict=True) if broken}
    if faulty:
        report.quarantined = list(
            dict.fromkeys(u.trace.id for u in units if unit_text(u.trace, u.text, config) in faulty)
        )
    table = dict(zip(wanted, vectors, strict=True))
    table[""] = np.zeros(encoder.dim, np.float32)
    return table


def _sentence_texts(unit: _Unit, config: Config) -> list[str]:
    """What the encoder reads of each sentence: its words, after the speaker's name."""
    speaker = f"{clean(unit.trace.speaker)}: " if config.encode_speaker and unit.trace.speaker else ""
    return [speaker + " ".join(unit.text[start:end].split()) for start, end in unit.sentences]


def _entity_names(unit: _Unit, config: Config) -> list[str]:
    """Every entity of a unit, speaker first, then the caller's, then what was found."""
    kept = (mention.name for mention in unit.mentions if mention.label not in config.drop_labels)
    given = (entity_name(name) for name in unit.trace.entities)
    return [name for name in (speaker_name(unit.trace), *given, *kept) if name]


def speaker_name(trace: Trace) -> str:
    """The entity name of a trace's speaker; "" without one."""
    return entity_name(trace.speaker) if trace.speaker else ""


def _append(
    index: MemoryIndex,
    bank: Bank,
    units: list[_Unit],
    vectors: dict[str, np.ndarray],
    analyzer: Analyzer,
    config: Config,
) -> Bank:
    """Write the facts of one bank's new units; returns the grown bank."""
    ids, sessions, entities = dict(bank.ids), dict(bank.sessions), dict(bank.entities)
    first = {table: bank.spans.get(table, Span()).length for table in index.arenas}
    new: dict[str, list[tuple[object, ...]]] = {table: [] for table in index.arenas}
    matrices: dict[str, list[np.ndarray]] = {"units": [], "sentences": [], "entities": []}
    words = _Words()

    def entity_row(name: str) -> int:
        key = term_key(name)
        if key not in entities:
            entities[key] = len(entities)
            tokens = analyzer.tokens(name)
            new["entities"].append((key, term_key(tokens[0]) if len(tokens) == 1 else 0, name))
            matrices["entities"].append(vectors[name])
        return entities[key]

    trace_row = first["traces"] - 1
    for unit, previous in zip(units, [None, *units], strict=False):
        trace = unit.trace
        if previous is None or previous.trace is not trace:
            trace_row += 1
            new["traces"].append((trace,))
            ids[trace.id] = trace_row
        if trace.session not in sessions:
            sessions[trace.session] = len(sessions)
            new["sessions"].append((trace.session,))
        row = first["units"] + len(new["units"])
        speaker = speaker_name(trace)
        new["units"].append((
            sessions[trace.session], trace.turn, np.nan if unit.instant is None else unit.instant,
            entity_row(speaker) if speaker else -1, trace_row, unit.start, unit.end,
            type_mask(unit.text, unit.mentions),
        ))  # fmt: skip
        matrices["units"].append(vectors[unit_text(trace, unit.text, config)])
        sentence0 = first["sentences"] + len(new["sentences"])
        new["sentences"] += [(row, unit.start + start, unit.start + end) for start, end in unit.sentences]
        matrices["sentences"] += [vectors[text] for text in _sentence_texts(unit, config)]
        words.add(unit, row, sentence0, analyzer)
        given = [entity_row(name) for name in map(entity_name, trace.entities) if name]
        found = [
            (entity_row(mention.name), mention.start)
            for mention in unit.mentions
            if mention.label not in config.drop_labels and mention.name
        ]
        new["mentions"] += [(row, entity, 1) for entity in (*given, *(entity for entity, _ in found))]
        for at, (start, end) in enumerate(unit.sentences):
            inside = [entity for entity, place in found if start <= place < end]
            new["sentence_entities"] += [(sentence0 + at, entity) for entity in (*given, *inside)]
    columns = {table: _columns(index, table, rows, matrices.get(table)) for table, rows in new.items()}
    columns["tokens"] = words.columns()
    spans = {
        table: index.arenas[table].append(bank.spans.get(table, Span()), columns[table])
        for table in index.arenas
        if len(next(iter(columns[table].values())))
    }
    return Bank(bank.name, {**bank.spans, **spans}, ids, sessions, entities, bank.dead)


def _columns(
    index: MemoryIndex, table: str, rows: list[tuple[object, ...]], matrix: list[np.ndarray] | None
) -> dict[str, np.ndarray]:
    """Rows of Python values (without the vector) as the arrays of a table."""
    out: dict[str, np.ndarray] = {}
    values = list(zip(*rows, strict=True))
    position = 0
    for name, (dtype, shape) in index.arenas[table].schema.items():
        if name == "vector":
            out[name] = np.asarray(matrix or (), np.float32).reshape(-1, *shape)
            continue
        column = np.empty(len(rows), dtype)
        if rows:
            column[:] = values[position]
        out[name] = column
        position += 1
    return out


class _Words:
    """Collects the word rows of a bank's new units."""

    def __init__(self) -> None:
        self._raw: list[np.ndarray] = []
        self._stem: list[np.ndarray] = []
        self._unit: list[np.ndarray] = []
        self._sentence: list[np.ndarray] = []

    def add(self, unit: _Unit, row: int, sentence0: int, analyzer: Analyzer) -> None:
        """Add one unit: speaker, sentences, caption, a separator after each part."""
        text = [
            (analyzer.tokens(unit.text[a:b]), sentence0 + at) for at, (a, b) in enumerate(unit.sentences)
        ]
        caption = analyzer.tokens(unit.trace.caption or "")
        if not caption and not any(tokens for tokens, _ in text):
            # a unit without words of its own must not match by its speaker's name
            return
        self._part(analyzer.tokens(unit.trace.speaker or ""), SPEAKER_PART, row, analyzer, last=True)
        for tokens, sentence in text:
            self._part(tokens, sentence, row, analyzer, last=False)
        self._part([], CAPTION_PART, row, analyzer, last=True)
        self._part(caption, CAPTION_PART, row, analyzer, last=True)

    def _part(self, tokens: list[str], sentence: int, row: int, analyzer: Analyzer, *, last: bool) -> None:
        stems = analyzer.stems(tokens)
        count = len(tokens) + last
        raw, stem = np.zeros(count, np.int64), np.zeros(count, np.int64)
        raw[: len(tokens)] = term_keys(tokens)
        stem[: len(tokens)] = [term_key(word) if word else 0 for word in stems]
        self._raw.append(raw)
        self._stem.append(stem)
        self._unit.append(np.full(count, row, np.int32))
        self._sentence.append(np.full(count, sentence, np.int32))

    def columns(self) -> dict[str, np.ndarray]:
        """The collected rows as the columns of the table."""
        return {
            "raw": _join(self._raw, np.int64), "stem": _join(self._stem, np.int64),
            "unit": _join(self._unit, np.int32), "sentence": _join(self._sentence, np.int32),
        }  # fmt: skip


def _join(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _bury(index: MemoryIndex, bank: Bank, trace_rows: Sequence[int]) -> Bank:
    """Mark the units of replaced trace rows as dead."""
    if not trace_rows:
        return bank
    gone = np.flatnonzero(np.isin(index.column(bank, "units", "trace"), trace_rows)).astype(np.int32)
    return replace(bank, dead=np.union1d(bank.dead, gone).astype(np.int32), _views={})
