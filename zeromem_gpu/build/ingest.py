"""From checked traces to facts: units, words, entities and vectors, appended bank by bank.

Everything that can fail (reading, NER, encoding) happens before the first row is written, and what is
written becomes visible only as a new `MemoryIndex`: a failed `add` leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from zeromem_gpu.build.arena import Span
from zeromem_gpu.build.check import CheckedTrace, same_content
from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.grown import Growing
from zeromem_gpu.build.learned import TextWeights
from zeromem_gpu.build.ledger import Ledger
from zeromem_gpu.build.spans import encode_spans, unit_text
from zeromem_gpu.build.tails import extended
from zeromem_gpu.build.texts import TextFacts, WordRows, Words, read_texts
from zeromem_gpu.config import Config
from zeromem_gpu.encoders.protocol import Encoder, checked_encode, count_split
from zeromem_gpu.text.entities import EntityExtractor
from zeromem_gpu.text.normalize import clean, entity_name
from zeromem_gpu.text.sentences import split_units
from zeromem_gpu.text.tokens import Analyzer, term_key, term_keys
from zeromem_gpu.types import Trace
from zeromem_kernels.layout import positions
from zeromem_kernels.related import on_grid


@dataclass(frozen=True)
class Tools:
    """What reads text: the encoder, the entity extractor and the analyzer of one memory.

    `bank_extractors` names banks that another extractor reads.
    """

    encoder: Encoder
    extractor: EntityExtractor
    analyzer: Analyzer
    bank_extractors: Mapping[str, EntityExtractor] = field(default_factory=dict)

    def extractor_of(self, bank: str) -> EntityExtractor:
        """What finds the entities of a bank."""
        return self.bank_extractors.get(bank, self.extractor)


@dataclass
class Report:
    """What an `add` did; ids are trace ids, timings seconds (ner_s, encode_s, text_s).

    `split` counts texts too long for the encoder that were cut at sentence ends and pooled.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    units: int = 0
    split: int = 0
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
    facts = _read(units, tools, progress)
    report.timings["ner_s"] = time.perf_counter() - begin

    begin = time.perf_counter()
    apart = dict.fromkeys(text for unit in units for text in _beside(unit.trace))
    beside = {text: Words.of(text, tools.analyzer) for text in apart}
    terms = _new_terms(index, units, facts, beside)
    vectors = _encode(units, facts, terms, tools.encoder, config, progress, report)
    learned = None
    if config.learned_weights:
        learned = TextWeights.of([unit_text(u.trace, u.text, config) for u in units], tools.encoder)
    report.timings["encode_s"] = time.perf_counter() - begin

    begin = time.perf_counter()
    by_bank: dict[str, list[_Unit]] = {}
    for unit in units:
        by_bank.setdefault(unit.trace.bank, []).append(unit)
    banks = dict(index.banks)
    for name, mine in by_bank.items():
        bank = banks.get(name) or Bank(name, {})
        grown = _append(
            index, bank, mine, facts[name], beside, terms[name], vectors, learned, tools.analyzer, config
        )
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
    mine = np.flatnonzero(index.column(bank, "units", "session") == row)
    return int(index.column(bank, "units", "turn")[mine].max(initial=-1))


def _read(
    units: list[_Unit], tools: Tools, progress: Callable[[str, int, int], None] | None
) -> dict[str, dict[str, TextFacts]]:
    """Per bank what its texts hold; banks with one extractor share what it read."""
    banks = dict.fromkeys(unit.trace.bank for unit in units)
    readers = {bank: tools.extractor_of(bank) for bank in banks}
    read: dict[str, dict[str, TextFacts]] = {}
    for name, extractor in {one.fingerprint: one for one in readers.values()}.items():
        texts = (unit.text for unit in units if readers[unit.trace.bank].fingerprint == name)
        read[name] = read_texts(texts, extractor, tools.analyzer, progress)
    return {bank: read[reader.fingerprint] for bank, reader in readers.items()}


def _units(checked: CheckedTrace, config: Config) -> Iterable[_Unit]:
    seen = clean(checked.trace.text)
    for start, end in split_units(seen, config.unit_chars):
        yield _Unit(checked.trace, checked.instant, start, end, seen[start:end])


def _new_terms(
    index: MemoryIndex, units: list[_Unit], facts: dict[str, dict[str, TextFacts]], beside: dict[str, Words]
) -> dict[str, list[str]]:
    """Per bank, the terms of its new units that it has no vector of yet, in order of their first use."""
    used: dict[str, dict[str, None]] = {}
    for unit in units:
        mine = used.setdefault(unit.trace.bank, {})
        for text in _beside(unit.trace):
            mine |= dict.fromkeys(beside[text].terms)
        for words in facts[unit.trace.bank][unit.text].words:
            mine |= dict.fromkeys(words.terms)
    return {name: _unknown(index, name, list(terms)) for name, terms in used.items()}


def _unknown(index: MemoryIndex, name: str, terms: list[str]) -> list[str]:
    """The terms of which a bank has no vector."""
    if name not in index.banks:
        return terms
    bank, keys = index.banks[name], term_keys(terms)
    # a ledger has the first ones in order
    ledger: Ledger = bank.newest("ledger") or Ledger()
    known = positions(keys, ledger.term_keys) >= 0
    known |= np.isin(keys, index.column(bank, "terms", "key")[len(ledger.term_keys) :])
    return [term for term, stored in zip(terms, known.tolist(), strict=True) if not stored]


def _beside(trace: Trace) -> tuple[str, str]:
    """What is searched with a trace's text and is no part of it."""
    return trace.speaker or "", trace.caption or ""


def _encode(
    units: list[_Unit],
    facts: dict[str, dict[str, TextFacts]],
    terms: dict[str, list[str]],
    encoder: Encoder,
    config: Config,
    progress: Callable[[str, int, int], None] | None,
    report: Report,
) -> dict[str, np.ndarray]:
    """Text → vector for every unit, sentence, entity name and new term; a blank text has a zero vector."""
    names = (
        name for unit in units for name in _entity_names(unit, facts[unit.trace.bank][unit.text], config)
    )
    texts = dict.fromkeys(unit_text(unit.trace, unit.text, config) for unit in units)
    texts |= dict.fromkeys(
        text for unit in units for text in _sentence_texts(unit, facts[unit.trace.bank][unit.text], config)
    )
    texts |= dict.fromkeys(names)
    texts |= dict.fromkeys(term for mine in terms.values() for term in mine)
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
    report.split = count_split(encoder, wanted)
    table = dict(zip(wanted, vectors, strict=True))
    table[""] = np.zeros(encoder.dim, np.float32)
    return table


def _sentence_texts(unit: _Unit, facts: TextFacts, config: Config) -> list[str]:
    """What the encoder reads of each sentence: its words, after the speaker's name."""
    speaker = f"{clean(unit.trace.speaker)}: " if config.encode_speaker and unit.trace.speaker else ""
    return [speaker + " ".join(unit.text[start:end].split()) for start, end in facts.sentences]


def _entity_names(unit: _Unit, facts: TextFacts, config: Config) -> list[str]:
    """Every entity of a unit, speaker first, then the caller's, then what was found."""
    kept = (mention.name for mention in facts.mentions if mention.label not in config.drop_labels)
    given = (entity_name(name) for name in unit.trace.entities)
    return [name for name in (speaker_name(unit.trace), *given, *kept) if name]


def speaker_name(trace: Trace) -> str:
    """The entity name of a trace's speaker; "" without one."""
    return entity_name(trace.speaker) if trace.speaker else ""


def _append(
    index: MemoryIndex,
    bank: Bank,
    units: list[_Unit],
    facts: dict[str, TextFacts],
    beside: dict[str, Words],
    terms: list[str],
    vectors: dict[str, np.ndarray],
    learned: TextWeights | None,
    analyzer: Analyzer,
    config: Config,
) -> Bank:
    """Write the facts of one bank's new units; returns the grown bank."""
    ids, sessions, entities = (Growing.of(known) for known in (bank.ids, bank.sessions, bank.entities))
    ranks = bank.ranks()
    arrivals: list[int] = []
    arrived = int(ranks.max(initial=-1)) + 1
    first = {table: bank.spans.get(table, Span()).length for table in index.arenas}
    new: dict[str, list[tuple[object, ...]]] = {table: [] for table in index.arenas}
    matrices: dict[str, list[np.ndarray]] = {"units": [], "sentences": [], "entities": []}
    words = WordRows()

    def entity_row(name: str) -> int:
        key = term_key(name)
        if key not in entities:
            entities[key] = len(entities)
            tokens = analyzer.tokens(name)
            new["entities"].append((key, term_key(tokens[0]) if len(tokens) == 1 else 0, name))
            matrices["entities"].append(vectors[name])
        row: int = entities[key]
        return row

    trace_row = first["traces"] - 1
    for unit, previous in zip(units, [None, *units], strict=False):
        trace, read = unit.trace, facts[unit.text]
        if previous is None or previous.trace is not trace:
            trace_row += 1
            new["traces"].append((trace,))
            # an update keeps the place of the id
            again = bank.ids.get(trace.id)
            arrivals.append(arrived if again is None else int(ranks[again]))
            arrived += again is None
            ids[trace.id] = trace_row
        if trace.session not in sessions:
            sessions[trace.session] = len(sessions)
            new["sessions"].append((trace.session,))
        row = first["units"] + len(new["units"])
        speaker = speaker_name(trace)
        new["units"].append((
            sessions[trace.session], trace.turn, np.nan if unit.instant is None else unit.instant,
            entity_row(speaker) if speaker else -1, trace_row, unit.start, unit.end,
            read.types,
        ))  # fmt: skip
        matrices["units"].append(vectors[unit_text(trace, unit.text, config)])
        sentence0 = first["sentences"] + len(new["sentences"])
        new["sentences"] += [(row, unit.start + start, unit.start + end) for start, end in read.sentences]
        matrices["sentences"] += [vectors[text] for text in _sentence_texts(unit, read, config)]
        speaker_words, caption = (beside[text] for text in _beside(trace))
        words.add(row, sentence0, speaker_words, read.words, caption)
        given = [entity_row(name) for name in map(entity_name, trace.entities) if name]
        found = [
            (entity_row(mention.name), mention.start)
            for mention in read.mentions
            if mention.label not in config.drop_labels and mention.name
        ]
        new["mentions"] += [(row, entity, 1) for entity in (*given, *(entity for entity, _ in found))]
        for at, (start, end) in enumerate(read.sentences):
            inside = [entity for entity, place in found if start <= place < end]
            new["sentence_entities"] += [(sentence0 + at, entity) for entity in (*given, *inside)]
    columns = {table: _columns(index, table, rows, matrices.get(table)) for table, rows in new.items()}
    columns["tokens"] = words.columns()
    if learned is not None:
        told = [unit_text(unit.trace, unit.text, config) for unit in units]
        columns["learned"] = learned.rows(told, first["units"])
    columns["terms"] = {
        "key": term_keys(terms),
        "vector": on_grid(np.array([vectors[term] for term in terms]).reshape(-1, index.dim)),
    }
    spans = {
        table: index.arenas[table].append(bank.spans.get(table, Span()), columns[table])
        for table in index.arenas
        if len(next(iter(columns[table].values())))
    }
    return bank.changed(
        spans={**bank.spans, **spans},
        ids=ids.done(), sessions=sessions.done(), entities=entities.done(),
        arrivals=extended(ranks, np.array(arrivals, np.int64)),
    )  # fmt: skip


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


def _bury(index: MemoryIndex, bank: Bank, trace_rows: Sequence[int]) -> Bank:
    """Mark the units of replaced trace rows as dead."""
    if not trace_rows:
        return bank
    gone = np.flatnonzero(np.isin(index.column(bank, "units", "trace"), trace_rows)).astype(np.int32)
    return bank.changed(dead=np.union1d(bank.dead, gone).astype(np.int32))
