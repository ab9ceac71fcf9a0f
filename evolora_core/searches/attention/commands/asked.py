"""How the commands measure: what the models learn from, how they are trained, and the programs' way into a panel."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress
from evolora_core.errors import ConfigError
from evolora_core.searches.attention.commands.programs import Named
from evolora_core.searches.attention.corpus.base import Corpus
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.judging.measure import baseline_costs
from evolora_core.searches.attention.panel import Panel
from evolora_core.searches.attention.settings import MOST_RATES, Bounds, Training
from evolora_core.searches.attention.tuning import Tuned, trials, tune

_WARMING = 10  # a tenth of the steps is warm-up


@dataclass(frozen=True)
class MeasureSettings:
    """What a user asks for.

    seeds     training seeds at each size
    run_seed  draws the corpus and the training seeds, as a run seed of a suite does
    rates     peak learning rates that are tried at each size
    train     rows of the corpus to train on; texts: held-out ones, of which half are used
    parallel  models that are trained at a time; changes no result
    minutes   of one training, after which it is killed; waiting for a processor apart
    """

    sizes: tuple[str, ...]
    steps: int
    seeds: int
    run_seed: int
    rates: tuple[float, ...]
    train: int
    texts: int
    parallel: int
    minutes: float

    @property
    def training(self) -> Training:
        """The same as a suite's section. ConfigError where there is no rate, one that is none, or too many."""
        rates = sorted(set(self.rates))
        if not 1 <= len(rates) <= MOST_RATES or rates[0] <= 0:
            raise ConfigError(f"--rates: name 1 to {MOST_RATES} learning rates above zero")
        return Training(steps=self.steps, warmup=self.steps // _WARMING, rates=rates)

    def each_size(self, *, tuned: int, measured: int) -> int:
        """Trainings at one size, given how many programs are tuned and how many are measured."""
        return tuned * trials(self.training.rates) + measured * self.seeds

    def corpus(self) -> Corpus:
        """The corpus of the run seed."""
        return make_corpus(CorpusSettings(train=self.train, held_out=self.texts), self.run_seed)

    def panel(self, corpus: Corpus, programs: Sequence[Named], rates: dict[str, float]) -> Panel:
        """A panel for these programs. `rates` may be filled in later."""
        bounds, trusted = Bounds(minutes=self.minutes), all(own.trusted for own in programs)
        return Panel(corpus, self.training, rates, bounds, trusted=trusted, parallel=self.parallel)


class Way:
    """How far a command is, in operations of the baseline, so that large models count for what they take.

    Made with the number of programs that are tuned and of programs that are measured.
    """

    def __init__(self, asked: MeasureSettings, corpus: Corpus, *, tuned: int, measured: int, report: Progress) -> None:
        costs = baseline_costs([SIZES[size] for size in asked.sizes], corpus.context, corpus.vocab)
        step = asked.steps * asked.training.batch
        self._costs = {size: float(cost.flops * step) for size, cost in costs.items()}
        self._total = asked.each_size(tuned=tuned, measured=measured) * sum(self._costs.values())
        self._done, self._report = 0.0, report

    def part(self, per_size: int, name: str) -> Progress:
        """Progress of the next part: `per_size` trainings of a program at each size, from the smallest to the
        largest.
        """
        before, ends, done = self._done, [0.0], 0.0
        for cost in self._costs.values():
            for _ in range(per_size):
                done += cost
                ends.append(done)
        self._done = before + done

        def report(number: float, _: float, text: str = "", /) -> None:
            self._report(before + ends[int(number)], self._total, f"{name}, {text}")

        return report


def tuned(panel: Panel, program: Named, asked: MeasureSettings, way: Way) -> Tuned:
    """The rates of a program on the panel's texts."""
    part = way.part(trials(panel.training.rates), program.name)
    return tune(panel, program.name, program.source, asked.sizes, asked.run_seed, Meter(), part)


def at_an_end(names: Iterable[str], rates: Sequence[float], tried: Sequence[float]) -> str:
    """Whose rate is the lowest or the highest that was tried, where there was a choice; "" for nobody's."""
    last = [name for name, rate in zip(names, rates, strict=True) if rate in (min(tried), max(tried))]
    return f"widen --rates: {' and '.join(last)} ended at an end of them" if last and len(tried) > 1 else ""


def admit(panel: Panel, programs: Sequence[Named], sizes: Sequence[str]) -> None:
    """Refuse, before anything is trained, programs that cheat or fail. ConfigError says where and why."""
    for own in programs:
        if not own.trusted and (rejection := panel.check(own.source, "", sizes).rejection):
            raise ConfigError(f"{own.name}: refused at stage {rejection}")
