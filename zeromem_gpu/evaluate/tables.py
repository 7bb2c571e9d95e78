"""Tables shaped like the paper's, its figures beside those of a run. They read `metrics.json` alone.

What a run does not have is left out; a table without any figure of the run is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zeromem_gpu.evaluate import paper

Summary = Mapping[str, Any]

_KINDS = ("single-hop", "multi-hop", "temporal", "open-domain", "average")
EVIDENCE = (
    ("R@5", "recall@5"), ("R@10", "recall@10"), ("R@12", "recall@12"), ("hit@5", "hit@5"),
    ("all@5", "all@5"), ("nDCG@10", "ndcg@10"), ("MRR", "mrr"),
)  # fmt: skip
_BUILD = ("ner", "encode", "graph", "bm25", "index")
_READER_COUNTS = ("prompt_tokens", "completion_tokens", "errors", "changed", "better", "worse")
_DASH = "–"


def tables(*summaries: Summary) -> RenderableType:
    """Every table that the runs have figures for, what the runs took, what differs from the paper.

    `summaries` are the contents of metrics.json of one run or more (HotpotQA at several sizes).
    """
    found: list[Table | None] = [evidence_table(one) for one in summaries]
    found += [*map(locomo_table, summaries), hotpotqa_table(summaries)]
    for one in summaries:
        found += [ablation_table(one), budget_table(one), cost_table(one)]
    notes = [line for one in summaries for line in (*run_notes(one), difference_note(one))]
    lines = (Text(line, style="dim") for line in dict.fromkeys(notes))
    return Group(*(one for one in found if one is not None), *lines)


def locomo_table(summary: Summary) -> Table | None:
    """LoCoMo answers by category, F1 / BLEU-1, as in the paper's main table."""
    ours = _table_of(summary, "answers")
    if summary.get("dataset") != "locomo" or not ours:
        return None
    grid = _grid("LoCoMo answers, F1 / BLEU-1", "system", *_KINDS)
    for system, row in paper.LOCOMO.items():
        grid.add_row(system, *(_pair(row.get(kind)) for kind in _KINDS), style="dim")
    grid.add_section()
    for label, key in (("ours", "answers"), ("ours, as read", "answers_reader")):
        block = _table_of(summary, key)
        if block:
            grid.add_row(
                Text(f"{label}, {reader_name(summary)}"),
                *(_pair(_answers(block.get(kind))) for kind in _KINDS),
                style="bold" if key == "answers" else None,
            )
    return grid


def hotpotqa_table(summaries: Sequence[Summary]) -> Table | None:
    """HotpotQA F1 by context length, as in the paper's second table."""
    runs = [one for one in summaries if one.get("dataset") == "hotpotqa" and _hotpotqa_f1(one) is not None]
    if not runs:
        return None
    sizes = list(paper.HOTPOTQA_TOKENS.values())
    grid = _grid("HotpotQA answers, F1", "system", *sizes)
    for system, row in paper.HOTPOTQA.items():
        grid.add_row(system, *(_number(row.get(size)) for size in sizes), style="dim")
    grid.add_section()
    for reader in dict.fromkeys(map(reader_name, runs)):
        mine = {context_of(one): _hotpotqa_f1(one) for one in runs if reader_name(one) == reader}
        grid.add_row(Text(f"ours, {reader}"), *(_percent(mine.get(size)) for size in sizes), style="bold")
        others = [size for size in mine if size not in sizes]
        for size in others:
            grid.add_row(f"  at {size}: {_percent(mine[size])}")
    return grid


def cost_table(summary: Summary) -> Table | None:
    """Memory tokens and time on LoCoMo; ours apart for indexing and for questions."""
    timing = summary.get("timing") or {}
    if summary.get("dataset") != "locomo" or not timing:
        return None
    index, each = index_seconds(summary), question_seconds(summary)
    count = summary.get("questions") or 0
    grid = _grid(
        "LoCoMo cost (ours: no reader, cached vectors as found)",
        "system",
        "memory tokens",
        "index s",
        "all s",
        "s a question",
    )
    for system, cost in paper.COST.items():
        grid.add_row(
            system, f"{cost.memory_tokens:,}", _DASH, f"{cost.seconds:,.2f}", f"{cost.per_question:.2f}",
            style="dim",
        )  # fmt: skip
    grid.add_section()
    total = None if index is None or each is None else index + each * count
    tokens = f"{summary.get('memory_llm_tokens') or 0:,}"
    cells = [_DASH if one is None else f"{one:,.2f}" for one in (index, total)]
    grid.add_row("ours", tokens, *cells, _DASH if each is None else f"{each:.5f}", style="bold")
    return grid


def ablation_table(summary: Summary) -> Table | None:
    """The method with one part left out: the paper's answers (HotpotQA 56K), our answers and evidence."""
    ablations = summary.get("ablations") or {}
    if not ablations:
        return None
    grid = _grid(
        "Ablations", "variant", "paper F1 / BLEU-1", "ours F1 / BLEU-1", "R@5", "R@10", "set recall"
    )
    for name, block in {"full": summary, **ablations}.items():
        answers = _answers(_table_of(block, "answers").get("average"))
        cells = [_pair(paper.ABLATION.get(name)), _pair(answers)]
        cells += [_percent(block.get(metric)) for metric in ("recall@5", "recall@10")]
        cells.append(_percent((block.get("evidence_set") or {}).get("recall")))
        grid.add_row(name, *cells, style="bold" if name == "full" else None)
    return grid


def budget_table(summary: Summary) -> Table | None:
    """Answers and evidence against the number of primary units K."""
    budget = summary.get("budget") or {}
    if not budget:
        return None
    grid = _grid("Evidence budget", "K", "paper F1 / BLEU-1", "ours F1 / BLEU-1", "set recall", "units")
    for k in sorted(budget, key=int):
        block = budget[k]
        held = block.get("evidence_set") or {}
        grid.add_row(
            k,
            _pair(paper.BUDGET.get(int(k)) if summary.get("dataset") == "locomo" else None),
            _pair(_answers(_table_of(block, "answers").get("average"))),
            _percent(held.get("recall")),
            _number(held.get("units")),
        )
    return grid


def evidence_table(summary: Summary) -> Table | None:
    """Evidence of the method by part, of its views and of the flat baselines."""
    rows = dict(evidence_rows(summary))
    if not rows:
        return None
    title = f"{summary.get('dataset', '')}: evidence, percent"
    grid = _grid(title, "system, part", "n", *(label for label, _ in EVIDENCE))
    for at, (name, block) in enumerate(rows.items()):
        parts = [(name, block)]
        # a run over one side of the split alone has nothing to set apart
        sides = [(side, block.get(side) or {}) for side in ("reporting", "tuning")]
        if all(side.get("questions") for _, side in sides):
            parts += sides if at == 0 else sides[:1]
        parts += list((block.get("by_category") or {}).items()) if at == 0 else []
        for row, (label, part) in enumerate(parts):
            count = f"{(part.get('questions') or 0) - (part.get('skipped') or 0):,}"
            cells = [_percent(part.get(metric)) for _, metric in EVIDENCE]
            grid.add_row(Text(f"  {label}" if row else label), count, *cells, style=None if row else "bold")
        if at == 0:
            grid.add_section()
    return grid


def evidence_rows(summary: Summary) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """(system, its block of metrics.json): the headline, the other views, the baselines."""
    views = summary.get("views") or {}
    first = next(iter(views), "both")
    if summary.get("recall@5") is not None:
        yield "zeromem" if first == "both" else f"{first} view alone", summary
    for name, block in list(views.items())[1:]:
        yield f"{name} view alone", block
    for name, block in (summary.get("baselines") or {}).items():
        yield f"flat {name}", block


def run_notes(summary: Summary) -> list[str]:
    """What was asked and what it took, in lines for people."""
    timing, single = summary.get("timing") or {}, summary.get("single_query")
    asked, skipped = summary.get("questions") or 0, summary.get("skipped") or 0
    tokens = summary.get("memory_llm_tokens") or 0
    lines = [
        f"{asked:,} questions, {skipped} without gold evidence left out; {tokens} LLM tokens on memory"
    ]
    parts = [
        f"{name} {timing[f'{name}_s']:.2f} s" for name in _BUILD if timing.get(f"{name}_s") is not None
    ]
    lines += ["index    " + ", ".join(parts)] if parts else []
    parts = [
        f"{name} {timing[f'{name}_ms_per_query']:.2f} ms"
        for name in ("profile", "retrieve")
        if timing.get(f"{name}_ms_per_query") is not None
    ]
    if timing.get("encode_queries_s") is not None:
        parts.append(f"encoding {1000 * timing['encode_queries_s'] / max(asked, 1):.2f} ms")
    lines += ["batch    a question: " + ", ".join(parts)] if parts else []
    if single:
        lines.append(
            f"single   p50 {single['p50_ms']:.2f} ms, p99 {single['p99_ms']:.2f} ms "
            f"over {single['questions']} whole searches"
        )
    reader = summary.get("reader")
    if isinstance(reader, Mapping):
        used = [f"{reader.get(name, 0):,} {name.replace('_', ' ')}" for name in _READER_COUNTS]
        lines.append(f"reader   {reader_name(summary)}: " + ", ".join(used))
    return lines


def difference_note(summary: Summary) -> str:
    """What stands between our figures and the paper's."""
    parts = []
    encoder = str(summary.get("encoder") or "unknown")
    if "bge-m3" not in encoder.casefold():
        parts.append(f"encoder {encoder} (paper: {paper.ENCODER})")
    parts.append(f"reader {reader_name(summary)} (paper: {' or '.join(paper.READERS)})")
    place = (summary.get("machine") or {}).get("device")
    if place:
        parts.append(f"on {place} (paper: RTX 4090)")
    return "What differs: " + ", ".join(parts) + f". Paper: {paper.SOURCE}."


def reader_name(summary: Summary) -> str:
    """The reader of a run; "none" where it only retrieved."""
    reader = summary.get("reader")
    return str(reader.get("name", "unknown")) if isinstance(reader, Mapping) else str(reader or "none")


def context_of(summary: Summary) -> str:
    """The context length of a HotpotQA run as the paper names it, else its number of documents."""
    documents = int((summary.get("about") or {}).get("documents") or 0)
    return paper.HOTPOTQA_TOKENS.get(documents, f"{documents} documents")


def index_seconds(summary: Summary) -> float | None:
    """Seconds that building the index took, from its total or its parts."""
    timing = summary.get("timing") or {}
    if timing.get("index_s") is not None:
        return float(timing["index_s"])
    parts = [timing.get(name) for name in ("ner_s", "encode_s", "graph_s", "bm25_s")]
    known = [float(part) for part in parts if part is not None]
    return sum(known) if known else None


def question_seconds(summary: Summary) -> float | None:
    """Seconds a question takes in the batch: encoding, profile and retrieval."""
    timing, count = summary.get("timing") or {}, summary.get("questions")
    profile, retrieve = timing.get("profile_ms_per_query"), timing.get("retrieve_ms_per_query")
    if not count or profile is None or retrieve is None:
        return None
    return float((timing.get("encode_queries_s") or 0.0) / count + (profile + retrieve) / 1000.0)


def _hotpotqa_f1(summary: Summary) -> float | None:
    value = (_table_of(summary, "answers", "squad").get("average") or {}).get("f1")
    return None if value is None else float(value)


def _table_of(block: Summary, key: str, protocol: str = "gam") -> Mapping[str, Any]:
    return (block.get(key) or {}).get(protocol) or {}


def _answers(scores: Mapping[str, Any] | None) -> paper.Answers | None:
    """Scores of metrics.json in percent."""
    if not scores or scores.get("f1") is None:
        return None
    bleu1 = scores.get("bleu1")
    return paper.Answers(100 * scores["f1"], None if bleu1 is None else 100 * bleu1)


def _grid(title: str, first: str, *labels: str) -> Table:
    grid = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    grid.add_column(first, no_wrap=True)
    for label in labels:
        grid.add_column(label, justify="right")
    return grid


def _pair(value: paper.Answers | None) -> str:
    return _DASH if value is None else f"{_number(value.f1)} / {_number(value.bleu1)}"


def _number(value: float | None) -> str:
    return _DASH if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return _DASH if value is None else f"{100 * value:.1f}"
