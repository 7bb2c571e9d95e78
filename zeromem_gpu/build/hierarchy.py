"""The time hierarchy of a bank: local spans, windows and episodes over its units (method.md 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zeromem_gpu.config import Config

# shorter intervals are summed together, one member a step; longer ones (few) each by itself
_SHORT = 64


@dataclass(frozen=True)
class Level:
    """Intervals of units, [first, end) each, with vectors or the norm of their members' sum.

    `inverse_norm` float32: cos(q, pooled) = Σ cos(q, member) · inverse_norm (0 where the sum is 0).
    `vectors` float32 [n, D] replaces it for levels that were encoded.
    """

    first: np.ndarray
    end: np.ndarray
    inverse_norm: np.ndarray
    vectors: np.ndarray | None = None


# (first, end) of intervals in unit rows -> their encoded vectors [n, D]
Encoded = Callable[[np.ndarray, np.ndarray], np.ndarray]


def local_spans(vectors: np.ndarray, bounds: np.ndarray, radius: int) -> Level:
    """Each unit with `radius` neighbours on each side, inside its session."""
    session = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    unit = np.arange(len(session))
    first = np.maximum(unit - radius, bounds[session])
    end = np.minimum(unit + radius + 1, bounds[session + 1])
    return Level(first, end, _inverse_norm(_sums(vectors, first, end)))


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
    window_vectors: np.ndarray, session: np.ndarray, starts_at: np.ndarray, config: Config
) -> np.ndarray:
    """Where each episode begins: window rows, ascending.

    A window opens an episode when it opens a session, when its cosine with the window before is under
    mean − `episode_sigma` · std of its session's cosines, or after a silence longer than
    `episode_gap_hours` between the first units of the two (`starts_at`, seconds or NaN).
    """
    if len(session) == 0:
        return np.empty(0, np.int64)
    cosine = np.einsum("ij,ij->i", window_vectors[:-1], window_vectors[1:])
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
    vectors: np.ndarray, bounds: np.ndarray, time: np.ndarray, config: Config,
    encoded_windows: Encoded | None = None, encoded_episodes: Encoded | None = None,
) -> tuple[Level, Level, Level, np.ndarray]:  # fmt: skip
    """Spans, windows and episodes of a bank, and the episode of each window.

    Args:
        vectors: float32 [units, D] in session order.
        bounds: int64 [sessions + 1].
        time: float64 [units], seconds or NaN.
        config: sizes and thresholds.
        encoded_windows: looks up encoded window vectors; None pools them.
        encoded_episodes: the same for episodes.
    """
    spans = local_spans(vectors, bounds, config.local_radius)
    first, end, session = window_intervals(bounds, config.window_size, config.window_stride)
    sums = _sums(vectors, first, end)
    pooled = sums * _inverse_norm(sums, np.float64)[:, None]
    window_vectors = None if encoded_windows is None else encoded_windows(first, end)
    basis = pooled if window_vectors is None else window_vectors.astype(np.float64)
    windows = Level(first, end, _inverse_norm(sums), window_vectors)
    opens = episode_breaks(basis, session, time[first] if len(first) else time[:0], config)
    episode_of = np.repeat(np.arange(len(opens)), np.diff(np.append(opens, len(first))))
    begin, stop = first[opens], end[np.append(opens[1:], len(first)) - 1] if len(opens) else first[:0]
    episode_vectors = None if encoded_episodes is None else encoded_episodes(begin, stop)
    episodes = Level(begin, stop, _inverse_norm(_sums(vectors, begin, stop)), episode_vectors)
    return spans, windows, episodes, episode_of


def _sums(vectors: np.ndarray, first: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Σ of the member vectors of each interval, float64 [n, D], members added in order."""
    total = np.zeros((len(first), vectors.shape[1]))
    length = end - first
    for row in np.flatnonzero(length > _SHORT):
        total[row] = vectors[first[row] : end[row]].sum(0, dtype=np.float64)
    short = np.flatnonzero(length <= _SHORT)
    for step in range(int(length[short].max(initial=0))):
        rows = short[step < length[short]]
        total[rows] += vectors[first[rows] + step]
    return total


def _inverse_norm(sums: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    norm = np.linalg.norm(sums, axis=1)
    inverse: np.ndarray = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 1e-9)
    return inverse.astype(dtype)
