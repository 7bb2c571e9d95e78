"""What is stored: the facts of every bank, column by column, and the immutable index that holds them.

Only what was observed is a fact (vectors, words, mentions, sentences). Whatever depends on a whole bank
(session order, windows, BM25 weights, the graph) is a view, made from the facts when a search first needs
it (`views.py`). Row numbers in the facts are in order of arrival and never change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from zeromem_gpu.build.arena import Arena, Span

T = TypeVar("T")

# tokens.sentence of words that stand outside the text
SPEAKER_PART, CAPTION_PART = -1, -2
# spans.level of encoded windows and episodes; spans.members identifies the units in them
WINDOW_LEVEL, EPISODE_LEVEL = 0, 1

# tables that files leave out where no bank has a row in them
OPTIONAL = ("learned",)

# the parts of a view from which those of the next version grow, beside ("view", …) itself
GROWING = ("ledger", "rows")


def schema(dim: int) -> dict[str, dict[str, tuple[Any, tuple[int, ...]]]]:
    """The columns of each arena; `dim` is the width of the encoder."""
    i4, i8, vector = (np.int32, ()), (np.int64, ()), (np.float32, (dim,))
    return {
        "traces": {"trace": (object, ())},
        "sessions": {"name": (object, ())},
        # speaker: row of entities or -1; time: UTC seconds or NaN; types: bits of the answer types held
        "units": {
            "vector": vector, "session": i4, "turn": i8, "time": (np.float64, ()), "speaker": i4,
            "trace": i4, "start": i4, "end": i4, "types": i4,
        },
        # 64-bit keys; raw 0 separates parts, stem 0 is a stop word
        "tokens": {"raw": i8, "stem": i8, "unit": i4, "sentence": i4},
        # stems of letters; the vector stands on the grid of `zeromem_kernels.related`
        "terms": {"key": i8, "vector": vector},
        # weights of the encoder's tokens, where it gives them and the configuration asks for them
        "learned": {"token": i4, "unit": i4, "weight": (np.float32, ())},
        "sentences": {"vector": vector, "unit": i4, "start": i4, "end": i4},
        "mentions": {"unit": i4, "entity": i4, "count": i4},
        "sentence_entities": {"sentence": i4, "entity": i4},
        # word: key of a name of one word, which is looked for in every text of the bank, else 0
        "entities": {"key": i8, "word": i8, "vector": vector, "name": (object, ())},
        "spans": {"level": i4, "first": i4, "last": i4, "members": i8, "vector": vector},
    }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Bank:
    """One bank of one index version: where its facts are, and which of its units are gone.

    `ids` maps a trace id to its row in traces, `sessions` and `entities` names and keys to their rows;
    `dead` int32 holds the rows of units that an update or delete has hidden, ascending. `arrivals` int64
    ranks the traces by the first arrival of their id (an update keeps its place); None reads it from `ids`,
    whose keys are in that order. `_views` are the caches made from this version, `_past` those of the
    ancestor from which they grow.
    """

    name: str
    spans: Mapping[str, Span]
    ids: Mapping[str, int] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)
    entities: Mapping[int, int] = field(default_factory=dict)
    dead: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    arrivals: np.ndarray | None = None
    _views: dict[Hashable, Any] = field(default_factory=dict)
    _past: dict[Hashable, Any] = field(default_factory=dict)
    building: threading.RLock = field(default_factory=threading.RLock)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """The part of a view stored under `key`, made on first use; hold `building` around it."""
        if key not in self._views:
            self._views[key] = make()
            # what it grew from is not needed again
            self._past.pop(key, None)
        found: T = self._views[key]
        return found

    def ranks(self) -> np.ndarray:
        """`arrivals` of all rows of traces; those of traces that are gone say nothing."""
        if self.arrivals is not None:
            return self.arrivals
        rows = np.fromiter(self.ids.values(), np.int64, len(self.ids))
        ranks = np.zeros(self.spans.get("traces", Span()).length, np.int64)
        ranks[rows] = np.arange(len(rows))
        return ranks

    def newest(self, key: Hashable) -> Any:
        """The part of a view of this version, else of its newest ancestor, or None."""
        return self._views.get(key, self._past.get(key))

    def past(self, key: Hashable) -> Any:
        """The newest ancestor's part of a view, or None; hold `building` around it."""
        return self._past.get(key)

    def changed(self, **changes: Any) -> Bank:
        """The bank of the next version: other facts, caches that grow from these."""
        made = {key: view for key, view in list(self._views.items()) if key in GROWING or _is_view(key)}
        # views of other configurations than the last one would be kept alive for nothing
        old = {key: view for key, view in list(self._past.items()) if not made or not _is_view(key)}
        past = old | made
        return replace(self, **changes, _views={}, _past=past, building=threading.RLock())


def _is_view(key: Hashable) -> bool:
    return isinstance(key, tuple) and key[0] == "view"


@dataclass(frozen=True, eq=False)
class MemoryIndex:
    """An immutable version of all banks; newer versions share its arenas and the banks they left alone."""

    dim: int
    arenas: Mapping[str, Arena]
    banks: Mapping[str, Bank] = field(default_factory=dict)

    @classmethod
    def empty(cls, dim: int) -> MemoryIndex:
        """An index without banks for vectors of width `dim`."""
        return cls(dim, {name: Arena(columns) for name, columns in schema(dim).items()})

    def facts(self, bank: Bank, table: str) -> dict[str, np.ndarray]:
        """All columns of one table of a bank, in order of arrival."""
        return self.arenas[table].view(bank.spans.get(table, Span()))

    def column(self, bank: Bank, table: str, name: str) -> np.ndarray:
        """One column of one table of a bank."""
        return self.arenas[table].column(name, bank.spans.get(table, Span()))
