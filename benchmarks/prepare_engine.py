"""Write whole batches for `gpu.py`, on a machine that has the text side.

    python -m benchmarks.prepare_engine                                 # benchmarks/gpu_engine_*.npz
    python -m benchmarks.prepare_engine --workloads locomo-1 --encoder hash --folder DIR

Workloads are the suite's (stand-ins where `ZEROMEM_DATA` is not set). Profiles, vectors and banks become
arrays, the CPU engine answers, and both are kept; the device machine needs numpy, torch and triton alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.gpu_engine import write
from benchmarks.workloads import data_dir, hash_memory, load, prepared
from zeromem_gpu import Memory

FOLDER = Path(__file__).resolve().parent
WORKLOADS = "locomo-10,hotpot-400"
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
    for name in workloads.split(","):
        work = load(name, data_dir())
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


if __name__ == "__main__":
    typer.run(main)
