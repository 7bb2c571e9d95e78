"""What one run asks: the method and its ablations, how much evidence, which reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from zeromem_gpu import Config
from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate import metrics
from zeromem_gpu.evaluate.datasets import Conversation, Question

VIEWS = ("both", "graph", "hierarchy")
ABLATIONS = ("graph-only", "hierarchy-only", "no-closure", "no-calibration")
BASELINES = ("bm25", "dense", "hybrid", "strong")

_CHANGES: dict[str, dict[str, Any]] = {
    "graph-only": {"views": "graph"},
    "hierarchy-only": {"views": "hierarchy"},
    "no-closure": {"closure": False},
    "no-calibration": {"calibrate": False},
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to search: a name, its configuration, and whether answers are calibrated.

    `answers` says that the reader answers from its evidence, too.
    """

    name: str
    config: Config
    calibrate: bool = True
    answers: bool = True


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that `run` does to a data set, checked when made.

    `views` are ranked in turn, the first is the headline; `ablations` are the headline with one thing left
    out. `k` is the number of primary units that a reader's evidence has (the paper's K), `limit` the most
    units of it after closure; `budget` repeats that for other K. Rankings keep `depth` traces. One index
    holds at most `chunk` traces (0 for all in one); `latency_samples` questions are also asked one by one.
    With `baseline_answers` the reader also answers from the first K traces of every flat baseline, at
    K traces a question while the method's own evidence has what closure adds, too. With `losses` the stage
    that lost each gold trace of the headline at rank K is found.
    """

    config: Config = field(default_factory=Config)
    views: tuple[str, ...] = VIEWS
    ablations: tuple[str, ...] = ()
    budget: tuple[int, ...] = ()
    baselines: tuple[str, ...] = ()
    baseline_answers: bool = False
    k: int = 5
    limit: int | None = None
    depth: int = 12
    latency_samples: int = 200
    chunk: int = 0
    losses: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        _names("views", self.views, VIEWS)
        _names("ablate", self.ablations, ABLATIONS, empty=True)
        _names("baselines", self.baselines, BASELINES, empty=True)
        if self.baseline_answers and not self.baselines:
            raise InvalidInput("baseline-answers", "it without baselines", "--baselines with it")
        if self.depth < metrics.DEEPEST_CUTOFF:
            allowed = (
                f"at least {metrics.DEEPEST_CUTOFF}, since recall@{metrics.DEEPEST_CUTOFF} is reported"
            )
            raise InvalidInput("depth", self.depth, allowed)
        for name, value, least in (
            ("k", self.k, 1), ("limit", self.limit or 1, 1), ("latency_samples", self.latency_samples, 0),
            ("chunk", self.chunk, 0), *(("budget", one, 1) for one in self.budget),
        ):  # fmt: skip
            if value < least:
                raise InvalidInput(name, value, f"{least} or more")
        if self.limit == 0:
            raise InvalidInput("limit", 0, "1 or more")
        if len(set(self.budget)) < len(self.budget):
            raise InvalidInput("budget", ", ".join(map(str, self.budget)), "each number once")
        for name in self.ablations:
            left, whole = self._ablated(name), self.primary
            if (left.config, left.calibrate) == (whole.config, whole.calibrate):
                key, value = next(iter(_CHANGES[name].items()))
                raise InvalidInput("ablate", name, f"a run with another {key}", f"It is {value!r} already.")

    @property
    def primary(self) -> Variant:
        """The headline: the first view."""
        return Variant(self.views[0], self.config.replace(views=self.views[0]))

    @property
    def variants(self) -> list[Variant]:
        """The headline, the other views (rankings only), the ablations."""
        others = [Variant(view, self.config.replace(views=view), answers=False) for view in self.views[1:]]
        return [self.primary, *others, *map(self._ablated, self.ablations)]

    @property
    def readings(self) -> list[tuple[str, Variant, int]]:
        """What a reader gets: (name, variant, K) of the headline, of each ablation and of each budget."""
        whole = [(one.name, one, self.k) for one in self.variants if one.answers]
        return whole + [(f"top-{k}", self.primary, k) for k in self.budget]

    def _ablated(self, name: str) -> Variant:
        config = self.primary.config.replace(**_CHANGES[name])
        return Variant(name, config, calibrate=name != "no-calibration")

    def chunks(self, conversations: Sequence[Conversation]) -> list[list[Conversation]]:
        """The conversations that share an index, `chunk` traces at most; a larger one stands alone."""
        return _cut(conversations, [len(one.traces) for one in conversations], self.chunk)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return asdict(self) | {"config": self.config.to_dict()}


def reading_groups(questions: Sequence[Question], size: int = 64) -> list[list[int]]:
    """Places of questions that a reader answers in one call: whole banks, about `size` questions.

    Questions are asked bank by bank, so a question that stands twice in its bank is in one group.
    """
    groups: list[list[int]] = []
    last = None
    for place, question in enumerate(questions):
        if not groups or (question.bank != last and len(groups[-1]) >= size):
            groups.append([])
        groups[-1].append(place)
        last = question.bank
    return groups


def _cut(items: Sequence[Any], sizes: Sequence[int], most: int) -> list[list[Any]]:
    parts: list[list[Any]] = []
    held = 0
    for item, size in zip(items, sizes, strict=True):
        if not parts or (most and held + size > most):
            parts.append([])
            held = 0
        parts[-1].append(item)
        held += size
    return parts


def _names(argument: str, given: Sequence[str], known: Sequence[str], *, empty: bool = False) -> None:
    if (not given and not empty) or len(set(given)) < len(given) or not set(given) <= set(known):
        got = ", ".join(given) or "none"
        raise InvalidInput(argument, got, "each at most once, of " + ", ".join(known))
