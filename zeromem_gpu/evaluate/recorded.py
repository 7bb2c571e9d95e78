"""Answers that a reader gave before, read back in place of a reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate.datasets import Dataset
from zeromem_gpu.traces import read_json_lines

if TYPE_CHECKING:
    from zeromem_gpu import SearchResult


class Reply(NamedTuple):
    """One answer of a reader; recorded ones cost no tokens now."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    error: str | None = None


class RecordedReader:
    """A reader that looks its answers up by bank and question, whatever the evidence.

    A question that stands several times in its bank has several answers: within one call of `read` its n-th
    occurrence gets the n-th.
    """

    name = "recorded"

    def __init__(self, answers: dict[tuple[str, str], list[str]]) -> None:
        self._answers = answers

    @property
    def fingerprint(self) -> str:
        """Tells one set of answers from another."""
        told = repr(sorted(self._answers.items())).encode("utf-8", "backslashreplace")
        return f"recorded {blake2b(told, digest_size=8).hexdigest()}"

    @classmethod
    def load(cls, path: str | Path, dataset: Dataset) -> RecordedReader:
        """Read JSON Lines with `question`, its bank (`sample_id` or `bank`) and the `answer`.

        answers.jsonl of another run is such a file; of it the answers before calibration are taken.
        Every question of `dataset` must have an answer; otherwise `InvalidInput` names the first without.
        """
        answers: dict[tuple[str, str], list[str]] = {}
        for number, row in read_json_lines(path):
            bank, text = row.get("sample_id", row.get("bank")), row.get("question")
            answer = row.get("reader_answer", row.get("answer"))
            if not isinstance(bank, str) or not isinstance(text, str) or answer is None:
                allowed = "an object with sample_id or bank, question and answer"
                raise InvalidInput(f"{path}:{number}", "another schema", allowed)
            answers.setdefault((bank, text), []).append(str(answer))
        asked = Counter((question.bank, question.text) for question in dataset.questions)
        for (bank, text), count in asked.items():
            if len(answers.get((bank, text), ())) < count:
                got = f"{len(answers.get((bank, text), ()))} answers to {text[:60]!r} of bank {bank}"
                raise InvalidInput(str(path), got, f"{count}, one for each time it is asked")
        return cls(answers)

    def read(self, results: Sequence[SearchResult]) -> list[Reply]:
        """The recorded answer of each result's question; an error where there is none."""
        seen: Counter[tuple[str, str]] = Counter()
        replies = []
        for result in results:
            key = (result.bank, result.query)
            known = self._answers.get(key, [])
            if seen[key] < len(known):
                replies.append(Reply(known[seen[key]]))
            else:
                replies.append(Reply("", error="no recorded answer"))
            seen[key] += 1
        return replies
