"""A suite that carries its fault with it: `python -m flows.bench.sabotage FAULT SUITE.json`.

Only the benchmark of faults runs this. The suite has one process, in which a probe breaks what it finds, by the real
allocator's own error where it is memory that fails.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from evolora_core.engine.probes import probe

if TYPE_CHECKING:
    from evolora_core.lora.population.stack import Population
    from evolora_core.lora.population.train import Batch

ROOM = {"cache": 16, "training pass": 1024, "examples": 4}  # answers decoded together, tokens, and SFT rows that fit


@contextmanager
def not_a_number() -> Iterator[None]:
    """Every third time that several organelles learn, the weights of one of them are NaN."""
    calls = count(1)

    def spoil(population: "Population", batch: "Batch") -> None:
        if batch.slots.unique().numel() > 1 and next(calls) % 3 == 0:
            population.weights[batch.slots[0]] = torch.nan

    with probe("update", spoil):
        yield


@contextmanager
def out_of_memory() -> Iterator[None]:
    """The allocator has room for small batches only."""
    with ExitStack() as stack:
        for place, room in ROOM.items():
            stack.enter_context(probe(place, partial(_allocate, room)))
        yield


@contextmanager
def truncated_checkpoint() -> Iterator[None]:
    """The second checkpoint of the first evolution is cut in half, and the process killed."""
    os.environ["EVOLORA_COMMIT_SECONDS"] = "0"

    def cut(generation: int, folder: Path) -> None:
        if generation == 2:
            weights = folder / "state.safetensors"
            os.truncate(weights, weights.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    with probe("committed", cut):
        yield


def _allocate(room: int, rows: int = 0, tokens: int = 0, **others: object) -> None:
    if max(rows, tokens) > room:
        torch.empty(2**60)  # more than any machine has


FAULTS = {
    "not_a_number": not_a_number,
    "out_of_memory": out_of_memory,
    "truncated_checkpoint": truncated_checkpoint,
}

if __name__ == "__main__":
    fault, suite = sys.argv[1:]
    from flows.cli import main

    with FAULTS[fault]():
        main(["run", suite, "--packs", str(Path(suite).parent / "packs"), "--set", "processes=1"])
