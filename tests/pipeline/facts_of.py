"""What a Memory stores about a bank, told to the oracle: from the fact tables alone, in plain Python.

Nothing here reads a view (`build/units.py` and what follows from it), which is what the oracle tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tests.reference.facts import BankFacts, QueryFacts, Sentence, Span, Token, Unit
from zeromem_gpu.build.facts import CAPTION_PART, EPISODE_LEVEL, SPEAKER_PART, WINDOW_LEVEL
from zeromem_gpu.encoders.lexical import Weighing
from zeromem_gpu.encoders.protocol import checked_encode
from zeromem_gpu.memory import Memory
from zeromem_gpu.text.entities import ANSWER_TYPES
from zeromem_gpu.text.normalize import clean, entity_name
from zeromem_gpu.text.sentences import asks
from zeromem_gpu.text.tokens import Analyzer, term_key
from zeromem_gpu.types import QueryProfile
from zeromem_kernels.related import GRID, on_grid


def session_order(memory: Memory, bank: str) -> list[int]:
    """Arrival rows of the live units: by first arrival of the session, turn, first arrival of the id."""
    index = memory._index
    assert index is not None
    units, traces = (index.facts(index.banks[bank], name) for name in ("units", "traces"))
    current = {trace.id: row for row, trace in enumerate(traces["trace"])}
    arrived = {row: at for at, row in enumerate(current.values())}
    live = [row for row, trace in enumerate(units["trace"].tolist()) if trace in arrived]
    first: dict[int, int] = {}
    for row in live:
        session, at = int(units["session"][row]), arrived[int(units["trace"][row])]
        first[session] = min(at, first.get(session, at))

    def key(row: int) -> tuple[int, int, int, int]:
        session, turn = int(units["session"][row]), int(units["turn"][row])
        return first[session], turn, arrived[int(units["trace"][row])], row

    return sorted(live, key=key)


def bank_facts(memory: Memory, bank: str) -> BankFacts:
    """The facts of one bank; entities are the live ones by ascending key, tokens are 64-bit keys."""
    index = memory._index
    assert index is not None
    stored = index.banks[bank]
    tables = {name: index.facts(stored, name) for name in index.arenas}
    units, order = tables["units"], session_order(memory, bank)
    place = {row: at for at, row in enumerate(order)}
    names = [str(name) for name in tables["entities"]["name"]]
    sessions = [str(name) for name in tables["sessions"]["name"]]

    parts: list[list[list[tuple[Token, Token]]]] = [[[], [], []] for _ in order]
    said: dict[int, list[Token]] = {}
    part_of = {SPEAKER_PART: 0, CAPTION_PART: 2}
    tokens = (tables["tokens"][name].tolist() for name in ("raw", "stem", "unit", "sentence"))
    for raw, stem, unit, sentence in zip(*tokens, strict=True):
        if raw != 0 and unit in place:
            parts[place[unit]][part_of.get(sentence, 1)].append((raw, stem))
            said.setdefault(sentence, []).append(raw)

    learned: list[dict[int, float]] = [{} for _ in order]
    rows = (tables["learned"][name].tolist() for name in ("unit", "token", "weight"))
    for unit, token, weight in zip(*rows, strict=True):
        if unit in place:
            learned[place[unit]][token] = weight

    mentions: list[dict[str, int]] = [{} for _ in order]
    alive: set[int] = set()
    rows = (tables["mentions"][name].tolist() for name in ("unit", "entity", "count"))
    for unit, entity, count in zip(*rows, strict=True):
        if unit in place:
            alive.add(entity)
            held = mentions[place[unit]]
            held[names[entity]] = held.get(names[entity], 0) + count

    inside: dict[int, list[str]] = {}
    home = tables["sentences"]["unit"].tolist()
    rows = (tables["sentence_entities"][name].tolist() for name in ("sentence", "entity"))
    for sentence, entity in zip(*rows, strict=True):
        if home[sentence] in place:
            alive.add(entity)
            inside.setdefault(sentence, []).append(names[entity])

    traces = tables["traces"]["trace"]
    given = [
        [name for one in traces[units["trace"][row]].entities if (name := entity_name(one))]
        for row in order
    ]
    analyzer = memory._toolbox.tools().analyzer

    # stable: arrival decides inside a unit
    told = sorted((row for row in range(len(home)) if home[row] in place), key=lambda row: place[home[row]])
    speakers = sorted({int(units["speaker"][row]) for row in order} - {-1})
    alive |= set(speakers)
    keys = tables["entities"]["key"].tolist()
    words = tables["entities"]["word"].tolist()
    return BankFacts(
        units=[
            Unit(
                trace_id=tables["traces"]["trace"][units["trace"][row]].id,
                session=sessions[units["session"][row]],
                time=None if math.isnan(units["time"][row]) else float(units["time"][row]),
                speaker=None if units["speaker"][row] < 0 else names[units["speaker"][row]],
                parts=parts[at],
                type_mask=int(units["types"][row]),
                mentions=list(mentions[at].items()),
                vector=units["vector"][row].astype(np.float64),
                given=given[at],
                replies=_replies(tables, order[at - 1 : at + 1]),
                learned=learned[at],
            )
            for at, row in enumerate(order)
        ],
        sentences=[
            Sentence(
                place[home[row]], said.get(row, []), inside.get(row, []),
                tables["sentences"]["vector"][row].astype(np.float64),
            )
            for row in told
        ],
        entities={
            names[row]: tables["entities"]["vector"][row].astype(np.float64)
            for row in sorted(alive, key=lambda row: keys[row])
        },
        speakers=[names[row] for row in speakers],
        given_words={
            name: [term_key(word) for word in analyzer.tokens(name)] for row in given for name in row
        },
        name_token={names[row]: words[row] for row in speakers if words[row] != 0},
        terms={
            int(key): vector.astype(np.float64) / GRID
            for key, vector in zip(tables["terms"]["key"], tables["terms"]["vector"], strict=True)
        },
        windows=_encoded(memory, bank, place, WINDOW_LEVEL),
        episodes=_encoded(memory, bank, place, EPISODE_LEVEL),
    )  # fmt: skip


def _replies(tables: dict[str, dict[str, np.ndarray]], pair: list[int]) -> bool:
    """Whether the second unit of two in a row replies to the first."""
    if len(pair) < 2:
        return False
    units = tables["units"]
    first, second = ({name: units[name][row] for name in units} for row in pair)
    text = tables["traces"]["trace"][first["trace"]].text[first["start"] : first["end"]]
    apart = first["trace"] != second["trace"] and not first["speaker"] == second["speaker"] >= 0
    return bool(apart and first["session"] == second["session"] and asks(text))


def _encoded(memory: Memory, bank: str, place: dict[int, int], level: int) -> dict[Span, np.ndarray] | None:
    """Encoded vectors by (first, last) row; the newest of a pair is the one that counts."""
    if memory.config.window_vectors == "pooled":
        return None
    index = memory._index
    assert index is not None
    spans = index.facts(index.banks[bank], "spans")
    return {
        (place[int(spans["first"][row])], place[int(spans["last"][row])]): spans["vector"][row].astype(
            np.float64
        )
        for row in range(len(spans["level"]))
        if spans["level"][row] == level
        and int(spans["first"][row]) in place
        and int(spans["last"][row]) in place
    }


def query_facts(
    memory: Memory, profiles: Sequence[QueryProfile], hidden: Sequence[Sequence[bool] | None] | None = None
) -> list[QueryFacts]:
    """What the profiles say, with the vectors of the questions and of their entities."""
    tools = memory._toolbox.tools()
    analyzer = tools.analyzer
    names = [
        list(dict.fromkeys(name for entity in profile.entities if (name := entity_name(entity))))
        for profile in profiles
    ]
    every = list(dict.fromkeys(name for row in names for name in row))
    vectors, _ = checked_encode(tools.encoder, [*(clean(p.text) for p in profiles), *every])
    plain = [_plain(profile.text, names[at], analyzer) for at, profile in enumerate(profiles)]
    spelt = list(dict.fromkeys(stem for row in plain for stem in row))
    alone = on_grid(checked_encode(tools.encoder, spelt)[0]).astype(np.float64) / GRID
    of_word = dict(zip(spelt, alone, strict=True))
    learned = _learned(memory, [clean(p.text) for p in profiles])
    of_name = dict(zip(every, vectors[len(profiles) :].astype(np.float64), strict=True))
    return [
        QueryFacts(
            vector=vectors[at].astype(np.float64),
            stems=[term_key(stem) for stem in analyzer.stems(analyzer.tokens(profile.text)) if stem],
            words={term_key(stem): of_word[stem] for stem in plain[at]},
            phrases=[
                [term_key(word) for word in words] for p in profile.phrases if (words := analyzer.tokens(p))
            ],
            entities=[(name, of_name[name]) for name in names[at]],
            subjects=[entity_name(subject) for subject in profile.subjects],
            validity=None if profile.validity in (None, (None, None)) else profile.validity,
            dated=profile.answer_type == "date",
            type_bit=1 << ANSWER_TYPES.index(profile.answer_type)
            if profile.answer_type in ANSWER_TYPES
            else 0,
            route=profile.route,
            hidden=None if hidden is None else hidden[at],
            learned=learned[at],
        )
        for at, profile in enumerate(profiles)
    ]


def _learned(memory: Memory, texts: list[str]) -> list[dict[int, float]]:
    """The encoder's token weights of each text, where the memory keeps them."""
    if not memory.config.learned_weights:
        return [{} for _ in texts]
    encoder = memory._toolbox.tools().encoder
    assert isinstance(encoder, Weighing)
    told = encoder.lexical_weights(texts)
    return [
        dict(zip(told.ids[begin:end].tolist(), told.weights[begin:end].tolist(), strict=True))
        for begin, end in pairwise(told.indptr.tolist())
    ]


def _plain(text: str, names: list[str], analyzer: Analyzer) -> list[str]:
    """The distinct stems of letters that belong to no name."""
    named = {stem for name in names for stem in analyzer.stems(analyzer.tokens(name))}
    stems = dict.fromkeys(analyzer.stems(analyzer.tokens(text)))
    return [stem for stem in stems if stem.isalpha() and stem not in named]
