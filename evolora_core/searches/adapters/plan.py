"""The plan of an adapter search, from top to bottom: dataset generation → calibration → evolution → the rivals that
spend what it spent → evaluation, for each seed; trials of settings come before, on seeds of their own.
"""

from collections.abc import Sequence

from evolora_core.engine.run_index import step_name
from evolora_core.engine.stage import JUDGED, SHARED, Step, Suite, unique
from evolora_core.searches.adapters.arms.evolved import CALIBRATE
from evolora_core.searches.adapters.arms.registry import TRAINED
from evolora_core.searches.adapters.experiment import SuiteConfig
from evolora_core.searches.adapters.settings.suite import TUNING
from evolora_core.searches.adapters.stages import price
from evolora_core.searches.adapters.stages.datasets import DATASETS
from evolora_core.searches.adapters.stages.evaluate import EVALUATE
from evolora_core.searches.adapters.stages.holdouts import HOLDOUT_ITEMS
from evolora_core.searches.adapters.stages.tune import CHOOSE, TRY

Needs = dict[str, Step | Sequence[Step] | None]


def plan(suite: Suite[SuiteConfig]) -> list[Step]:
    """All stages in the order of urgency: what most others wait for comes first."""
    seeds, lead, arms = suite.config.seeds, suite.config.budget_of, by_urgency(suite.config)
    trials, choice = tuning(suite, arms) if suite.config.trials > 1 else ([], None)

    data = {seed: step_datasets(suite, seed) for seed in seeds}
    further = {seed: step_holdouts(suite, seed, data[seed]) for seed in seeds if suite.config.evaluation.holdouts}
    prices = {(arm, seed): step_price(suite, arm, seed, data[seed]) for seed in seeds for arm in arms}
    calibrated: dict[int, Step] = {}
    trained: dict[tuple[str, int], Step] = {}
    for arm in arms:
        for seed in seeds:
            needs: Needs = {"datasets": data[seed], "prices": prices[arm, seed], "choice": choice}
            if arm == lead:
                calibrated[seed] = step_calibrate(suite, arm, seed, needs)
                needs = needs | {"calibration": calibrated[seed]}
            else:
                needs = needs | {"budget": trained[lead, seed]}
            trained[arm, seed] = step_train(suite, arm, seed, needs)
    evaluated = [
        step_evaluate(suite, condition, seed, data[seed], further.get(seed), trained.get((condition, seed)))
        for condition in suite.config.conditions
        for seed in seeds
    ]
    prepared = [step for seed in seeds for step in (data[seed], *(prices[arm, seed] for arm in arms))]
    return unique([*trials, *prepared, *further.values(), *calibrated.values(), *trained.values(), *evaluated])


def by_urgency(config: SuiteConfig) -> list[str]:
    """The conditions for which something is made: the one whose budget the others wait for, then the slowest."""
    order = list(TRAINED)
    return sorted(config.trained, key=lambda arm: (arm != config.budget_of, order.index(config.kind(arm).name)))


def tuning(suite: Suite[SuiteConfig], arms: Sequence[str]) -> tuple[list[Step], Step]:
    """The trials of every arm on the tuning seeds, with what they need, and the choice among them.

    The trials of the arm whose compute is the budget come first: what they spend is the budget of the others'.
    """
    data = {seed: step_datasets(suite, seed) for seed in suite.config.tuning.seeds}
    prices = {(arm, seed): step_price(suite, arm, seed, own) for seed, own in data.items() for arm in arms}
    lead = suite.config.budget_of
    tried: dict[tuple[str, int], list[Step]] = {}
    for arm in (own for own in arms if own in suite.config.tuned):
        for seed in data:
            by = TRAINED[suite.config.kind(arm).name]
            needs: Needs = {"datasets": data[seed], "prices": prices[arm, seed]}
            if arm != lead:
                needs["lead_trials"] = tried[lead, seed]
            tried[arm, seed] = [
                Step(
                    step_name(TUNING, seed, f"try-{arm}-{trial}"),
                    TRY,
                    {"suite": suite, "arm": arm, "trial": trial, "seed": seed, "by": by},
                    needs,
                )
                for trial in range(suite.config.trials)
            ]
    trials = [step for group in tried.values() for step in group]
    seed = suite.config.tuning.seeds[0]
    choice = Step(step_name(TUNING, seed, "choose"), CHOOSE, {"suite": suite}, {"trials": trials})
    return [*data.values(), *prices.values(), *trials, choice], choice


def step_datasets(suite: Suite[SuiteConfig], seed: int) -> Step:
    """Datasets of a seed."""
    return Step(step_name(SHARED, seed, "datasets"), DATASETS, {"suite": suite, "seed": seed})


def step_holdouts(suite: Suite[SuiteConfig], seed: int, data: Step) -> Step:
    """Items of holdout files for a seed."""
    return Step(step_name(SHARED, seed, "holdouts"), HOLDOUT_ITEMS, {"suite": suite, "seed": seed}, {"datasets": data})


def step_price(suite: Suite[SuiteConfig], arm: str, seed: int, data: Step) -> Step:
    """Prices of a seed; arms that ask alike share them."""
    given = {"suite": suite, "arm": arm, "seed": seed}
    return Step(step_name(SHARED, seed, price.stage_name(suite, arm)), price.PRICE, given, {"datasets": data})


def step_calibrate(suite: Suite[SuiteConfig], arm: str, seed: int, needs: Needs) -> Step:
    """The first generations of the run whose compute is the budget."""
    return Step(step_name(arm, seed, "calibrate"), CALIBRATE, {"suite": suite, "arm": arm, "seed": seed}, needs)


def step_train(suite: Suite[SuiteConfig], arm: str, seed: int, needs: Needs) -> Step:
    """Evolution or fine-tuning of an arm."""
    stage = TRAINED[suite.config.kind(arm).name].stage
    return Step(step_name(arm, seed, stage.name), stage, {"suite": suite, "arm": arm, "seed": seed}, needs)


def step_evaluate(
    suite: Suite[SuiteConfig], condition: str, seed: int, data: Step, further: Step | None, trained: Step | None
) -> Step:
    """The holdouts of a condition, items of files among them where there are some."""
    given = {"suite": suite, "condition": condition, "seed": seed}
    needs: Needs = {"datasets": data, "holdouts": further, "trained": trained}
    return Step(step_name(condition, seed, JUDGED), EVALUATE, given, needs)
