"""A placebo for the merge search: parents that are all the same model, so that there is nothing to find.

Whole comparisons are made, each of several seeds with items of their own: search, selection, sealed test, paired test,
Holm. How many of them see no difference is counted. A pipeline that reports what selection or chance put there would
see more differences than its level of 5 % allows.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from flows.bench.timing import Row, row

if TYPE_CHECKING:
    from evolora_core.searches.merging.pool import Pool

HOST = "nano-merge"
PARENTS = ("first", "second", "third")
AGAIN = 1_000_000  # added to the seed of the second search, which is the same but for its random streams
COMPARED = (("evomerge", "evomerge again"), ("evomerge", "random"), ("evomerge", "best-parent"))
KINDS = {"the base itself": 0, "one specialist": 60}  # steps of fine-tuning that made the parents
EVALUATIONS, GROUPS, ANSWER = 24, 2, 48


def measure(runs: int, seeds: int, processes: int) -> list[Row]:
    """Count the runs, each with so many seeds, in which a comparison sees no difference."""
    found: list[Row] = []
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for kind, steps in KINDS.items():
            results = pool.map(run, repeat(steps), range(runs), repeat(seeds))
            verdicts = list(tqdm(results, total=runs, desc=f"parents: {kind}", unit="run", leave=False))
            for place, (a, b) in enumerate(COMPARED):
                equal = sum(own[place] == "undecided" for own in verdicts)
                note = f"runs of {runs} without a difference; {seeds} seeds each"
                found.append(row(f"{a} against {b}, parents: {kind}", equal, runs, "runs", note))
    return found


def run(steps: int, number: int, seeds: int) -> list[str]:
    """The verdicts of one run."""
    from evolora_core.engine.rng import stream
    from evolora_core.statistics.inference import compare, decide

    hits: dict[str, dict[int, np.ndarray]] = {}
    for seed in range(number * seeds, (number + 1) * seeds):
        for arm, own in _arms(steps, seed).items():
            hits.setdefault(arm, {})[seed] = own
    rng = stream(number, 0, 0, "placebo")
    return [own.verdict for own in decide([compare("test", a, b, hits[a], hits[b], rng, 400) for a, b in COMPARED])]


def _arms(steps: int, seed: int) -> dict[str, np.ndarray]:
    """Which test items each arm answers rightly."""
    from evolora_core.searches.merging.data import draw_splits
    from evolora_core.searches.merging.recipe import Genome
    from evolora_core.searches.merging.settings import DataSettings

    domains = _domains()
    splits = draw_splits(domains, DataSettings(train=1, search=12, selection=12, test=32), seed)
    pool = _pool(steps)
    chosen = {
        "evomerge": _searched("evomerge", pool, splits, seed),
        "evomerge again": _searched("evomerge", pool, splits, seed + AGAIN),
        "random": _searched("random", pool, splits, seed),
        "best-parent": Genome(recipe=PARENTS[0]),
    }
    items = [item for own in splits["test"].values() for item in own]
    answered: dict[str, np.ndarray] = {}  # equal recipes are asked once
    for genome in chosen.values():
        if genome.id not in answered:
            answered[genome.id] = _answers(pool, genome, items)
    return {arm: answered[genome.id] for arm, genome in chosen.items()}


def _searched(strategy: str, pool: "Pool", splits: Any, streams: int) -> Any:
    """The recipe that a search with these random streams chooses."""
    from evolora_core.searches.merging import finalists
    from evolora_core.searches.merging.evolution import evolve
    from evolora_core.searches.merging.judging.judge import Judge
    from evolora_core.searches.merging.judging.scoring import Questions
    from evolora_core.searches.merging.spaces.registry import make_space
    from evolora_core.searches.merging.strategies.base import Problem, ranked
    from evolora_core.searches.merging.strategies.registry import make_strategy

    weights = {name: own.weight for name, own in _domains().items()}
    judge = Judge(pool, {split: Questions.of(pool.host, splits[split], weights) for split in ("search", "selection")})
    space = make_space("operators", PARENTS, pool.layers, GROUPS)
    budget = EVALUATIONS * judge.plain_cost()
    with TemporaryDirectory(prefix="evolora-placebo-") as folder:
        past = evolve(
            make_strategy(
                strategy,
                Problem.of(space, streams, judge.questions["search"].domain_of, judge.questions["search"].weights),
            ),
            judge,
            list(weights),
            budget=budget - 4 * judge.plain_cost("selection"),
            generations=EVALUATIONS,
            checkpoints=Path(folder) / "checkpoints",
            report=_silent,
        ).past
    best = [(one.genome, one.score, one.number) for one in ranked(past) if one.score is not None]
    return finalists.choose(best, judge, finalists=4, budget=budget, evaluations=len(past)).genome


def _answers(pool: "Pool", genome: Any, items: Sequence[Any]) -> np.ndarray:
    """0 or 1 for each item: whether the greedy answer of a recipe's model is right."""
    from dataclasses import replace

    from evolora_core.language.decoding import DecodingConfig
    from evolora_core.lora.answering.grading import answer_items
    from evolora_core.searches.merging.build import merged_config, merged_tensor
    from evolora_core.searches.merging.models import fill, shell
    from evolora_core.searches.merging.roles import BASE

    model = shell(merged_config(genome, pool.models, BASE), "cpu")
    fill(model, lambda name: merged_tensor(genome, name, pool.models, BASE))
    host, decoding = replace(pool.host, model=model), DecodingConfig(max_new_tokens=ANSWER)
    outcomes = answer_items(host, None, items, [-1] * len(items), decoding=decoding)
    return np.array([outcome.grade.correct for outcome in outcomes], dtype=float)


def _silent(done: float, total: float, note: str = "", /) -> None:
    """A search's own progress; the bar of the runs is enough."""


def _domains() -> Any:
    from evolora_core.searches.merging.settings import Domain

    return {"structured": Domain(families=["json_repair"], depths=["medium"]), "math": Domain(families=["math"])}


@cache
def _pool(steps: int) -> "Pool":
    """The shipped base, and three parents that are one model: the base, fine-tuned for so many steps."""
    import torch

    from evolora_core.language.hosts.host import load_host
    from evolora_core.searches.merging.data import draw_splits
    from evolora_core.searches.merging.models import fill, shell
    from evolora_core.searches.merging.pool import Pool
    from evolora_core.searches.merging.roles import BASE
    from evolora_core.searches.merging.settings import DataSettings
    from evolora_core.searches.merging.training import fine_tune
    from evolora_core.searches.merging.weights import Loaded

    torch.set_num_threads(1)
    host = load_host(HOST)
    base = Loaded.of(host.model)
    model = shell(base.config, "cpu")
    fill(model, base.get)
    if steps:
        items = draw_splits(_domains(), DataSettings(train=1024, search=1, selection=1, test=1), 0)["train"]
        fine_tune(host, model, items["structured"], steps=steps, rows=32, learning_rate=3e-4, seed=0, role="placebo")
    parent = Loaded.of(model)
    return Pool(host, PARENTS, {BASE: base, **dict.fromkeys(PARENTS, parent)})
