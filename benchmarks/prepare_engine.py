"""Write whole batches for `gpu.py`, on a machine that has the text side.

    python -m benchmarks.prepare_engine                                 # benchmarks/gpu_engine_*.npz
    python -m benchmarks.prepare_engine --workloads locomo-1 --encoder hash --folder DIR

Workloads are the suite's (stand-ins where `ZEROMEM_DATA` is not set). Profiles, vectors and banks become
arrays, the CPU engine answers, and both are kept; the device machine needs numpy, torch and triton alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.gpu_engine import write
from benchmarks.workloads import Workload, data_dir, hash_memory, load, prepared
from zeromem_gpu import Memory

FOLDER = Path(__file__).resolve().parent
# all of LoCoMo; six banks of 400 documents: their words are kept by bank, which makes a file large
WORKLOADS = "locomo-10,hotpot-400:6"
# what may travel to the device machine beside the tree
_LIMIT = 60_000_000


def main(
    workloads: Annotated[
        str, typer.Option(help="Of locomo-1, locomo-10, hotpot-400.")
    ] = "locomo-10,hotpot-400",
    encoder: Annotated[str, typer.Option(help="minilm, or hash, which needs no model.")] = "minilm",
    cache: Annotated[Path | None, typer.Option(help="Encoder and NER cache.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the files go.")] = FOLDER,
) -> None:
    """Index each workload, read its questions, answer them, keep all of it."""
    for asked in workloads.split(","):
        name, _, banks = asked.partition(":")
        work = _first_banks(load(name, data_dir()), int(banks or 0))
        memory = (
            hash_memory()
            if encoder == "hash"
            else Memory(encoder=encoder, device="cpu", cache_dir=False if cache is None else cache)
        )
        memory.add(work.traces)
        ready = prepared(memory, work.questions, work.banks)
        path = folder / f"gpu_engine_{name}.npz"
        case = write(path, name, ready.stack, ready.bank_of, ready.batch, memory.config)
        size = path.stat().st_size
        stand_in = ", stand-in" if work.stand_in else ""
        typer.echo(f"{path}: {len(case.batch)} questions{stand_in}, {size / 1e6:.1f} MB")
        if size > _LIMIT:
            raise typer.BadParameter(f"{name} is {size} bytes; allowed: {_LIMIT}", param_hint="--workloads")


def _first_banks(work: Workload, count: int) -> Workload:
    """The first so many banks of a workload; 0 is all."""
    kept = set(list(dict.fromkeys(work.banks))[: count or None])
    asked = [(text, bank) for text, bank in zip(work.questions, work.banks, strict=True) if bank in kept]
    return replace(
        work,
        traces=[trace for trace in work.traces if trace.bank in kept],
        questions=[text for text, _ in asked],
        banks=[bank for _, bank in asked],
    )


if __name__ == "__main__":
    typer.run(main)
