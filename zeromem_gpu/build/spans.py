"""What the encoder reads of units, and vectors of windows and episodes where these are encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from zeromem_gpu.build.arena import Span
from zeromem_gpu.build.facts import EPISODE_LEVEL, WINDOW_LEVEL, Bank, MemoryIndex
from zeromem_gpu.build.hierarchy import build_levels, window_intervals
from zeromem_gpu.build.units import Rows, canonical_rows
from zeromem_gpu.build.views import bank_ledger, span_members, stored_spans
from zeromem_gpu.config import Config
from zeromem_gpu.encoders.protocol import Encoder, checked_encode
from zeromem_gpu.text.normalize import clean
from zeromem_gpu.types import Trace

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def unit_text(trace: Trace, body: str, config: Config) -> str:
    """What the encoder reads of a unit: `[8 May 2023] Ann: body [shares caption]`; "" for a blank unit."""
    body = " ".join(body.split())
    caption = " ".join(clean(trace.caption or "").split()) if config.encode_caption else ""
    if not body and not caption:
        return ""
    parts = [body]
    if config.encode_speaker and trace.speaker:
        parts[0] = f"{clean(trace.speaker)}: {body}"
    if config.encode_time and trace.time:
        day = datetime.fromisoformat(str(trace.time))
        parts.insert(0, f"[{day.day} {_MONTHS[day.month - 1]} {day.year}]")
    if caption:
        parts.append(f"[shares {caption}]")
    return " ".join(parts)


def encode_spans(index: MemoryIndex, names: Sequence[str], encoder: Encoder, config: Config) -> MemoryIndex:
    """Encode the windows and episodes of the named banks that have no vector yet."""
    banks = dict(index.banks)
    for name in names:
        ledger = bank_ledger(index, banks[name], config)
        rows = canonical_rows(index, banks[name], ledger)
        first, end, _ = window_intervals(rows.bounds, config.window_size, config.window_stride)
        banks[name] = _encode_level(index, banks[name], rows, WINDOW_LEVEL, first, end, encoder, config)
        windows = stored_spans(index, banks[name], rows, WINDOW_LEVEL)
        episodes = build_levels(
            rows.vectors, rows.bounds, rows.time, rows.words_ptr, config, windows
        ).episodes
        banks[name] = _encode_level(
            index, banks[name], rows, EPISODE_LEVEL, episodes.first, episodes.end, encoder, config
        )
    return replace(index, banks=banks)


def _encode_level(
    index: MemoryIndex, bank: Bank, rows: Rows, level: int, first: np.ndarray, end: np.ndarray,
    encoder: Encoder, config: Config,
) -> Bank:  # fmt: skip
    spans = index.facts(bank, "spans")
    known = set(spans["members"][spans["level"] == level].tolist())
    wanted = {key: at for at, key in enumerate(span_members(rows, first, end)) if key not in known}
    if not wanted:
        return bank
    units, traces = index.facts(bank, "units"), index.column(bank, "traces", "trace")

    def text(unit: int) -> str:
        trace: Trace = traces[units["trace"][unit]]
        return unit_text(trace, clean(trace.text)[units["start"][unit] : units["end"][unit]], config)

    texts = [
        "\n".join(filter(None, (text(unit) for unit in rows.unit_rows[first[at] : end[at]])))
        for at in wanted.values()
    ]
    filled = [at for at, joined in enumerate(texts) if joined]
    vectors = np.zeros((len(texts), index.dim), np.float32)
    vectors[filled], _ = checked_encode(encoder, [texts[at] for at in filled])
    at = np.array(list(wanted.values()), np.int64)
    columns = {
        "level": np.full(len(at), level, np.int32),
        "first": rows.unit_rows[first[at]].astype(np.int32),
        "last": rows.unit_rows[end[at] - 1].astype(np.int32),
        "members": np.array(list(wanted), np.int64),
        "vector": vectors,
    }
    grown = index.arenas["spans"].append(bank.spans.get("spans", Span()), columns)
    return bank.changed(spans={**bank.spans, "spans": grown})
