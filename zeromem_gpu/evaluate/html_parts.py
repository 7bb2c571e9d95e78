"""The pieces of the HTML page: its style, tables whose cells are escaped, numbers as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from zeromem_gpu.evaluate.bootstrap import Interval
from zeromem_gpu.evaluate.compare import Row

_LONGEST = 400  # characters of one cell

STYLE = """
:root{color-scheme:light dark;--paper:#fbfaf8;--ink:#1d2126;--soft:#5d6570;--rule:#e2dfd9;--card:#fff;
--c0:#2f6fb0;--c1:#c4622d;--c2:#3f8f5f;--c3:#8a5fb0}
@media(prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e6e8ea;--soft:#9aa3ad;--rule:#2e343b;
--card:#1c2026;--c0:#6aa9e6;--c1:#eb9160;--c2:#75c294;--c3:#bd97e0}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:980px;margin:0 auto;padding:40px 20px 80px}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 4px}
h2{font-size:1.2rem;margin:48px 0 12px;padding-top:12px;border-top:1px solid var(--rule)}
p,.note{color:var(--soft);max-width:72ch;margin:6px 0}
.key{display:inline-block;width:12px;height:12px;border-radius:2px;vertical-align:-1px;margin:0 4px 0 10px}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem;margin:10px 0;
min-width:50%}
caption{text-align:left;color:var(--soft);padding:4px 0}
th,td{padding:5px 12px 5px 0;text-align:right;border-bottom:1px solid var(--rule);white-space:pre}
th{font-weight:600;color:var(--soft)}
th:first-child,td:first-child{text-align:left}
td small{color:var(--soft);font-size:.82em;margin-left:4px}
tr.lead td{font-weight:650}
td.up{color:var(--c2);font-weight:600}td.down{color:var(--c1);font-weight:600}
table.plain td{text-align:left;white-space:normal;overflow-wrap:anywhere}
.cards{display:flex;flex-wrap:wrap;gap:12px;margin:24px 0 8px}
.card{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:12px 18px;
min-width:150px}
.card b{display:block;font-size:1.7rem;line-height:1.25}.card span{color:var(--soft);font-size:.88rem}
details{margin:10px 0}summary{cursor:pointer;color:var(--soft)}
"""


class Markup(str):
    """A whole table cell that is HTML already; every other text is escaped."""

    __slots__ = ()


def leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of a nested mapping; lists as text."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from leaves(one, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix, ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def short(value: Any) -> str:
    """Escaped, and cut where it is very long."""
    text = str(value)
    return escape(text if len(text) <= _LONGEST else text[:_LONGEST] + " …")


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], lead: int | None = None
) -> str:
    """A table in which the row `lead` stands out; what is no `Markup` is escaped."""
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = []
    for at, row in enumerate(rows):
        cells = "".join(cell if isinstance(cell, Markup) else f"<td>{escape(cell)}</td>" for cell in row)
        body.append(f'<tr class="lead">{cells}</tr>' if at == lead else f"<tr>{cells}</tr>")
    return (
        f'<div class="wide"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def folded(name: str, body: str) -> str:
    """Shown when its name is clicked."""
    return f"<details><summary>{escape(str(name))}</summary>{body}</details>"


def note(text: str) -> str:
    """A line of plain text."""
    return f'<p class="note">{escape(text)}</p>'


def spread(value: Interval | None) -> str:
    """A cell with a value and its interval."""
    if value is None:
        return "–"
    return Markup(
        f"<td>{100 * value.mean:.1f}<small>{100 * value.low:.1f}–{100 * value.high:.1f}</small></td>"
    )


def gain(row: Row) -> str:
    """A cell with a difference and its interval, coloured where it leaves 0 out."""
    side = "" if not row.certain else ' class="up"' if row.difference > 0 else ' class="down"'
    around = f"{100 * row.low:+.1f} … {100 * row.high:+.1f}"
    return Markup(f"<td{side}>{100 * row.difference:+.2f}<small>{around}</small></td>")


def pair(f1: float | None, bleu1: float | None) -> str:
    """F1 / BLEU-1."""
    return f"{decimal(f1)} / {decimal(bleu1)}"


def hundred(value: float | None) -> float | None:
    """A share in percent; None stays."""
    return None if value is None else 100 * value


def percent(value: float | None) -> str:
    """A share as text in percent; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}"


def decimal(value: float | None, digits: int = 2) -> str:
    """A number as text; a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"
