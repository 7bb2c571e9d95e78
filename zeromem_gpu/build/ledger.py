"""What the array side needs of a bank beyond its facts, in rows of arrival, unit by unit.

Nothing in it depends on the order of units or on which of them are left, so it only ever grows by what
was added since; a fresh build is the same growth from nothing. `units.py` then puts it in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from zeromem_gpu.build.bridges import Bridges, grow_bridges
from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.learned import WeightSegment, grow_weights
from zeromem_gpu.build.lexical import Segment, grow_segments
from zeromem_gpu.build.pairs import EntityPairs, find_pairs
from zeromem_gpu.build.ragged import first_from
from zeromem_gpu.build.tails import extended, extended_pointer
from zeromem_gpu.config import Config
from zeromem_gpu.text.sentences import asks
from zeromem_gpu.text.tokens import Analyzer


@dataclass(frozen=True)
class Ledger:
    """Per unit, in rows of arrival: whether it ends with a question, who is heard, words that BM25 counts.

    `voice` int32 is the place of its speaker, as written, in `voices`, −1 for none; `sentence_ptr` int64
    [units + 1] its sentences. `speakers` int64 are the entities whose one-word names `pairs` looked for.
    `origin` is the same object as long as the pairs that are there stay as they are. `keys` int64 are
    those of the entities, ascending, `key_order` int64 the entity of each; `term_keys` and `term_order` the
    same of the words that have a vector. `dead` counts the units that are gone.
    """

    asks: np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    voice: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    voices: tuple[str, ...] = ()
    length: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    sentence_ptr: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    key_order: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    term_keys: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    term_order: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    dead: int = 0
    speakers: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    pairs: EntityPairs = field(default_factory=EntityPairs)
    origin: object = None
    bridges: Bridges = field(default_factory=Bridges)
    segments: tuple[Segment, ...] = ()
    learned: tuple[WeightSegment, ...] = ()

    @property
    def units(self) -> int:
        """How many units it covers."""
        return len(self.asks)


def grow_ledger(before: Ledger, index: MemoryIndex, bank: Bank, config: Config) -> Ledger:
    """The ledger of a bank from that of an ancestor, `Ledger()` for none."""
    facts = {
        table: index.facts(bank, table)
        for table in ("units", "sentences", "tokens", "mentions", "sentence_entities", "entities", "terms")
    }
    units, tokens, first = facts["units"], facts["tokens"], before.units
    count = len(units["trace"])
    speakers = _live_speakers(before, bank, units["speaker"], len(facts["entities"]["key"]))
    segments = grow_segments(before.segments, tokens["raw"], tokens["stem"], tokens["unit"], count)
    known, since, origin = before.pairs, first, before.origin or object()
    if _renamed(before, speakers, facts["entities"]["word"]):
        known, since, origin = EntityPairs(), 0, object()
    pairs = known.and_(find_pairs(facts, since, speakers, speaker_entities=config.speaker_entities))
    new_tokens = first_from(tokens["unit"], first)
    spoken = tokens["unit"][new_tokens:][tokens["stem"][new_tokens:] != 0] - first
    said = facts["sentences"]["unit"][before.sentence_ptr[-1] :] - first
    voice, voices = _voices(before, index, bank)
    analyze: Callable[[str], list[str]] = Analyzer(config.stemmer).tokens
    keys, key_order = _in_order(before.keys, before.key_order, facts["entities"]["key"])
    term_keys, term_order = _in_order(before.term_keys, before.term_order, facts["terms"]["key"])
    return Ledger(
        asks=extended(before.asks, _asking(index, bank, first)),
        voice=voice,
        voices=voices,
        length=extended(before.length, np.bincount(spoken, minlength=count - first)),
        sentence_ptr=extended_pointer(before.sentence_ptr, np.bincount(said, minlength=count - first)),
        keys=keys,
        key_order=key_order,
        term_keys=term_keys,
        term_order=term_order,
        dead=len(bank.dead),
        speakers=speakers,
        pairs=pairs,
        origin=origin,
        bridges=grow_bridges(before.bridges, index, bank, first, segments, analyze),
        segments=segments,
        learned=grow_weights(before.learned, index.facts(bank, "learned"), count),
    )


def _live_speakers(before: Ledger, bank: Bank, speaker: np.ndarray, entities: int) -> np.ndarray:
    """The entities that speak a unit that is left, int64, ascending."""
    # units only ever go: as many as before are the same ones, and the new ones are left
    if before.units and before.dead == len(bank.dead):
        fresh = np.setdiff1d(speaker[before.units :], before.speakers)
        fresh = fresh[fresh >= 0]
        return np.union1d(before.speakers, fresh) if len(fresh) else before.speakers
    live = np.ones(len(speaker), bool)
    live[bank.dead] = False
    # the spare last place takes the −1 of units without a speaker
    speaks = np.zeros(entities + 1, bool)
    speaks[speaker[live]] = True
    return np.flatnonzero(speaks[:-1])


def _renamed(before: Ledger, speakers: np.ndarray, words: np.ndarray) -> bool:
    """Whether units that were there may hold a word that has begun or ceased to be a speaker's name."""
    if np.array_equal(before.speakers, speakers):
        return False
    changed = words[np.setxor1d(before.speakers, speakers)]
    words = changed[changed != 0]
    for keys in (segment.stream.keys for segment in before.segments if len(segment.stream.keys)):
        at = np.searchsorted(keys, words)
        if (keys[np.minimum(at, len(keys) - 1)] == words).any():
            return True
    return False


def _asking(index: MemoryIndex, bank: Bank, first: int) -> np.ndarray:
    """Which units from `first` on end with a question."""
    traces = index.column(bank, "traces", "trace")
    columns = (index.column(bank, "units", name)[first:].tolist() for name in ("trace", "start", "end"))
    return np.array(
        [asks(traces[at].text[start:end]) for at, start, end in zip(*columns, strict=True)], bool
    )


def _voices(before: Ledger, index: MemoryIndex, bank: Bank) -> tuple[np.ndarray, tuple[str, ...]]:
    """Who is heard in each unit, and their names."""
    traces = index.column(bank, "traces", "trace")
    rows = index.column(bank, "units", "trace")[before.units :]
    names = [traces[row].speaker or "" for row in rows.tolist()]
    if not any(names):
        return extended(before.voice, np.full(len(names), -1, np.int32)), before.voices
    place = {name: at for at, name in enumerate(before.voices)} | {"": -1}
    voices = list(before.voices)
    for name in names:
        if name not in place:
            place[name] = len(voices)
            voices.append(name)
    voice = np.array([place[name] for name in names], np.int32)
    return extended(before.voice, voice), tuple(voices)


def _in_order(known: np.ndarray, order: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All keys ascending and the row of each, from those of the first rows."""
    fresh = np.arange(len(order), len(keys))
    if len(fresh) == 0:
        return known, order
    fresh = fresh[np.argsort(keys[fresh], kind="stable")]
    place = np.searchsorted(known, keys[fresh])
    return np.insert(known, place, keys[fresh]), np.insert(order, place, fresh)
