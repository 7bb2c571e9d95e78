"""`key=value` words of the command line as a checked `Config`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from zeromem_gpu import Config
from zeromem_gpu.errors import InvalidInput


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """Read `key=value` words against the fields of `Config`; `InvalidInput` for anything else.

    Values are written as in JSON; names need no quotes, and a list may be names between commas. Of two
    words for one key the later counts. Ranges are checked too.

    >>> parse_settings(["rho=0.5", "closure=true", "drop_labels=DATE,TIME"])
    {'rho': 0.5, 'closure': True, 'drop_labels': ('DATE', 'TIME')}
    """
    defaults = Config().to_dict()
    values: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        key = key.strip()
        if not equals:
            raise InvalidInput("--set", repr(word), "key=value, such as rho=0.5")
        if key not in defaults:
            close = difflib.get_close_matches(key, defaults, n=1)
            remedy = f"Did you mean {close[0]}?" if close else ""
            raise InvalidInput("--set", f"unknown key {key!r}", ", ".join(defaults), remedy)
        values[key] = _value(text.strip(), defaults[key])
    Config().replace(**values)
    return values


def _value(text: str, default: Any) -> Any:
    if isinstance(default, str):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(default, list):
        names = value if isinstance(value, list) else [part.strip() for part in text.split(",")]
        return tuple(name for name in names if name != "")
    if isinstance(default, bool) and text.lower() in ("true", "false"):
        return text.lower() == "true"
    # what is no JSON stays text, so that the range check names what was written
    return text if value is None else value
