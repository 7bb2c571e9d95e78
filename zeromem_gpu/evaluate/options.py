"""The options that every `zeromem-gpu eval` command has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.terminal import (
    Cache,
    Device,
    EncoderName,
    Limit,
    NoCache,
    Settings,
    Vectors,
    cache_of,
    names_of,
)

if TYPE_CHECKING:
    from zeromem_gpu.evaluate.plan import Plan

Ablate = Annotated[
    str, typer.Option(help="graph-only, hierarchy-only, no-closure, no-calibration; commas between.")
]
BaselineAnswers = Annotated[
    bool,
    typer.Option("--baseline-answers", help="Let the reader answer from the baselines' first K, too."),
]
Losses = Annotated[
    bool, typer.Option("--losses", help="Which stage lost each gold trace that is not among the first K.")
]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run does and where it writes; the fields are options of the command line."""

    out: Annotated[Path, typer.Option(help="Folder for metrics.json, evidence, answers and TREC files.")]
    answers: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Answers of `--reader recorded`.")
    ] = None
    encoder: EncoderName = "minilm"
    reader: Annotated[str, typer.Option(help="none, extractive, openai, or recorded FILE.")] = "none"
    views: Annotated[str, typer.Option(help="Compared over one index; the first is the headline.")] = (
        "both,graph,hierarchy"
    )
    ablate: Ablate = ""
    budget: Annotated[str, typer.Option(help="Other K to repeat the headline with, such as 1,2,3.")] = ""
    baselines: Annotated[str, typer.Option(help="Flat rankings beside it: bm25,dense,hybrid,strong.")] = ""
    baseline_answers: BaselineAnswers = False
    losses: Losses = False
    k: Annotated[int, typer.Option("--k", help="Units taken by rank for a reader; closure adds some.")] = 5
    limit: Limit = None
    settings: Settings = None
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run in the folder; ask again what failed."),
    ] = False
    device: Device = None
    vectors: Vectors = None
    cache: Cache = None
    no_cache: NoCache = False
    latency_samples: Annotated[int, typer.Option(help="Questions also asked singly.")] = 0
    chunk: Annotated[int, typer.Option(help="Most traces in one index; 0 for all in one.")] = 0

    def plan(self) -> Plan:
        """The plan, checked; a setting that has an option of its own is refused."""
        from zeromem_gpu.settings import parse_settings

        changes = parse_settings(self.settings or [])
        for key, option in (("views", "--views"), ("top_k", "--k")):
            if key in changes:
                raise InvalidInput("--set", key, "every other key", f"Use {option}.")
        from zeromem_gpu import Config
        from zeromem_gpu.evaluate.plan import Plan

        return Plan(
            config=Config().replace(**changes, top_k=self.k),
            views=tuple(names_of(self.views)),
            ablations=tuple(names_of(self.ablate)),
            budget=tuple(_number("budget", one) for one in names_of(self.budget)),
            baselines=tuple(names_of(self.baselines)),
            baseline_answers=self.baseline_answers,
            k=self.k,
            limit=self.limit,
            depth=max(12, self.k),
            latency_samples=self.latency_samples,
            chunk=self.chunk,
            losses=self.losses,
        )

    def memory(self) -> dict[str, Any]:
        """The options of a memory."""
        return {
            "encoder": self.encoder,
            "device": self.device,
            "vectors": self.vectors,
            "cache_dir": cache_of(self.cache, self.no_cache),
        }


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(name, repr(text), "whole numbers with commas between") from None
