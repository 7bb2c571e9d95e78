"""Text on the CPU: nothing is dropped, offsets hold, and odd input never raises."""

from __future__ import annotations

import random
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeromem_gpu.errors import InvalidInput, ModelUnavailable
from zeromem_gpu.text.capitalised import capitalised_names, is_exclamation
from zeromem_gpu.text.dates import date_interval, parse_time
from zeromem_gpu.text.entities import ANSWER_TYPES, CachedExtractor, Mention, SpacyExtractor, type_mask
from zeromem_gpu.text.normalize import clean, entity_name
from zeromem_gpu.text.sentences import split_sentences, split_units
from zeromem_gpu.text.tokens import Analyzer, term_key, term_keys

ODD = {
    "empty": "",
    "blank": " \n\t ",
    "nul": "a\x00b",
    "lone surrogate": "x \ud83d y",
    "emoji": "😀❤️👩‍👩‍👧™",
    "combining": "cafe\u0301 \u0301\u0301",
    "right to left": "שלום \u202eעולם، مرحبا",
    "chinese": "我在北京工作。你呢？",
    "punctuation": "?!…()",
    "long word": "x" * 5000,
    "zero width": "\u200b\u200d\ufeff",
}
odd = pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
any_text = st.text(st.characters(exclude_categories=[]), max_size=80)  # lone surrogates included


# -- normalize --


@given(any_text)
def test_clean_keeps_offsets_and_leaves_text_that_can_be_written(text):
    seen = clean(text)
    assert len(seen) == len(text)
    seen.encode("utf-8")  # raises on a lone surrogate
    assert not any(unicodedata.category(c) == "Cc" and c not in "\t\n\r" for c in seen)
    changed = [(a, b) for a, b in zip(text, seen, strict=True) if a != b]
    assert all(unicodedata.category(a) in ("Cc", "Cs") for a, _ in changed)


def test_clean_replaces_what_cannot_be_read():
    assert clean("a\x00b\x07c\ud800d\r\n\te\x85") == "a b c\ufffdd\r\n\te "


@pytest.mark.parametrize(
    ("surface", "name"),
    [
        ("Caroline’s", "caroline"),
        ("The Smiths'", "smiths"),
        ("  “New   York” ", "new york"),
        ("ＡＢＣ Inc.", "abc inc"),
        ("an apple", "apple"),
        ("The", "the"),
        ("O'Brien", "o'brien"),
        ("C++", "c++"),
        ("MÜNCHEN", "münchen"),
        ("cafe\u0301", "café"),
        ("北京", "北京"),
        ("😀!!", ""),
        ("\ud800", ""),
        ("", ""),
    ],
)
def test_entity_name(surface, name):
    assert entity_name(surface) == name


@given(any_text)
def test_entity_name_of_a_name_is_itself(text):
    assert entity_name(entity_name(text)) == entity_name(text)


# -- tokens --


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, World", ["hello", "world"]),
        ("don't DON’T dont", ["dont", "dont", "dont"]),
        ("O'Brien's", ["o", "brien", "s"]),
        ("1,000.50 3.14 10:30 1,2,3", ["1000.50", "3.14", "10", "30", "1", "2", "3"]),
        ("user_id foo-bar", ["user", "id", "foo", "bar"]),
        ("東京都", ["東京", "京都"]),
        ("日", ["日"]),
        ("iPhone手机2023年", ["iphone", "手机", "2023", "年"]),
        ("カタカナー", ["カタ", "タカ", "カナ", "ナー"]),
        ("안녕하세요", ["안녕", "녕하", "하세", "세요"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("می\u200cخواهم", ["میخواهم"]),
        ("co\u00adoperate", ["cooperate"]),
        ("ﬁne Straße ＡＢＣ", ["fine", "strasse", "abc"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("😀❤️👩‍👩‍👧™🇩🇪1️⃣🈁", []),
        ("?!… \u200b\ufe0f\u0301", []),
        ("", []),
        ("a\x00b \ud800c", ["a", "b", "c"]),
        ("שלום, мир", ["שלום", "мир"]),
    ],
)
def test_tokens(text, tokens):
    assert Analyzer("english").tokens(text) == tokens


@given(st.text(st.characters(categories=["L", "Nd"]), max_size=30))
def test_no_letter_or_digit_is_dropped(text):
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    wanted = {c for c in folded if unicodedata.category(c)[0] in "LN"}
    assert wanted <= set("".join(Analyzer("none").tokens(text)))


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_the_fast_path_for_ascii_gives_the_same_tokens(text):
    analyzer = Analyzer("none")
    assert [*analyzer.tokens(text), "é"] == analyzer.tokens(text + " é")


@given(any_text)
def test_stems_are_as_many_as_tokens(text):
    english, plain = Analyzer("english"), Analyzer("none")
    tokens = english.tokens(text)
    assert len(english.stems(tokens)) == len(tokens)
    assert plain.stems(tokens) == tokens == plain.tokens(text)


def test_stop_words_have_no_stem_and_the_month_is_none_of_them():
    english = Analyzer("english")
    assert english.stems(["the", "paintings", "dont", "may", "paris"]) == ["", "paint", "", "may", "pari"]


def test_an_unknown_stemmer_is_refused():
    with pytest.raises(InvalidInput, match="stemmer"):
        Analyzer("german")  # type: ignore[arg-type]


def test_term_keys_are_stable_across_processes():
    assert term_key("paris") == 1657316678316814225
    assert term_key("") == -5426141060434712860
    assert term_keys(["paris", "rome", "paris"]).tolist() == [
        term_key("paris"),
        term_key("rome"),
        term_key("paris"),
    ]
    assert term_keys([]).dtype == np.int64
    assert term_keys([]).shape == (0,)


# -- sentences --


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("i left. it was fun... really", ["i left.", "it was fun... really"]),
        ("Dr. J. Smith paid 3.50. Ok.", ["Dr. J. Smith paid 3.50.", "Ok."]),
        ("Roe v. Wade vs. us. Next", ["Roe v. Wade vs. us.", "Next"]),
        ("Out at 5 p.m. She left 6 p.m. today.", ["Out at 5 p.m.", "She left 6 p.m. today."]),
        ('He said "Hi." Then left... and came.', ['He said "Hi."', "Then left... and came."]),
        ("Wow!! 😀 Great… Yes", ["Wow!!", "😀 Great…", "Yes"]),
        ("line one\nline two\r\n\r\nthree", ["line one", "line two", "three"]),
        ("好。是！“对？”吗", ["好。", "是！", "“对？”", "吗"]),
        ("1. First\n2. Second", ["1. First", "2. Second"]),
        ("I live in the U.S. Now", ["I live in the U.S.", "Now"]),
        ("सही है। ठीक।", ["सही है।", "ठीक।"]),
        ("?!", ["?!"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_split_sentences(text, sentences):
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


@given(any_text)
def test_sentences_cover_every_character_that_is_not_blank(text):
    seen, spans = clean(text), split_sentences(text)
    assert all(start < end for start, end in spans)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))
    covered = {at for start, end in spans for at in range(start, end)}
    assert {at for at, c in enumerate(seen) if not c.isspace()} <= covered


@given(any_text, st.integers(1, 40))
def test_units_hold_every_character_within_the_limit(text, limit):
    seen, spans = clean(text), split_units(text, limit)
    assert spans
    assert all(0 <= end - start <= limit for start, end in spans)
    covered = {at for start, end in spans for at in range(start, end)}
    assert {at for at, c in enumerate(seen) if not c.isspace()} <= covered
    assert sum(end - start for start, end in spans) == len(covered)


def test_units_are_cut_at_sentences_then_blanks_then_hard():
    assert split_units("", 5) == [(0, 0)]
    assert split_units("short", 5) == [(0, 5)]
    text = "One two. Three four. " + "x" * 25
    assert [text[a:b] for a, b in split_units(text, 20)] == ["One two. Three four.", "x" * 20, "x" * 5]
    text = "alpha beta gamma delta"
    assert [text[a:b] for a, b in split_units(text, 12)] == ["alpha beta", "gamma delta"]
    assert split_units(" " * 9, 4) == [(0, 4)]
    assert all(b % 2 == 0 for _, b in split_units("e\u0301" * 30, 7)), "a mark was cut from its letter"


# -- entities --


@pytest.fixture(scope="module")
def extractor():
    try:
        return SpacyExtractor()
    except (ModelUnavailable, ImportError) as error:
        pytest.skip(str(error))


CHAT = [
    "Hey Melanie! I met Jolene in Paris on Monday.",
    "We saw the Lake of Stars with Zorblat yesterday, it was AMAZING AND FUN.",
    "Wow",
    "",
    "我在北京工作。",
    "Thanks, Kwame! Your sister Anaïs called.",
]


def test_mentions_name_their_characters_and_do_not_overlap(extractor):
    for text, mentions in zip(CHAT, extractor.extract(CHAT), strict=True):
        for mention in mentions:
            assert mention.surface == text[mention.start : mention.end]
            assert mention.name == entity_name(mention.surface) != ""
        ends = [(m.start, m.end) for m in mentions]
        assert all(left[1] <= right[0] for left, right in pairwise(ends))


def test_the_rule_adds_names_that_the_model_alone_misses(extractor):
    with_rule = {m.name for m in extractor.extract([CHAT[1]])[0]}
    assert {"zorblat", "lake of stars"} <= with_rule
    assert not {"amazing", "fun", "amazing and fun"} & with_rule


def test_extraction_does_not_depend_on_the_batch(extractor):
    whole = extractor.extract(CHAT * 7)
    order = list(range(len(CHAT)))
    random.Random(5).shuffle(order)
    shuffled = SpacyExtractor(batch_size=3).extract([CHAT[at] for at in order])
    for place, at in enumerate(order):
        assert shuffled[place] == whole[at] == extractor.extract([CHAT[at]])[0]


@odd
def test_extraction_takes_any_text(extractor, text):
    for mention in extractor.extract([text])[0]:
        assert 0 <= mention.start < mention.end <= len(text)


def test_extraction_takes_long_texts(extractor):
    text = "Mara met Ivo in Rome. " * 100
    assert extractor._pipeline().max_length > 10**8  # nlp raises above it
    assert len(extractor.extract([text])[0]) >= 100
    assert extractor.extract([]) == []


def test_an_absent_pipeline_names_its_remedy():
    with pytest.raises(ModelUnavailable, match="pip install"):
        SpacyExtractor("xx_no_such_model")


def test_cached_mentions_equal_fresh_ones_and_need_no_model(extractor, tmp_path):
    from zeromem_gpu.cache import DiskCache

    first = CachedExtractor(extractor, DiskCache(tmp_path)).extract(CHAT + CHAT)
    assert first == extractor.extract(CHAT + CHAT)

    class Silent:
        fingerprint = extractor.fingerprint

        def extract(self, texts):
            raise AssertionError(f"{len(texts)} texts reached the model")

    assert CachedExtractor(Silent(), DiskCache(tmp_path)).extract(CHAT[::-1]) == first[: len(CHAT)][::-1]


def test_mentions_are_read_once_for_each_distinct_text(tmp_path):
    from zeromem_gpu.cache import DiskCache

    calls: list[list[str]] = []

    class Counting:
        fingerprint = "counting"

        def extract(self, texts):
            calls.append(list(texts))
            return [[Mention(t, t, "NAME", 0, len(t))] for t in texts]

    cached = CachedExtractor(Counting(), DiskCache(tmp_path))
    assert [m[0].surface for m in cached.extract(["b", "a", "b", "\ud800"])] == ["b", "a", "b", "\ufffd"]
    assert calls == [["b", "a", "\ufffd"]]
    Counting.fingerprint = "counting-2"
    cached.extract(["a"])
    assert calls[1:] == [["a"]], "a new fingerprint must not find the old mentions"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Melanie went home.", []),  # the first word of a sentence says nothing
        ("Melanie went home. I like Melanie.", ["Melanie", "Melanie"]),
        ("Thanks Caroline! Well, Jo left.", ["Caroline", "Jo"]),
        ("I read “Becoming Nicole” and The Hobbit.", ["Becoming Nicole", "Hobbit"]),
        ('She said: "Great idea".', []),
        ("We met at NASA with O'Brien's son in May.", ["NASA", "O'Brien"]),
        ("I LOVE IT SO MUCH", []),
        ("see @Bob and #Pride at x.Com", []),
        ("Ask Dr. Okafor on Tuesday", ["Okafor"]),
        ("мы видели Анну в городе", ["Анну"]),
        ("", []),
    ],
)
def test_capitalised_names(text, names):
    assert [text[start:end] for start, end in capitalised_names(text, [])] == names


def test_a_taken_span_is_left_alone():
    text = "We like Aunt Caroline."
    assert capitalised_names(text, [(13, 21)]) == []
    assert is_exclamation("Wow")
    assert not is_exclamation("Jo")


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("It took three weeks.", {"duration", "count", "number"}),
        ("We run every Sunday", {"date", "frequency"}),
        ("I turned 30 last year", {"date", "age", "number"}),
        ("because it was fun", {"reason"}),
        ("I watched “The Long Road”", {"title"}),
        ("May I go", set()),
        ("nothing", set()),
        ("", set()),
        ("在2023年", {"number"}),
    ],
)
def test_type_mask_by_pattern(text, types):
    mask = type_mask(text, [])
    assert {name for at, name in enumerate(ANSWER_TYPES) if mask >> at & 1} == types


def test_type_mask_by_label():
    mask = type_mask(
        "Ann in Rome", [Mention("ann", "Ann", "PERSON", 0, 3), Mention("rome", "Rome", "GPE", 7, 11)]
    )
    assert {name for at, name in enumerate(ANSWER_TYPES) if mask >> at & 1} == {"person", "place"}


@odd
def test_type_mask_takes_any_text(text):
    assert 0 <= type_mask(text, []) < 1 << len(ANSWER_TYPES)


# -- dates --

MAY_8 = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "1:56 pm on 8 May, 2023",
        "13:56 on 8 May 2023",
        "May 8, 2023 at 1:56 PM",
        "2023-05-08T13:56:00",
        "2023-05-08T15:56:00+02:00",
        "2023-05-08 13:56Z",
        "Monday, 8 May 2023 13:56",
        " 8th of May, 2023, 1:56 p.m. ",
    ],
)
def test_parse_time_reads_general_forms(text):
    assert parse_time(text, "UTC")[0] == MAY_8.timestamp()


def test_parse_time_reads_naive_times_in_the_zone_and_keeps_offsets():
    assert parse_time("2023-05-08T13:56", "Asia/Tokyo") == (
        MAY_8.timestamp() - 9 * 3600,
        "2023-05-08T13:56:00+09:00",
    )
    assert parse_time(MAY_8.replace(tzinfo=None), "Asia/Tokyo")[0] == MAY_8.timestamp() - 9 * 3600
    aware = MAY_8.astimezone(timezone(timedelta(hours=-4)))
    assert parse_time(aware, "Asia/Tokyo") == (MAY_8.timestamp(), "2023-05-08T09:56:00-04:00")
    assert parse_time(None, "UTC") == (None, None)


@pytest.mark.parametrize("hour", ["12:05 am", "12:05 pm"])
def test_parse_time_reads_noon_and_midnight(hour):
    wanted = 0 if "am" in hour else 12
    assert parse_time(f"{hour} on 1 January, 2024", "UTC")[1] == f"2024-01-01T{wanted:02}:05:00+00:00"


NO_DAY = ["", "yesterday", "8 May", "May 2023", "3 pm", "31 Feb 2023", "rubbish", "99999-01-01"]
NO_TIME = [*NO_DAY, "\ud800", "\x00", "x" * 3000, 5, True, b"2023-05-08"]


@pytest.mark.parametrize("value", NO_TIME, ids=lambda value: ascii(value)[:20])
def test_parse_time_refuses_what_names_no_day(value):
    with pytest.raises(InvalidInput, match="time"):
        parse_time(value, "UTC")


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../etc", "\x00"], ids=repr)
def test_an_unknown_zone_is_refused(zone):
    with pytest.raises(InvalidInput, match="timezone"):
        parse_time("2023-05-08", zone)
    with pytest.raises(InvalidInput, match="timezone"):
        date_interval("in 2023", zone)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What happened on 8 May 2023?", "2023-05-08", "2023-05-08"),
        ("on May 8th, 2023", "2023-05-08", "2023-05-08"),
        ("on 2023-05-08", "2023-05-08", "2023-05-08"),
        ("on 25/12/2023", "2023-12-25", "2023-12-25"),
        ("in May 2023", "2023-05-01", "2023-05-31"),
        ("in february of 2024", "2024-02-01", "2024-02-29"),
        ("in December, 2023", "2023-12-01", "2023-12-31"),
        ("during 2022", "2022-01-01", "2022-12-31"),
        ("in the 1990s", "1990-01-01", "1999-12-31"),
        ("from May to July 2023", "2023-05-01", "2023-07-31"),
        ("between 5 and 10 May 2023", "2023-05-05", "2023-05-10"),
        ("on May 5-10, 2023", "2023-05-05", "2023-05-10"),
        ("20 May – 4 June 2023", "2023-05-20", "2023-06-04"),
        ("between 2019 and 2021", "2019-01-01", "2021-12-31"),
        ("2019-2021", "2019-01-01", "2021-12-31"),
        ("in June 2022 or in August 2022", "2022-06-01", "2022-08-31"),
        ("What may Ann do in 2022?", "2022-01-01", "2022-12-31"),
        ("\ud800 in 2020", "2020-01-01", "2020-12-31"),
    ],
)
def test_date_interval(text, first, last):
    found = date_interval(text, "UTC")
    assert found is not None
    start = datetime.fromisoformat(first).replace(tzinfo=UTC)
    end = datetime.fromisoformat(last).replace(tzinfo=UTC) + timedelta(days=1)
    assert found[0] == start.timestamp()
    assert end.timestamp() - 1 < found[1] < end.timestamp()


NO_DATE = ["What may Ann do?", "in May", "on 8 May", "Who paid 2000 dollars?", "30 Feb 2023", "yesterday"]
NO_YEAR = ["version 3.2023", "room 2023", "from 12 to 15 people", "may 2 people come?"]


@pytest.mark.parametrize("text", [*NO_DATE, *NO_YEAR, *ODD.values()], ids=lambda text: ascii(text)[:20])
def test_date_interval_finds_no_date(text):
    assert date_interval(text, "UTC") is None


def test_date_interval_begins_and_ends_in_the_zone():
    utc, tokyo = date_interval("on 8 May 2023", "UTC"), date_interval("on 8 May 2023", "Asia/Tokyo")
    assert utc is not None
    assert tokyo is not None
    assert utc[0] - tokyo[0] == 9 * 3600
    spring = date_interval("on 26 March 2023", "Europe/Berlin")
    assert spring is not None
    assert round(spring[1] - spring[0]) == 23 * 3600


@settings(max_examples=300)
@given(st.one_of(any_text, st.from_regex(r"(in|to|-|May|\d{1,4}|,| ){1,12}", fullmatch=True)))
def test_dates_never_raise_on_questions(text):
    found = date_interval(text, "UTC")
    assert found is None or found[0] < found[1]
