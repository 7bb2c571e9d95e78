"""The paper's own figures (arXiv 2607.29377v1), in percent, seconds and tokens, to stand beside ours.

RTX 4090, BGE-M3, top-K 5, γ = ρ = 0.6; the answers are those of a reader LLM. F1 and BLEU-1 follow GAM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SOURCE = "arXiv 2607.29377v1"
ENCODER = "BAAI/bge-m3"
READERS = ("GPT-4o-mini", "Qwen2.5-14B-Instruct")


class Answers(NamedTuple):
    """F1 and BLEU-1 in percent; None where the source gives none."""

    f1: float | None
    bleu1: float | None = None


class Cost(NamedTuple):
    """Of LoCoMo as a whole (4 threads): tokens spent on memory, seconds in all, seconds a question."""

    memory_tokens: int | None
    seconds: float | None
    per_question: float | None


# system → category → answers; averages are over the 1,540 questions
LOCOMO: Mapping[str, Mapping[str, Answers]] = {
    "Zero-Mem, GPT-4o-mini": {
        "single-hop": Answers(66.65, 60.53),
        "multi-hop": Answers(41.61, 32.92),
        "temporal": Answers(61.97, 57.45),
        "open-domain": Answers(35.52, 30.47),
        "average": Answers(59.15, 52.96),
    },
    "GAM, GPT-4o-mini": {
        "single-hop": Answers(57.75),
        "multi-hop": Answers(42.29, 34.44),
        "temporal": Answers(59.45),
        "open-domain": Answers(33.30),
        "average": Answers(53.75, 47.51),
    },
    "SimpleMem, GPT-4o-mini": {"average": Answers(48.02, 41.68)},
    "LightMem": {"average": Answers(38.44, 34.36)},
    "Zero-Mem, Qwen2.5-14B": {"average": Answers(57.57, 51.41)},
    "GAM, Qwen2.5-14B": {"average": Answers(52.70, 46.55)},
}

# documents in a bank → tokens of it, as the paper counts its contexts
HOTPOTQA_TOKENS: Mapping[int, str] = {400: "56K", 1600: "224K", 3200: "448K"}

# system → context → F1
HOTPOTQA: Mapping[str, Mapping[str, float]] = {
    "Zero-Mem, GPT-4o-mini": {"56K": 72.07, "224K": 66.43, "448K": 65.04},
    "Zero-Mem, Qwen2.5-14B": {"56K": 68.58, "224K": 65.47, "448K": 61.02},
}

# HotpotQA at 56K with GPT-4o-mini; keys as in `evaluate.plan`
ABLATION: Mapping[str, Answers] = {
    "full": Answers(72.07, 69.66),
    "graph-only": Answers(62.50, 59.90),
    "hierarchy-only": Answers(54.88, 51.40),
    "no-closure": Answers(67.90, 65.43),
    "no-calibration": Answers(70.13, 66.45),
}

# LoCoMo with GPT-4o-mini: K → answers; top-10 is given as gains of 0.65 and 0.83 over top-5
BUDGET: Mapping[int, Answers] = {
    1: Answers(52.59, 46.79),
    5: Answers(59.15, 52.96),
    10: Answers(59.80, 53.79),
}

COST: Mapping[str, Cost] = {
    "Zero-Mem": Cost(0, 334.77, 0.22),
    "LightMem": Cost(877_086, 788.76, 0.51),
    "SimpleMem": Cost(14_096_246, 8365.0, 5.43),
    "GAM": Cost(28_570_674, 9237.0, 6.00),
}
