"""The flow `paper-suite`: from a suite file to a paper pack. Its chain of stages is here, from top to bottom; the other
flows of suites have the same.
"""

from collections.abc import Sequence

from flows._steps import COMPARISON, PACK, Step, name
from flows._suite import Chain, suite_flow
from tasks import calibrate, compare, datasets, es, evaluate, evolve, grpo, pack, price, sft, tune
from tasks._stage import StageResult, Suite

BUDGET = "ecology"  # the arm whose compute is the budget of all others
TRAINING = {  # kind of arm -> the task that trains it; the slowest first, and what the others wait for before it
    "ecology": evolve.evolve,
    "single": evolve.evolve,
    "grpo": grpo.grpo,
    "es": es.es,
    "sft": sft.sft,
}


def chain(suite: Suite) -> list[Step]:
    """Dataset generation → calibration → evolution → the rivals that spend what it spent → evaluation, for each seed.

    Trials of settings come before, on seeds of their own. The order is that of urgency: what most others wait for comes
    first.
    """
    seeds, conditions, arms = suite.config.seeds, suite.config.conditions, trained_arms(suite)
    trials, choice = tuning(suite, arms) if suite.config.trials > 1 and arms else ([], None)

    data = {seed: step_datasets(suite, seed) for seed in seeds}
    prices = {(arm, seed): step_price(suite, arm, seed, data[seed]) for seed in seeds for arm in arms}
    calibrated: dict[int, Step] = {}
    trained: dict[tuple[str, int], Step] = {}
    for arm in arms:
        for seed in seeds:
            needs: dict[str, Step | None] = {"datasets": data[seed], "prices": prices[arm, seed], "choice": choice}
            if arm == BUDGET:
                given = {"suite": suite, "arm": arm, "seed": seed}
                calibrated[seed] = Step(name(arm, seed, "calibrate"), calibrate.calibrate, given, needs)
                own: dict[str, Step | None] = {"calibration": calibrated[seed]}
            else:
                own = {"budget": trained[BUDGET, seed]}
            trained[arm, seed] = step_train(suite, arm, seed, needs | own)
    evaluated = [
        step_evaluate(suite, condition, seed, data[seed], trained.get((condition, seed)))
        for condition in conditions
        for seed in seeds
    ]
    prepared = [step for seed in seeds for step in (data[seed], *(prices[arm, seed] for arm in arms))]
    return unique([*trials, *prepared, *calibrated.values(), *trained.values(), *evaluated])


def tuning(suite: Suite, arms: Sequence[str]) -> tuple[list[Step], Step]:
    """The trials of every arm on the tuning seeds, with what they need, and the choice among them.

    The trials of the ecology come first: what they spend is the budget of the others'.
    """
    data = {seed: step_datasets(suite, seed) for seed in suite.config.tuning.seeds}
    prices = {(arm, seed): step_price(suite, arm, seed, own) for seed, own in data.items() for arm in arms}
    tried: dict[tuple[str, int], list[Step]] = {}
    for arm in arms:
        for seed in data:
            needs: dict[str, Step | Sequence[Step] | None] = {"datasets": data[seed], "prices": prices[arm, seed]}
            first: dict[str, Step | Sequence[Step] | None] = (
                {"ecology_trials": tried[BUDGET, seed]} if arm != BUDGET else {}
            )
            tried[arm, seed] = [
                Step(
                    name("tuning", seed, f"try-{arm}-{trial}"),
                    tune.try_settings,
                    {"suite": suite, "arm": arm, "trial": trial, "seed": seed},
                    needs | first,
                )
                for trial in range(suite.config.trials)
            ]
    trials = [step for group in tried.values() for step in group]
    seed = suite.config.tuning.seeds[0]
    choice = Step(name("tuning", seed, "choose"), tune.choose_settings, {"suite": suite}, {"trials": trials})
    return [*data.values(), *prices.values(), *trials, choice], choice


def closing(suite: Suite, seeds: Sequence[int], plan: Sequence[Step], results: dict[str, StageResult]) -> list[Step]:
    """Comparisons of the seeds that every condition has, and the pack, which is made from the store."""
    wanted = {name(condition, seed, "evaluate") for condition in suite.config.conditions for seed in seeds}
    evaluations = [step for step in plan if step.name in wanted]
    compared = Step(COMPARISON, compare.compare, {"suite": suite}, {"evaluations": evaluations})
    given = {"suite": suite, "seeds": list(seeds), "made": results}
    return [compared, Step(PACK, pack.pack, given, {"comparison": compared})]


def step_datasets(suite: Suite, seed: int) -> Step:
    """Datasets of a seed."""
    return Step(name("shared", seed, "datasets"), datasets.datasets, {"suite": suite, "seed": seed})


def step_price(suite: Suite, arm: str, seed: int, data: Step) -> Step:
    """Prices of a seed; arms that ask alike share them."""
    given = {"suite": suite, "arm": arm, "seed": seed}
    return Step(name("shared", seed, price.stage_name(suite, arm)), price.price, given, {"datasets": data})


def step_train(suite: Suite, arm: str, seed: int, needs: dict[str, Step | None]) -> Step:
    """Evolution or fine-tuning of an arm."""
    task = TRAINING[suite.config.kind(arm)]
    return Step(name(arm, seed, task.name), task, {"suite": suite, "arm": arm, "seed": seed}, needs)


def step_evaluate(suite: Suite, condition: str, seed: int, data: Step, trained: Step | None) -> Step:
    """The holdouts of a condition."""
    given = {"suite": suite, "condition": condition, "seed": seed}
    return Step(name(condition, seed, "evaluate"), evaluate.evaluate, given, {"datasets": data, "trained": trained})


def trained_arms(suite: Suite) -> list[str]:
    """The conditions that are trained, the most urgent first."""
    urgency = list(TRAINING)
    arms = [condition for condition in suite.config.conditions if condition != "frozen"]
    return sorted(arms, key=lambda arm: (arm != BUDGET, urgency.index(suite.config.kind(arm))))


def unique(steps: Sequence[Step]) -> list[Step]:
    """The steps without those that stand before under the same name."""
    return list({step.name: step for step in steps}.values())


paper_suite = suite_flow("paper-suite", __name__, Chain(chain, closing))
