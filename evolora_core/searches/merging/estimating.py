"""What the stages of a merge suite would take: a base and parents of a few steps, a few merges and measurements.

FLOPs are those that stages are charged: a strategy spends its budget, and every control that trains nothing is asked to
choose before a judge that charges what measurements cost and measures none. Seconds are what the same kind of work took
just now.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress
from evolora_core.engine.rng import stream
from evolora_core.engine.stage import JUDGED, Step, Suite, Work
from evolora_core.engine.tables import write_table
from evolora_core.errors import Unaffordable
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.answering.outcome import evaluation_rows
from evolora_core.searches.estimating import Expected, bytes_of
from evolora_core.searches.merging.build import merge_flops
from evolora_core.searches.merging.data import Splits
from evolora_core.searches.merging.experiment import MergeExperiment
from evolora_core.searches.merging.judging.judge import PURPOSES, Failed, Judge
from evolora_core.searches.merging.judging.prefixes import Prefixes
from evolora_core.searches.merging.judging.scoring import Judgement, Questions, encoded
from evolora_core.searches.merging.landscape import simulate
from evolora_core.searches.merging.names import STRATEGIES
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.roles import BASE
from evolora_core.searches.merging.settings import SPLITS
from evolora_core.searches.merging.short_family import ShortFamily, make_family
from evolora_core.searches.merging.spaces.registry import make_space
from evolora_core.searches.merging.stages import datasets
from evolora_core.searches.merging.stages.choosing import Choosing, asked, task_of
from evolora_core.searches.merging.stages.landmarks import space_of
from evolora_core.searches.merging.stages.landscape import SPLITS as MAPPED
from evolora_core.searches.merging.stages.law import merges_of, recipe_of

LEAVES_OUT = (
    "A strategy counts as if it spent its whole budget, and an answer to the test as if it were as long as the right "
    "one. Left out: loading models, what strategies and fits of the law compute beside models, and their tables."
)
FEW = 16  # items of a domain on which is timed how long a measurement takes,
ANSWERED = 64  # and answers, of which many are cheaper together
MERGES = 6  # that are timed for each space
WALKED, PLACES = 6, 4  # routes that are measured one after another, at so many places of a landscape
REPLAYED = 3  # runs of a replay, after one that makes the genomes that all share


def hosts(config: MergeExperiment) -> list[str]:
    """The models that have to be on this machine: the host, also where the suite trains bases, and those that are
    merged.
    """
    return [config.host, *config.models.values()]


def estimate(suite: Suite[MergeExperiment], steps: Sequence[Step], report: Progress) -> dict[str, Expected]:
    """What each step takes, by name."""
    with TemporaryDirectory(prefix="evolora-estimate-") as name:
        bench = Bench(suite, Path(name))
        found = {}
        for number, step in enumerate(steps):
            report(number, len(steps), step.name)
            found[step.name] = bench.of(step)
        report(1, 1)
        return found


class Charging(Judge):
    """A judge that charges what measurements would cost, and measures nothing: scores are drawn. merged_once: how many
    recipes were merged of several models.
    """

    merged_once: int = 0

    def merged(self, genome: Genome) -> Any:
        """A model of the genome's depth, whose weights do not matter."""
        flops = merge_flops(genome, self.pool.models)
        self.merged_once += flops > 0
        self.meter.add("assimilation", flops, 0, 0.0)
        return self._shell(genome)

    def _charged(self, judged: Callable[[], Judgement], cost: int, split: str) -> Judgement:
        asked = self.questions[split]
        self.meter.add(PURPOSES[split], cost, asked.tokens, 0.0)
        domains = stream(0, 0, self.meter.total() % 2**32, "estimate").random(len(asked.weights))
        return Judgement(float(domains @ asked.weights), domains, np.zeros(len(asked.items), dtype=bool))


@dataclass
class Bench:
    """What short work found so far."""

    suite: Suite[MergeExperiment]
    folder: Path
    families: dict[int | None, ShortFamily] = field(default_factory=dict)
    merging: dict[str, tuple[float, float]] = field(default_factory=dict)
    known: dict[tuple[Any, ...], Expected] = field(default_factory=dict)

    @property
    def config(self) -> MergeExperiment:
        """The suite's."""
        return self.suite.config

    def of(self, step: Step) -> Expected:
        """What a step takes: as much with every seed, and in every shard."""
        key = step.stage.name, *(step.given.get(what) for what in ("condition", "name", "width", "strategy"))
        if key not in self.known:
            self.known[key] = self._of(step.stage.name, step.given)
        return self.known[key]

    def _of(self, kind: str, given: Mapping[str, Any]) -> Expected:
        if kind == "datasets":
            return self.made[1]
        if kind == "base":
            return self.family(given["width"]).base
        if kind == "parent":
            return self.family(given["width"]).parents[given["name"]]
        if kind == "landscape":
            return self.landscape()
        if kind == "regret":
            return self.regret(given["strategy"])
        if kind == "law":
            return self.law(given["width"])
        if kind in ("landmarks", "law-fit"):
            return Expected()
        if kind == JUDGED:
            return self.evaluation(given["condition"])
        return self.choosing(asked(self.config, given["condition"]))

    @cached_property
    def made(self) -> tuple[Splits, Expected]:
        """The items of the first seed, and what making them took."""
        request, folder = datasets.request(self.suite, self.config.seeds[0]), self.folder / "datasets"
        folder.mkdir()
        started = time.perf_counter()
        work: Work[Any] = Work(config=request.config, host=self.suite.host, seed=request.seed, folder=folder)
        datasets.make(work)
        took = Expected(0, time.perf_counter() - started, bytes_of(folder))
        return {split: datasets.read_split(folder, split, self.config.domains) for split in SPLITS}, took

    def family(self, width: int | None = None) -> ShortFamily:
        """Base and parents of a width."""
        if width not in self.families:
            seed, train = self.config.seeds[0], self.made[0]["train" if self.config.trains else "search"]
            self.families[width] = make_family(self.suite, seed, width, train, self.folder / f"family-{width}")
        return self.families[width]

    def questions(self, width: int | None, split: str, most: int | None = None) -> Questions:
        """The items of a split, or at most so many of each domain."""
        weights = {name: domain.weight for name, domain in self.config.domains.items()}
        own = {name: items[:most] for name, items in self.made[0][split].items()}
        return Questions.of(self.family(width).pool.host, own, weights)

    def charging(self, width: int | None = None) -> Charging:
        """A judge of all items, which measures nothing."""
        splits = ("search", "selection")
        return Charging(self.family(width).pool, {split: self.questions(width, split) for split in splits})

    def timed(self, width: int | None, genomes: Sequence[Genome]) -> tuple[float, float]:
        """Seconds of a merge, and of a measurement for each FLOP, of a few genomes on a few items."""
        judge = Judge(self.family(width).pool, {"search": self.questions(width, "search", FEW)})
        for number, genome in enumerate((genomes[0], *genomes)):
            if number == 1:
                judge.meter = Meter()  # the first one warms up
            try:
                judge.measure(genome)
            except Failed:
                continue
        if "rollout" not in judge.meter.accounts:  # none can be merged, such as routes with scales on some bases
            judge.measure(Genome(recipe=BASE))
        merged, measured = (judge.meter.accounts[purpose] for purpose in ("assimilation", "rollout"))
        return merged.seconds / len(genomes), measured.seconds / measured.flops

    def paces(self, space: str) -> tuple[float, float]:
        """What `timed` says of genomes that are drawn from a space."""
        if space not in self.merging:
            pool = self.family().pool
            own = make_space(space, pool.parents, pool.layers, self.config.groups)
            rng = stream(0, 0, 0, "estimate", space)
            self.merging[space] = self.timed(None, [own.draw(rng) for _ in range(MERGES)])
        return self.merging[space]

    def choosing(self, own: Choosing) -> Expected:
        """A strategy or a control makes its model."""
        judge = self.charging()
        merging, measuring = self.paces(own.space or "smooth")
        budget = own.budget.evaluations * judge.plain_cost()
        if own.kind in STRATEGIES:
            return Expected(budget, budget * measuring + own.budget.evaluations * merging)
        if own.gradients:
            size = self.family().multitask.bytes if own.kind == "fine-tuned-mean" else 0.0
            return Expected(budget, budget * self.family().pace, size)
        trained = Expected()
        if own.specialists:
            trained = self.family().multitask
            judge.measure(Genome(recipe=BASE))
        else:
            with suppress(Unaffordable):  # then it is not run
                work = Work(config=own, host=self.suite.host, seed=0, folder=self.folder)
                import_module(own.module).choose(task_of(work, judge))
        flops = judge.meter.total()
        seconds = flops * measuring + judge.merged_once * merging
        return Expected(trained.flops + flops, trained.seconds + seconds, trained.bytes)

    @cached_property
    def answers(self) -> Expected:
        """Answers to the whole test by one model."""
        host, decoding = self.family().pool.host, self.config.decoding
        items = [item for own in self.made[0]["test"].values() for item in own]
        prompts, rights = encoded(host, items)
        new = np.minimum([len(own) for own in rights], decoding.max_new_tokens)
        flops = int(FlopModel.from_model(host.model).generate_flops([len(own) for own in prompts], new).sum())
        few = [item for own in self.made[0]["test"].values() for item in own[:ANSWERED]]
        self._answered(few[:FEW])  # warms up
        started = time.perf_counter()
        outcomes = self._answered(few)
        pace = (time.perf_counter() - started) / max(1, sum(outcome.flops for outcome in outcomes))
        folder = self.folder / "answers"
        folder.mkdir()
        write_table(folder, "evaluations", evaluation_rows("test", "base", outcomes))
        return Expected(flops, flops * pace, bytes_of(folder) / len(few) * len(items))

    def _answered(self, items: Sequence[Item]) -> list[Any]:
        host = self.family().pool.host
        return answer_items(host, None, items, [-1] * len(items), decoding=self.config.decoding)

    def evaluation(self, condition: str) -> Expected:
        """The test; an ensemble asks every parent."""
        models = len(self.config.parents) if self.config.kind(condition).name == "ensemble" else 1
        return Expected(models * self.answers.flops, models * self.answers.seconds, self.answers.bytes)

    def law(self, width: int) -> Expected:
        """All merges of a width."""
        assert self.config.law is not None
        judge, seed = self.charging(width), self.config.seeds[0]
        genomes = [recipe_of(*one, seed) for one in merges_of(self.config.parents, self.config.law.methods)]
        flops = sum(judge.cost(genome) for genome in genomes)
        merging, measuring = self.timed(width, genomes[:: ceil(len(genomes) / MERGES)])
        return Expected(flops, flops * measuring + len(genomes) * merging)

    def landscape(self) -> Expected:
        """Estimate of a shard. The layers that all routes pass are counted; a few neighbouring routes are timed."""
        settings, pool = self.config.landscape, self.family().pool
        assert settings is not None
        space = space_of(pool.parents, pool.layers)
        few = Judge(pool, {split: self.questions(None, split, FEW) for split in MAPPED})
        walk, ordered = Prefixes(few, space), sorted(range(space.models), key=space.numbered)
        seconds = 0.0
        for place in range(PLACES):
            first = place * len(ordered) // PLACES
            walk.judge(space.numbered(ordered[first]))  # its neighbour before was not measured
            started = time.perf_counter()
            for number in ordered[first + 1 : first + 1 + WALKED]:
                walk.judge(space.numbered(number))
            seconds += time.perf_counter() - started
        passed = sum(sum(count for _, count in space.genotype(space.numbered(number))) for number in ordered)
        whole = Judge(pool, {split: self.questions(None, split) for split in MAPPED})
        costs: Mapping[str, tuple[int, int]] = Prefixes(whole, space).costs
        flops = sum(layer * passed + head * space.models for layer, head in costs.values())
        share = sum(asked.tokens for asked in whole.questions.values()) / sum(
            asked.tokens for asked in few.questions.values()
        )
        took = space.models * share * seconds / (PLACES * WALKED)
        return Expected(flops / settings.shards, took / settings.shards)

    def regret(self, strategy: str) -> Expected:
        """Replays on a landscape whose scores are drawn."""
        settings, pool = self.config.landscape, self.family().pool
        assert settings is not None
        space, rng = space_of(pool.parents, pool.layers), stream(0, 0, 0, "estimate")
        sizes = [self.config.data.search] * len(self.config.domains)
        walk = partial(
            simulate,
            [strategy],
            rng.standard_normal(space.models),
            space,
            evaluations=settings.evaluations,
            domains=rng.standard_normal((space.models, len(sizes))),
            solved=rng.random((space.models, sum(sizes))) < 0.5,
            item_domains=np.repeat(np.arange(len(sizes)), sizes),
            weights=np.array([domain.weight for domain in self.config.domains.values()]),
        )
        walk(seeds=[0])
        started = time.perf_counter()
        walk(seeds=range(1, 1 + REPLAYED))
        return Expected(0, settings.runs / REPLAYED * (time.perf_counter() - started))
