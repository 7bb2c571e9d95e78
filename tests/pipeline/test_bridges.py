"""Bridges between documents: a text that tells of another document's title brings that document up."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import small_memory
from zeromem_gpu import Boundary, Config, Memory, Trace
from zeromem_gpu.build.bridges import NameWords, find_words
from zeromem_gpu.build.lexical import build_stream
from zeromem_gpu.build.views import bank_view

DOCUMENTS = {
    "Ada Moor": "Ada Moor kept bees beside the north harbour and wrote about the Tin Kettle Inn.",
    "Tin Kettle Inn": "An old house with twelve rooms. Its roof is green.",
    "Kettle": "A vessel with a lid.",
    "Harbour (film)": "A film about boats.",
    **{f"Filler {at}": f"Something number {at} without any bearing." for at in range(9)},
}
QUESTION = "Where did Ada Moor, who kept bees, go to write?"


def documents(titled: bool = True, **texts: str) -> Memory:
    memory = small_memory(Config(closure=False, calibrate=False))
    memory.add(
        Trace(id=title, text=text, session=title, entities=(title,) if titled else ())
        for title, text in (DOCUMENTS | texts).items()
    )
    return memory


def ranks(memory: Memory, **changes: float) -> list[str]:
    found = memory.search(QUESTION, top_k=13, config=memory.config.replace(views="graph", **changes))
    return [one.trace.id for one in found]


def told(memory: Memory) -> set[tuple[str, str]]:
    """(name, trace that tells of it)."""
    assert memory._index is not None
    bank = memory._index.banks["default"]
    rows = bank_view(memory._index, bank, memory.config).rows
    names = memory._index.column(bank, "entities", "name")[rows.entity_rows]
    traces = memory._index.column(bank, "traces", "trace")
    at = memory._index.column(bank, "units", "trace")[rows.unit_rows]
    return {(names[e], traces[at[u]].id) for e, u in zip(*(x.tolist() for x in rows.told), strict=True)}


def test_titles_in_the_best_text_follow_it() -> None:
    """Both titles that the best text tells of; without titles nothing changes."""
    memory = documents()
    before, after = ranks(memory, graph_bridge=0.0), ranks(memory)
    assert before[0] == "Ada Moor"
    assert before.index("Tin Kettle Inn") > 2
    assert set(after[:3]) == {"Ada Moor", "Tin Kettle Inn", "Kettle"}
    untitled = documents(titled=False)
    assert ranks(untitled, graph_bridge=4.0) == ranks(untitled, graph_bridge=0.0)


def test_what_tells_of_a_name() -> None:
    """Whole names in one text, in any form that normalises to the same; never a document's own."""
    more = {
        "Filler 1": "The TIN kettle inn's roof.",
        "Filler 2": "Tin. Kettle inn",
        "Filler 3": "Tin kettles",
    }
    assert told(documents(**more)) == {
        ("tin kettle inn", "Ada Moor"),
        ("tin kettle inn", "Filler 1"),
        ("tin kettle inn", "Filler 2"),
        ("kettle", "Ada Moor"),
        ("kettle", "Filler 1"),
        ("kettle", "Filler 2"),
    }


def test_an_update_and_a_late_title_count() -> None:
    memory = small_memory()
    memory.add(Trace("a", "She met the Grey Fox.", session="a"))
    assert told(memory) == set()
    memory.add(Trace("b", "A pub.", session="b", entities=("The Grey Fox", "!!")))
    assert told(memory) == {("grey fox", "a")}
    memory.add(Trace("a", "She met nobody.", session="a"))
    assert told(memory) == set()


def test_a_hidden_text_leads_nowhere() -> None:
    memory = documents()
    shown = Boundary(sessions=tuple(title for title in DOCUMENTS if title != "Ada Moor"))
    both = [
        memory.search(QUESTION, top_k=12, boundary=shown, config=memory.config.replace(graph_bridge=weight))
        for weight in (0.0, 4.0)
    ]
    assert [one.trace.id for one in both[0]] == [one.trace.id for one in both[1]]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], []),
        ([[]], []),
        ([[5]], [(0, 0), (0, 3), (0, 7)]),
        ([[5, 6], [], [6, 7]], [(0, 0), (0, 3), (2, 4)]),
        ([[5, 6, 7]], [(0, 3)]),
        ([[5, 5]], []),
        ([[9, 9]], []),
    ],
    ids=str,
)
def test_find_words(words: list[list[int]], found: list[tuple[int, int]]) -> None:
    """Whole runs of words only, none past a separator; nothing where nothing is searched."""
    raw = np.array([5, 6, 0, 5, 6, 7, 0, 5, 0], np.int64)
    names = NameWords.of([np.array(one, np.int64) for one in words])
    stream = build_stream(raw, np.zeros(9, np.int32))
    which, token = find_words(names, stream, np.ones(9, bool))
    assert list(zip(which.tolist(), token.tolist(), strict=True)) == found
    none = find_words(names, stream, np.zeros(9, bool))
    assert len(none[0]) == 0
