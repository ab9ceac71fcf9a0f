"""The stages of a suite and what each needs: tuning first, since every seed uses what it chooses; then, for each seed,
datasets, calibration, evolution, the rivals that spend what it spent, and evaluation; at the end comparisons and
the pack, from the seeds that every condition has.
"""

from collections.abc import Sequence
from typing import Any

from evolora_core.config import SuiteConfig
from evolora_core.errors import ConfigError
from flows._execute import Results, Step
from tasks import calibrate, compare, datasets, es, evaluate, evolve, grpo, pack, sft, tune
from tasks._stage import StageResult, Suite

URGENCY = (
    "ecology",
    "single",
    "grpo",
    "es",
    "sft",
)  # kinds of arms: what others wait for, and what takes longest, first
STAGES: dict[str, tuple[str, Any, Any]] = {  # kind of arm -> its training stage, how it is asked for, its task
    "ecology": ("evolve", evolve.request, evolve.evolve),
    "single": ("evolve", evolve.request, evolve.evolve),
    "sft": ("sft", sft.request, sft.sft),
    "es": ("es", es.request, es.es),
    "grpo": ("grpo", grpo.request, grpo.grpo),
}
COMPARISON, PACK = "suite.s0.compare", "suite.s0.pack"


def name(condition: str, seed: int, stage: str) -> str:
    """How a stage is called within its suite, by people too: `ecology.s0.evolve`."""
    return f"{condition}.s{seed}.{stage}"


def training(suite: Suite, arm: str, seed: int) -> str:
    """Name of the stage that trains an arm."""
    return name(arm, seed, STAGES[suite.config.kind(arm)][0])


def trained_arms(suite: Suite) -> list[str]:
    """The conditions that are trained; `ecology`, whose compute is the budget of all others, comes first."""
    arms = [condition for condition in suite.config.conditions if condition != "frozen"]
    return sorted(arms, key=lambda arm: (arm != "ecology", URGENCY.index(suite.config.kind(arm))))


def plan(suite: Suite) -> list[Step]:
    """Every stage up to the evaluations. The order is that of urgency: what most others wait for comes first."""
    seeds, conditions = suite.config.seeds, suite.config.conditions
    arms = trained_arms(suite)
    tuned = bool(arms) and suite.config.trials > 1
    steps = tuning(suite, arms) if tuned else []
    for seed in seeds:
        steps += prepared(suite, seed, arms)
    for arm in arms:
        steps += [trained(suite, arm, seed, tuned) for seed in seeds]
    for condition in conditions:
        steps += [evaluated(suite, condition, seed) for seed in seeds]
    return steps


def prepared(suite: Suite, seed: int, arms: Sequence[str]) -> list[Step]:
    """Datasets of a seed, and the calibrations that its arms need."""
    data = name("shared", seed, "datasets")

    def calibrated(arm: str) -> Step:
        def request(results: Results) -> Any:
            return calibrate.request(suite, arm, seed, results[data])

        return Step(calibration(suite, arm, seed), calibrate.calibrate, request, (data,))

    needed = {calibration(suite, arm, seed): arm for arm in arms}  # arms that share one ask for the same
    steps = [Step(data, datasets.datasets, lambda _: datasets.request(suite, seed))]
    return steps + [calibrated(arm) for arm in needed.values()]


def calibration(suite: Suite, arm: str, seed: int) -> str:
    """The stage in which an arm of a seed was calibrated."""
    return name("shared", seed, calibrate.stage_name(suite, arm))


def trained(suite: Suite, arm: str, seed: int, tuned: bool) -> Step:
    """Evolution or fine-tuning of a seed; the rivals wait for the ecology, whose compute is their budget."""
    data, calibrated = name("shared", seed, "datasets"), calibration(suite, arm, seed)
    choice, measured = choosing(suite), training(suite, "ecology", seed)
    _, ask, task = STAGES[suite.config.kind(arm)]
    needs = [data, calibrated]
    needs += [choice] if tuned else []
    needs += [measured] if arm != "ecology" else []

    def request(results: Results) -> Any:
        given: dict[str, Any] = {
            "datasets": results[data],
            "calibration": results[calibrated],
            "trial": results[choice].summary[arm] if tuned else (0 if suite.config.trials else None),
        }
        if arm != "ecology":
            given["budget"] = results[measured]
        return ask(suite, arm, seed, **given)

    return Step(training(suite, arm, seed), task, request, tuple(needs))


def evaluated(suite: Suite, condition: str, seed: int) -> Step:
    """The holdouts of a condition and seed."""
    needs = [name("shared", seed, "datasets")] + ([training(suite, condition, seed)] if condition != "frozen" else [])

    def request(results: Results) -> Any:
        found = [results[need] for need in needs]
        return evaluate.request(suite, condition, seed, datasets=found[0], trained=(found + [None])[1])

    return Step(name(condition, seed, "evaluate"), evaluate.evaluate, request, tuple(needs))


def choosing(suite: Suite) -> str:
    """Name of the stage that chooses among the trials."""
    return name("tuning", suite.config.tuning.seeds[0], "choose")


def tuning(suite: Suite, arms: Sequence[str]) -> list[Step]:
    """The trials of every arm on the tuning seeds, and the choice."""
    seeds, numbers = suite.config.tuning.seeds, range(suite.config.trials)

    def attempt(arm: str, trial: int, seed: int) -> Step:
        needs = [name("shared", seed, "datasets"), calibration(suite, arm, seed)]
        if arm != "ecology":
            needs += [name("tuning", seed, f"try-ecology-{number}") for number in numbers]

        def request(results: Results) -> Any:
            given = [results[need] for need in needs]
            return tune.trial_request(
                suite, arm, trial, seed, datasets=given[0], calibration=given[1], ecology_trials=given[2:]
            )

        return Step(name("tuning", seed, f"try-{arm}-{trial}"), tune.try_settings, request, tuple(needs))

    trials = [attempt(arm, trial, seed) for arm in arms for seed in seeds for trial in numbers]
    tried = tuple(step.name for step in trials)

    def choice(results: Results) -> Any:
        return tune.choice_request(suite, [results[own] for own in tried])

    last = Step(choosing(suite), tune.choose_settings, choice, tried)
    return [*(step for seed in seeds for step in prepared(suite, seed, arms)), *trials, last]


def complete_seeds(config: SuiteConfig, results: Results) -> list[int]:
    """Seeds that were evaluated in every condition."""
    return [seed for seed in config.seeds if all(name(own, seed, "evaluate") in results for own in config.conditions)]


def closing(suite: Suite, seeds: Sequence[int], results: Results) -> list[Step]:
    """Comparisons of the complete seeds, and the pack."""
    evaluations: dict[tuple[str, int], StageResult] = {
        (condition, seed): results[name(condition, seed, "evaluate")]
        for condition in suite.config.conditions
        for seed in seeds
    }
    return [
        Step(COMPARISON, compare.compare, lambda _: compare.request(suite, evaluations)),
        Step(PACK, pack.pack, lambda own: pack.request(suite, seeds, {**results, **own}), (COMPARISON,)),
    ]


def wanted(steps: Sequence[Step], only: Sequence[str], suite: Suite) -> list[Step]:
    """The steps of the named runs and stages and all that they need, in the order of the plan; all if none is named, or
    one that closes the suite.

    Raises ConfigError for a name that is none.
    """
    needs = {step.name: step.needs for step in steps}
    closing_names = {COMPARISON, PACK, COMPARISON.rpartition(".")[0]}
    waiting: list[str] = []
    for word in only:
        # With or without the suite's name, which may be a condition's too.
        words = dict.fromkeys(word.removeprefix(prefix) for prefix in ("", f"{suite.id}.", f"{suite.config.name}."))
        if closing_names & set(words):
            return list(steps)
        named = [[own for own in needs if own == short or own.startswith(f"{short}.")] for short in words]
        if not any(named):
            raise ConfigError(f"{word}: {suite.id} has no such run or stage; `evolora status {suite.id}` lists them")
        waiting += next(filter(None, named))
    if not only:
        return list(steps)
    chosen: set[str] = set()
    while waiting:
        own = waiting.pop()
        if own not in chosen:
            chosen.add(own)
            waiting += needs[own]
    return [step for step in steps if step.name in chosen]
