"""A suite that carries its fault with it: `python -m flows.bench.sabotage FAULT SUITE.json`.

Only the benchmark of faults runs this. The suite has one process, in which a function of the product is replaced by one
that fails, by the real allocator's own error where it is memory that fails.
"""

import os
import signal
import sys
from itertools import count
from typing import Any

import torch

ROWS, TOKENS, EXAMPLES = 16, 1024, 4  # answers decoded together, tokens in a training pass, and SFT rows that fit


def not_a_number() -> None:
    """Every third time that several organelles learn, the weights of one of them are NaN."""
    from evolora_core.ecology import training

    step, calls = training.train_step, count(1)

    def broken(host: Any, population: Any, batch: Any, *rest: Any) -> torch.Tensor:
        if batch.slots.unique().numel() > 1 and next(calls) % 3 == 0:
            population.weights[batch.slots[0]] = torch.nan
        return step(host, population, batch, *rest)

    _replace(training, "train_step", broken)


def out_of_memory() -> None:
    """The allocator has room for small batches only."""
    from evolora_core.population import generate, train
    from evolora_core.rivals import sft

    cache_for, surprisals, compute_loss = generate.cache_for, train.surprisals, sft.SFTTrainer.compute_loss

    def small_cache(model: Any, cache: Any, rows: int, *rest: Any) -> Any:
        _allocate(rows, ROWS)
        return cache_for(model, cache, rows, *rest)

    def small_pass(host: Any, ids: torch.Tensor, *rest: Any) -> Any:
        _allocate(ids.numel(), TOKENS)
        return surprisals(host, ids, *rest)

    def small_batch(trainer: Any, model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        _allocate(len(inputs["input_ids"]), EXAMPLES)
        return compute_loss(trainer, model, inputs, *rest, **options)

    _replace(generate, "cache_for", small_cache)
    _replace(train, "surprisals", small_pass)
    _replace(sft.SFTTrainer, "compute_loss", small_batch)


def truncated_checkpoint() -> None:
    """The second checkpoint of the first evolution is cut in half, and the process killed."""
    from evolora_core.ecology import evolve

    os.environ["EVOLORA_COMMIT_SECONDS"] = "0"
    commit = evolve._commit

    def cut(state: Any, checkpoints: Any) -> None:
        commit(state, checkpoints)
        if state.generation == 2:
            weights = checkpoints / "g000002" / "state.safetensors"
            os.truncate(weights, weights.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    _replace(evolve, "_commit", cut)


def _replace(place: Any, name: str, value: Any) -> None:
    setattr(place, name, value)


def _allocate(wanted: int, room: int) -> None:
    if wanted > room:
        torch.empty(2**60)  # more than any machine has


if __name__ == "__main__":
    fault, suite = sys.argv[1:]
    {function.__name__: function for function in (not_a_number, out_of_memory, truncated_checkpoint)}[fault]()
    from flows.cli import main

    main(["run", suite, "--set", "processes=1"])
