"""What the tests run in processes of their own: saves that are killed, and two writers of one directory.

python -m tests.faults.store_processes kill TEMPLATE FOLDER SEED COUNT
python -m tests.faults.store_processes write DIRECTORY NAME ROUNDS
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.support import small_memory
from zeromem_gpu import Memory, StoreError, Trace
from zeromem_gpu.store import open_index


def conversation(name: str, turns: int) -> list[Trace]:
    """Invented turns; `name` tells two conversations apart."""
    return [
        Trace(f"{name}{at}", f"{name} met Bob{at} in Rome{at % 9}. It rained.", f"b{at % 3}", speaker=name)
        for at in range(turns)
    ]


def old_and_new() -> tuple[Memory, Memory]:
    """What was saved before, and what a save that may be killed writes."""
    old, new = small_memory(), small_memory()
    old.add(conversation("Ada", 150))
    new.add(conversation("Ada", 150) + conversation("Eve", 250))
    return old, new


def _say(word: object) -> None:
    """One line to the test that started this process."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def kill(template: Path, folder: Path, seed: int, count: int) -> None:
    """Saves in children, each over a copy of the template and killed at a random moment.

    The children are forked before this process touches Parquet, whose threads a fork would lose.
    """
    _, new = old_and_new()
    rng = random.Random(seed)
    whole = 0.0
    for at in range(count + 1):
        place = Path(shutil.copytree(template, folder / str(at)))
        begin = time.monotonic()
        child = os.fork()
        if child == 0:
            new.save(place)
            os._exit(0)
        if at == 0:
            os.waitpid(child, 0)
            whole = time.monotonic() - begin
            continue
        time.sleep(rng.uniform(0, whole))
        os.kill(child, signal.SIGKILL)
        _say(os.waitpid(child, 0)[1])


def write(directory: Path, name: str, rounds: int) -> None:
    """Save again and again; every save has to succeed or to say that the other one is writing."""
    memory = small_memory()
    for at in range(rounds):
        memory.add(Trace(f"{name}{at}", f"{name} sails."))
        try:
            memory.save(directory)
            _say("saved")
        except StoreError as error:
            _say("refused" if "is saving there" in str(error) else f"failed: {error}")
        index, _, _ = open_index(directory)
        ids = list(index.banks["default"].ids)
        # a version is one writer's whole memory, never parts of two
        if len({one[: len(name)] for one in ids}) != 1:
            _say(f"torn: {ids}")


if __name__ == "__main__":
    if sys.argv[1] == "kill":
        kill(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        write(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
