"""What the stages of an adapter search would take: a short run of each kind of condition, multiplied.

FLOPs of the condition whose compute is the budget are counted on its first generations, and those of the others follow
from them. Seconds are those that the same work took just now. What a stage goes on from is not counted again.
"""

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from evolora_core.engine.progress import Progress, silent
from evolora_core.engine.stage import JUDGED, Step, Suite
from evolora_core.engine.tables import write_table
from evolora_core.errors import Unaffordable
from evolora_core.language.flops import FlopModel
from evolora_core.searches.adapters.arms.evolved import Evolution
from evolora_core.searches.adapters.arms.examples import Showing
from evolora_core.searches.adapters.arms.sft import SftTrained, SftTraining
from evolora_core.searches.adapters.arms.short_runs import Bench, ShortRun, generations, set_up, sizes, train_shortly
from evolora_core.searches.adapters.ecology.rules.registry import rule
from evolora_core.searches.adapters.evaluation.condition import evaluate_condition
from evolora_core.searches.adapters.evaluation.settings import Evaluation
from evolora_core.searches.adapters.experiment import SuiteConfig
from evolora_core.searches.adapters.settings.ecology import EcologyConfig, PlasticityConfig
from evolora_core.searches.adapters.settings.examples import ExamplesConfig
from evolora_core.searches.adapters.settings.suite import TUNING
from evolora_core.searches.adapters.trials import Spent, trial_budget
from evolora_core.searches.estimating import Expected

log = logging.getLogger(__name__)
LEAVES_OUT = (
    "An evaluation counts as if every adapter proved better than the host, and a trial as if it had the settings of "
    "its arm's first one. Left out: what the routers `learned` and `reselected` ask at the end."
)


def hosts(config: SuiteConfig) -> list[str]:
    """The models that have to be on this machine."""
    return [config.host]


def estimate(suite: Suite[SuiteConfig], steps: Sequence[Step], report: Progress) -> dict[str, Expected]:
    """What each step takes, by name. StageError where nothing could be learned, as a run would say."""
    config = suite.config
    with tempfile.TemporaryDirectory(prefix="evolora-estimate-") as folder:
        bench = set_up(suite, Path(folder))
        answers = _answers(bench)
        runs: dict[str, ShortRun] = {}
        # Conditions that differ in rates or budget alone take equally long. None: the suite's budget pays for no step.
        measured: dict[str, ShortRun | None] = {}
        lead, most = config.budget_of, 0
        for number, condition in enumerate(sorted(config.trained, key=lambda own: own != lead)):
            report(number, len(config.trained), condition)
            key = alike(config, condition)
            if key not in measured:
                budget = round(runs[lead].trained + bench.prices.spent) if runs else None
                try:
                    measured[key] = train_shortly(bench, condition, budget, most)
                except Unaffordable as error:  # a run goes on without it, too
                    log.warning("left out: %s", error)
                    measured[key] = None
            if (found := measured[key]) is not None:
                runs[condition] = found
            if condition == lead:
                whole = bench.price.flops + Foretold(bench, runs, answers).led(config.lead.generations).flops
                most = round(max(map(config.budget, config.trained)) * whole)
        report(1, 1)
        foretold = Foretold(bench, runs, answers)
        return {step.name: foretold.of(step) for step in steps}


def alike(config: SuiteConfig, condition: str) -> str:
    """What decides how long a condition takes for its FLOPs."""
    settings = config.settings(condition)
    left_out = {"plasticity": {"learning_rate"}} | dict.fromkeys(("trials", "generations", "learning_rate"), True)
    return f"{config.kind(condition).name} {settings.model_dump_json(exclude=left_out)}"


@dataclass(frozen=True)
class Answers:
    """What the bare host's answers took: FLOPs of one by split, and of an item in distribution in its other forms (0:
    the suite does not ask for them), seconds a FLOP, and bytes of a row.
    """

    flops: dict[str, float]
    varied: float
    pace: float
    row: float


def _answers(bench: Bench) -> Answers:
    """Evaluate the bare host on a few items of each split that is judged at the end."""
    folder = bench.folder / "answers"
    folder.mkdir()
    few = {split: bench.few[split] for split in bench.judged}
    config = bench.suite.config
    asked = Evaluation(
        condition="bare", routings=[], decoding=config.decoding, frontier=None, variants=config.evaluation.variants
    )
    answered = folder / "answered"
    found = evaluate_condition(bench.host, asked, few, None, foreign=folder, progress=silent, answered=answered)
    rows = found.tables["evaluations"]
    write_table(folder, "evaluations", rows)
    account = found.meter.accounts["evaluation"]
    return Answers(
        {split: sum(row["flops"] for row in rows if row["split"] == split) / len(own) for split, own in few.items()},
        (account.flops - sum(row["flops"] for row in rows)) / len(few["holdout_id"]),
        account.seconds / max(1, account.flops),
        sizes(folder)[0] / len(rows),
    )


@dataclass(frozen=True)
class Foretold:
    """What was measured, and what follows from it for each stage."""

    bench: Bench
    runs: dict[str, ShortRun]
    answers: Answers

    @property
    def config(self) -> SuiteConfig:
        """The suite's."""
        return self.bench.suite.config

    def of(self, step: Step) -> Expected:
        """What a step takes."""
        condition, _, stage = step.name.split(".")
        if stage == "datasets":
            return self.bench.datasets
        if step.stage.name == "price":
            return self.bench.price
        if stage == "calibrate":
            return self.calibration(condition)
        if condition == TUNING:
            return self.trial(step.given["arm"]) if step.given.get("arm") in self.runs else Expected()
        if stage == JUDGED:
            return self.evaluation(condition)
        return self.training(condition) if condition in self.runs else Expected()

    @property
    def routing(self) -> float:
        """All items that choose routes for each that chose in a short run."""
        return self.bench.share("selection")

    def led(self, wanted: int) -> Expected:
        """So many generations of the condition whose compute is the budget, prices apart."""
        run = self.runs[self.config.budget_of]
        assert isinstance(run.training, Evolution)
        longer = wanted / generations(run.training)
        own, whole = run.training.ecology, self.config.lead
        learned = learning_answers(own.plasticity)  # which are not fewer where there are fewer episodes
        rollout = longer * (whole.episodes + learned) / (own.episodes + learned)
        tables = longer * whole.episodes / own.episodes
        return run.times(longer, routing=self.routing, rollout=rollout, tables=tables, overhead=longer)

    def calibration(self, condition: str) -> Expected:
        """The first generations, without a cooldown or a choice of routes."""
        run, wanted = self.runs[condition], self.config.lead.generations
        assert isinstance(run.training, Evolution)
        first = min(self.config.calibration.generations, wanted) / wanted
        whole = self.led(wanted)
        routed = run.accounts["routing"]
        updated = run.accounts.get("update")
        plasticity = run.training.ecology.plasticity
        cooled = 1 - 1 / (1 + rule(plasticity.rule).cooldown(plasticity))
        longer = cooled * wanted / generations(run.training)
        return Expected(
            first * (whole.flops - self.routing * routed.flops - longer * (updated.flops if updated else 0)),
            first * (whole.seconds - self.routing * routed.seconds - longer * (updated.seconds if updated else 0)),
            run.others,
        )

    def training(self, condition: str) -> Expected:
        """The whole training of a condition; the one whose compute is the budget goes on from its calibration."""
        whole = self.led(self.config.lead.generations)
        if condition == self.config.budget_of:
            begun = self.calibration(condition)
            return replace(whole, flops=whole.flops - begun.flops, seconds=whole.seconds - begun.seconds)
        return self.spending(condition, self.config.budget(condition) * (self.bench.price.flops + whole.flops))

    def spending(self, condition: str, budget: float) -> Expected:
        """The training of a condition that spends a budget, or all the passes that it may make."""
        run = self.runs[condition]
        evolved = isinstance(run.training, Evolution)
        left = budget - self.routing * run.accounts["routing"].flops - (self.bench.price.flops if evolved else 0)
        longer = max(0.0, min(left, _most(run))) / max(1, run.trained)
        return run.times(longer, routing=self.routing, overhead=longer if evolved else 1)

    def trial(self, condition: str) -> Expected:
        """A trial, with the answers that judge it."""
        config, lead = self.config, self.config.budget_of
        wanted = config.lead.generations
        tried = max(len(self.runs[lead].training.arrivals) or 1, ceil(wanted * config.tuning.fraction))
        made = self.led(tried)
        if condition != lead:
            fixed = self.bench.price.flops + self.routing * self.runs[lead].accounts["routing"].flops
            spent = Spent(round(self.bench.price.flops + made.flops), round(fixed), False)
            made = self.spending(condition, trial_budget([spent], config.budget(condition), wanted, tried)[0])
        judged = self._asked("holdout_id") * self.dearness(condition)
        return replace(made, flops=made.flops + judged, seconds=made.seconds + judged * self.answers.pace)

    def evaluation(self, condition: str) -> Expected:
        """The holdouts and holdout files under every router, and other forms of prompts, if every adapter proves better
        than the host: else the host answers for it, and what two routers ask of the same one is asked once.
        """
        rows = sum(len(self.bench.items[split]) for split in self.bench.judged)
        varied = len(self.bench.items["holdout_id"]) * self.answers.varied
        if condition not in self.runs:
            flops = sum(self._asked(split) for split in self.bench.judged) + varied
            return Expected(flops, flops * self.answers.pace, rows * self.answers.row)
        asked, dear = self.config.evaluation, self.dearness(condition)
        routed, alone = bool({*asked.routings} - {"single"}), "single" in asked.routings
        many = self.config.kind(condition).peopled or getattr(self.config.settings(condition), "specialists", False)
        own = self._asked("holdout_id") * dear * (routed + alone if many else 1)
        foreign = sum(self._asked(split) for split in self.bench.judged[1:]) * (routed + dear * alone)
        others = len({*asked.strengths} - {1.0})
        scaled = sum(
            min(1.0, asked.frontier_items / len(self.bench.items[split])) * self._asked(split)
            for split in ("holdout_id", "retention")
        )
        flops = own + foreign + others * dear * scaled + dear * varied
        return Expected(flops, flops * self.answers.pace, rows * len(asked.routings) * self.answers.row)

    def _asked(self, split: str) -> float:
        """FLOPs of the bare host's answers to a split."""
        return len(self.bench.items[split]) * self.answers.flops[split]

    def dearness(self, condition: str) -> float:
        """What an answer of a condition's adapter costs, the bare host's being 1."""
        settings = self.config.settings(condition)
        if isinstance(settings, ExamplesConfig):  # an example is about as long as an item
            return 1.0 + max(settings.shown)
        rank = max(settings.ranks) if isinstance(settings, EcologyConfig) else settings.rank
        return FlopModel.from_model(self.bench.host.model).dearness(rank)


def learning_answers(plasticity: PlasticityConfig) -> int:
    """Answers by which the learners learn in a generation, where their learning is charged as rollouts."""
    own = rule(plasticity.rule)
    return plasticity.steps * plasticity.batch_rows * own.row_cost(plasticity) if own.charged == "rollout" else 0


def _most(run: ShortRun) -> float:
    """FLOPs of all the passes that a training may make over its items."""
    training, facts = run.training, run.facts
    if isinstance(training, Showing):
        return 0.0
    if not isinstance(training, SftTraining) or training.sft.epochs is None or not isinstance(facts, SftTrained):
        return float("inf")
    rows = facts.steps * training.sft.batch_rows
    return run.accounts["update"].flops / rows * max(facts.labels * training.sft.epochs, training.sft.batch_rows)
