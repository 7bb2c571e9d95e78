"""Two plots as inline SVG, drawn by hand: bars with intervals, lines over a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

WIDTH = 680
_LABEL = 150
_ROW = 34
_PLOT = WIDTH - _LABEL - 60


class Bar(NamedTuple):
    """A value between 0 and 1 with its interval, and the same of an opponent, where known."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    opponent: float | None = None


class Line(NamedTuple):
    """A named curve: points (x, y in percent); a dashed one is not ours."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def bars(rows: Sequence[Bar], title: str) -> str:
    """Horizontal bars from 0 to 100 %, a whisker for the interval, a tick for the opponent; "" for none."""
    if not rows:
        return ""
    height = _ROW * len(rows) + 30
    parts = [_open(height, title)]
    for percent in range(0, 101, 20):
        x = _LABEL + _PLOT * percent / 100
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{height - 26}"/>')
        parts.append(
            f'<text class="axis" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{percent}</text>'
        )
    for at, row in enumerate(rows):
        top = at * _ROW + 8
        middle = top + 10
        width = _PLOT * _clip(row.value)
        parts.append(
            f'<text x="{_LABEL - 10}" y="{middle + 4}" text-anchor="end">{escape(row.label)}</text>'
        )
        parts.append(
            f'<rect class="bar" x="{_LABEL}" y="{top}" width="{width:.1f}" height="20" rx="3">'
            f"<title>{escape(_bar_title(row))}</title></rect>"
        )
        end = _LABEL + width
        if row.low is not None and row.high is not None:
            left, right = (_LABEL + _PLOT * _clip(value) for value in (row.low, row.high))
            parts.append(
                f'<path class="whisker" d="M{left:.1f} {middle - 5}v10M{left:.1f} {middle}H{right:.1f}'
                f'M{right:.1f} {middle - 5}v10"/>'
            )
            end = max(end, right)
        if row.opponent is not None:
            x = _LABEL + _PLOT * _clip(row.opponent)
            parts.append(f'<path class="tick" d="M{x:.1f} {top - 3}v26"/>')
            end = max(end, x)
        parts.append(f'<text class="value" x="{end + 8:.1f}" y="{middle + 4}">{100 * row.value:.1f}</text>')
    return "".join(parts) + "</svg>"


def lines(curves: Sequence[Line], title: str, x_label: str) -> str:
    """Curves over the same x, y in percent on an axis that holds them all; "" without points."""
    curves = [one for one in curves if one.points]
    if not curves:
        return ""
    xs = sorted({x for one in curves for x, _ in one.points})
    ys = [y for one in curves for _, y in one.points]
    low, high = 10 * int(min(ys) // 10), 10 * int(-(-max(ys) // 10))
    high += 10 * (high == low)
    height, left, right, bottom = 280, 44, 190, 34
    # budgets are few and uneven, so each takes the same room
    place = {x: left + (WIDTH - left - right) * at / max(len(xs) - 1, 1) for at, x in enumerate(xs)}

    def y_of(value: float) -> float:
        return 12 + (height - bottom - 12) * (high - value) / (high - low)

    parts = [_open(height, title)]
    for value in range(low, high + 1, 10):
        y = y_of(value)
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{WIDTH - right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="axis" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    for x, at in place.items():
        parts.append(f'<text class="axis" x="{at:.1f}" y="{height - 14}" text-anchor="middle">{x:g}</text>')
    parts.append(f'<text class="axis" x="{WIDTH - right + 12}" y="{height - 14}">{escape(x_label)}</text>')
    names = _apart([y_of(one.points[-1][1]) for one in curves])
    for number, (one, name_y) in enumerate(zip(curves, names, strict=True)):
        style = f"curve c{number % 4}" + (" dashed" if one.dashed else "")
        path = "L".join(f"{place[x]:.1f} {y_of(y):.1f}" for x, y in one.points)
        parts.append(f'<path class="{style}" d="M{path}"/>')
        for x, y in one.points:
            parts.append(
                f'<circle class="dot c{number % 4}" cx="{place[x]:.1f}" cy="{y_of(y):.1f}" r="3.5">'
                f"<title>{escape(one.name)}, {x:g}: {y:.1f}</title></circle>"
            )
        end = place[one.points[-1][0]] + 10
        parts.append(
            f'<text class="name c{number % 4}" x="{end:.1f}" y="{name_y + 4:.1f}">{escape(one.name)}</text>'
        )
    return "".join(parts) + "</svg>"


def style() -> Mapping[str, str]:
    """CSS rules of both plots: selector → declarations."""
    return {
        "svg": "width:100%;max-width:680px;height:auto;display:block",
        "svg text": "fill:var(--ink);font-size:13px",
        "svg .axis": "fill:var(--soft);font-size:11px",
        "svg .value": "font-variant-numeric:tabular-nums;font-weight:600",
        "svg .grid": "stroke:var(--rule);stroke-width:1",
        "svg .bar": "fill:var(--c0)",
        "svg .whisker": "stroke:var(--ink);stroke-width:1.5;fill:none",
        "svg .tick": "stroke:var(--c1);stroke-width:3;fill:none",
        "svg .curve": "fill:none;stroke-width:2.2",
        "svg .dashed": "stroke-dasharray:5 4",
        **{f"svg .curve.c{n}": f"stroke:var(--c{n})" for n in range(4)},
        **{f"svg .dot.c{n},svg .name.c{n}": f"fill:var(--c{n})" for n in range(4)},
    }


def _open(height: int, title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img"><title>{escape(title)}</title>'


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _bar_title(row: Bar) -> str:
    text = f"{row.label}: {100 * row.value:.1f}"
    if row.low is not None and row.high is not None:
        text += f" ({100 * row.low:.1f} to {100 * row.high:.1f})"
    return text if row.opponent is None else f"{text}; opponent {100 * row.opponent:.1f}"


def _apart(ys: Sequence[float], least: float = 16.0) -> list[float]:
    """The same heights, pushed down where two names would stand on each other."""
    placed = list(ys)
    last = float("-inf")
    for at in sorted(range(len(placed)), key=lambda at: placed[at]):
        placed[at] = last = max(placed[at], last + least)
    return placed
