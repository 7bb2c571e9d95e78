"""Flat rankings against a plain one-question-at-a-time form of the same definitions."""

import math
from collections import Counter

import numpy as np
import pytest

from tests.support import HashEncoder, small_memory
from zeromem_gpu import Trace
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate.datasets import LOCOMO_TUNING, Conversation, Dataset, Question, load_locomo
from zeromem_gpu.evaluate.flat import FLAT, STRONG, flat_banks, rank_flat, rank_flat_all
from zeromem_gpu.evaluate.flat_text import Words, flat_text

SAID = [
    ("s1", "Ann", "I adopted a terrier named Biscuit."),
    ("s1", "Bo", "Does the terrier eat socks?"),
    ("s1", "Ann", "Biscuit eats socks and shoes."),
    ("s2", "Bo", "We meet at the lock at six."),
    ("s2", "Ann", ""),
    ("s2", "Bo", "The lock was closed. Six boats waited at the lock."),
]
ASKED = ["What does Biscuit eat?", "Where did Bo meet Ann?", "How many boats waited at the lock?", "???"]


def dataset(questions=ASKED, said=SAID, bank="b"):
    traces = tuple(
        Trace(str(at), text, bank=bank, session=session, turn=at, speaker=speaker, time="2023-05-08")
        for at, (session, speaker, text) in enumerate(said)
    )
    asked = tuple(Question(bank, at, 1, text, None, ("2",), True) for at, text in enumerate(questions))
    return Dataset("toy", (Conversation(bank, traces, asked),), ())


def plain_bm25(documents, question, k1, b):
    """BM25 of each document, a sum over the question's terms one by one."""
    average = max(sum(map(len, documents)) / len(documents), 1)
    scores = []
    for document in documents:
        counts, score = Counter(document), 0.0
        for term in question:
            holding = sum(term in other for other in documents)
            idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            norm = k1 * (1 - b + b * len(document) / average)
            score += idf * counts[term] * (k1 + 1) / (counts[term] + norm)
        scores.append(score)
    return scores


def scaled(values):
    low, high = min(values), max(values)
    return [0.0 if high == low else (value - low) / (high - low) for value in values]


def in_session(at, radius):
    return [
        n for n in range(at - radius, at + radius + 1) if 0 <= n < len(SAID) and SAID[n][0] == SAID[at][0]
    ]


def plain_strong(question):
    words, encoder = Words(), HashEncoder()
    texts = [f"[8 May 2023] {who}: {text}" if text else f"[8 May 2023] {who}: " for _, who, text in SAID]
    texts[4] = ""
    stems = [words.stems(text).tolist() for text in texts]
    asked = words.stems(question).tolist()
    unit = [np.zeros(32) if not text else encoder.encode([text])[0].astype(float) for text in texts]
    query = encoder.encode([question])[0].astype(float)

    def cosine(vector):
        length = np.linalg.norm(vector)
        return 0.0 if length == 0 else float(query @ vector / length)

    near = [[term for n in in_session(at, 1) for term in stems[n]] for at in range(len(SAID))]
    a = scaled([cosine(vector) for vector in unit])
    b = scaled(plain_bm25(stems, asked, 1.2, 0.3))
    c = scaled(plain_bm25(near, asked, 1.2, 0.3))
    d = scaled([cosine(sum(unit[n] for n in in_session(at, 2))) for at in range(len(SAID))])
    named = [who.lower() in words.plain(question) for _, who, _ in SAID]
    weights = STRONG
    f = [
        a[n] + weights.words * b[n] + weights.near_words * c[n] + weights.near_vectors * d[n]
        + weights.speaker * named[n]
        for n in range(len(SAID))
    ]  # fmt: skip
    return [f[n] + weights.spread * sum(f[m] for m in in_session(n, 1) if m != n) for n in range(len(SAID))]


def test_every_signal_equals_its_plain_form():
    data = dataset()
    (bank,) = flat_banks(data, small_memory())
    words = Words()
    stems = [words.stems(flat_text(trace)).tolist() for trace in bank.traces]
    for row, question in enumerate(ASKED):
        expected = plain_bm25(stems, words.stems(question).tolist(), 1.2, 0.3)
        np.testing.assert_allclose(bank.bm25[row], expected, atol=1e-12)
        np.testing.assert_allclose(bank.strong()[row], plain_strong(question), atol=1e-6)
    assert bank.bm25[0].max() > 0
    assert bank.speaker[1].tolist() == [1.0] * len(SAID)
    assert not bank.speaker[0].any()


@pytest.mark.parametrize("name", FLAT)
def test_a_batch_ranks_as_single_questions_do(name):
    memory = small_memory()
    batch = rank_flat(name, dataset(), memory, 4)
    for row, question in zip(batch, ASKED, strict=True):
        (alone,) = rank_flat(name, dataset([question]), memory, 4)
        assert [one.id for one in row] == [one.id for one in alone]
        assert [one.score for one in row] == pytest.approx([one.score for one in alone])
    assert all(len(row) == 4 for row in batch)
    assert all(one.rule == name for row in batch for one in row)


def test_banks_do_not_touch_each_other():
    memory = small_memory()
    other = dataset(["What does Biscuit eat?"], [("x", "Cy", "Biscuit eats biscuit")] * 3, "other")
    both = Dataset("two", (*dataset().conversations, *other.conversations), ())
    together = rank_flat_all(FLAT, both, memory, 3)
    for name in FLAT:
        apart = rank_flat(name, dataset(), memory, 3) + rank_flat(name, other, memory, 3)
        assert together[name] == apart
    # equal traces keep the order in which they were said
    assert [one.id for one in together["hybrid"][-1]] == ["0", "1", "2"]


def test_documents_have_longer_lengths_punished_and_no_neighbours():
    documents = [
        (f"d{at}", None, text) for at, text in enumerate(["red lock", "red " * 9 + "lock", "blue"])
    ]
    (bank,) = flat_banks(dataset(["lock"], documents), small_memory())
    assert bank.documents
    words = Words()
    stems = [words.stems(flat_text(trace)).tolist() for trace in bank.traces]
    np.testing.assert_allclose(bank.bm25[0], plain_bm25(stems, words.stems("lock").tolist(), 1.2, 0.5))
    np.testing.assert_array_equal(bank.near_bm25, bank.bm25)


def test_texts_are_the_engine_s_own():
    encoder = HashEncoder()
    memory = small_memory(encoder=encoder)
    traces = [
        Trace("1", "  I\nwon! ", speaker="Ann", time="2023-05-08T13:56", caption="a cup"),
        Trace("2", "plain"),
        Trace("3", " \n", speaker="Ann"),
    ]
    memory.add(traces)
    assert {text for text in map(flat_text, traces) if text} <= set(encoder.encoded)
    assert flat_text(traces[2]) == ""


def test_wrong_arguments_are_named():
    memory = small_memory()
    with pytest.raises(InvalidInput, match=r"baseline: got bm26; allowed: bm25, dense, hybrid, strong"):
        rank_flat("bm26", dataset(), memory, 5)
    with pytest.raises(InvalidInput, match="depth: got 0"):
        rank_flat("bm25", dataset(), memory, 0)
    assert rank_flat("strong", Dataset("none", (), ()), memory, 5) == []
    assert rank_flat("strong", dataset(said=[]), memory, 5) == [[]] * len(ASKED)


def test_strong_beats_the_others_on_the_tuning_conversations(data_dir, cache_dir):
    from zeromem_gpu import Memory

    data = load_locomo(data_dir / "locomo", conversations=LOCOMO_TUNING)
    memory = Memory(encoder="minilm", device="cpu", cache_dir=cache_dir)
    recall = {}
    for name, rows in rank_flat_all(FLAT, data, memory, 10).items():
        pairs = [(q, row) for q, row in zip(data.questions, rows, strict=True) if q.scored]
        recall[name] = [
            np.mean([sum(one.id in q.gold for one in row[:k]) / len(q.gold) for q, row in pairs])
            for k in (5, 10)
        ]
    # what benchmarks/quality/fit_flat.py printed for the committed weights
    assert recall["strong"] == pytest.approx([0.7167, 0.8125], abs=0.003)
    assert recall["strong"][0] > recall["hybrid"][0] > recall["bm25"][0] > recall["dense"][0]
