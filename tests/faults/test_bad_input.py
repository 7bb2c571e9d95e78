"""Whatever comes in: a defined result or one clear error, and nothing stored half-way."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from tests.support import HashEncoder, small_memory
from zeromem_gpu import Boundary, Config, InvalidInput, Memory, Trace


def talk(count: int = 12, bank: str = "b", session: str = "s") -> list[Trace]:
    """A small conversation with a fact in each turn."""
    things = ("violin", "bicycle", "garden", "teapot", "lantern", "compass")
    return [
        Trace(id=f"t{i}", bank=bank, session=session, text=f"My {things[i % 6]} number {i} is in Rome.",
              speaker=("Ann", "Bob")[i % 2], time=f"2024-03-{i + 1:02d}T10:00:00")
        for i in range(count)
    ]  # fmt: skip


@pytest.fixture
def memory() -> Memory:
    filled = small_memory()
    filled.add(talk())
    return filled


def state(memory: Memory) -> tuple[Any, ...]:
    """What a failed call may not change."""
    facts = memory.info()
    found = memory.search("Where is the violin?", bank="b", top_k=50)
    return facts["traces"], facts["units"], facts["entities"], [(e.trace.id, e.score) for e in found]


ODD_TEXTS = {
    "empty": "",
    "blank": " \t\n ",
    "emoji": "🎉",
    "punctuation": "?!…",
    "nul-and-control": "a\x00b\x07c\x1b violin",
    "lone-surrogates": "violin \ud800 and \udfff",
    "chinese": "我在罗马买了一把小提琴。",
    "long": "The violin rests. " * 5600,
    "one-long-word": "v" * 100_000,
}


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
def test_an_odd_text_is_kept_as_it_came(memory: Memory, text: str) -> None:
    report = memory.add(Trace(id="odd", bank="b", session="s", text=text, speaker="Ann"))
    assert report.added == 1
    assert report.units >= 1
    found = memory.search("Where is the violin?", bank="b", top_k=2000)
    mine = [one for one in found if one.trace.id == "odd"]
    assert len(mine) == report.units
    assert {one.trace.text for one in mine} == {text}
    pieces = sorted((one.start, one.end) for one in mine)
    assert pieces[0][0] == 0
    assert not text[pieces[-1][1] :].strip()
    assert all(len(one.text) <= memory.config.unit_chars for one in mine)
    assert all(np.isfinite(one.score) for one in found)


@pytest.mark.parametrize("text", ["", "  ", "🎉", "?!"])
def test_a_text_without_words_matches_nothing_lexical(text: str) -> None:
    config = Config(subject=0.0, activation_steps=0, entity_share=0.0, local_radius=0, window_share=0.0)
    config = config.replace(neighbour_share=0.0, episode_share=0.0, prior_power=0.0, gamma=0.0)
    memory = small_memory(config)
    memory.add([Trace(id="odd", text=text, speaker="Ann", session="a"), *talk(bank="default")])
    found = memory.search("Ann", top_k=50)
    graph = {one.trace.id: one.graph_score for one in found}
    spoken = {one.trace.id for one in found if one.trace.speaker == "Ann"} - {"odd"}
    # with gamma 0 and a flat prior the graph score is BM25 alone: the speaker's name must not count
    assert all(graph["odd"] < graph[name] for name in spoken)


def test_a_long_turn_is_split_into_units_that_keep_their_spans(memory: Memory) -> None:
    text = " ".join(f"Sentence {i} is about apples." for i in range(3000)) + " The zebra sleeps here."
    memory.add(Trace(id="long", bank="b", session="s", text=text))
    best = memory.search("Where does the zebra sleep?", bank="b")[0]
    assert best.trace.id == "long"
    assert "zebra" in best.text
    assert text[best.start : best.end] == best.text


def test_the_same_id_and_content_changes_nothing(memory: Memory) -> None:
    before = state(memory)
    report = memory.add(talk())
    assert (report.added, report.updated, report.unchanged) == (0, 0, 12)
    assert state(memory) == before


def test_the_same_id_with_new_content_is_an_update(memory: Memory) -> None:
    report = memory.add(Trace(id="t0", bank="b", session="s", text="A zeppelin is in Oslo.", speaker="Ann"))
    assert (report.added, report.updated) == (0, 1)
    found = memory.search("zeppelin Oslo", bank="b", top_k=50)
    assert found[0].trace.text == "A zeppelin is in Oslo."
    assert found[0].trace.turn == 0
    assert [one.trace.id for one in found].count("t0") == 1
    assert len(found) == 12
    assert memory.info()["traces"] == 12


def test_an_update_equals_a_fresh_build(memory: Memory) -> None:
    changed = Trace(id="t4", bank="b", session="s", text="Carla keeps the lantern in Lima.", speaker="Bob")
    memory.add(changed)
    fresh = small_memory()
    fresh.add([changed if trace.id == "t4" else trace for trace in talk()])
    for question in ("Where is the lantern?", "Who is in Rome?", "What does Carla keep?"):
        one, other = (m.search(question, bank="b", top_k=50) for m in (memory, fresh))
        assert [(e.trace.id, e.score) for e in one] == [(e.trace.id, e.score) for e in other]


def test_an_update_keeps_its_place_among_equal_turns() -> None:
    first = [Trace(id="b", text="one red", turn=3), Trace(id="a", text="two red", turn=3)]
    changed = Trace(id="b", text="three red", turn=3)
    updated, fresh = small_memory(), small_memory()
    updated.add(first)
    updated.add(changed)
    fresh.add([changed, first[1]])
    one, other = (memory.search("red", top_k=5) for memory in (updated, fresh))
    assert [(e.trace.id, e.score) for e in one] == [(e.trace.id, e.score) for e in other]


def test_a_session_that_lost_its_first_trace_ranks_by_what_is_left() -> None:
    traces = [Trace(id=name, text=f"red {name}", session=name) for name in "cba"]
    moved = Trace(id="c", text="red c", session="a")
    updated, fresh = small_memory(), small_memory()
    updated.add(traces)
    updated.add(moved)
    fresh.add([moved, *traces[1:]])
    one, other = (memory.search("red", top_k=5) for memory in (updated, fresh))
    assert [(e.trace.id, e.score) for e in one] == [(e.trace.id, e.score) for e in other]


def test_a_replaced_speaker_is_forgotten() -> None:
    memory = small_memory()
    memory.add([Trace(id="1", text="It was loud.", speaker="Zork"), Trace(id="2", text="It rained.")])
    memory.add(Trace(id="1", text="It was loud."))
    assert memory.search("what did Zork say in May 2024?").profile.validity is None


def test_a_duplicate_id_in_one_call_keeps_its_turn() -> None:
    memory = small_memory()
    memory.add([Trace(id="b", text="x", turn=10), Trace(id="a", text="y", turn=5), Trace(id="a", text="z")])
    turns = {one.trace.id: one.trace.turn for one in memory.search("x", top_k=5)}
    assert turns == {"a": 5, "b": 10}


def test_speakers_that_share_a_word_are_both_named() -> None:
    memory = small_memory()
    memory.add([
        Trace(id="1", text="c went home", speaker="X", session="s"),
        Trace(id="2", text="fine", speaker="C", session="t"),
        Trace(id="3", text="fine", speaker="C#", session="u"),
    ])  # fmt: skip
    config = memory.config.replace(views="hierarchy", subject=5.0)
    for name in ("C", "C#"):
        found = memory.search(f"What did {name} do?", config=config, top_k=3)
        assert "1" in [one.trace.id for one in found][:3]


def test_duplicate_ids_in_one_call_leave_the_last() -> None:
    memory = small_memory()
    report = memory.add([
        Trace(id="x", text="first words"),
        Trace(id="x", text="first words"),
        Trace(id="x", text="last words"),
    ])  # fmt: skip
    assert (report.added, report.updated, report.unchanged) == (1, 1, 1)
    assert [one.trace.text for one in memory.search("words")] == ["last words"]


def test_the_same_id_in_two_banks_is_two_traces() -> None:
    memory = small_memory()
    memory.add([Trace(id="x", bank="p", text="red"), Trace(id="x", bank="q", text="blue")])
    assert [one.text for one in memory.search("colour", bank="p")] == ["red"]
    assert [one.text for one in memory.search("colour", bank="q")] == ["blue"]


BAD_TRACES = {
    "no-trace": ("traces[1]", {"a": 1}),
    "empty-id": ("id", Trace(id="", text="x")),
    "id-number": ("id", Trace(id=5, text="x")),  # type: ignore[arg-type]
    "empty-bank": ("bank", Trace(id="n", bank="", text="x")),
    "empty-session": ("session", Trace(id="n", session="", text="x")),
    "text-bytes": ("text", Trace(id="n", text=b"x")),  # type: ignore[arg-type]
    "text-none": ("text", Trace(id="n", text=None)),  # type: ignore[arg-type]
    "unreadable-time": ("time", Trace(id="n", text="x", time="half past whenever")),
    "time-number": ("time", Trace(id="n", text="x", time=12345)),  # type: ignore[arg-type]
    "impossible-day": ("time", Trace(id="n", text="x", time="2024-02-31T10:00:00")),
    "negative-turn": ("turn", Trace(id="n", text="x", turn=-1)),
    "empty-speaker": ("speaker", Trace(id="n", text="x", speaker="")),
    "metadata-list": ("metadata", Trace(id="n", text="x", metadata=[1])),  # type: ignore[arg-type]
    "metadata-object": ("metadata", Trace(id="n", text="x", metadata={"a": object()})),
    "entities-text": ("entities", Trace(id="n", text="x", entities="Rome")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("argument", "trace"), BAD_TRACES.values(), ids=BAD_TRACES.keys())
def test_a_bad_trace_stores_nothing_of_its_call(memory: Memory, argument: str, trace: Any) -> None:
    before = state(memory)
    good = Trace(id="good", bank="b", session="s", text="The violin sings.")
    with pytest.raises(InvalidInput) as caught:
        memory.add([good, trace])
    assert argument in str(caught.value)
    assert "allowed" in str(caught.value)
    assert state(memory) == before


def test_aware_and_naive_times_share_a_bank() -> None:
    memory = small_memory(Config(timezone="Europe/Berlin"))
    east = timezone(timedelta(hours=9))
    memory.add([
        Trace(id="naive", text="alpha", time="2024-07-01T12:00:00"),
        Trace(id="utc", text="beta", time="2024-07-01T10:30:00Z"),
        Trace(id="east", text="gamma", time=datetime(2024, 7, 1, 18, 0, tzinfo=east)),
        Trace(id="none", text="delta"),
    ])  # fmt: skip
    # Berlin noon is 10:00 UTC, 18:00 at +09:00 is 09:00 UTC
    found = memory.search("word", boundary=Boundary(after="2024-07-01T09:30:00Z"), top_k=9)
    assert {one.trace.id for one in found} == {"naive", "utc"}
    found = memory.search("word", boundary=Boundary(before="2024-07-01T12:00:00"), top_k=9)
    assert {one.trace.id for one in found} == {"naive", "east"}
    kept = {one.trace.id: one.trace.time for one in memory.search("word", top_k=9)}
    assert str(kept["east"]).endswith("+09:00")


class TestQuestions:
    @pytest.mark.parametrize("question", ["", "  ", "\n"])
    def test_a_blank_question_is_refused(self, memory: Memory, question: str) -> None:
        with pytest.raises(InvalidInput, match=r"query\[1\]"):
            memory.search(["Where?", question], bank="b")

    @pytest.mark.parametrize("question", ["xyzzy plugh", "🎉", "?", "\ud800", "的"])
    def test_a_question_without_a_known_word_ranks_by_meaning(self, memory: Memory, question: str) -> None:
        found = memory.search(question, bank="b", limit=5)
        assert len(found) == 5
        assert all(np.isfinite(one.score) for one in found)

    def test_a_very_long_question(self, memory: Memory) -> None:
        assert len(memory.search("Where is the violin? " * 5000, bank="b", limit=5)) == 5

    @pytest.mark.parametrize("question", [None, 5, ["Where?", None], ["Where?", 7]], ids=repr)
    def test_other_types_are_refused(self, memory: Memory, question: Any) -> None:
        with pytest.raises(InvalidInput, match="query"):
            memory.search(question, bank="b")

    def test_no_questions(self, memory: Memory) -> None:
        assert memory.search([], bank="b") == []

    @pytest.mark.parametrize("k", [0, -1, 2.5, True, "5"])
    def test_k_must_be_a_number_from_1(self, memory: Memory, k: Any) -> None:
        with pytest.raises(InvalidInput, match="top_k"):
            memory.search("Where?", bank="b", top_k=k)

    @pytest.mark.parametrize("limit", [0, -1, 2.5, True])
    def test_limit_must_be_a_number_from_1(self, memory: Memory, limit: Any) -> None:
        with pytest.raises(InvalidInput, match="limit"):
            memory.search("Where?", bank="b", limit=limit)

    def test_k_above_the_bank_returns_the_bank(self, memory: Memory) -> None:
        assert len(memory.search("Where is the violin?", bank="b", top_k=100)) == 12


class TestBanks:
    def test_an_unknown_bank_has_no_evidence(self, memory: Memory) -> None:
        results = memory.search(["Where is the violin?"] * 2, bank=["nobody", "b"], limit=5)
        assert len(results[0]) == 0
        assert len(results[1]) == 5

    def test_an_empty_bank_name_is_refused(self, memory: Memory) -> None:
        with pytest.raises(InvalidInput, match="bank"):
            memory.search("Where?", bank="")

    def test_a_bank_must_be_named_when_there_are_two(self, memory: Memory) -> None:
        memory.add(Trace(id="x", bank="other", text="y"))
        with pytest.raises(InvalidInput, match="one of the 2 banks"):
            memory.search("Where?")

    def test_one_bank_per_question(self, memory: Memory) -> None:
        with pytest.raises(InvalidInput, match="bank: got 1 values"):
            memory.search(["Where?", "Who?"], bank=["b"])

    def test_an_empty_memory_has_no_evidence(self) -> None:
        assert len(small_memory().search("Where?")) == 0
        assert small_memory().search(["Where?", "Who?"], bank="b")[1].evidence == ()

    @pytest.mark.parametrize("traces", [None, 5])
    def test_adding_something_else(self, memory: Memory, traces: Any) -> None:
        with pytest.raises(InvalidInput, match="traces"):
            memory.add(traces)

    @pytest.mark.parametrize("bank", [5, {"b": 1}])
    def test_a_bank_of_another_type(self, memory: Memory, bank: Any) -> None:
        with pytest.raises(InvalidInput, match="bank"):
            memory.search(["Where?"], bank=bank)

    def test_preparing_an_unknown_bank(self, memory: Memory) -> None:
        assert memory.prepare("nope")["graph_s"] == 0.0

    def test_adding_nothing(self, memory: Memory) -> None:
        before = state(memory)
        assert memory.add([]).added == 0
        assert state(memory) == before


class TestBoundaries:
    @pytest.mark.parametrize(
        "boundary",
        [
            Boundary(sessions=("nowhere",)),
            Boundary(sessions=()),
            Boundary(speakers=("Nobody",)),
            Boundary(after="2030-01-01"),
            Boundary(before="1990-01-01"),
            Boundary(speakers=("Ann",), after="2030-01-01"),
        ],
        ids=repr,
    )
    def test_what_matches_nothing_returns_nothing(self, memory: Memory, boundary: Boundary) -> None:
        assert len(memory.search("Where is the violin?", bank="b", boundary=boundary)) == 0

    @pytest.mark.parametrize(
        "boundary",
        [
            Boundary(sessions=("",)),
            Boundary(sessions=""),  # type: ignore[arg-type]
            Boundary(speakers=("Ann", "")),
            Boundary(after=""),
            Boundary(before="soon"),
        ],
        ids=repr,
    )
    def test_an_empty_or_unreadable_value_is_refused(self, memory: Memory, boundary: Boundary) -> None:
        with pytest.raises(InvalidInput, match="boundary"):
            memory.search("Where is the violin?", bank="b", boundary=boundary)

    @pytest.mark.parametrize("boundary", ["s", {"sessions": ["s"]}, Boundary(sessions=5)], ids=repr)  # type: ignore[arg-type]
    def test_another_type_is_refused(self, memory: Memory, boundary: Any) -> None:
        with pytest.raises(InvalidInput, match="boundary"):
            memory.search(["Where?"], bank="b", boundary=boundary)

    def test_it_is_checked_even_where_nothing_would_be_searched(self, memory: Memory) -> None:
        with pytest.raises(InvalidInput, match="boundary"):
            memory.search("Where?", bank="nobody", boundary=Boundary(after="garbage"))

    def test_it_holds_before_any_cut(self, memory: Memory) -> None:
        config = memory.config.replace(candidates=1, episode_beam=1, window_beam=1)
        found = memory.search(
            "Where is the violin?", bank="b", boundary=Boundary(speakers="Bob"), config=config
        )
        assert len(found) >= 1
        assert {one.trace.speaker for one in found} == {"Bob"}

    def test_each_question_has_its_own(self, memory: Memory) -> None:
        asked = ["Where is the violin?"] * 3
        limits = [Boundary(speakers="Ann"), None, Boundary(speakers="Bob")]
        ann, both, bob = memory.search(asked, bank="b", boundary=limits, top_k=20)
        assert {one.trace.speaker for one in ann} == {"Ann"}
        assert {one.trace.speaker for one in bob} == {"Bob"}
        assert len(both) == 12

    def test_closure_stays_inside(self) -> None:
        memory = small_memory(Config(closure=True, closure_neighbours=3, closure_graph=10))
        memory.add(talk())
        found = memory.search("Where is the violin?", bank="b", boundary=Boundary(speakers="Ann"), top_k=2)
        assert len(found) > 2
        assert {one.trace.speaker for one in found} == {"Ann"}
        assert len({one.trace.id for one in found}) == len(found)


class BrokenEncoder(HashEncoder):
    """Returns what `spoil` makes of the right vectors."""

    def __init__(self, spoil: Any, when: str = "violin") -> None:
        super().__init__()
        self.spoil, self.when = spoil, when

    def encode(self, texts: Any, progress: Any = None) -> np.ndarray:
        vectors = super().encode(texts)
        return self.spoil(vectors, np.array([self.when in text for text in texts], bool))


def poison(value: float) -> Any:
    def spoil(vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        vectors[rows] = value
        return vectors

    return spoil


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_unusable_vectors_are_quarantined_and_found_by_words(value: float) -> None:
    memory = small_memory(encoder=BrokenEncoder(poison(value)))
    report = memory.add(talk())
    assert report.quarantined == ("t0", "t6")
    found = memory.search("Rome number 6", bank="b", top_k=50)
    assert {"t0", "t6"} <= {one.trace.id for one in found}
    assert all(np.isfinite(one.score) for one in found)
    config = memory.config.replace(views="graph", graph_lexical=10.0)
    by_words = memory.search("number 6", bank="b", config=config)
    assert by_words[0].trace.id == "t6"


def test_a_question_with_an_unusable_vector_is_refused() -> None:
    memory = small_memory(encoder=BrokenEncoder(poison(np.nan), when="zebra"))
    memory.add(talk())
    with pytest.raises(InvalidInput, match=r"query\[1\]"):
        memory.search(["Where is Rome?", "Where is the zebra?"], bank="b")


def test_an_encoder_of_the_wrong_width_stores_nothing() -> None:
    memory = small_memory(encoder=BrokenEncoder(lambda vectors, rows: vectors[:, :7]))
    with pytest.raises(InvalidInput, match="32"):
        memory.add(talk())
    assert memory.banks == ()


def test_an_encoder_that_fails_in_the_middle_stores_nothing() -> None:
    encoder = BrokenEncoder(lambda vectors, rows: vectors)
    memory = small_memory(encoder=encoder)
    memory.add(talk())
    before = state(memory)

    def fail(vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        raise RuntimeError("out of luck")

    encoder.spoil, healthy = fail, encoder.spoil
    with pytest.raises(RuntimeError, match="out of luck"):
        memory.add([Trace(id="new", bank="b", text="nothing"), Trace(id="t0", bank="b", text="x")])
    encoder.spoil = healthy
    assert state(memory) == before


def test_index_fields_cannot_change_in_a_search(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="window_size"):
        memory.search("Where?", bank="b", config=memory.config.replace(window_size=6))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gamma", 1.5), ("gamma", float("nan")), ("gamma", "0.5"), ("solver", "fast"), ("top_k", 0),
        ("closure", 1), ("drop_labels", "DATE"), ("window_stride", 5), ("ner_model", ""),
    ],
)  # fmt: skip
def test_config_names_what_is_wrong(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=field):
        Config(**{field: value})


def test_config_lists_the_known_fields_for_an_unknown_one() -> None:
    with pytest.raises(InvalidInput, match="window_size"):
        Config().replace(windowsize=3)


@pytest.mark.parametrize("device", ["tpu", "cuda:99", "", 3.5])
def test_a_device_that_is_not_there_is_refused(device: Any) -> None:
    if device == "":
        assert str(small_memory(device=device or None).device) in ("cpu", "cuda")
        return
    with pytest.raises(InvalidInput, match="device"):
        small_memory(device=device)
