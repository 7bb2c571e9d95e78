"""A benchmark of one's own: traces and questions in two JSON Lines files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zeromem_gpu import Trace
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate.datasets import Conversation, Dataset, Question
from zeromem_gpu.traces import read_json_lines, read_traces

PROTOCOLS = ("gam", "squad", "amem")

_FIELDS = ("question", "bank", "answer", "gold", "expected", "category", "id")


def load_jsonl(traces: str | Path, questions: str | Path) -> Dataset:
    """Read traces (as `zeromem-gpu index` reads them) and the questions about them.

    A question is an object with `question` and any of `bank` (needed when there are several), `answer`,
    `gold` (ids of the traces that hold the answer; `expected` is read as well), `category` and `id`, which
    only you use. A gold id that its bank does not hold, or a file that is torn or of another schema, is an
    `InvalidInput` that names the line.
    """
    banks: dict[str, list[Trace]] = {}
    for trace in read_traces(traces):
        banks.setdefault(trace.bank, []).append(trace)
    if not banks:
        raise InvalidInput(str(traces), "no traces", "at least one trace")
    ids = {name: {trace.id for trace in mine} for name, mine in banks.items()}
    asked: dict[str, list[Question]] = {name: [] for name in banks}
    for number, row in read_json_lines(questions):
        where = f"{questions}:{number}"
        bank = _bank(row, where, banks)
        asked[bank].append(_question(row, where, bank, len(asked[bank]), ids[bank]))
    if not any(asked.values()):
        raise InvalidInput(str(questions), "no questions", "at least one question")
    conversations = [Conversation(name, tuple(mine), tuple(asked[name])) for name, mine in banks.items()]
    return Dataset("jsonl", tuple(conversations), (), PROTOCOLS)


def _bank(row: Mapping[str, Any], where: str, banks: Mapping[str, list[Trace]]) -> str:
    name = row.get("bank") or (next(iter(banks)) if len(banks) == 1 else None)
    if name not in banks:
        known = ", ".join(list(banks)[:5]) + (", …" if len(banks) > 5 else "")
        raise InvalidInput(where, f"bank = {name!r}", f"a bank of the traces: {known}")
    return str(name)


def _question(row: Mapping[str, Any], where: str, bank: str, index: int, known: set[str]) -> Question:
    unknown = [name for name in row if name not in _FIELDS]
    if unknown:
        raise InvalidInput(where, f"unknown field {unknown[0]!r}", ", ".join(_FIELDS))
    text, answer = row.get("question"), row.get("answer")
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(where, f"question = {text!r:.60}", "a question that is not blank")
    gold = row.get("gold", row.get("expected", []))
    if not isinstance(gold, list) or not all(isinstance(one, str) for one in gold):
        raise InvalidInput(where, f"gold = {gold!r:.60}", "a list of trace ids")
    lost = [one for one in gold if one not in known]
    if lost:
        raise InvalidInput(where, f"gold id {lost[0]!r}", f"ids of traces in bank {bank!r}")
    gold = tuple(dict.fromkeys(gold))
    return Question(
        bank=bank,
        index=index,
        category=str(row.get("category", "all")),
        text=text,
        answer=None if answer is None else str(answer),
        gold=gold,
        scored=bool(gold),
    )
