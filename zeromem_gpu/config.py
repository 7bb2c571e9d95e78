"""Every number and switch of the method, with its allowed values and where it comes from.

"fixed" in a source means that the paper states the value; "open" means that it leaves the choice to
the reader and that the value here is ours (method.md names each). `retrieve/README.md` holds the
formulas in which these names appear.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args, get_type_hints

from zeromem_gpu.errors import InvalidInput

Solver = Literal["sor", "power"]
Activation = Literal["literal", "pruned"]
Views = Literal["both", "graph", "hierarchy"]
Vectors = Literal["pooled", "encoded"]
Stemmer = Literal["english", "none"]
Storage = Literal["float32", "float16"]


def _number(default: Any, low: float, high: float, source: str) -> Any:
    """A numeric field with an inclusive range."""
    return field(default=default, metadata={"low": low, "high": high, "source": source})


def _choice(default: Any, source: str) -> Any:
    """A field whose type annotation lists what is allowed."""
    return field(default=default, metadata={"source": source})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a memory; validated when made, immutable afterwards.

    Fields up to `window_vectors` shape the index and are part of its fingerprint; the rest may differ
    from one search to the next (`config.replace(rho=0.5)`).

    >>> Config(gamma=0.5).gamma
    0.5
    >>> Config(gamma=1.5)
    Traceback (most recent call last):
        ...
    zeromem_gpu.errors.InvalidInput: gamma: got 1.5; allowed: a number from 0.0 to 0.99.
    """

    # -- substrate: what a unit is and what is read from it (method.md 1) --
    unit_chars: int = _number(1000, 40, 100_000, "open: longer traces split at sentence ends")
    encode_time: bool = _choice(True, "open: the encoded text begins with the trace's date")
    encode_speaker: bool = _choice(True, "open: the encoded text names the speaker")
    encode_caption: bool = _choice(True, "open: the encoded text ends with the caption")
    stemmer: Stemmer = _choice("english", "open: Snowball stems under BM25; phrases stay unstemmed")
    ner_model: str = _choice("en_core_web_sm", "open: any installed spaCy pipeline with NER")
    drop_labels: tuple[str, ...] = _choice(
        ("ORDINAL", "CARDINAL", "DATE", "TIME", "PERCENT", "MONEY", "QUANTITY"),
        "open: NER labels that give no graph entity",
    )
    capitalised_entities: bool = _choice(True, "open: capitalised names that the NER model missed")
    speaker_entities: bool = _choice(True, "open: speakers are entities of their own turns")
    timezone: str = _choice("UTC", "ours: the zone in which naive times are read")
    window_size: int = _number(4, 1, 64, "open: turns in a window")
    window_stride: int = _number(2, 1, 64, "open: turns between the starts of two windows")
    local_radius: int = _number(1, 0, 8, "open: turns on each side of a local span")
    episode_sigma: float = _number(0.5, -5.0, 5.0, "open: break below mean - sigma * std of a session")
    episode_gap_hours: float = _number(6.0, 0.0, 1e6, "open: a longer silence starts a new episode")
    learned_weights: bool = _choice(False, "open: the encoder's token weights of units are kept (BGE-M3)")
    window_vectors: Vectors = _choice("pooled", "open: window and episode vectors, mean or encoded")

    # -- BM25 (paper: lexical access signal; constants open) --
    bm25_k1: float = _number(1.2, 0.0, 10.0, "open: term saturation")
    bm25_b: float = _number(0.3, 0.0, 1.0, "open: length normalisation")

    # -- graph view (method.md 3) --
    chain_weight: float = _number(2.5, 0.0, 100.0, "open: weight of neighbouring contexts")
    align_floor: float = _number(0.6, 0.01, 1.0, "open: cosine below which an entity is not aligned")
    activation: Activation = _choice("pruned", "open: the literal formula or the pruned form")
    activation_steps: int = _number(2, 0, 8, "open: t, the propagation steps")
    sentence_floor: float = _number(0.8, 0.0, 1.0, "open, pruned: share of the best sim(q, z)")
    activation_floor: float = _number(0.05, 0.0, 1.0, "open, pruned: share of the best activation")
    exclude_self: bool = _choice(False, "open: leave e = e' out of the printed sum")
    entity_share: float = _number(0.1, 0.0, 1.0, "open: mass of the reset vector on entities")
    prior_power: float = _number(2.0, 0.0, 64.0, "open: sharpness of the dense context prior")
    sentence_share: float = _number(1.0, 0.0, 1.0, "open: best sentence against turn in that prior")
    gamma: float = _number(0.6, 0.0, 0.99, "fixed: propagation weight of PageRank")
    solver: Solver = _choice("sor", "ours: three-colour SOR, or power iteration, to the same answer")
    tolerance: float = _number(1e-6, 5e-7, 1e-1, "ours: L1 error of PageRank before rescaling")
    graph_lexical: float = _number(0.4, 0.0, 10.0, "open: lambda_1, BM25 in the refined ranking")
    graph_phrase: float = _number(0.5, 0.0, 10.0, "open: lambda_2, phrases in the refined ranking")
    graph_subject: float = _number(0.5, 0.0, 10.0, "open: names of the subject in the refined ranking")
    graph_temporal: float = _number(1.5, 0.0, 10.0, "open: temporal validity in the refined ranking")
    graph_type: float = _number(0.35, 0.0, 10.0, "open: answer type in the refined ranking")
    graph_reply: float = _number(0.3, 0.0, 10.0, "open: fit of the question that a turn replies to")
    graph_related: float = _number(0.5, 0.0, 10.0, "open: words near a question's in meaning")
    related_floor: float = _number(0.5, 0.0, 0.99, "open: cosine from which two words are near")
    graph_learned: float = _number(0.0, 0.0, 10.0, "open: the encoder's token weights in that ranking")
    graph_bridge: float = _number(2.0, 0.0, 10.0, "open: a ranked unit tells of the name a unit was given")
    bridge_power: float = _number(2.0, 0.1, 64.0, "open: how high such a unit has to rank")

    # -- hierarchy view (method.md 4) --
    episode_beam: int = _number(32, 1, 100_000, "open: episodes kept")
    window_beam: int = _number(128, 1, 100_000, "open: windows kept inside them")
    lexical: float = _number(1.0, 0.0, 10.0, "open: BM25 at the unit's own level")
    phrase: float = _number(1.3, 0.0, 10.0, "open: phrase support of a turn")
    subject: float = _number(2.5, 0.0, 10.0, "open: subject consistency of a turn")
    temporal: float = _number(2.5, 0.0, 10.0, "open: temporal validity of a turn")
    temporal_days: float = _number(14.0, 0.01, 1e5, "open: decay outside the validity interval")
    answer_type: float = _number(0.5, 0.0, 10.0, "open: a turn holds the expected type of answer")
    learned: float = _number(0.0, 0.0, 10.0, "open: the encoder's token weights of a turn")
    reply: float = _number(0.8, 0.0, 10.0, "open: fit of the question that a turn replies to")
    local_share: float = _number(0.4, 0.0, 10.0, "open: a turn's share of its local span's score")
    window_share: float = _number(2.5, 0.0, 10.0, "open: a turn's share of its best window's score")
    episode_share: float = _number(0.25, 0.0, 10.0, "open: a window's and a turn's share of its episode")
    neighbour_share: float = _number(0.0, 0.0, 10.0, "open: a turn's share of the turns beside it")

    # -- fusion and closure (method.md 5) --
    rho: float = _number(0.6, 0.0, 1.0, "fixed: weight of the view that the route puts first")
    candidates: int = _number(24, 1, 100_000, "open: units that each view returns")
    top_k: int = _number(5, 1, 100_000, "fixed: K, primary units")
    views: Views = _choice("both", "ablation: run both views or one alone")
    closure: bool = _choice(True, "ablation: add N_g and N_h to the primary units")
    closure_graph: int = _number(3, 0, 1000, "open: most units added by a shared entity")
    closure_neighbours: int = _number(1, 0, 64, "open: turns added on each side of a primary unit")

    # -- evidence calibration (method.md 6) --
    calibrate: bool = _choice(True, "ablation: order the evidence by its fit to the profile")
    calibrate_subject: float = _number(0.05, 0.0, 10.0, "open: subject consistency in that order")
    calibrate_temporal: float = _number(0.05, 0.0, 10.0, "open: temporal validity in that order")
    calibrate_type: float = _number(0.02, 0.0, 10.0, "open: answer type in that order")

    # -- running --
    vector_storage: Storage = _choice("float32", "ours: float16 on a GPU: half the bytes, cosines to 1e-3")
    batch_bytes: int = _number(1 << 30, 1 << 20, 1 << 50, "ours: working memory of one batch split")
    host_bytes: int = _number(1 << 33, 1 << 20, 1 << 50, "ours: a search on the CPU, beside the facts")
    device_bytes: int = _number(1 << 34, 1 << 20, 1 << 50, "ours: a search on a GPU, banks and work")

    def __post_init__(self) -> None:
        """Check every field against its annotation and range."""
        hints = get_type_hints(type(self))
        for spec in dataclasses.fields(self):
            _check(spec.name, getattr(self, spec.name), hints[spec.name], spec.metadata)
        if self.window_stride > self.window_size:
            raise InvalidInput(
                "window_stride", self.window_stride, f"at most window_size ({self.window_size})"
            )
        for name in ("learned", "graph_learned"):
            if getattr(self, name) > 0 and not self.learned_weights:
                raise InvalidInput(
                    name, getattr(self, name), "0 without learned_weights",
                    "Build the index with learned_weights=True and an encoder that gives token weights.",
                )  # fmt: skip

    @property
    def asks_learned(self) -> bool:
        """Whether a view counts the encoder's token weights."""
        return (self.learned > 0 and self.views != "graph") or (
            self.graph_learned > 0 and self.views != "hierarchy"
        )

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; an unknown name is an `InvalidInput` that lists the known."""
        unknown = set(changes) - {spec.name for spec in dataclasses.fields(self)}
        if unknown:
            known = ", ".join(spec.name for spec in dataclasses.fields(self))
            raise InvalidInput("config", ", ".join(sorted(unknown)), known)
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in _items(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; missing fields take their defaults."""
        return cls().replace(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})

    def index_fields(self) -> dict[str, Any]:
        """The fields that shape stored facts: an index built with others must be rebuilt."""
        names = list(self.to_dict())
        kept = names[: names.index("window_vectors") + 1]
        return {name: value for name, value in self.to_dict().items() if name in kept}


def _items(config: Config) -> list[tuple[str, Any]]:
    return [(spec.name, getattr(config, spec.name)) for spec in dataclasses.fields(config)]


def _check(name: str, value: Any, hint: Any, metadata: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` unless `value` fits its type annotation and range."""
    choices = get_args(hint)
    if hint is bool:
        if not isinstance(value, bool):
            raise InvalidInput(name, repr(value), "True or False")
    elif hint in (int, float):
        low, high = hint(metadata["low"]), hint(metadata["high"])
        kinds = (int,) if hint is int else (int, float)
        fits = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
        if not fits or not low <= value <= high:
            word = "a whole number" if hint is int else "a number"
            raise InvalidInput(name, repr(value), f"{word} from {low} to {high}")
    elif hint is str:
        if not isinstance(value, str) or not value:
            raise InvalidInput(name, repr(value), "a name that is not empty")
    elif hint == tuple[str, ...]:
        if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
            raise InvalidInput(name, repr(value), "a tuple of names")
    elif value not in choices:
        raise InvalidInput(name, repr(value), " or ".join(repr(choice) for choice in choices))
