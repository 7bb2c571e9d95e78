"""Bridges between documents: which units tell of a name that a caller gave to other units.

A caller's name (`Trace.entities`, such as a document's title) says what a unit is about. A unit that has
the words of the name in its text and was not given it leads to the units that were.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeromem_gpu.build.facts import Bank, MemoryIndex
from zeromem_gpu.build.ragged import expand, pointer
from zeromem_gpu.config import Config
from zeromem_gpu.text.normalize import entity_name
from zeromem_gpu.text.tokens import Analyzer, term_key, term_keys

Pairs = tuple[np.ndarray, np.ndarray]


def given_names(index: MemoryIndex, bank: Bank, trace_of_unit: np.ndarray) -> Pairs:
    """Distinct (unit, entity) of the names that callers gave, int64; entities in rows of arrival.

    `trace_of_unit` int64 [units] is the trace row of each unit.
    """
    traces = index.column(bank, "traces", "trace")
    pairs = {
        (unit, bank.entities[term_key(name)])
        for unit, row in enumerate(trace_of_unit.tolist())
        for name in map(entity_name, traces[row].entities)
        if name
    }
    table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def told_names(
    names: Sequence[str], entity: np.ndarray, given: Pairs, raw: np.ndarray, token_unit: np.ndarray,
    searched: np.ndarray, config: Config,
) -> Pairs:  # fmt: skip
    """Distinct (entity, unit) where the unit has a name's words in a row and was not given the name.

    Args:
        names: the name of each row of `entity`.
        entity: int64 [n], distinct.
        given: (unit, entity) pairs that do not count.
        raw: int64 [tokens] keys, 0 between parts.
        token_unit: the unit of each token.
        searched: bool [tokens], where a name may begin.
        config: names the analyzer.
    """
    analyzer = Analyzer(config.stemmer)
    words = [term_keys(analyzer.tokens(name)) for name in names]
    which, token = find_words(words, raw, searched)
    told, unit = entity[which].astype(np.int64), token_unit[token].astype(np.int64)
    key = np.setdiff1d(told << 32 | unit, given[1] << 32 | given[0])
    return key >> 32, key & 0xFFFFFFFF


def find_words(words: Sequence[np.ndarray], raw: np.ndarray, searched: np.ndarray) -> Pairs:
    """(which, token) for every searched token at which the keys words[which] stand in a row; none is empty.

    >>> find_words([np.array([5, 6]), np.array([6])], np.array([5, 6, 0, 6]), np.ones(4, bool))
    (array([0, 1, 1]), array([0, 1, 3]))
    """
    kept = np.flatnonzero(np.array([len(one) for one in words], np.int64))
    if len(kept) == 0 or len(raw) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    lengths = np.array([len(words[at]) for at in kept.tolist()], np.int64)
    keys, begin = np.concatenate([words[at] for at in kept.tolist()]), pointer(lengths)[:-1]
    order = np.argsort(raw, kind="stable")
    left, right = (np.searchsorted(raw[order], keys[begin], side) for side in ("left", "right"))
    slot, which = expand(left, right)
    token = order[slot]
    which, token = which[searched[token]], token[searched[token]]
    for step in range(1, int(lengths.max())):
        ends = lengths[which] <= step
        # the last token of a bank closes a part: its key 0 is no word
        there = raw[np.minimum(token + step, len(raw) - 1)]
        same = ends | (there == keys[begin[which] + np.minimum(step, lengths[which] - 1)])
        which, token = which[same], token[same]
    return kept[which], token
