"""The rules of answer calibration one by one, each with what it must leave alone, and idempotency."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest

from tests.pipeline.test_answer import PARTY, PETS, TRIP, found
from zeromem_gpu import Evidence, InvalidInput, QueryProfile, SearchResult, Trace, calibrate_answer
from zeromem_gpu.calibrate.amounts import ages, durations, frequencies, numbers
from zeromem_gpu.calibrate.times import moments
from zeromem_gpu.text.answer_types import ANSWER_TYPES

DANCE = ("d", "Last Friday I took Gina to a dance class.", "Ann", "2023-07-23T10:00:00")  # a Sunday
RUN = ("r", "Last Friday I ran a race.", "Bob", "2023-07-19T10:00:00")  # a Wednesday
FEW = ("f", "I got my tattoo a few years ago.", "Ann", "2023-07-19T10:00:00")
WHEN = "When did Ann go to a dance class?"
CAKES = ("c", "On 3 May 2024 at 5:30 we baked 12 cakes, as in 2019.", "Ann", "2024-05-20")
KIDS = ("k", "My two children love the 40 animals there.", "Ann", "2024-05-20")
AGED = ("a", "Leo turned 30 and 25 people came.", "Ann", "2024-05-20")

PAID = ("x", "I paid $250 for 2 of them.", "Ann", "2024-05-20")
TEN = ("x", "It took ten days.", "Ann", "2024-05-20")
DATED = ("x", "It took ten days from 1 May 2024.", "Ann", "2024-05-20")
DAILY = ("x", "I run daily.", "Ann", "2024-05-20")
TWICE = ("x", "I run two times a week.", "Ann", "2024-05-20")
OTHER = ("x", "I saw 10 cakes.", "Ann", "2024-05-20")
CLOCK = ("x", "On 3 May 2024, in 2019, at 5:30.", "Ann", "2024-05-20")
LOOSE = "not on 3 June 2024 but on 2 June 2024"


def changed(said: str, result: SearchResult) -> tuple[str, list[str]]:
    """The calibrated answer and its rules; every change must name traces of the result."""
    text, changes = calibrate_answer(said, result)
    names = {one.trace.id for one in result}
    assert all(change.evidence and set(change.evidence) <= names for change in changes)
    assert calibrate_answer(text, result) == (text, ())
    return text, [change.rule for change in changes]


@pytest.mark.parametrize(
    ("question", "told", "said", "expected"),
    [
        # supported: one of the two Fridays that the words may mean
        (WHEN, DANCE, "21 July 2023", "21 July 2023"),
        (WHEN, DANCE, "14 July 2023", "14 July 2023"),
        (WHEN, DANCE, "On 21 July, 2023.", "21 July 2023"),
        (WHEN, DANCE, "the Friday before July 23, 2023", "the Friday before 23 July 2023"),
        # the day of telling, where the words may mean two days
        (WHEN, DANCE, "23 July 2023", "the Friday before 23 July 2023"),
        (WHEN, DANCE, "last Friday", "the Friday before 23 July 2023"),
        # one Friday under both readings
        ("When did Bob run?", RUN, "19 July 2023", "14 July 2023"),
        ("When did Bob run?", RUN, "Last Friday.", "14 July 2023"),
        # a stretch: no day of it is known
        ("When was the party?", PARTY, "13 May 2024", "the week before 20 May 2024"),
        ("When was the party?", PARTY, "the week before 20 May 2024", "the week before 20 May 2024"),
        ("When was the party?", PARTY, "May 2024", "May 2024"),
        ("When did Ann get a tattoo?", FEW, "A few years ago", "a few years before 2023"),
        ("When did Bob buy a kayak?", TRIP, "Around 2 June 2024, I think", "Around 2 June 2024"),
        ("When did Bob buy a kayak?", TRIP, LOOSE, LOOSE),
        ("When did Bob buy a kayak?", TRIP, "before 3 June 2024", "before 3 June 2024"),
        ("When did Bob buy a kayak?", TRIP, "3 June 2024 at 5 pm", "2 June 2024 at 5 pm"),
        ("When did Bob buy a kayak?", TRIP, "2 June 2024 at 5 pm", "2 June 2024 at 5 pm"),
        ("When did Bob buy a kayak?", TRIP, "from 1 June to 2 June 2024", "from 1 June to 2 June 2024"),
        ("When did Bob buy a kayak?", TRIP, "In the summer, after work", "In the summer, after work"),
        # of no passage: the only date of all of them
        ("When did Bob buy a kayak?", TRIP, "9 January 2020", "2 June 2024"),
    ],
)  # fmt: skip
def test_dates(question: str, told: tuple[str, str, str, str], said: str, expected: str) -> None:
    assert changed(said, found(question, "date", told))[0] == expected


def test_a_date_of_no_passage_stays_where_the_evidence_has_two() -> None:
    assert changed("9 January 2020", found("When?", "date", TRIP, PARTY)) == ("9 January 2020", [])


def test_a_date_that_one_passage_resolves_to_stays_though_a_better_one_says_less() -> None:
    vague = ("v", "Ann went to a dance class last week.", "Ann", "2023-07-24")
    sure = ("s", "Yesterday was fun.", "Ann", "2023-07-22")
    assert changed("21 July 2023", found(WHEN, "date", vague, sure)) == ("21 July 2023", [])


SPOKEN = "1:56 pm on 8 May, 2023"
EAST = timezone(timedelta(hours=14))


@pytest.mark.parametrize(
    ("time", "zone", "expected"),
    [
        (SPOKEN, "UTC", "7 May 2023"),
        ("May 8, 2023", "Asia/Tokyo", "7 May 2023"),
        ("2023-05-08T00:30:00+14:00", "UTC", "7 May 2023"),
        (datetime(2023, 5, 8, 0, 30, tzinfo=EAST), "America/New_York", "7 May 2023"),
        (datetime(2023, 5, 8, 23, 30), "Asia/Tokyo", "7 May 2023"),
        ("some day", "UTC", "Yesterday"),
    ],
    ids=str,
)
def test_the_day_of_telling_is_read_in_every_form_of_time(
    time: datetime | str, zone: str, expected: str
) -> None:
    trace = Trace(id="1", text="Yesterday I ran.", speaker="Bob", time=time)
    evidence = (Evidence(trace, 1.0, 1.0, 1.0, "primary", 0, len(trace.text)),)
    result = SearchResult("When did Bob run?", "b", QueryProfile("", answer_type="date"), evidence)
    assert calibrate_answer("Yesterday", result, zone)[0] == expected


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidInput):
        calibrate_answer("Yesterday", found("When?", "date"), "Mars/Olympus")


@pytest.mark.parametrize(
    ("question", "kind", "told", "said", "expected"),
    [
        ("How many cakes were baked?", "count", [CAKES], "15 cakes", "12 cakes"),
        ("How many cakes were baked?", "count", [CAKES], "twelve", "twelve"),
        # two candidates in all of the evidence, though the best passage has one
        ("How many cakes were baked?", "count", [CAKES, OTHER], "15", "15"),
        ("How many children does Ann have?", "count", [KIDS], "Three children", "two children"),
        ("How many children does Ann have?", "count", [KIDS], "2", "2"),
        ("How many dogs does Ann have?", "count", [KIDS], "three", "three"),
        ("How many cakes did Ann see?", "count", [CLOCK], "9", "9"),
        ("How old is Leo?", "age", [AGED], "31", "30"),
        ("How old is Leo?", "age", [KIDS], "31", "31"),
        ("How much was it?", "number", [PAID], "$300", "$250"),
        ("How much was it?", "number", [PAID], "3 kg", "3 kg"),
        ("How long was it?", "duration", [TEN], "It lasted 10 days, I think.", "10 days"),
        ("How long was it?", "duration", [TEN], "Almost ten days, she said", "Almost ten days"),
        ("How long was it?", "duration", [TEN], "three weeks", "ten days"),
        # may have been counted from the dates of the evidence
        ("How long was it?", "duration", [DATED], "19 days", "19 days"),
        ("How often?", "frequency", [TWICE], "She runs at least twice a week.", "at least twice a week"),
        ("How often?", "frequency", [DAILY], "every week", "daily"),
        ("How often?", "frequency", [DAILY], "every day", "every day"),
    ],
)  # fmt: skip
def test_amounts(
    question: str, kind: str, told: list[tuple[str, str, str, str]], said: str, expected: str
) -> None:
    assert changed(said, found(question, kind, *told))[0] == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Yes, because she bought a kayak.", "Yes"),
        ("No. She had no kayak.", "No"),
        ("no - she walked", "no"),
        ("Yes, but only in Bergen", "Yes, but only in Bergen"),
        ("Likely yes, she bought it", "Likely yes, she bought it"),
        ("Yes, likely.", "Yes, likely."),
        ("No, there is no evidence of that.", "No, there is no evidence of that."),
        ("Yes and no, it depends", "Yes and no, it depends"),
        ("No one bought a kayak", "No one bought a kayak"),
        ("She did buy a kayak", "She did buy a kayak"),
        ("Yes", "Yes"),
    ],
)
def test_yes_and_no(said: str, expected: str) -> None:
    assert changed(said, found("Did Bob buy a kayak?", "yes/no", TRIP, subjects=("Bob",)))[0] == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Bob would rather take the red kayak trip", "red kayak"),
        ("Red kayak", "Red kayak"),
        ("a kayak", "a kayak"),
        ("the red kayak, not the blue kayak", "the red kayak, not the blue kayak"),
        ("Both the red and the blue kayak", "Both the red and the blue kayak"),
        ("Bob would not take the red kayak", "Bob would not take the red kayak"),
        ("Bob would take the blue kayak", "Bob would take the blue kayak"),  # no passage has it
    ],
)
def test_choices(said: str, expected: str) -> None:
    question = "Would Bob take a red kayak or a blue kayak?"
    profile = QueryProfile(question, ("Bob",), answer_type="choice", options=("red kayak", "blue kayak"))
    result = SearchResult(question, "b", profile, found(question, "choice", TRIP).evidence)
    assert changed(said, result)[0] == expected


@pytest.mark.parametrize(
    ("question", "kind", "said", "expected"),
    [
        ("Who inspired Ann?", "person", "Her dog Rex inspired Ann.", "Her dog Rex"),
        ("Whose dog did Ann meet?", "person", "Ann's dog Rex.", "Ann's dog Rex."),
        ("What did Ann do with her dogs?", "entity", "Ann walked her dogs.", "walked her dogs."),
        ("What type of dogs?", "entity", "The dogs Rex and Luna", "The dogs Rex and Luna"),
        ("Which dogs does Ann have?", "list", "Ann has Rex, Luna and Rex", "Rex, Luna"),
        ("Which books?", "list", '"Rex and Robin", Luna and Minka', '"Rex and Robin", Luna and Minka'),
        ("What did Ann call?", "entity", "The answer is Minka (her cat)", "Minka"),
    ],
)  # fmt: skip
def test_shortening_and_items(question: str, kind: str, said: str, expected: str) -> None:
    assert changed(said, found(question, kind, PETS, subjects=("Ann",)))[0] == expected


def test_amounts_are_read_in_digits_and_words() -> None:
    assert [one.worth[1] for one in numbers("twenty-one dogs, 1,200 cats, a dozen eggs, the 3rd one")] == [
        21,
        1200,
        12,
    ]
    assert {one.worth for one in durations("2 weeks, fourteen days, two-week")} == {("s", 14 * 86400.0)}
    assert {one.worth for one in frequencies("twice a week, two times per week")} == {("week", 2.0)}
    assert [one.text for one in ages("He turned 30, aged 31, 32 years old, 40 people")] == [
        "30",
        "31",
        "32",
    ]


def test_what_a_moment_is_written_as_is_read_as_the_same_days() -> None:
    said = (
        "yesterday, last week, next week, this week, last weekend, two weeks ago, a few days ago,"
        " last Friday, next Friday, last month, last year, last summer, this past Sunday, 3 years ago,"
        " the day before yesterday, several months ago"
    )
    for shift in range(400):
        for one in moments(said, datetime(2023, 1, 1).date() + timedelta(days=shift)):
            again = moments(one.text if one.days < 366 else f"in {one.text}", None)
            assert [(m.text, m.also) for m in again] == [(one.text, one.also)]


LEADS = [
    "",
    "The answer is ",
    "Based on the evidence, ",
    "Ann ",
    "Ann's dogs are ",
    "It was ",
    "They met on ",
    "Yes, ",
    "No, ",
]
PARTS = [
    "Rex", "Luna and Minka", "2 June 2024", "3 June, 2024", "last week", "in 2023", "May 2024",
    "the week before 20 May 2024", "they",
    "the Friday before 23 July 2023", "31 February 2024", "two cakes", "15 cakes",
    "twice a week", "ten days", "Bergen", "a red kayak",
    "an old house", "because she likes it", "not", "yesterday", "at noon", '"Rex and Luna"', "about",
    "before", "and", "30", "$5",
]  # fmt: skip
ASIDES = [
    "",
    "",
    "",
    " (in May)",
    " (2 June 2024)",
    ".",
    ", specific date not mentioned.",
    " (last week)",
    " (a) (b)",
]


def test_a_calibrated_answer_is_calibrated_already() -> None:
    rng = random.Random(7)
    told = [PARTY, TRIP, PETS, DANCE, RUN, FEW, CAKES, KIDS, AGED]
    questions = [
        WHEN,
        "How many cakes did Ann bake?",
        "Which pets does Ann have?",
        "Did Bob buy a red kayak?",
        "Who ran?",
    ]
    moved = 0
    for _ in range(6000):
        parts = [rng.choice(PARTS) for _ in range(rng.randint(1, 4))]
        said = rng.choice(LEADS) + rng.choice([", ", " ", " and "]).join(parts) + rng.choice(ASIDES)
        question = rng.choice(questions)
        profile = QueryProfile(
            question, rng.choice([(), ("Ann",), ("Bob",)]), answer_type=rng.choice(ANSWER_TYPES),
            options=rng.choice([(), ("Rex", "Luna"), ("red kayak", "old house")]),
        )  # fmt: skip
        evidence = found(question, "date", *rng.sample(told, rng.randint(0, 4))).evidence
        result = SearchResult(question, "b", profile, evidence)
        once, changes = calibrate_answer(said, result)
        assert calibrate_answer(once, result) == (once, ()), (said, profile.answer_type)
        assert all(one.before != one.after for one in changes)
        moved += once != said
    assert moved > 1000
