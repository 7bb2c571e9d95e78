"""HotpotQA as a memory benchmark: one bank a question, its own paragraphs among seeded distractors."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, overload

from zeromem_gpu import Trace
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate.datasets import Conversation, Dataset, Question, Support
from zeromem_gpu.traces import read_json_lines

SPLITS = ("reporting", "tuning")
REPORTING = 200  # dev questions 0 to 199 are reported; the rest, and what comes from train, is for tuning
PROTOCOLS = ("squad", "gam")

_REMEDY = "Get the file again, or point --data at the folder with dev500.jsonl and corpus.jsonl."


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One document: its title, its text, and its sentences where they are known."""

    title: str
    text: str
    sentences: tuple[str, ...]


class Documents(Sequence[Trace]):
    """The traces of one bank, made when they are read: 100 banks of 3,200 need not exist at once."""

    def __init__(self, bank: str, paragraphs: Sequence[Paragraph]) -> None:
        self._bank = bank
        self._paragraphs = paragraphs

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Trace]: ...
    def __getitem__(self, index: int | slice) -> Trace | Sequence[Trace]:
        """A document as a trace, or some of them."""
        if isinstance(index, slice):
            return Documents(self._bank, self._paragraphs[index])
        return document_trace(self._bank, self._paragraphs[index])

    def __len__(self) -> int:
        """How many documents the bank holds."""
        return len(self._paragraphs)


def document_trace(bank: str, paragraph: Paragraph) -> Trace:
    """A document as the only trace of its own session.

    Its title is its id, an entity of it, and the beginning of its text, so that title words count in BM25
    and the unit is encoded with them. As a speaker it ranks no better, and makes the bank a dialogue.
    """
    title, text = paragraph.title, _titled(paragraph)
    return Trace(id=title, text=text, bank=bank, session=title, source=title, entities=(title,))


def _titled(paragraph: Paragraph) -> str:
    return f"{paragraph.title}: {paragraph.text}"


def load_hotpotqa(
    path: str | Path,
    *,
    documents: int = 400,
    questions: int | None = None,
    split: str = "reporting",
    seed: int = 0,
) -> Dataset:
    """Read the memory variant from its folder.

    Each question has a bank of `documents` paragraphs: its own context, and distractors drawn without
    replacement from the rest of `corpus.jsonl`, then from `extra_distractors.jsonl`, in an order of the
    question's own. A smaller bank of a question is a part of its larger one. `split` "reporting" is dev 0
    to 199, "tuning" the other dev questions and then those of train; `questions` keeps the first of them.
    Gold ids are titles. Missing, torn or foreign files raise `InvalidInput`.
    """
    folder = _folder(Path(path))
    if split not in SPLITS:
        raise InvalidInput("split", repr(split), " or ".join(SPLITS))
    rows = _dev_rows(folder / "dev500.jsonl", split)
    detailed = {
        row["id"]: row for _, row in _rows(folder / "sentence_level.jsonl", _DETAILED, absent_ok=True)
    }
    if split == "tuning":
        rows += [_with_titles(row) for row in detailed.values() if row["split"] == "train"]
    if questions is not None and not 1 <= questions <= len(rows):
        raise InvalidInput("questions", questions, f"1 to {len(rows)}, all of the {split} split")
    rows = rows[:questions]
    corpus = _paragraphs(folder / "corpus.jsonl")
    extra = _paragraphs(folder / "extra_distractors.jsonl", absent_ok=True)
    extra = {title: one for title, one in extra.items() if title not in corpus}
    conversations = [
        _conversation(row, detailed.get(row["id"]), corpus, extra, documents, seed) for row in rows
    ]
    tuning = tuple(one.id for one in conversations) if split == "tuning" else ()
    about = {"documents": documents, "split": split, "seed": seed}
    return Dataset("hotpotqa", tuple(conversations), tuning, PROTOCOLS, about)


_DEV = ("id", "dev_index", "question", "answer", "type", "gold_titles", "context_titles")
_DETAILED = ("id", "split", "question", "answer", "type", "supporting_facts", "context")
_CORPUS = ("title", "text")


def _folder(path: Path) -> Path:
    for place in (path, path / "hotpotqa"):
        if (place / "dev500.jsonl").is_file():
            return place
    raise InvalidInput("data", str(path), "a folder that holds dev500.jsonl", _REMEDY)


def _rows(
    file: Path, keys: Sequence[str], *, absent_ok: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row with where it stands; each must have the keys."""
    if absent_ok and not file.is_file():
        return
    empty = True
    for number, row in read_json_lines(file):
        empty = False
        missing = [key for key in keys if key not in row]
        if missing:
            raise InvalidInput(f"{file}:{number}", f"no {missing[0]!r}", ", ".join(keys), _REMEDY)
        yield f"{file}:{number}", row
    if empty:
        raise InvalidInput(str(file), "an empty file", "one JSON object a line", _REMEDY)


def _dev_rows(file: Path, split: str) -> list[dict[str, Any]]:
    rows = []
    for where, row in _rows(file, _DEV):
        lists = (row["gold_titles"], row["context_titles"])
        if not isinstance(row["dev_index"], int) or not all(isinstance(one, list) for one in lists):
            raise InvalidInput(where, "another schema", "dev_index a number, titles in lists", _REMEDY)
        if (row["dev_index"] < REPORTING) is (split == "reporting"):
            rows.append(row)
    return rows


def _with_titles(row: dict[str, Any]) -> dict[str, Any]:
    """A row that carries its own context, with the titles that dev rows have."""
    gold = list(dict.fromkeys(title for title, _ in row["supporting_facts"]))
    return row | {"gold_titles": gold, "context_titles": [title for title, _ in row["context"]]}


def _paragraphs(file: Path, *, absent_ok: bool = False) -> dict[str, Paragraph]:
    found: dict[str, Paragraph] = {}
    for where, row in _rows(file, _CORPUS, absent_ok=absent_ok):
        title, text, sentences = row["title"], row["text"], row.get("sentences") or []
        texts = (title, text, *(sentences if isinstance(sentences, list) else [None]))
        if not all(isinstance(one, str) for one in texts) or not title:
            raise InvalidInput(where, "another schema", "title, text and sentences as text", _REMEDY)
        found.setdefault(title, Paragraph(title, text, tuple(sentences)))
    return found


def _conversation(
    row: Mapping[str, Any],
    detailed: Mapping[str, Any] | None,
    corpus: Mapping[str, Paragraph],
    extra: Mapping[str, Paragraph],
    documents: int,
    seed: int,
) -> Conversation:
    own = {
        title: Paragraph(title, "".join(sentences), tuple(sentences))
        for title, sentences in (detailed or {}).get("context", ())
    }
    # the corpus is what other banks show of a title too; only what it lacks comes from the question's row
    context = {title: corpus.get(title) or own.get(title) for title in dict.fromkeys(row["context_titles"])}
    missing = [title for title in (*context, *row["gold_titles"]) if context.get(title) is None]
    name = str(row["id"])
    if missing:
        raise InvalidInput(f"corpus.jsonl, question {name}", f"no {missing[0]!r}", "every context title")
    most = len(context) + sum(title not in context for title in (*corpus, *extra))
    if not len(context) <= documents <= most:
        raise InvalidInput("docs", documents, f"{len(context)} to {most}, the context and its distractors")
    bank = [one for one in context.values() if one is not None]
    draw = _random(seed, name, "distractors")
    for pool in (corpus, extra):
        others = [one for title, one in pool.items() if title not in context]
        # all of it is put in order, so that a larger bank holds the smaller one
        bank += draw.sample(others, len(others))[: documents - len(bank)]
    _random(seed, name, documents).shuffle(bank)
    gold = tuple(dict.fromkeys(row["gold_titles"]))
    support = _support(row, detailed, {one.title: one for one in bank}, own)
    question = Question(
        name, 0, str(row["type"]), row["question"], str(row["answer"]), gold, bool(gold), support
    )
    return Conversation(name, Documents(name, bank), (question,))


def _support(
    row: Mapping[str, Any],
    detailed: Mapping[str, Any] | None,
    bank: Mapping[str, Paragraph],
    own: Mapping[str, Paragraph],
) -> tuple[Support, ...]:
    """The supporting sentences as spans of the documents; none where one of them is not known."""
    spans = []
    for title, number in (detailed or row).get("supporting_facts") or ():
        text = _titled(bank[title]) if title in bank else ""
        sentences = (own.get(title) or bank.get(title) or Paragraph("", "", ())).sentences
        sentence = sentences[number].strip() if number < len(sentences) else ""
        # behind the title, which the first sentence often repeats
        start = text.find(sentence, len(title) + 2) if sentence else -1
        if start < 0:
            return ()
        spans.append(Support(title, start, start + len(sentence)))
    return tuple(dict.fromkeys(spans))


def _random(seed: int, *names: object) -> random.Random:
    digest = blake2b(repr((seed, *names)).encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "little"))
