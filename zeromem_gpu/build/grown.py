"""A mapping for versions that differ by a few keys: what is large is shared, what is new is small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

# a copy of so many keys takes less time than the rest of an `add`
_OWN = 1024


class Grown(Mapping[K, V]):
    """`base` with other values for some keys and some more keys, ordered as a dictionary so changed."""

    __slots__ = ("_base", "_changed", "_fresh")

    def __init__(self, base: dict[K, V], changed: dict[K, V], fresh: dict[K, V]) -> None:
        self._base, self._changed, self._fresh = base, changed, fresh

    def __getitem__(self, key: K) -> V:
        """The value of a key."""
        if key in self._fresh:
            return self._fresh[key]
        return self._changed[key] if key in self._changed else self._base[key]

    def __contains__(self, key: object) -> bool:
        """Whether there is such a key."""
        return key in self._fresh or key in self._base

    def __iter__(self) -> Iterator[K]:
        """The keys: changed ones keep their place, new ones come last."""
        return chain(self._base, self._fresh)

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._base) + len(self._fresh)

    def copied(self) -> tuple[dict[K, V], dict[K, V], dict[K, V]]:
        """The three parts, of which the last two may be written to."""
        if len(self._fresh) + len(self._changed) <= _OWN:
            return self._base, dict(self._changed), dict(self._fresh)
        return self._base | self._changed | self._fresh, {}, {}


class Growing(Grown[K, V]):
    """A version in the making: give it its new keys, then keep `done`."""

    __slots__ = ()

    @classmethod
    def of(cls, mapping: Mapping[K, V]) -> Growing[K, V]:
        """What begins as `mapping`, which stays as it is."""
        if isinstance(mapping, Grown):
            return cls(*mapping.copied())
        return cls(mapping if isinstance(mapping, dict) else dict(mapping), {}, {})

    def __setitem__(self, key: K, value: V) -> None:
        """Set a key."""
        (self._changed if key in self._base else self._fresh)[key] = value

    def done(self) -> Mapping[K, V]:
        """The mapping as it is now; a plain dictionary where most of it is new."""
        if len(self._fresh) >= len(self._base):
            return self._base | self._changed | self._fresh
        return Grown(self._base, self._changed, self._fresh)
