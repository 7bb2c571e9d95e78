"""LoCoMo as it is on disk, turned into traces and questions. Only what was said is ever indexed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from zeromem_gpu import Trace
from zeromem_gpu.errors import InvalidInput

CATEGORIES: Mapping[int, str] = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
LOCOMO_TUNING = ("conv-26", "conv-30", "conv-41")

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_TIME = "%I:%M %p on %d %B, %Y"
_REMEDY = "Get the file again, or point --data at the LoCoMo release."


class Support(NamedTuple):
    """A span of a trace that supports the answer: characters `start` to `end` of trace `id`."""

    id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Question:
    """One benchmark question: `index` is its place in its conversation, `gold` trace ids that exist.

    A question that is not `scored` is asked and left out of every average of evidence. `support` are gold
    spans inside gold traces. `gold_audited` and `answer_audited` are the labels after a public audit, the
    same as before where it found no fault; None where there was no audit.
    """

    bank: str
    index: int
    category: int | str
    text: str
    answer: str | None
    gold: tuple[str, ...]
    scored: bool
    support: tuple[Support, ...] = ()
    gold_audited: tuple[str, ...] | None = None
    answer_audited: str | None = None

    @property
    def id(self) -> str:
        """Its identity over all conversations; without spaces, as TREC files need."""
        return f"{self.bank}/{self.index}"

    @property
    def kind(self) -> str:
        """The name of its category."""
        category = self.category
        return CATEGORIES.get(category, str(category)) if isinstance(category, int) else category


@dataclass(frozen=True, slots=True)
class Conversation:
    """One history, the whole of one bank, and the questions about it; `traces` may be made when read."""

    id: str
    traces: Sequence[Trace]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named set of conversations, those of them that settings may be tuned on named apart.

    `protocols` names the answer metrics, the primary one first; `about` says what else defines the set.
    """

    name: str
    conversations: tuple[Conversation, ...]
    tuning: tuple[str, ...]
    protocols: tuple[str, ...] = ("gam", "locomo", "amem")
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def traces(self) -> list[Trace]:
        """All traces, conversation by conversation, in the order in which they were said."""
        return [trace for conversation in self.conversations for trace in conversation.traces]

    @property
    def questions(self) -> list[Question]:
        """All questions, conversation by conversation."""
        return [question for conversation in self.conversations for question in conversation.questions]

    def digest(self) -> str:
        """A hash of all questions with their labels and of the sizes of the banks."""
        told = hashlib.blake2b(digest_size=16)
        for one in self.conversations:
            told.update(repr((one.id, len(one.traces), one.questions)).encode("utf-8", "backslashreplace"))
        return told.hexdigest()


def load_locomo(
    path: str | Path,
    *,
    conversations: Sequence[str] | None = None,
    categories: Sequence[int] = (1, 2, 3, 4),
    recovered: bool = False,
) -> Dataset:
    """Read LoCoMo from its folder (or from `locomo10.json` itself).

    `conversations` keeps only these sample ids, in the file's order; `categories` keeps only these
    kinds of questions (5, adversarial, is left out as in the papers). Gold evidence comes from
    `evidence.json` beside the data where there is one, else from the raw strings by the same rule:
    every `D<session>:<turn>` in them, zeros stripped, that exists. Questions are scored when one of
    their raw strings is an existing id as it stands, 1,531 of 1,540, which is what others report on; with
    `recovered` also the 5 whose every id the rule had to repair. A trace is one turn: `id` and `source`
    its dia_id, `bank` the sample id. Missing, torn or foreign files raise `InvalidInput`.
    """
    file = _find(Path(path))
    samples = read_json(file)
    if not isinstance(samples, list) or not samples:
        raise _foreign(file, f"a JSON {type(samples).__name__}", "a list of conversations")
    cleaned = _cleaned_evidence(file.with_name("evidence.json"))
    loaded = tuple(_conversation(file, sample, cleaned, categories, recovered) for sample in samples)
    if conversations is not None:
        known = [conversation.id for conversation in loaded]
        unknown = [name for name in conversations if name not in known]
        if unknown or not conversations:
            raise InvalidInput("conversations", ", ".join(unknown) or "none", ", ".join(known))
        loaded = tuple(one for one in loaded if one.id in conversations)
    return Dataset("locomo", loaded, LOCOMO_TUNING)


def _find(path: Path) -> Path:
    """The data file at `path`, in it, or in its `locomo` folder."""
    places = (path, path / "locomo10.json", path / "locomo" / "locomo10.json")
    for place in places:
        if place.is_file():
            return place
    raise InvalidInput("data", str(path), "a folder that holds locomo10.json", _REMEDY)


def read_json(file: Path) -> Any:
    """A JSON file's value; one that cannot be read or is torn raises `InvalidInput` naming it."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(str(file), error.strerror or error, "a readable file") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(str(file), f"invalid JSON ({error})", "a whole JSON file", _REMEDY) from error


def _foreign(file: Path, got: str, allowed: str) -> InvalidInput:
    return InvalidInput(str(file), got, allowed, _REMEDY)


class _Labels(NamedTuple):
    """What evidence.json says of a question; the audit's labels are None where it found no fault."""

    evidence: list[str]
    evidence_audit: list[str] | None
    answer_audit: str | None


def _cleaned_evidence(file: Path) -> dict[tuple[str, int], _Labels] | None:
    """(sample id, question index) → its labels, or None without the file."""
    if not file.is_file():
        return None
    rows = read_json(file)
    try:
        return {(row["sample_id"], row["qa_index"]): _labels(row) for row in rows}
    except (TypeError, KeyError) as error:
        what = "objects with sample_id, qa_index and evidence"
        raise _foreign(file, f"another schema ({error!r})", f"a list of {what}") from error


def _labels(row: Mapping[str, Any]) -> _Labels:
    audited, answer = row.get("evidence_audit"), row.get("answer_audit")
    return _Labels(
        [str(one) for one in row["evidence"]],
        None if audited is None else [str(one) for one in audited],
        None if answer is None else str(answer),
    )


def _conversation(
    file: Path,
    sample: Any,
    cleaned: Mapping[tuple[str, int], _Labels] | None,
    categories: Sequence[int],
    recovered: bool,
) -> Conversation:
    """One sample; everything but the turns and the questions is generated text and stays unread."""
    name = "?"
    try:
        name = str(sample["sample_id"])
        traces = _traces(name, sample["conversation"])
        known = {trace.id for trace in traces}
        if not traces or len(known) != len(traces):
            raise ValueError("no turns, or a dia_id that occurs twice")
        questions = tuple(
            _question(name, index, row, known, cleaned, recovered)
            for index, row in enumerate(sample["qa"])
            if row["category"] in categories
        )
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        got = f"another schema in conversation {name} ({error!r})"
        raise _foreign(file, got, "the LoCoMo schema (sample_id, conversation, qa)") from error
    return Conversation(name, traces, questions)


def _traces(bank: str, conversation: Mapping[str, Any]) -> tuple[Trace, ...]:
    # date keys exist for sessions that do not: the lists say which sessions there are
    numbers = sorted(int(match[1]) for key in conversation if (match := _SESSION.fullmatch(key)))
    traces = []
    for number in numbers:
        session = f"session_{number}"
        stamp = conversation.get(f"{session}_date_time")
        time = None if stamp is None else datetime.strptime(stamp, _TIME)
        for position, turn in enumerate(conversation[session], 1):
            texts = (turn["dia_id"], turn["text"], turn["speaker"], turn.get("blip_caption") or "")
            if not all(isinstance(text, str) for text in texts):
                raise ValueError(f"turn {position} of {session} is no text")
            traces.append(
                Trace(
                    id=turn["dia_id"],
                    text=turn["text"],
                    bank=bank,
                    session=session,
                    turn=position,
                    time=time,
                    speaker=turn["speaker"],
                    source=turn["dia_id"],
                    caption=turn.get("blip_caption") or None,
                )
            )
    return tuple(traces)


def _question(
    bank: str,
    index: int,
    row: Mapping[str, Any],
    known: set[str],
    cleaned: Mapping[tuple[str, int], _Labels] | None,
    recovered: bool,
) -> Question:
    labels = None
    if cleaned is None:
        found = [_EVIDENCE.findall(raw) for raw in row["evidence"]]
        ids = [f"D{int(session)}:{int(turn)}" for raw in found for session, turn in raw]
    elif (bank, index) in cleaned:
        labels = cleaned[bank, index]
        ids = labels.evidence
    else:
        raise ValueError(f"evidence.json has no entry for question {index}")
    gold = _existing(ids, known)
    answer = None if row.get("answer") is None else str(row["answer"])
    text = row["question"]
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"question {index} is no text")
    scored = bool(gold) and (recovered or any(raw in known for raw in row["evidence"]))
    question = Question(bank, index, row["category"], text, answer, gold, scored)
    if labels is None:
        return question
    audited = labels.evidence_audit
    return replace(
        question,
        # what the audit left alone counts where it counted before
        gold_audited=_existing(audited, known) if audited is not None else gold if scored else (),
        answer_audited=answer if labels.answer_audit is None else labels.answer_audit,
    )


def _existing(ids: Sequence[str], known: set[str]) -> tuple[str, ...]:
    """The ids that are known, each once."""
    return tuple(dict.fromkeys(one for one in ids if one in known))
