"""One HTML page of a run folder that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from zeromem_gpu.errors import InvalidInput
from zeromem_gpu.evaluate import paper, svg
from zeromem_gpu.evaluate.answer_tables import stage_rows
from zeromem_gpu.evaluate.bootstrap import Interval, intervals
from zeromem_gpu.evaluate.compare import compare_scores, parts_of
from zeromem_gpu.evaluate.html_parts import (
    STYLE,
    decimal,
    folded,
    gain,
    hundred,
    leaves,
    note,
    pair,
    percent,
    short,
    spread,
    table,
)
from zeromem_gpu.evaluate.losses import STAGES
from zeromem_gpu.evaluate.metrics import METRICS
from zeromem_gpu.evaluate.run_folder import (
    RunFolder,
    Scores,
    evidence_scores,
    named_as_in_trec,
    read_run,
    read_summary,
    read_trec_run,
)
from zeromem_gpu.evaluate.tables import difference_note, run_notes

Summary = Mapping[str, Any]

_SHOWN = ("recall@5", "recall@10", "hit@5", "ndcg@10", "mrr")
_OPPONENTS = ("recall@5", "recall@10", "ndcg@10")


def write_html(folder: str | Path, target: str | Path | None = None) -> Path:
    """Write the page of a run folder, `report.html` in it unless `target` says where; returns its path."""
    path = Path(folder)
    file = path / "report.html" if target is None else Path(target)
    page = render(path)
    try:
        # a lone surrogate in a question must not lose the page
        file.write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidInput("report", f"{file} ({error.strerror})", "a file that can be written") from error
    return file


def render(folder: str | Path, *, resamples: int = 10_000, seed: int = 0) -> str:
    """The page as text; every text of the run is escaped.

    Sections without data are left out; neither `evidence.jsonl` nor `metrics.json` is `InvalidInput`.
    """
    path = Path(folder)
    run: RunFolder | None = None
    if (path / "evidence.jsonl").is_file() or not (path / "metrics.json").is_file():
        run = read_run(path)
    summary = read_summary(path)
    title = f"{summary.get('dataset', path.name)}: evidence and answers"
    options = {"resamples": resamples, "seed": seed}
    sections: list[tuple[str, str]] = []
    if run is not None:
        rivals = _rivals(run)
        sections += [
            ("Headline", _headline(run, options)),
            ("By category", _categories(run, rivals, options)),
            ("Views, ablations and flat baselines", _opponents(run, rivals, options)),
            ("Answer calibration", _calibration(run, options)),
        ]
    sections += [
        ("Where gold evidence is lost", _losses(summary)),
        ("Answers beside the paper's", _answers(summary)),
        ("Ablations of the answers", _ablations(summary)),
        ("Evidence budget", _budget(summary)),
        ("Time and tokens", _costs(summary)),
        ("Configuration and versions", _settings(summary)),
    ]
    body = "".join(f"<section><h2>{escape(name)}</h2>{text}</section>" for name, text in sections if text)
    rules = "".join(f"{selector}{{{rule}}}" for selector, rule in svg.style().items())
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{rules}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{_lead(summary)}{_cards(summary)}{body}</main></body></html>\n"
    )


def _lead(summary: Summary) -> str:
    if not summary:
        return note("This run has no metrics.json: it was not finished. What it left is shown.")
    return note(difference_note(summary))


def _cards(summary: Summary) -> str:
    """The few numbers to see first."""
    facts: list[tuple[str, str]] = []
    for label, metric in (("recall@5", "recall@5"), ("recall@10", "recall@10")):
        if summary.get(metric) is not None:
            facts.append((percent(summary[metric]), f"{label}, all"))
    apart = (summary.get("reporting") or {}).get("recall@5")
    if apart is not None and (summary.get("tuning") or {}).get("questions"):
        facts.append((percent(apart), "recall@5, not tuned on"))
    average = ((summary.get("answers") or {}).get("gam") or {}).get("average") or {}
    if average.get("f1") is not None:
        facts.append((percent(average["f1"]), "answer F1 (GAM)"))
    if summary.get("memory_llm_tokens") is not None:
        facts.append((f"{summary['memory_llm_tokens']:,}", "LLM tokens on memory"))
    cards = (
        f'<div class="card"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in facts
    )
    return f'<div class="cards">{"".join(cards)}</div>' if facts else ""


def _headline(run: RunFolder, options: Mapping[str, int]) -> str:
    found = _part_intervals(run, run.scores, options)
    answers = [name for name in run.scores if name not in METRICS]
    out = []
    for caption, metrics in (("Evidence", list(_SHOWN)), ("Answers", answers)):
        rows = []
        for part, (count, values) in found.items():
            if any(metric in values for metric in metrics):
                rows.append([part, f"{count:,}", *(spread(values.get(metric)) for metric in metrics)])
        if rows:
            out.append(
                table(
                    f"{caption}, percent, with 95 % intervals",
                    ["part", "questions", *metrics],
                    rows,
                    lead=0,
                )
            )
    return "".join(out)


def _part_intervals(
    run: RunFolder, scores: Scores, options: Mapping[str, int]
) -> dict[str, tuple[int, dict[str, Interval]]]:
    """part → how many questions, metric → mean and interval over those that have a value."""
    found: dict[str, tuple[int, dict[str, Interval]]] = {}
    for part, names in parts_of(run.questions, run.reporting):
        groups: dict[tuple[str, ...], list[str]] = {}
        for metric, given in scores.items():
            known = tuple(name for name in names if name in given)
            if known:
                groups.setdefault(known, []).append(metric)
        cells: dict[str, Interval] = {}
        for known, metrics in groups.items():
            values = [[scores[metric][name] for metric in metrics] for name in known]
            cells |= dict(zip(metrics, intervals(values, **options), strict=True))
        found[part] = (len(names), cells)
    return found


def _categories(run: RunFolder, rivals: Mapping[str, Scores], options: Mapping[str, int]) -> str:
    found = _part_intervals(run, {"recall@5": run.scores["recall@5"]}, options)
    best = next((rivals[name] for name in ("strong", "hybrid", "bm25", "dense") if name in rivals), None)
    named = next((name for name in ("strong", "hybrid", "bm25", "dense") if name in rivals), "")
    rows = []
    members = dict(parts_of(run.questions, run.reporting))
    for part, (_, cells) in found.items():
        if "recall@5" in cells:
            opponent = None
            if best is not None:
                values = [best["recall@5"][name] for name in members[part] if name in best["recall@5"]]
                opponent = sum(values) / len(values)
            rows.append(svg.Bar(part, *cells["recall@5"], opponent))
    if not rows:
        return ""
    key = '<span class="key" style="background:var(--c0)"></span>ours, whisker 95 %'
    if best is not None:
        key += f'<span class="key" style="background:var(--c1)"></span>flat {escape(named)}'
    return f'<p class="note">Recall@5, percent {key}</p>' + svg.bars(rows, "Recall@5 by category")


def _rivals(run: RunFolder) -> dict[str, Scores]:
    """Name → evidence scores of every further ranking in the folder."""
    found = {}
    for file in sorted(run.path.glob("run.*.trec")):
        name = file.name.removeprefix("run.").removesuffix(".trec")
        found[name] = evidence_scores(named_as_in_trec(run.questions), read_trec_run(file))
    return found


def _opponents(run: RunFolder, rivals: Mapping[str, Scores], options: Mapping[str, int]) -> str:
    """Every further ranking, and what the headline gains over it, over all and the reporting questions."""
    out = []
    tables: dict[str, list[list[str]]] = {}
    for name, scores in rivals.items():
        pairs = {
            metric: {one: (scores[metric][one], value) for one, value in run.scores[metric].items()}
            for metric in _OPPONENTS
        }
        rows = compare_scores(pairs, run, **options)
        for part in ("all", "reporting"):
            mine = [row for row in rows if row.part == part]
            if mine:
                cells = [cell for row in mine for cell in (percent(row.a), gain(row))]
                tables.setdefault(part, []).append([name, *cells])
    heads = [head for metric in _OPPONENTS for head in (metric, "ours gains")]
    for part, body in tables.items():
        over = "all questions" if part == "all" else "questions of banks that nothing was tuned on"
        out.append(
            table(f"Over {over}, percent; gain with paired 95 % interval", ["ranking", *heads], body)
        )
    return "".join(out)


def _calibration(run: RunFolder, options: Mapping[str, int]) -> str:
    pairs = {
        metric: {
            name: (values[name], run.scores[metric][name]) for name in values if name in run.scores[metric]
        }
        for metric, values in run.reader_scores.items()
        if metric in run.scores
    }
    rows = [
        [row.metric if row.part == "all" else f"  {row.part}", f"{row.questions:,}", percent(row.a),
         percent(row.b), gain(row), f"{row.better}", f"{row.worse}"]
        for row in compare_scores(pairs, run, **options)
    ]  # fmt: skip
    heads = ["metric, part", "questions", "as read", "calibrated", "gain", "better", "worse"]
    return table("Percent; gain with paired 95 % interval", heads, rows) if rows else ""


def _losses(summary: Summary) -> str:
    """Gold past rank K by the stage that lost it, and what each stage means."""
    parts, rows = stage_rows(summary)
    if not rows:
        return ""
    told = "".join(note(f"{stage}: {meaning}.") for stage, meaning in STAGES.items())
    return table(f"Gold traces past rank {summary.get('k')}", ["stage", *parts], rows, lead=1) + told


def _answers(summary: Summary) -> str:
    mine = summary.get("answers") or {}
    out = []
    if summary.get("dataset") == "locomo" and mine.get("gam"):
        kinds = ["single-hop", "multi-hop", "temporal", "open-domain", "average"]
        rows = [
            [
                system,
                *(pair(row[kind].f1, row[kind].bleu1) if kind in row else "–" for kind in kinds),
            ]
            for system, row in paper.LOCOMO.items()
        ]
        found = {"ours": mine["gam"]}
        for name, block in (summary.get("baselines") or {}).items():
            if block.get("answers"):
                found[f"flat {name}, same reader"] = block["answers"].get("gam") or {}
        scores = {name: [block.get(kind) or {} for kind in kinds] for name, block in found.items()}
        rows[:0] = [
            [name, *(pair(hundred(one.get("f1")), hundred(one.get("bleu1"))) for one in row)]
            for name, row in scores.items()
        ]
        out.append(table("F1 / BLEU-1, percent", ["system", *kinds], rows, lead=0))
    for protocol, block in mine.items():
        names = list(dict.fromkeys(name for part in block.values() for name in part if name != "questions"))
        names = [name for name in names if name not in ("by_category", "conversations")]
        rows = [
            [
                str(kind),
                f"{part.get('questions', 0):,}",
                *(percent(part.get(name)) for name in names),
            ]
            for kind, part in block.items()
        ]
        out.append(folded(protocol, table("Percent", ["part", "questions", *names], rows)))
    return "".join(out)


def _ablations(summary: Summary) -> str:
    blocks = {"full": summary, **(summary.get("ablations") or {})}
    if len(blocks) == 1:
        return ""
    rows = []
    for name, block in blocks.items():
        protocol = next(iter(block.get("answers") or {}), "")
        answers = ((block.get("answers") or {}).get(protocol) or {}).get("average") or {}
        held = block.get("evidence_set") or {}
        cells = [percent(value) for value in (block.get("recall@5"), held.get("recall"), answers.get("f1"))]
        theirs = paper.ABLATION.get(name)
        rows.append([name, *cells, "–" if theirs is None else f"{theirs.f1:.2f}"])
    heads = ["variant", "recall@5", "evidence set recall", "answer F1", "paper F1 (HotpotQA 56K)"]
    return table("Percent", heads, rows, lead=0)


def _budget(summary: Summary) -> str:
    blocks = sorted((summary.get("budget") or {}).items(), key=lambda item: int(item[0]))
    if not blocks:
        return ""
    held, f1, rows = [], [], []
    for k, block in blocks:
        found = block.get("evidence_set") or {}
        protocols: Summary = block.get("answers") or {}
        scores = (protocols[next(iter(protocols))].get("average") or {}) if protocols else {}
        if found.get("recall") is not None:
            held.append((float(k), 100 * found["recall"]))
        if scores.get("f1") is not None:
            f1.append((float(k), 100 * scores["f1"]))
        cells = [percent(found.get("recall")), percent(scores.get("f1"))]
        rows.append([k, decimal(found.get("units")), *cells])
    curves = [svg.Line("gold in evidence", held), svg.Line("answer F1", f1)]
    if summary.get("dataset") == "locomo" and f1:
        theirs = [(float(k), one.f1) for k, one in paper.BUDGET.items() if one.f1 is not None]
        curves.append(svg.Line("paper, F1", theirs, dashed=True))
    plot = svg.lines(curves, "Evidence and answers over the budget", "K")
    return plot + table("K primary units", ["K", "units in all", "evidence recall", "answer F1"], rows)


def _costs(summary: Summary) -> str:
    if not summary:
        return ""
    notes = "".join(note(line) for line in run_notes(summary))
    rows = [[str(key), decimal(value, 3)] for key, value in (summary.get("timing") or {}).items()]
    return notes + (folded("all times", table("As measured", ["stage", "value"], rows)) if rows else "")


def _settings(summary: Summary) -> str:
    out = []
    for name, value in (
        ("run", {key: summary.get(key) for key in ("dataset", "about", "k", "limit", "reader", "encoder")}),
        ("machine", summary.get("machine")), ("versions", summary.get("versions")),
        ("configuration", summary.get("config")),
    ):  # fmt: skip
        items = [(key, one) for key, one in leaves(value) if one is not None]
        if items:
            rows = "".join(f"<tr><td>{short(key)}</td><td>{short(one)}</td></tr>" for key, one in items)
            out.append(folded(name, f'<table class="plain">{rows}</table>'))
    return "".join(out)
