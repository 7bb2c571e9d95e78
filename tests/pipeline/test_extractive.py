"""The extractive reader: which sentence it takes, what it takes from it, and when it says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.test_answer import PARTY, PETS, TRIP, found
from zeromem_gpu import Evidence, QueryProfile, SearchResult, Trace, make_reader


def read(result: SearchResult) -> str:
    (reply,) = make_reader("extractive").read([result])
    assert reply.error is None
    return reply.text


def told(
    question: str, kind: str, *turns: tuple[int | None, str, str, float], subjects: tuple[str, ...] = ()
) -> SearchResult:
    """A result of turns (turn number, speaker, text, fused score) of one session."""
    evidence = tuple(
        Evidence(
            Trace(id=str(at), text=text, session="s", turn=turn, speaker=who),
            score, None, None, "primary" if score else "neighbour", 0, len(text),
        )
        for at, (turn, who, text, score) in enumerate(turns)
    )  # fmt: skip
    return SearchResult(question, "b", QueryProfile(question, subjects, answer_type=kind), evidence)


def one(question: str, kind: str, text: str, who: str = "Ann") -> SearchResult:
    return told(question, kind, (1, who, text, 1.0))


ASKED = "Which pet do you keep at home, Bob?"
REPLY = "A tortoise named Toby lives with us."
OTHER = "Feeding a stray pet at home is forbidden."


@pytest.mark.parametrize("turn", [7, 4, None], ids=["next", "earlier", "unknown"])
def test_closure_pays_where_it_brings_the_reply_to_a_question(turn: int | None) -> None:
    """Only the turn behind the question answers it: elsewhere the other words win."""
    evidence = ((6, "Ann", ASKED, 1.0), (2, "Bob", OTHER, 0.6), (turn, "Bob", REPLY, 0.0))
    answer = read(told("What pet does Bob keep at home?", "entity", *evidence, subjects=("Bob",)))
    assert answer == ("tortoise named Toby lives with us." if turn == 7 else "stray pet")


def test_the_same_turn_of_another_session_is_no_reply() -> None:
    question = Trace(id="q", text=ASKED, session="s", turn=6, speaker="Ann")
    reply = Trace(id="r", text=REPLY, session="t", turn=7, speaker="Bob")
    other = Trace(id="o", text=OTHER, session="u", turn=2, speaker="Bob")
    scored = ((question, 1.0), (other, 0.6), (reply, 0.0))
    evidence = tuple(
        Evidence(trace, score, None, None, "primary", 0, len(trace.text)) for trace, score in scored
    )
    profile = QueryProfile("What pet does Bob keep at home?", ("Bob",))
    assert read(SearchResult(profile.text, "b", profile, evidence)) == "stray pet"


@pytest.mark.parametrize("mark", ["?", "?!", "？", "؟", '?"'])
def test_no_question_is_an_answer(mark: str) -> None:
    asked = (1, "Ann", f"What did Bob buy, a boat{mark}", 1.0)
    assert read(told("What did Bob buy?", "entity", asked)) == ""
    both = told(
        "What did Bob buy?", "entity", (1, "Ann", "What did Bob buy?", 1.0), (5, "Bob", "A canoe.", 0.1)
    )
    assert read(both) == "canoe."


FORMS = {
    "leads-and-names": ("What did Ann bake?", "entity", "Hey Ann, I baked a plum cake.", "plum cake."),
    "kind-of-thing": (
        "What kind of boat did Ann buy?", "entity", "I bought an old fishing boat.", "old fishing boat",
    ),
    "thing-without-a-kind": ("What boat did Ann buy?", "entity", "My boat is red.", "red."),
    "thanks-say-nothing": ("What did Ann bake?", "entity", "Thanks, Ann! A plum cake.", "plum cake."),
    "count-beside-its-thing": ("How many cakes?", "count", "We had three guests and two cakes.", "two"),
    "count-elsewhere": ("How many owls?", "count", "We had three guests.", "three guests"),
    "duration": ("How long did Ann walk?", "duration", "I walked three whole weeks.", "three whole weeks"),
    "frequency": ("How often does Ann run?", "frequency", "I run twice a week.", "twice a week"),
    "age": ("How old is Ann?", "age", "I turned 34 in May.", "turned 34"),
    "title": ("Which film did Ann see?", "title", 'I saw "The Long Way" in Bergen.', "The Long Way"),
    "title-unquoted": ("Which film did Ann see?", "title", "I saw Solaris again.", "Solaris"),
    "place-not-person": ("Where did Ann go?", "place", "I went with Carla to Lake Como.", "Lake Como"),
    "place-in-apposition": ("Where was Ann born?", "place", "I was born by the sea, Bergen.", "Bergen"),
    "person-not-addressed": ("Who helped Annabel?", "person", "Yes Ann, it was Carla.", "Carla"),
    "list-of-names": ("Which pets?", "list", "My dogs are Rex and Luna.", "Rex, Luna"),
    "list-without-names": ("Which fruits?", "list", "I like plums and pears.", "like plums and pears."),
    "reason": ("Why did Ann leave?", "reason", "I left because my bus was late.", "my bus was late."),
    "told-in-two": (
        "How was the trip?", "description", "The trip was long. We saw whales near the coast.",
        "long. saw whales near the coast.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("question", "kind", "text", "expected"), FORMS.values(), ids=FORMS.keys())
def test_forms(question: str, kind: str, text: str, expected: str) -> None:
    assert read(one(question, kind, text)) == expected


def test_a_choice_is_an_option_of_the_question() -> None:
    found = one("Does Ann prefer tea or coffee?", "choice", "I drink coffee all day.")
    profile = QueryProfile(
        found.query, ("Ann",), answer_type="choice", entities=("Ann",), options=("tea", "coffee")
    )
    assert read(SearchResult(found.query, "b", profile, found.evidence)) == "coffee"


YES_NO = {
    "supported": (one("Did Ann bake a cake?", "yes/no", "I baked a huge cake."), "Yes"),
    "denied": (one("Did Ann bake a cake?", "yes/no", "I never baked a cake for Bob."), "No"),
    "unrelated": (one("Did Ann bake a cake?", "yes/no", "It rained in Bergen."), "No"),
    "half-held": (one("Did Ann sell kayaks in Oslo?", "yes/no", "Oslo is rainy."), "No"),
    "reply": (
        told(
            "Did Bob sell the kayak?", "yes/no",
            (1, "Ann", "Did you sell that kayak?", 1.0), (2, "Bob", "Sure, it went on Monday.", 0.0),
        ),
        "Yes",
    ),
    "nothing": (found("Did Ann bake?", "yes/no"), ""),
}  # fmt: skip


@pytest.mark.parametrize(("result", "expected"), YES_NO.values(), ids=YES_NO.keys())
def test_yes_needs_evidence_that_holds_half_of_the_question(result: SearchResult, expected: str) -> None:
    assert read(result) == expected


def test_what_another_person_did_is_no_yes() -> None:
    said = (1, "Bob", "I bought a red kayak.", 1.0)
    assert read(told("Did Ann buy a kayak?", "yes/no", said, subjects=("Ann",))) == "No"
    assert read(told("Did Bob buy a kayak?", "yes/no", said, subjects=("Bob",))) == "Yes"


def test_what_is_said_stands_before_a_caption_of_the_same_words() -> None:
    seen = Trace(id="1", text="Look.", caption="a blue kayak beside a tree", speaker="Bob")
    said = Trace(id="2", text="A red kayak from my uncle.", speaker="Bob")
    evidence = tuple(Evidence(one, 1.0, None, None, "primary", 0, len(one.text)) for one in (seen, said))
    profile = QueryProfile("What kayak is it?", answer_type="entity")
    assert read(SearchResult(profile.text, "b", profile, evidence)) == "red kayak"


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("小明买了什么？", "小明昨天买了一艘红色的皮划艇。", "今天下雨。"),
        ("Что купила Анна?", "Анна купила красную лодку.", "Вчера шёл дождь."),
        ("ماذا اشترت ليلى؟", "ليلى اشترت قاربا أحمر.", "الجو ممطر اليوم."),
    ],
    ids=["han", "cyrillic", "arabic"],
)
def test_any_script(question: str, right: str, wrong: str) -> None:
    answer = read(told(question, "entity", (1, "", wrong, 1.0), (9, "", right, 0.9)))
    assert answer
    assert answer in right


KINDS = ["date", "duration", "frequency", "count", "number", "age", "yes/no", "choice", "list", "person",
         "place", "title", "entity", "reason", "description", "inference", "of another kind"]  # fmt: skip


ANY = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60)


@given(st.lists(ANY, max_size=4), ANY, st.sampled_from(KINDS))
def test_any_text_gives_words_of_its_own(texts: list[str], question: str, kind: str) -> None:
    answer = read(told(question, kind, *((at, "Ann", text, 0.0) for at, text in enumerate(texts))))
    if kind in ("entity", "inference", "person", "place", "of another kind"):
        assert not answer or any(answer in " ".join(text.split()) for text in texts)


def test_a_reply_is_the_same_alone_and_in_a_batch() -> None:
    asked = [found("What did Bob buy?", kind, TRIP, PARTY, PETS) for kind in KINDS]
    replies = make_reader("extractive").read(asked)
    assert [reply.text for reply in replies] == [read(result) for result in asked]
