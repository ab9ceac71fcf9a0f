"""Short runs of the stages of an adapter search, in a folder of their own: what they take foretells the whole ones.

Each arm is trained by the body of its own stage, with a seed's own items. Fewer answers are priced, fewer items choose
routes, and an ecology has fewer generations of fewer episodes.
"""

import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evolora_core.engine.meter import Account
from evolora_core.engine.stage import Suite, Work
from evolora_core.engine.tables import read_table
from evolora_core.errors import Unaffordable
from evolora_core.language.datasets import read_items, write_items
from evolora_core.language.families.base import Item, cells_of
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.kept import stage_host
from evolora_core.language.splits import HOLDOUTS, SPLITS
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.answering.practice import Practice
from evolora_core.lora.answering.pricing import Prices, answers_per_cell, price
from evolora_core.lora.population.slots import HOST
from evolora_core.searches.adapters.arms.base import Training
from evolora_core.searches.adapters.arms.evolved import Evolution
from evolora_core.searches.adapters.arms.registry import TRAINED
from evolora_core.searches.adapters.evaluation.frontier import spread
from evolora_core.searches.adapters.evaluation.holdout_files import read_file
from evolora_core.searches.adapters.experiment import SuiteConfig
from evolora_core.searches.adapters.stages import datasets, holdouts
from evolora_core.searches.estimating import Expected, bytes_of

SECONDS = 2.0  # that the answers of a measurement may take, about
GENERATIONS = 2
FEWEST, MOST = 16, 128  # items of a split that are asked
ENOUGH = 8  # times the budget of a short run, where that does not pay for a step


@dataclass(frozen=True)
class Bench:
    """What every short run is given. `items` are all of a seed's, `few` those of each split that are asked; `priced`
    are the answers behind the prices, and `datasets` and `price` what making items and prices took, of all items and of
    as many answers as a run asks for.
    """

    suite: Suite[SuiteConfig]
    folder: Path
    host: Host
    items: Mapping[str, list[Item]]
    few: Mapping[str, list[Item]]
    prices: Prices
    datasets: Expected
    price: Expected

    @property
    def judged(self) -> list[str]:
        """The splits that are looked at once, at the end: the holdouts, and those of holdout files."""
        return [*HOLDOUTS, *(own.name for own in self.suite.config.evaluation.holdouts)]

    def work(self, config: Any, name: str) -> Work[Any]:
        """For the body of a stage."""
        inputs = {"datasets": self.folder / "few", "prices": self.folder / "prices"}
        folder = self.folder / name
        folder.mkdir()
        return Work(config=config, host=self.suite.host, seed=self.suite.config.seeds[0], folder=folder, inputs=inputs)

    def share(self, split: str) -> float:
        """All items of a split for each that is asked."""
        return len(self.items[split]) / len(self.few[split])


@dataclass(frozen=True)
class ShortRun:
    """What a short training took: FLOPs and seconds by purpose, seconds that no purpose has, bytes of tables, which
    grow as a run does, and of all else; `facts` are those of its stage.
    """

    training: Training
    accounts: Mapping[str, Account]
    overhead: float
    tables: int
    others: int
    facts: Any

    @property
    def trained(self) -> int:
        """FLOPs without prices and the choice of routes."""
        return sum(own.flops for purpose, own in self.accounts.items() if purpose not in ("calibration", "routing"))

    def times(
        self,
        factor: float,
        *,
        routing: float,
        rollout: float | None = None,
        tables: float | None = None,
        overhead: float = 1.0,
    ) -> Expected:
        """What a run takes that is so many times as long, with so many times the items that choose routes. Prices are
        not among it.
        """
        factors = {"calibration": 0.0, "routing": routing, "rollout": factor if rollout is None else rollout}
        owns = [(factors.get(purpose, factor), own) for purpose, own in self.accounts.items()]
        return Expected(
            flops=sum(by * own.flops for by, own in owns),
            seconds=sum(by * own.seconds for by, own in owns) + overhead * self.overhead,
            bytes=(factor if tables is None else tables) * self.tables + self.others,
        )


def set_up(suite: Suite[SuiteConfig], folder: Path) -> Bench:
    """Make the items of the first seed, and price answers to them. StageError where nothing could be learned."""
    config, seed = suite.config, suite.config.seeds[0]
    whole = folder / "datasets"
    whole.mkdir()
    request = datasets.request(suite, seed)
    started = time.perf_counter()
    work: Work[Any] = Work(config=request.config, host=suite.host, seed=seed, folder=whole)
    datasets.make(work)
    made = Expected(0, time.perf_counter() - started, bytes_of(whole))
    items = {name: read_items(path) for name in SPLITS if (path := whole / f"{name}.jsonl").exists()}
    items |= _further(suite, seed, whole, folder / "holdouts")
    host = stage_host(work)

    asked = items["train"][:FEWEST]
    speed(host, asked, config)  # warms up
    wanted = min(MOST, max(FEWEST, round(SECONDS * speed(host, asked, config))))
    few = {name: [own[place] for place in spread(len(own), wanted)] for name, own in items.items()}
    shutil.copytree(whole, folder / "few")
    write_items(folder / "few" / "selection.jsonl", few["selection"])
    practice = config.ecology.practice
    prices, expected = _priced(host, items["train"], practice, wanted, config, seed)
    (folder / "prices").mkdir()
    prices.save(folder / "prices" / "calibration.json")
    return Bench(suite, folder, host, items, few, prices, made, expected)


def _further(suite: Suite[SuiteConfig], seed: int, whole: Path, folder: Path) -> dict[str, list[Item]]:
    """The items of the holdout files that a seed is asked, by split."""
    folder.mkdir()
    files = suite.config.evaluation.holdouts
    asked = holdouts.Files.of(files, map(read_file, files))
    if files:
        holdouts.make(Work(config=asked, host=suite.host, seed=seed, folder=folder, inputs={"datasets": whole}))
    return {own.name: read_items(folder / f"{own.name}.jsonl") for own in files}


def speed(host: Host, items: list[Item], config: SuiteConfig) -> float:
    """Answers of the bare host a second."""
    started = time.perf_counter()
    answer_items(host, None, items, np.full(len(items), HOST), decoding=config.decoding)
    return len(items) / (time.perf_counter() - started)


def _priced(
    host: Host, items: list[Item], practice: Practice, wanted: int, config: SuiteConfig, seed: int
) -> tuple[Prices, Expected]:
    """Prices of fewer answers, and what those of all would take."""
    cells = len(cells_of(items))
    fewer = practice.model_copy(update={"answers": min(practice.answers, max(wanted, cells))})
    started = time.perf_counter()
    prices = price(host, items, fewer, config.decoding, seed)
    seconds = time.perf_counter() - started
    more = sum(answers_per_cell(items, practice).values()) - sum(prices.per_cell.values())
    return prices, Expected(
        flops=prices.spent + more * prices.unit_flops, seconds=seconds + more / prices.answers_per_second
    )


def shortened(training: Training, bench: Bench) -> Training:
    """A training with fewer episodes in a generation, where it has any."""
    if not isinstance(training, Evolution):
        return training
    own = training.ecology
    answers = round(SECONDS * bench.prices.answers_per_second / max(1, own.plasticity.calls))
    fewest = max(own.population, own.contest.contenders) * own.samples  # each of them answers
    episodes = max(fewest, min(own.episodes, answers))
    return training.model_copy(update={"ecology": own.model_copy(update={"episodes": episodes})})


def train_shortly(bench: Bench, condition: str, budget: int | None = None, most: int = 0) -> ShortRun:
    """Train a condition for a few generations, or for a small budget: as much as pays for a step, `most` at most.
    Unaffordable if that does not.
    """
    config = bench.suite.config
    by = TRAINED[config.kind(condition).name]
    training = shortened(by.asked(config, condition, 0 if config.trials else None), bench)
    if not by.kind.tuned:  # it ends of itself, and trains nothing
        return _run(bench, condition, training.model_copy(update={"budget_flops": sys.maxsize}))
    if budget is None:
        return _run(bench, condition, training.model_copy(update={"generations": generations(training)}))
    while True:
        own = training.model_copy(update={"budget_flops": budget})
        try:
            return _run(bench, f"{condition}-{budget}", own, condition)
        except Unaffordable:  # it does not pay for a step
            if budget >= most:
                raise
            budget = min(ENOUGH * budget, most)


def generations(training: Training) -> int:
    """Of a short run: families that come and go stay for one each, at least."""
    return max(GENERATIONS, len(training.arrivals))


def _run(bench: Bench, name: str, training: Training, condition: str = "") -> ShortRun:
    by = TRAINED[bench.suite.config.kind(condition or name).name]
    work = bench.work(training, f"run-{name}")
    started = time.perf_counter()
    made = by.train(work, work.folder)
    seconds = time.perf_counter() - started
    rows = read_table(work.folder, "compute")
    accounts = {row["purpose"]: Account(**{key: row[key] for key in asdict(Account())}) for row in rows}
    measured = sum(own.seconds for purpose, own in accounts.items() if purpose != "calibration")
    tables, others = sizes(work.folder)
    return ShortRun(training, accounts, max(0.0, seconds - measured), tables, others, made.facts)


def sizes(folder: Path) -> tuple[int, int]:
    """Bytes of tables, and of all other files; those that a stage leaves out are not counted."""
    files = [path for path in folder.rglob("*") if path.is_file() and ".work" not in path.parts[len(folder.parts) :]]
    tables = sum(path.stat().st_size for path in files if path.suffix == ".parquet")
    return tables, sum(path.stat().st_size for path in files) - tables
