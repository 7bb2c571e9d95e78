"""How fast text becomes arrays: encoding beside sentence-transformers, NER beside spaCy, all of LoCoMo.

    python -m benchmarks.encoding --data ../shared/data
    python -m benchmarks.encoding --step encode --rounds 5    # one part; the others keep their figures

Both sides of a comparison take turns on the same texts, and a comparison whose results differ is not
timed. `cpu` ratios compare processor seconds, which other work on the machine lengthens less than the
clock's.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import torch
import typer

from benchmarks.begin import begin
from benchmarks.facts import WrongResult
from benchmarks.machine import device_name
from benchmarks.results import RESULTS, told, write
from benchmarks.workloads import Workload, data_dir, load
from zeromem_gpu import Config, Memory
from zeromem_gpu.build.spans import unit_text
from zeromem_gpu.encoders import resolve_encoder
from zeromem_gpu.encoders.checkpoint import read_layout
from zeromem_gpu.encoders.offline import package_directory
from zeromem_gpu.encoders.packed import pack
from zeromem_gpu.encoders.packed_encoder import _CPU, token_batches
from zeromem_gpu.encoders.pieces import Pieces
from zeromem_gpu.text.entities import SpacyExtractor, spacy_package
from zeromem_gpu.text.normalize import clean
from zeromem_gpu.text.sentences import split_sentences, split_units

COSINE = 0.9999
STEPS = ("encode", "ner", "index")


def main(
    data: Annotated[Path | None, typer.Option(help="Folder with LoCoMo; else ZEROMEM_DATA.")] = None,
    step: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(STEPS)}; repeatable.")] = None,
    texts: Annotated[int, typer.Option(help="Sample for encoding; 0 takes all.")] = 1500,
    read: Annotated[int, typer.Option(help="Sample for NER; 0 takes all.")] = 600,
    rounds: Annotated[int, typer.Option(help="Turns of each side; the median counts.")] = 3,
    threads: Annotated[int, typer.Option(help="0 is all cores.")] = 0,
    results: Annotated[Path, typer.Option(help="Folder of results.")] = RESULTS,
) -> None:
    """Measure, print, write JSON."""
    _, console, measured = begin(threads)
    work = load("locomo-10", data or data_dir())
    path = results / device_name(measured["device"]) / "encoding.json"
    run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    run |= {"measured": measured, "about": work.about}
    for name in step or STEPS:
        if name == "encode":
            run[name] = encoding(work, texts, rounds)
        elif name == "ner":
            run[name] = entities(work, read, rounds)
        elif name == "index":
            run[name] = indexing(work)
        else:
            raise typer.BadParameter(f"step {name!r} is none of {', '.join(STEPS)}")
        run[name]["measured"] = told(measured)
        console.print({name: run[name]})
    console.print(f"written: {write('encoding', run, results)}")


def encoding(work: Workload, sample: int, rounds: int) -> dict[str, Any]:
    """MiniLM packed beside `SentenceTransformer.encode` with its defaults, on turns and sentences."""
    from sentence_transformers import SentenceTransformer

    encoder = resolve_encoder("minilm")
    other = SentenceTransformer(str(package_directory()), device="cpu")
    everything = encoded_texts(work)
    texts = _sample(everything, sample)
    ours, theirs = encoder.encode(texts), other.encode(texts)
    cosine = float((ours * theirs).sum(1).min())
    if cosine < COSINE:
        raise WrongResult(f"the least cosine to sentence-transformers' vectors is {cosine}")
    times = turns({"packed": lambda: encoder.encode(texts), "plain": lambda: other.encode(texts)}, rounds)
    return {
        "texts": len(texts), "distinct": len(set(texts)), "of": len(everything), "least_cosine": cosine,
        "texts_s": {name: len(texts) / one["wall_s"] for name, one in times.items()},
        "ratio": ratio(times, "wall_s"), "cpu_ratio": ratio(times, "cpu_s"), **padding(everything),
        "times": times,
    }  # fmt: skip


def entities(work: Workload, sample: int, rounds: int) -> dict[str, Any]:
    """The extractor's model beside plain `nlp(text)`, the whole pipeline; other entities are an error.

    They are compared without the parser, which the extractor leaves out: where it ends a sentence, a name
    ends too.
    """
    import spacy

    plain = spacy.load(spacy_package("en_core_web_sm")[0])
    extractor = SpacyExtractor(capitalised=False)
    texts = _sample([clean(trace.text) for trace in work.traces], sample)

    def one_by_one() -> list[list[tuple[int, int, str]]]:
        return [[(e.start_char, e.end_char, e.label_) for e in plain(text).ents] for text in texts]

    with plain.select_pipes(disable=["parser"]):
        expected = one_by_one()
    for text, mine, wanted in zip(texts, extractor.extract(texts), expected, strict=True):
        found = {(m.start, m.end, m.label) for m in mine}
        # mentions of nothing nameable ("!!") are dropped on purpose
        if not found <= set(wanted) or any(text[s:e].strip(" .,!?") for s, e, _ in set(wanted) - found):
            raise WrongResult(f"entities differ: {sorted(found)} here, {wanted} by spaCy")
    times = turns({"extractor": lambda: extractor.extract(texts), "plain": one_by_one}, rounds)
    return {
        "texts": len(texts),
        "texts_s": {name: len(texts) / one["wall_s"] for name, one in times.items()},
        "ratio": ratio(times, "wall_s"), "cpu_ratio": ratio(times, "cpu_s"), "times": times,
    }  # fmt: skip


def indexing(work: Workload) -> dict[str, Any]:
    """The whole workload from raw traces to a memory that can be searched, with no cache; by stage."""
    memory = Memory(encoder="minilm", device="cpu", cache_dir=False)
    begin, used = time.perf_counter(), time.process_time()
    report = memory.add(work.traces)
    added = time.perf_counter()
    memory.prepare()
    done = time.perf_counter()
    stages = {**report.timings, "prepare_s": done - added}
    total = done - begin
    return {
        "traces": report.added, "units": report.units, "split": report.split, "stages_s": stages,
        "other_s": total - sum(stages.values()), "total_s": total,
        "cpu_s": time.process_time() - used,
    }  # fmt: skip


def encoded_texts(work: Workload) -> list[str]:
    """What an encoder reads of every turn and of every sentence, repetitions included."""
    config = Config()
    texts: list[str] = []
    for trace in work.traces:
        seen = clean(trace.text)
        speaker = f"{clean(trace.speaker)}: " if trace.speaker else ""
        for start, end in split_units(seen, config.unit_chars):
            unit = seen[start:end]
            texts.append(unit_text(trace, unit, config))
            texts += (speaker + " ".join(unit[a:b].split()) for a, b in split_sentences(unit))
    return [text for text in texts if text]


def padding(texts: Sequence[str]) -> dict[str, float]:
    """The share of computed token rows that are padding: of our batches, and of the plain path's.

    The plain path pads batches of 32, sorted by characters, to their longest text.
    """
    directory = package_directory()
    layout = read_layout(directory)
    pieces = Pieces(directory, layout.max_tokens).cut(list(dict.fromkeys(texts)))
    lengths = [len(piece.tokens) for piece in pieces]
    rows = tokens = 0
    for batch in token_batches(lengths, _CPU.tokens):
        packed = pack([pieces[at].tokens for at in batch], layout.first_position, torch.device("cpu"))
        rows += max(len(packed.ids), sum(run.texts * run.length for run in packed.runs))
        tokens += sum(lengths[at] for at in batch)
    all_pieces = Pieces(directory, 1 << 20).cut(sorted(texts, key=len, reverse=True))
    plain = np.array([min(len(piece.tokens), layout.max_tokens) for piece in all_pieces])
    padded = sum(len(part) * int(part.max()) for part in np.split(plain, range(32, len(plain), 32)))
    return {
        "padding_share": 1.0 - tokens / rows,
        "plain_padding_share": 1.0 - float(plain.sum()) / padded,
        "mean_tokens": float(np.mean(plain)),
    }


def turns(variants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds of each variant by the clock and by processor time; they take turns, warmed up."""
    wall: dict[str, list[float]] = {name: [] for name in variants}
    cpu: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds):
        for name in list(variants) if turn % 2 == 0 else reversed(list(variants)):
            begin, used = time.perf_counter(), time.process_time()
            variants[name]()
            wall[name].append(time.perf_counter() - begin)
            cpu[name].append(time.process_time() - used)
    return {name: {"wall_s": median(wall[name]), "cpu_s": median(cpu[name])} for name in variants}


def ratio(times: dict[str, dict[str, float]], clock: str) -> float:
    """How many times longer the second variant took than the first."""
    ours, other = times.values()
    return other[clock] / ours[clock]


def _sample(texts: Sequence[str], size: int) -> list[str]:
    if size <= 0 or size >= len(texts):
        return list(texts)
    # distinct texts are drawn and keep all their repetitions, whose share then is that of the whole
    distinct = list(dict.fromkeys(texts))
    random.Random(0).shuffle(distinct)
    kept = set(distinct[: round(len(distinct) * size / len(texts))])
    return [text for text in texts if text in kept]


if __name__ == "__main__":
    typer.run(main)
