"""Learning-rate search for the SFT rival: a few short runs, each judged on the selection split.

Run on a tuning seed that is never reported; its cost is shown on its own and is no part of the matched budget.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evolora_core.compute import Meter
from evolora_core.config import SftConfig
from evolora_core.evaluation.grading import Decoding, answer_items
from evolora_core.families import Item
from evolora_core.hosts import Host
from evolora_core.population.peft_io import import_peft
from evolora_core.population.stack import Population
from evolora_core.rivals.sft import Diverged, train_sft

ARM = "sft"


@dataclass(frozen=True)
class Tuning:
    """The chosen learning rate, the rows of the table `tuning`, and the compute, all under the purpose `tuning`."""

    learning_rate: float
    rows: list[dict[str, str | int | float]]
    meter: Meter


def tune_sft(
    host: Host,
    train_items: Sequence[Item],
    selection_items: Sequence[Item],
    config: SftConfig,
    *,
    budget_flops: int,
    seed: int,
    decoding: Decoding,
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
) -> Tuning:
    """One run of `budget_flops` for each of `config.learning_rates`, scored on the whole selection split.

    A tie goes to the lower rate. A run that diverges scores 0; if all do, Diverged is raised. `progress(done, total)`
    counts trials.
    """
    meter = Meter()
    rows: list[dict[str, str | int | float]] = []
    failures: list[Diverged] = []
    total = len(config.learning_rates)
    for trial, learning_rate in enumerate(config.learning_rates):
        try:
            result = train_sft(
                host,
                train_items,
                config,
                budget_flops=budget_flops,
                seed=seed,
                learning_rate=learning_rate,
                folder=folder / f"trial-{trial}",
            )
            spent = result.meter
            accuracy = _score(host, result.adapter_folder, selection_items, decoding, spent)
        except Diverged as failure:
            spent, accuracy = failure.meter, 0.0
            failures.append(failure)
        for row in spent.rows():
            meter.add("tuning", **{key: row[key] for key in ("flops", "tokens", "seconds", "executed_flops")})
        rows.append(
            {
                "arm": ARM,
                "trial": trial,
                "learning_rate": learning_rate,
                "selection_acc": accuracy,
                "flops": spent.total(),
            }
        )
        if progress is not None:
            progress(trial + 1, total)
    if len(failures) == total:
        raise failures[0]
    best = max(rows, key=lambda row: (row["selection_acc"], -float(row["learning_rate"])))
    return Tuning(float(best["learning_rate"]), rows, meter)


def _score(host: Host, folder: Path, items: Sequence[Item], decoding: Decoding, meter: Meter) -> float:
    """Accuracy of a saved adapter on the selection split; the answers go on the meter."""
    adapter = import_peft(folder, host)
    population = Population.empty(host, 1, adapter.rank, scale=adapter.scale)
    population.put(0, adapter)
    started = time.perf_counter()
    outcomes = answer_items(host, population, items, [0] * len(items), decoding=decoding)
    meter.add(
        "selection",
        flops=sum(outcome.flops for outcome in outcomes),
        tokens=sum(outcome.prompt_tokens + outcome.answer_tokens for outcome in outcomes),
        seconds=time.perf_counter() - started,
    )
    return float(np.mean([outcome.grade.correct for outcome in outcomes]))
