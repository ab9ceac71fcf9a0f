"""What the stages of an attention suite would take: programs are trained for a few steps at each size, and multiplied.

FLOPs are those that a panel charges: operations of a training step, which a sandbox counts, times the steps, and the
answers. Seconds are what a step, the rest of a measurement, the ladder and the start of sandboxes took just now. Of
programs that nobody has written yet a few are drawn from the grammar.
"""

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np

from evolora_core.engine.progress import Progress
from evolora_core.engine.rng import stream
from evolora_core.engine.stage import JUDGED, Step, Suite, Work
from evolora_core.errors import StageError
from evolora_core.searches.attention.corpus.base import load
from evolora_core.searches.attention.exhaustive import Worth, genomes
from evolora_core.searches.attention.experiment import AttentionExperiment
from evolora_core.searches.attention.grammar.genes import Grammar
from evolora_core.searches.attention.grammar.registry import get_grammar
from evolora_core.searches.attention.grammar.table import TABLE
from evolora_core.searches.attention.grammar.vary import draw
from evolora_core.searches.attention.judging.measure import Measured
from evolora_core.searches.attention.known.registry import BASELINE
from evolora_core.searches.attention.panel import LADDER_STEPS, Panel, Task, mend, select
from evolora_core.searches.attention.replaying import replay
from evolora_core.searches.attention.sources import source_of, trusted
from evolora_core.searches.attention.stages import corpus
from evolora_core.searches.attention.tuning import trials
from evolora_core.searches.estimating import Expected, bytes_of

LEAVES_OUT = (
    "A search counts as if it spent its whole budget and chose a program of mean cost; "
    "an ablation as if every gene differed from the baseline; programs that nobody has written yet as a few that are "
    "drawn from the grammar. Left out: what questions to a model take, and the fits of the law."
)
FEW, MOST = 2, 200  # steps of the shorter of two trainings, and more steps of the longer one at most
WORK = 2e10  # operations of these further steps, about
DRAWN = 4  # programs that stand for all that a grammar makes
REPLAYED = 3  # runs of a replay, after one that writes the programs that all share
NUMBERS = 4  # bytes of the loss of a text


def hosts(config: AttentionExperiment) -> list[str]:
    """The models that have to be on this machine: none."""
    return []


def estimate(suite: Suite[AttentionExperiment], steps: Sequence[Step], report: Progress) -> dict[str, Expected]:
    """What each step takes, by name. StageError for a program that is refused, as a run would say."""
    config = suite.config
    with TemporaryDirectory(prefix="evolora-estimate-") as name:
        folder = Path(name)
        made = _corpus(suite, folder / "corpus")
        own = all(trusted(condition) for condition in config.mechanisms)
        rates = dict.fromkeys([*config.sizes.measured, *config.sizes.predicted], min(config.training.rates))
        texts = select(load(folder / "corpus"), "selection")
        started = time.perf_counter()
        with Panel(texts, config.training, rates, config.budget.bounds, trusted=own, keep=folder) as panel:
            bench = Bench(config, panel, made, time.perf_counter() - started)
            found = {}
            for number, step in enumerate(steps):
                report(number, len(steps), step.name)
                found[step.name] = bench.of(step)
            report(1, 1)
            return found


def _corpus(suite: Suite[AttentionExperiment], folder: Path) -> Expected:
    """Make the corpus of the first seed."""
    folder.mkdir()
    settings, seed, started = corpus.drawn(suite.config.corpus), suite.config.seeds[0], time.perf_counter()
    corpus.make(Work(config=settings, seed=seed, folder=folder))
    return Expected(0, time.perf_counter() - started, bytes_of(folder))


@dataclass
class Bench:
    """What short trainings found so far. opening: seconds in which a stage starts its sandboxes."""

    config: AttentionExperiment
    panel: Panel
    corpus: Expected
    opening: float
    measured: dict[tuple[str, str], Expected | None] = field(default_factory=dict)
    climbs: list[float] = field(default_factory=list)

    def of(self, step: Step) -> Expected:
        """What a step takes."""
        kind, given = step.stage.name, step.given
        if kind == "corpus":
            return self.corpus
        if kind == "rates":
            return self.rates()
        if kind == "table":
            return self.shard(given["size"])
        if kind == "replay":
            return self.replay(given["strategy"])
        if kind in ("law", "table-scores"):
            return Expected()
        return self.of_condition(kind, given["condition"])

    def of_condition(self, kind: str, condition: str) -> Expected:
        """What a stage of a condition takes: its measurement, search, ablation, ensemble or evaluation."""
        config, budget = self.config, self.config.budget
        sizes = config.sizes.measured
        if kind == "measure":
            once = [self.program(condition, size) for size in sizes]
            return self.together(once, budget.seeds + budget.finalist_seeds, self.ladder())
        if kind == "search":
            return self.search(condition)
        if kind == "ablate":
            parts = len(get_grammar(config.framework_of(condition)).genes)
            once = [self.program(condition, size) for size in config.ablation.sizes]
            found = self.together(once, (1 + parts) * config.ablation.seeds)
            return Expected(found.flops, found.seconds / min(budget.parallel, 1 + parts), found.bytes)
        if kind == "ensemble":
            once = [self.program(condition, size) for size in config.ensemble.sizes]
            return self.together(once, 2 * config.ensemble.models - 1)
        assert kind == JUDGED, kind
        once = [self.program(condition, size) for size in (*sizes, *config.sizes.predicted)]
        return self.together(once, config.evaluation.seeds)

    def together(self, once: Sequence[Expected], times: float, more: float = 0.0) -> Expected:
        """These measurements, `times` over, in a stage that takes `more` seconds beyond them."""
        return Expected(
            times * sum(one.flops for one in once),
            times * sum(one.seconds for one in once) + self.opening + more,
            times * sum(one.bytes for one in once),
        )

    def rates(self) -> Expected:
        """Trials of the baseline at every size."""
        config = self.config
        once = [self.program(BASELINE, size) for size in (*config.sizes.measured, *config.sizes.predicted)]
        return self.together(once, trials(config.training.rates))

    def search(self, condition: str) -> Expected:
        """The whole budget, whose FLOPs are a multiple of the baseline's at the largest size, and the curve of the
        chosen program at the smaller ones. How long the budget takes, the drawn programs say.
        """
        budget, (*smaller, largest) = self.config.budget, self.config.sizes.measured
        plain, drawn = self.program(BASELINE, largest), self.program(condition, largest)
        flops = budget.programs * budget.seeds * plain.flops
        examined = LADDER_STEPS * self.program(BASELINE, smaller[0]).flops / self.config.training.steps
        programs = flops / (examined + budget.seeds * drawn.flops)
        busy = programs * (budget.seeds * drawn.seconds + self.ladder()) / min(budget.parallel, budget.together)
        curve = self.together([self.program(condition, size) for size in smaller], budget.seeds + budget.finalist_seeds)
        return Expected(flops + curve.flops, busy + curve.seconds, programs * budget.seeds * drawn.bytes + curve.bytes)

    def shard(self, size: str) -> Expected:
        """A part of the table at a size; programs climb the ladder before they are measured at the first one."""
        settings = self.config.table
        assert settings is not None
        programs = len(genomes()) / settings.shards
        ladder = programs * self.ladder() if size == settings.sizes[0] else 0.0
        return self.together([self.drawn(TABLE, size)], programs * settings.seeds, ladder)

    def replay(self, strategy: str) -> Expected:
        """Replays on a table whose scores are drawn."""
        settings, budget = self.config.table, self.config.budget
        assert settings is not None
        scores = stream(0, 0, 0, "estimate").standard_normal(len(genomes())).tolist()
        table = [Worth(number, score, score, "") for number, score in enumerate(scores)]
        for seed in range(1 + REPLAYED):
            if seed == 1:
                started = time.perf_counter()
            replay(
                strategy, table, seed=seed, programs=settings.programs, together=budget.together,
                failures=budget.failures,
            )  # fmt: skip
        return Expected(0, settings.runs / REPLAYED * (time.perf_counter() - started))

    def program(self, condition: str, size: str) -> Expected:
        """One measurement of a mechanism; of a search's program, the mean of what its grammar makes."""
        if self.config.strategy(condition):
            return self.drawn(get_grammar(self.config.framework_of(condition)), size)
        found = self.measure(source_of(condition, self.config.programs.get(condition, "")), size, condition)
        assert found is not None
        return found

    def drawn(self, grammar: Grammar, size: str) -> Expected:
        """The mean measurement of a few drawn programs, those left out that cannot be trained."""
        rng = stream(0, 0, 0, "estimate", grammar.framework)
        sources = [grammar.program(draw(grammar, rng)) for _ in range(DRAWN)]
        found = [own for source in sources if (own := self.measure(source, size)) is not None]
        if not found:
            return self.program(BASELINE, size)
        return Expected(*(fmean(getattr(own, name) for own in found) for name in ("flops", "seconds", "bytes")))

    def ladder(self) -> float:
        """Seconds in which the baseline is examined."""
        if not self.climbs:
            source = source_of(BASELINE)
            for sizes in (self.config.sizes.measured[:2], self.config.sizes.measured):  # the first counts its costs too
                started = time.perf_counter()
                self.panel.check(source, "", sizes)
                self.climbs.append(time.perf_counter() - started)
        return self.climbs[-1]

    def measure(self, source: str, size: str, name: str = "") -> Expected | None:
        """One measurement, from two short ones. Of a refused program: StageError if it has a name, else None."""
        if (source, size) not in self.measured:
            self.measured[source, size] = self._measure(source, size, name)
        return self.measured[source, size]

    def _measure(self, source: str, size: str, name: str) -> Expected | None:
        steps = self.config.training.steps
        few, short = self._trained(source, size, min(FEW, steps))
        if few.rejection:
            if name:
                what = f"{name}: refused at size {size}: {few.rejection.why}"
                raise StageError(f"{what}; {mend(few.rejection)}, or leave it out")
            return None
        more = min(MOST, steps - FEW, int(np.ceil(WORK / max(1, few.flops))))
        step = 0.0
        if more > 0:
            _, long = self._trained(source, size, FEW + more)
            step = max(0.0, long - short) / more
        return Expected(
            self.panel.flops(few, size, {}),
            short + max(0, steps - FEW) * step,
            NUMBERS * len(self.panel.corpus.texts),
        )

    def _trained(self, source: str, size: str, steps: int) -> tuple[Measured, float]:
        """A measurement with fewer steps, and its seconds."""
        shorter = copy(self.panel)  # it shares the sandboxes
        shorter.training = self.config.training.model_copy(update={"steps": steps, "warmup": 0})
        started = time.perf_counter()
        return shorter.measure(Task(source, size, 0)), time.perf_counter() - started
