"""Readers, prompts and `Memory.ask`: one call a question, answers from the evidence, failures apart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.pipeline.test_answer import PARTY, PETS, TRIP, found
from tests.support import small_memory
from zeromem_gpu import InvalidInput, Memory, ReaderReply, SearchResult, Trace, build_prompt, make_reader

EXTRACTED = {
    "date": (found("When did Bob buy a kayak?", "date", TRIP, PARTY, subjects=("Bob",)), "2 June 2024"),
    "place": (found("Where did Bob buy a kayak?", "place", TRIP, PARTY, subjects=("Bob",)), "Bergen"),
    "count": (found("How many cakes did Ann bake?", "count", PARTY, TRIP, subjects=("Ann",)), "two"),
    "list": (found("Which pets does Ann have?", "list", PETS, subjects=("Ann",)), "Rex, Luna, Minka"),
    "yes": (found("Did Bob buy a kayak?", "yes/no", TRIP), "Yes"),
    "sentence": (found("What did Bob buy?", "entity", TRIP), "Yesterday I bought a red kayak in Bergen."),
    "told-day": (found("When was it?", "date", ("1", "It rained.", "Ann", "2024-01-05")), "5 January 2024"),
    "nothing": (found("Who?", "person"), ""),
}  # fmt: skip


@pytest.mark.parametrize(("result", "expected"), EXTRACTED.values(), ids=EXTRACTED.keys())
def test_the_extractive_reader(result: SearchResult, expected: str) -> None:
    reply = make_reader("extractive").read([result])
    assert [one.text for one in reply] == [expected]
    assert reply[0].prompt_tokens == reply[0].completion_tokens == 0


def test_the_prompt_holds_the_evidence_in_order_of_telling() -> None:
    prompt = build_prompt(found("What did Bob buy?", "entity", TRIP, PARTY))
    assert prompt.index("party was last week") < prompt.index("red kayak")
    assert "Bob: Yesterday" in prompt
    assert prompt.rstrip().endswith("Answer:")


@pytest.fixture
def memory() -> Memory:
    filled = small_memory()
    filled.add([
        Trace(id="1", text="I bought a red kayak in Bergen yesterday.", speaker="Bob", time="2024-06-03"),
        Trace(id="2", text="We saw Ann dance at the harbour.", speaker="Bob", time="2024-06-04"),
    ])  # fmt: skip
    return filled


def test_ask_answers_one_or_many(memory: Memory) -> None:
    one = memory.ask("When did Bob buy a kayak?")
    assert one.text == "2 June 2024"
    assert one.reader == "extractive"
    assert one.result.evidence[0].trace.id == "1"
    many = memory.ask(["When did Bob buy a kayak?", "Who danced?"], top_k=1)
    assert [answer.query for answer in many] == ["When did Bob buy a kayak?", "Who danced?"]
    assert many[0].text == one.text
    assert memory.ask([]) == []


def test_any_function_of_the_prompt_is_a_reader(memory: Memory) -> None:
    asked: list[str] = []

    def reader(prompt: str) -> str:
        asked.append(prompt)
        if "danced" in prompt.rsplit("Question:", 1)[1]:
            raise RuntimeError("no idea")
        return "Bob bought it on 3 June, 2024."

    kayak, dance = memory.ask(["When did Bob buy a kayak?", "Who danced?"], reader=reader)
    assert len(asked) == 2
    assert (kayak.reader_text, kayak.text) == ("Bob bought it on 3 June, 2024.", "2 June 2024")
    assert [change.rule for change in kayak.changes] == ["date-as-told"]
    assert dance.text == ""
    assert "no idea" in (dance.error or "")
    plain = memory.ask("When did Bob buy a kayak?", reader=reader, calibrate=False)
    assert plain.text == plain.reader_text
    assert plain.changes == ()


class Counting:
    """A reader that counts its calls and its tokens."""

    name = "counting"
    calls = 0

    def read(self, results: Sequence[SearchResult]) -> list[ReaderReply]:
        self.calls += 1
        return [ReaderReply("Bob", 7, 2) for _ in results]


def test_a_batch_is_one_call_and_tokens_are_kept(memory: Memory) -> None:
    reader = Counting()
    answers = memory.ask(["Who bought it?"] * 3, reader=reader)
    assert reader.calls == 1
    assert {(a.prompt_tokens, a.completion_tokens) for a in answers} == {(7, 2)}


@pytest.mark.parametrize("reader", ["gpt", "", 5, None])
def test_another_reader_is_refused_before_anything_is_searched(memory: Memory, reader: object) -> None:
    with pytest.raises(InvalidInput, match="reader"):
        memory.ask("Who?", reader=reader)  # type: ignore[arg-type]


def test_an_option_of_another_reader_is_refused_by_name(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match=r"model: got it for the extractive reader; allowed: zone there"):
        make_reader("extractive", model="m")
    with pytest.raises(InvalidInput, match="model: got it as an option of ask"):
        memory.ask("Who?", model="m")
    with pytest.raises(InvalidInput, match="reader"):
        make_reader(str.upper, model="m")


@pytest.mark.parametrize("day", ["31 February 2024", "February 31st, 2024", "2024-02-31"])
def test_a_day_that_no_calendar_has_is_asked_like_any_other(memory: Memory, day: str) -> None:
    answer = memory.ask(f"Where did Bob buy a red kayak on {day}?")
    assert answer.error is None
    assert answer.text != ""
    assert answer.result.profile.validity is None, "no interval is made up"
    said = memory.ask("When did Bob buy a kayak?", reader=lambda prompt: day)
    assert said.error is None
    assert said.text != ""


def test_ten_thousand_words_are_cut_and_calibrated(memory: Memory) -> None:
    answer = memory.ask("When did Bob buy a kayak?", reader=lambda prompt: "well " * 10_000)
    assert answer.error is None
    assert 0 < len(answer.text) <= 8000
