"""The demonstration that ships with the package: an invented conversation and questions about it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

from zeromem_gpu import Trace
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.traces import read_json_lines, read_traces


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question, the bank it is asked of, its answer, and the traces that hold it."""

    text: str
    bank: str
    answer: str
    expected: tuple[str, ...]


def load_demo() -> tuple[list[Trace], list[DemoQuestion]]:
    """The traces and the questions of the demonstration."""
    folder = files("zeromem_gpu") / "demo"
    with as_file(folder / "conversation.jsonl") as path:
        traces = list(read_traces(path))
    questions = []
    with as_file(folder / "questions.jsonl") as path:
        for number, row in read_json_lines(path):
            try:
                text, bank, answer = (str(row[name]) for name in ("question", "bank", "answer"))
                expected = tuple(str(one) for one in row["expected"])
                questions.append(DemoQuestion(text, bank, answer, expected))
            except (KeyError, TypeError) as error:
                allowed = "an object with question, bank, answer and expected"
                raise InvalidInput(f"{path}:{number}", f"no {error}", allowed) from error
    return traces, questions
