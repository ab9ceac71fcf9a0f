"""A placebo for the attention search: a mechanism against itself, so that there is nothing to find.

With equal seeds a mechanism equals itself exactly. So its two sides are trained with different seeds: their
differences are what chance in initialisation and order of batches makes. Whole comparisons are made, each over so many
pairs, and those that see a difference are counted. At a level of 5 % there are about 5 in 100. The same trainings say
what a search wins by chance alone: the best of many programs that are all equal has a score above 0 (the winner's
curse). All programs of a search are held against one and the same baseline, so what counts is how far the lowest of
many losses lies below their mean.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from flows.bench.timing import Row, row

if TYPE_CHECKING:
    from evolora_core.searches.attention.corpus.base import Corpus

SIZE, STEPS, BATCH, RATE, TEXTS = "xs", 60, 8, 0.008, 512
OTHER = 1_000_000  # added to the seed of the second side
PROGRAMS = 35  # of a search: the default of budget.programs


def measure(mechanisms: Sequence[str], runs: int, seeds: int, processes: int) -> list[Row]:
    """Compare each mechanism with itself. Count the runs without a difference, and say how far the best of many copies
    seems to be ahead, in nats.
    """
    found: list[Row] = []
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for name in mechanisms:
            results = pool.map(compared, repeat(name), range(runs), repeat(seeds))
            shown = tqdm(results, total=runs, desc=f"{name} against itself", unit="run", leave=False)
            verdicts, trained = zip(*shown, strict=True)
            losses = np.concatenate(trained)
            note = f"runs of {runs} without a difference; {seeds} pairs of seeds each, size {SIZE}, {STEPS} steps"
            found.append(row(f"{name} against itself", verdicts.count("undecided"), runs, "runs", note))
            best, note = expected_best(losses.mean() - losses, PROGRAMS), "expected score where nothing is to be found"
            found.append(row(f"best of {PROGRAMS} times {name}", best, None, "nats", f"{note}; one training seed each"))
    return found


def expected_best(values: np.ndarray, count: int) -> float:
    """The mean of the largest of `count` draws from `values`, with replacement."""
    below = np.arange(len(values) + 1) / len(values)  # P(one draw is among the smallest i)
    return float(np.sort(values) @ np.diff(below**count))


def compared(mechanism: str, number: int, seeds: int) -> tuple[str, np.ndarray]:
    """The verdict of one run, and the mean loss of each of its trainings, nats."""
    from evolora_core.searches.attention.scaling.validation import compare_losses, decide_family

    own = range(number * seeds, (number + 1) * seeds)
    sides = [{seed: _loss(mechanism, seed + side) for seed in own} for side in (0, OTHER)]
    verdict = decide_family([compare_losses(mechanism, "itself", sides[0], sides[1])])[0].verdict
    return verdict, np.array([float(losses[seed]) for losses in sides for seed in own])


def _loss(mechanism: str, seed: int) -> "np.ndarray":
    """The mean loss on the held-out texts. It runs in this process: the mechanism is ours."""
    import torch

    from evolora_core.searches.attention.host.model import build
    from evolora_core.searches.attention.host.sizes import SIZES
    from evolora_core.searches.attention.host.training import TrainSpec, train
    from evolora_core.searches.attention.judging.child import answers
    from evolora_core.searches.attention.judging.loading import load_program
    from evolora_core.searches.attention.judging.sealed import losses, prefixes
    from evolora_core.searches.attention.known.registry import get_known

    torch.set_num_threads(1)
    corpus = _corpus()
    model = build(load_program(get_known(mechanism).source), SIZES[SIZE], corpus.vocab, seed)
    train(model, corpus.train, TrainSpec(STEPS, BATCH, corpus.context, RATE, STEPS // 10), seed)
    model.eval()
    return np.array(losses(answers(model, prefixes(corpus), corpus.lengths), corpus).mean())


@cache
def _corpus() -> "Corpus":
    from evolora_core.searches.attention.corpus.registry import make_corpus
    from evolora_core.searches.attention.corpus.settings import CorpusSettings

    return make_corpus(CorpusSettings(train=5000, held_out=TEXTS), 0)
