"""Bars on a logarithmic axis as a small SVG file that stands alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _LABEL, _ROW, _RIGHT = 760, 320, 24, 70


class Bar(NamedTuple):
    """A positive value with its label; `ours` is drawn in the stronger colour."""

    label: str
    value: float
    ours: bool


def log_bars(groups: Sequence[tuple[str, Sequence[Bar]]], title: str, unit: str) -> str:
    """Groups of horizontal bars over powers of ten; "" without a positive value."""
    values = [bar.value for _, bars in groups for bar in bars if bar.value > 0]
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high += low == high
    plot = _WIDTH - _LABEL - _RIGHT
    rows = sum(len(bars) + 1 for _, bars in groups)
    height = rows * _ROW + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>{escape(title)}</title>'
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>'
    ]
    for power in range(low, high + 1):
        x = _LABEL + plot * (power - low) / (high - low)
        parts.append(f'<line x1="{x:.1f}" y1="8" x2="{x:.1f}" y2="{height - 36}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{height - 20}" text-anchor="middle" fill="#666">{10.0**power:g}</text>'
        )
    parts.append(f'<text x="{_LABEL}" y="{height - 4}" fill="#666">{escape(unit)}</text>')
    y = 14
    for name, bars in groups:
        parts.append(f'<text x="8" y="{y + 12}" font-weight="bold">{escape(name)}</text>')
        y += _ROW
        for bar in bars:
            length = plot * (math.log10(bar.value) - low) / (high - low) if bar.value > 0 else 0.0
            colour = "#0b6e4f" if bar.ours else "#9aa5b1"
            parts.append(
                f'<text x="{_LABEL - 8}" y="{y + 12}" text-anchor="end">{escape(bar.label)}</text>'
            )
            parts.append(
                f'<rect x="{_LABEL}" y="{y}" width="{max(length, 1):.1f}" height="16" fill="{colour}"/>'
            )
            parts.append(f'<text x="{_LABEL + length + 6:.1f}" y="{y + 12}">{bar.value:.3g}</text>')
            y += _ROW
    return "".join(parts) + "</svg>\n"
