"""The time hierarchy of a bank: local spans, windows and episodes over its units (method.md 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zeromem_gpu.build.ordered import Vectors
from zeromem_gpu.build.ragged import Rows as Table
from zeromem_gpu.build.ragged import from_ranges, spliced_rows
from zeromem_gpu.build.tails import spliced
from zeromem_gpu.config import Config
from zeromem_kernels.intervals import sum_cosines, sum_norms
from zeromem_kernels.layout import covering, kept_intervals, local_spans

_CHUNK = 4096
_NAMES = ("spans", "windows", "episodes")


@dataclass(frozen=True)
class Level:
    """Intervals of units, [first, end) each, with vectors or the norm of their members' sum.

    Both ends ascend. The unit in row u is in the intervals `low[u] … high[u]` − 1, int32.
    `members` lists the units of each interval, `words` int64 says how many words it has.
    `inverse_norm` float32: cos(q, pooled) = Σ cos(q, member) · inverse_norm (0 where the sum is 0).
    `vectors` float32 [n, D] replaces it for levels that were encoded.
    """

    first: np.ndarray
    end: np.ndarray
    low: np.ndarray
    high: np.ndarray
    members: Table
    words: np.ndarray
    inverse_norm: np.ndarray
    vectors: np.ndarray | None = None


@dataclass(frozen=True)
class Levels:
    """All levels of a bank, the windows of each unit, and the episode of each window, int32.

    `cosine` float64 is that of each window's vector with the one before, 0 where a session begins.
    """

    spans: Level
    windows: Level
    episodes: Level
    windows_of_unit: Table
    episode_of: np.ndarray
    cosine: np.ndarray


# (first, end) of intervals in unit rows -> their encoded vectors [n, D]
Encoded = Callable[[np.ndarray, np.ndarray], np.ndarray]


def window_intervals(
    bounds: np.ndarray, size: int, stride: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows as (first, end, session): starts 0, stride, … up to the one that reaches the end."""
    length = np.diff(bounds)
    count = np.maximum(-(-(length - size) // stride), 0) + 1
    session = np.repeat(np.arange(len(length)), count)
    step = np.arange(len(session)) - np.repeat(np.cumsum(count) - count, count)
    first = bounds[session] + step * stride
    return first, np.minimum(first + size, bounds[session + 1]), session


def episode_breaks(
    cosine: np.ndarray, session: np.ndarray, starts_at: np.ndarray, config: Config
) -> np.ndarray:
    """Where each episode begins: window rows, ascending.

    A window opens an episode when it opens a session, when its cosine with the window before is under
    mean − `episode_sigma` · std of its session's cosines, or after a silence longer than
    `episode_gap_hours` between the first units of the two (`starts_at`, seconds or NaN).
    """
    if len(session) == 0:
        return np.empty(0, np.int64)
    cosine = cosine[1:]
    inside = session[:-1] == session[1:]
    home = session[:-1][inside]
    sessions = int(session[-1]) + 1
    count = np.maximum(np.bincount(home, minlength=sessions), 1)
    mean = np.bincount(home, cosine[inside], sessions) / count
    spread = np.bincount(home, (cosine[inside] - mean[home]) ** 2, sessions) / count
    floor = mean - config.episode_sigma * np.sqrt(spread)
    silence = np.diff(starts_at) > config.episode_gap_hours * 3600.0
    # equal cosines must not break by the rounding of their own mean
    opens = ~inside | (cosine < floor[session[:-1]] - 1e-12) | silence
    return np.concatenate([[0], np.flatnonzero(opens) + 1])


def build_levels(
    vectors: Vectors, bounds: np.ndarray, time: np.ndarray, words_ptr: np.ndarray, config: Config,
    encoded_windows: Encoded | None = None, encoded_episodes: Encoded | None = None,
    before: tuple[Levels, np.ndarray] | None = None,
) -> Levels:  # fmt: skip
    """Spans, windows and episodes of a bank.

    Args:
        vectors: [units, D] in session order.
        bounds: int64 [sessions + 1].
        time: float64 [units], seconds or NaN.
        words_ptr: int64 [units + 1], words up to each unit.
        config: sizes and thresholds.
        encoded_windows: looks up encoded window vectors; None pools them.
        encoded_episodes: the same for episodes.
        before: levels of the same bank at another time, and the unit there of each unit here, int64, −1 for
            none: intervals of the same units keep what was computed.
    """
    first, end = local_spans(bounds, config.local_radius)
    units = len(first)
    # a unit is in the spans of those that are in its own
    around = first.astype(np.int32), end.astype(np.int32)
    same = _same(before, "spans", first, end)
    spans = _level(vectors, words_ptr, first, end, around, same, before and before[0].spans)
    first, end, session = window_intervals(bounds, config.window_size, config.window_stride)
    same = _same(before, "windows", first, end)
    window_vectors = None if encoded_windows is None else encoded_windows(first, end)
    around = covering(first, end, units)
    old = before and before[0].windows
    windows = _level(vectors, words_ptr, first, end, around, same, old, window_vectors)
    cosine = _window_cosines(vectors, windows, session, same, before and before[0].cosine)
    opens = episode_breaks(cosine, session, time[first] if len(first) else time[:0], config)
    episode_of = np.repeat(np.arange(len(opens), dtype=np.int32), np.diff(np.append(opens, len(first))))
    begin, stop = first[opens], end[np.append(opens[1:], len(first)) - 1] if len(opens) else first[:0]
    same = _same(before, "episodes", begin, stop)
    episode_vectors = None if encoded_episodes is None else encoded_episodes(begin, stop)
    around = covering(begin, stop, units)
    old = before and before[0].episodes
    episodes = _level(vectors, words_ptr, begin, stop, around, same, old, episode_vectors)
    return Levels(spans, windows, episodes, from_ranges(windows.low, windows.high), episode_of, cosine)


def grow_levels(
    vectors: Vectors, bounds: np.ndarray, time: np.ndarray, words_ptr: np.ndarray, config: Config,
    old: Levels, old_bounds: np.ndarray,
) -> Levels:  # fmt: skip
    """Pooled levels of a bank that goes on from an older one: units came only at the end.

    Sessions do not reach into each other, so only the last old one and those behind it are looked at.

    Args:
        vectors: [units, D] in session order.
        bounds: int64 [sessions + 1].
        time: float64 [units].
        words_ptr: int64 [units + 1].
        config: sizes and thresholds.
        old: the older levels.
        old_bounds: int64, the older sessions.
    """
    start, units = (int(old_bounds[-2]) if len(old_bounds) > 1 else 0), int(old_bounds[-1])
    heads = {name: int(np.searchsorted(getattr(old, name).first, start)) for name in _NAMES}
    there = np.arange(len(time) - start)
    there[units - start :] = -1
    ends = {name: _since(getattr(old, name), at, start) for name, at in heads.items()}
    windows = heads["windows"]
    end = Levels(
        **ends, windows_of_unit=old.windows_of_unit,
        episode_of=old.episode_of[windows:], cosine=old.cosine[windows:],
    )  # fmt: skip
    inside = bounds[np.searchsorted(bounds, start) :] - start
    fresh = build_levels(
        vectors.since(start), inside, time[start:], words_ptr[start:], config, before=(end, there)
    )
    return Levels(
        **{
            name: _joined(getattr(old, name), at, start, getattr(fresh, name)) for name, at in heads.items()
        },
        windows_of_unit=spliced_rows(old.windows_of_unit, start, fresh.windows_of_unit, windows),
        episode_of=spliced(old.episode_of, windows, fresh.episode_of + np.int32(heads["episodes"])),
        cosine=spliced(old.cosine, windows, fresh.cosine),
    )


def _since(level: Level, interval: int, unit: int) -> Level:
    """A level's intervals from one on, which is the first of a session that begins with `unit`.

    Only to compare with: its members are not cut.
    """
    return Level(
        level.first[interval:] - unit, level.end[interval:] - unit,
        level.low[unit:] - np.int32(interval), level.high[unit:] - np.int32(interval),
        level.members, level.words[interval:], level.inverse_norm[interval:],
    )  # fmt: skip


def _joined(level: Level, interval: int, unit: int, rest: Level) -> Level:
    """The intervals before one, and behind them those of `rest`, whose units begin at `unit`."""
    return Level(
        spliced(level.first, interval, rest.first + unit),
        spliced(level.end, interval, rest.end + unit),
        spliced(level.low, unit, rest.low + np.int32(interval)),
        spliced(level.high, unit, rest.high + np.int32(interval)),
        spliced_rows(level.members, interval, rest.members, unit),
        spliced(level.words, interval, rest.words),
        spliced(level.inverse_norm, interval, rest.inverse_norm),
    )


def _same(
    before: tuple[Levels, np.ndarray] | None, name: str, first: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """The interval of the same units that a level had before, int64, −1 for none."""
    if before is None:
        return np.full(len(first), -1, np.int64)
    old: Level = getattr(before[0], name)
    return kept_intervals(before[1], first, end, old.first, old.end, anchored=name == "spans")


def _level(
    vectors: Vectors, words_ptr: np.ndarray, first: np.ndarray, end: np.ndarray,
    around: tuple[np.ndarray, np.ndarray], same: np.ndarray, old: Level | None,
    encoded: np.ndarray | None = None,
) -> Level:  # fmt: skip
    """A level; norms that are known are taken over."""
    fresh = np.flatnonzero(same < 0)
    if old is not None and len(old.first):
        inverse = old.inverse_norm[same]
    else:
        inverse = np.empty(len(first), np.float32)
    norm = sum_norms(*vectors, first[fresh], end[fresh])
    inverse[fresh] = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    words = words_ptr[end] - words_ptr[first]
    return Level(first, end, *around, from_ranges(first, end), words, inverse, encoded)


def _window_cosines(
    vectors: Vectors, windows: Level, session: np.ndarray, same: np.ndarray, old: np.ndarray | None
) -> np.ndarray:
    """Cosine of each window's vector with the one before in its session, float64; `old` are known ones."""
    cosine = np.zeros(len(session))
    wanted = np.zeros(len(session), bool)
    wanted[1:] = session[1:] == session[:-1]
    if old is not None and len(old) and windows.vectors is None:
        known = wanted & (same > 0)
        known[1:] &= same[1:] == same[:-1] + 1
        cosine[known] = old[same[known]]
        wanted &= ~known
    here = np.flatnonzero(wanted)
    if windows.vectors is None:
        wanted[:-1] |= wanted[1:]
        pair, norm = np.flatnonzero(wanted), np.zeros(len(session))
        norm[pair] = sum_norms(*vectors, windows.first[pair], windows.end[pair])
        cosine[here] = sum_cosines(*vectors, windows.first, windows.end, norm, here)
        return cosine
    # a chunk at a time: all windows in float64 would be as large as the bank
    for begin in range(0, len(here), _CHUNK):
        at = here[begin : begin + _CHUNK]
        mine, before = (windows.vectors[one].astype(np.float64) for one in (at, at - 1))
        cosine[at] = np.einsum("ij,ij->i", before, mine)
    return cosine
