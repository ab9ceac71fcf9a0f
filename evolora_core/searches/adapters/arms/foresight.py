"""What a suite's host does with a user's tasks, and what a generation costs: measured on a few items, in a minute.

The first generations are those of the suite's own ecology, with fewer episodes. What the whole suite takes is foretold
by `estimating.py` alone.
"""

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from evolora_core.engine.progress import Progress, part_of
from evolora_core.errors import StageError
from evolora_core.language.datasets import build_splits, cells_of_splits, wanted_items
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.language.splits import SPLITS
from evolora_core.language.tasks.own import gold_of
from evolora_core.language.tasks.pools import read_pools
from evolora_core.language.tasks.settings import TaskConfig
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.answering.longest import longest_right_answer
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.lora.answering.pricing import price
from evolora_core.lora.population.slots import HOST
from evolora_core.searches.adapters.arms.estimating import learning_answers
from evolora_core.searches.adapters.ecology.evolve import advance, begin
from evolora_core.searches.adapters.ecology.first_generations import measure
from evolora_core.searches.adapters.ecology.horizon import Horizon
from evolora_core.searches.adapters.ecology.regimes.registry import regime
from evolora_core.searches.adapters.ecology.task import Task
from evolora_core.searches.adapters.evaluation.frontier import spread
from evolora_core.searches.adapters.experiment import SuiteConfig
from evolora_core.statistics.inference import wilson

log = logging.getLogger(__name__)

ASKED = 64  # items of a task that the host is asked
SECONDS = 20.0  # that the trial generation may take, by the speed at which the host answers
GENERATIONS = 2  # the first one warms up
EXAMPLES = 3  # right and wrong answers that are shown


@dataclass(frozen=True)
class Foresight:
    """Of a task: how the host answers it, and what there is of it.

    rows           in the data set; None: items are drawn
    wanted         items that a seed needs, over all splits
    accuracy       share of `asked` items that the bare host answers rightly, lo and hi its 95 % interval
    usual          right answer that most rows have, or most items where they are drawn, and their share; None where
                   none has one: a host that always says it has this accuracy
    found          share of the items for which a search found a right answer; None: it was not tried, as no arm trains
                   on the task
    longest        tokens of the longest prompt of those that were looked at, of the `context` that a host has for
                   prompt and answer
    answer         tokens of the longest right answer of them, of the `cap` that an answer may have; None where no item
                   has one
    """

    task: str
    rows: int | None
    wanted: int
    asked: int
    accuracy: float
    lo: float
    hi: float
    usual: tuple[str, float] | None
    found: float | None
    longest: int
    context: int
    answer: int | None
    cap: int
    right: list[Outcome] = field(default_factory=list)
    wrong: list[Outcome] = field(default_factory=list)


@dataclass(frozen=True)
class Cost:
    """What a generation of the suite's ecology takes on this machine, from generations of fewer episodes."""

    flops: float
    seconds: float


def foresee(suite: SuiteConfig, host: Host, report: Progress) -> tuple[list[Foresight], Cost | str]:
    """Look at each task of a suite, at items for training where it has any, with a seed that is never reported. In
    place of the cost it says why there is none: nothing is trained, or nothing could be learned. DataError where rows
    are too few.
    """
    pools = read_pools(suite.own_families)
    # Cut as for reported seeds, whose held-out rows nobody is shown.
    splits = build_splits(suite.data, suite.tuning.seeds[0], pools)
    wanted = wanted_items(suite.data, cells_of_splits(suite.data))
    shares = 1 / (1 + len(suite.own_families))
    found: list[Foresight] = []
    rate = 1.0
    for place, task in enumerate(suite.own_families):
        by_split = {split: [item for item in own if item.family == task.name] for split, own in splits.items()}
        part = part_of(report, place * shares, shares, 1)
        own, rate = _asked(suite, host, task, by_split, part)
        if task.name in pools and not by_split["train"]:  # all seeds draw from the same rows
            log.warning("%s: the suite asks for it in holdouts alone, so no answers to its rows are shown", task.name)
            own |= {"right": [], "wrong": []}
        everything = pools[task.name].parts if task.name in pools else by_split
        answers = [gold_of(item, task.verifier) for items in everything.values() for item in items]
        rows = len(answers) if task.name in pools else None
        count = sum(number for cells in wanted.values() for cell, number in cells.items() if cell[0] == task.name)
        found.append(Foresight(rows=rows, wanted=count, usual=_usual(answers), **own))
    if not suite.trained:
        return found, "no condition of the suite trains anything"
    try:
        practised, cost = _generation(suite, host, splits, rate)
    except StageError as error:
        return found, str(error)
    report(1, 1, "a generation")
    return [replace(own, found=practised.get(own.task)) for own in found], cost


def _asked(
    suite: SuiteConfig, host: Host, task: TaskConfig, by_split: Mapping[str, list[Item]], report: Progress
) -> tuple[dict[str, Any], float]:
    """What the bare host answers to items for training, or else to others, and answers a second."""
    items = [item for split in SPLITS for item in by_split.get(split, [])]
    there = by_split["train"] or items
    chosen = [there[place] for place in spread(len(there), ASKED)]  # of every depth
    began = time.perf_counter()
    outcomes = answer_items(
        host, None, chosen, np.full(len(chosen), HOST), decoding=suite.decoding,
        progress=lambda done, of, *_: report(done, of, f"the host answers {task.name}"),
    )  # fmt: skip
    seconds = time.perf_counter() - began
    right = [own for own in outcomes if own.grade.correct]
    wrong = [own for own in outcomes if not own.grade.correct]
    lo, hi = wilson(len(right), len(outcomes))
    cap = suite.decoding.max_new_tokens
    facts: dict[str, Any] = {
        "task": task.name, "found": None,
        "asked": len(outcomes), "accuracy": len(right) / len(outcomes), "lo": lo, "hi": hi,
        "longest": max(len(ids) for ids in host.encode_prompts([item.prompt for item in items])),
        "context": host.max_context, "cap": cap,
        "answer": longest_right_answer(host, task.name, items, task.verifier, suite.decoding),
        "right": right[:EXAMPLES], "wrong": wrong[:EXAMPLES],
    }  # fmt: skip
    return facts, len(outcomes) / seconds


def _usual(answers: Sequence[str | None]) -> tuple[str, float] | None:
    """The most frequent of the right answers that there are, and its share of all."""
    common = Counter(answer for answer in answers if answer is not None).most_common(1)
    return (common[0][0], common[0][1] / len(answers)) if common else None


def _generation(
    suite: SuiteConfig, host: Host, splits: Mapping[str, Sequence[Item]], rate: float
) -> tuple[dict[str, float], Cost]:
    """Share of the items of each family for which practice found a right answer, and what a generation takes."""
    whole = suite.lead
    calls = max(1, whole.plasticity.calls)
    fewest = whole.population * whole.samples
    episodes = max(fewest, min(whole.episodes, round(SECONDS * rate / calls)))
    config, seed = whole.model_copy(update={"episodes": episodes}), suite.tuning.seeds[0]
    prices = price(host, splits["train"], config.practice, suite.decoding, seed)
    task = Task(host, splits["train"], splits["selection"], suite.decoding, seed, prices)
    with tempfile.TemporaryDirectory(prefix="evolora-task-") as folder:
        run = begin(task, config, Horizon(GENERATIONS), regime(suite.kind(suite.budget_of).name), Path(folder))
        advance(run)
        measure(run)  # refuses what could not be learned
        solved: dict[tuple[str, str], bool] = {}
        for row in run.state.events["episodes"]:
            key = row["family"], row["task_id"]
            solved[key] = solved.get(key, False) or row["correct"]
    families = {family for family, _ in solved}
    shares = {
        family: float(np.mean([right for (own, _), right in solved.items() if own == family])) for family in families
    }
    # Fewer episodes are fewer answers, but equally many learning steps, which may be answers too.
    learned = learning_answers(whole.plasticity)
    more = {"calibration": 0.0, "rollout": (whole.episodes + learned) / (episodes + learned)}
    accounts = [(more.get(purpose, 1.0) / GENERATIONS, own) for purpose, own in run.state.meter.accounts.items()]
    return shares, Cost(sum(by * own.flops for by, own in accounts), sum(by * own.seconds for by, own in accounts))
