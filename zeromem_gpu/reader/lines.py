"""The sentences of the evidence, scored by how well each meets the question where it stands.

score = Σ w(t) c(t) / Σ w(t) + 0.3 · spoken by the subject + 0.2 · fused score + 0.1 / (1 + rank)
        + 0.2 · news + 0.2 · reply (0.4 for its first sentence) − 0.2 · caption

over the question's words t: w(t) is a rare word's weight in the evidence, c(t) is 1 for a word of the
sentence and less for one of its context. News is how much the sentence says that the question does not, up
to 1. A reply is a turn that follows a turn which asks for one of these words. Where the expected answer has
a pattern (a date, a number), 0.3 for a sentence that holds one stands for the news, and a reply counts
half. The numbers are rounded from a search on the tuning conversations of LoCoMo, around which F1 is flat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zeromem_gpu.calibrate.pool import Passage, Pool, make_pool
from zeromem_gpu.calibrate.words import stem_set
from zeromem_gpu.text.answer_types import PATTERNED, type_spans
from zeromem_gpu.text.capitalised import EXCLAMATIONS
from zeromem_gpu.text.sentences import asks
from zeromem_gpu.types import Evidence, SearchResult

_ASKED, _BEFORE, _BESIDE = 0.6, 0.8, 0.2
_SPOKEN, _FUSED, _RANK, _NEWS, _TYPED, _REPLY, _CAPTION = 0.3, 0.2, 0.1, 0.2, 0.3, 0.2, -0.2
# more new words than this make a sentence no likelier to hold the answer
_MUCH = 6

Stems = frozenset[str]


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence of a passage and its score among all.

    `held` is the share of the question, 0 to 1, that its turn holds together with the question it answers.
    """

    text: str
    passage: Passage
    held: float
    score: float


@dataclass(frozen=True, slots=True)
class Lines:
    """The sentences that say something new, best first, and the pool that they are from.

    `known` are the stems of the question, of the speakers' names and of exclamations.
    """

    pool: Pool
    known: Stems
    ranked: tuple[Line, ...]

    def near(self, share: float) -> Iterator[Line]:
        """The lines whose score is at least a share of the best one's, best first."""
        yield from (line for line in self.ranked if line.score >= share * self.ranked[0].score)


def read_lines(result: SearchResult, zone: str) -> Lines:
    """Score every sentence of the evidence that asks nothing and says something new; there may be none."""
    pool = make_pool(result, zone)
    speakers = frozenset().union(*(stem_set(passage.speaker) for passage in pool.passages))
    known = pool.asked | pool.subjects | speakers | stem_set(EXCLAMATIONS)
    total = sum(pool.weights.values())
    best = max((one.score for one in result), default=0.0)
    lines: list[Line] = []
    for one, passage, asked in zip(result, pool.passages, _asked_before(result, pool), strict=True):
        prior = _SPOKEN * pool.spoken_by_subject(passage) + _RANK / (1 + passage.rank)
        prior += _FUSED * max(one.score, 0.0) / best if best > 0 else 0.0
        there = passage.stems | asked
        shares = {word: weight / total for word, weight in pool.weights.items() if word in there}
        held = sum(shares.values())
        for at, score in _scores(passage, one.text, asked, shares, known, result.profile.answer_type):
            lines.append(Line(passage.sentences[at], passage, held, prior + score))
    # stable: among equals the order of the evidence, then of the text
    return Lines(pool, known, tuple(sorted(lines, key=lambda line: -line.score)))


def _scores(
    passage: Passage, said: str, asked: Stems, shares: Mapping[str, float], known: Stems, kind: str
) -> Iterator[tuple[int, float]]:
    """The places of the sentences that say something new, with what they themselves earn."""
    before, reply = asked, 0.0 if asked.isdisjoint(shares) else 2 * _REPLY
    for at, text in enumerate(passage.sentences):
        here = stem_set(text)
        news = len(here - known)
        if news and not asks(text):
            score = 0.0 if text in said else _CAPTION
            for word, share in shares.items():
                near = _ASKED if word in asked else _BEFORE if word in before else _BESIDE
                score += share if word in here else near * share
            if kind in PATTERNED:
                score += _TYPED * bool(type_spans(text, kind)) + 0.5 * reply
            else:
                score += _NEWS * min(news / _MUCH, 1.0) + reply
            yield at, score
            reply = min(reply, _REPLY)
        before = here


def _asked_before(evidence: Sequence[Evidence], pool: Pool) -> list[Stems]:
    """For each unit the stems of what the turn before it in its session asks, as far as it is evidence."""
    asked: dict[tuple[str, int], Stems] = {}
    for one, passage in zip(evidence, pool.passages, strict=True):
        if one.trace.turn is not None:
            place = one.trace.session, one.trace.turn
            questions = [stem_set(text) for text in passage.sentences if asks(text)]
            asked[place] = asked.get(place, frozenset()).union(*questions)
    return [
        frozenset()
        if one.trace.turn is None
        else asked.get((one.trace.session, one.trace.turn - 1), frozenset())
        for one in evidence
    ]
