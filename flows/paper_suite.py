"""The flow `paper-suite`: from a suite file to a paper pack.

Tuning first, since every seed uses its learning rates; then, for each seed, datasets, calibration, evolution, the
rivals that spend what it spent, and evaluation; at the end comparisons and the pack, from the seeds that every
condition has.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run

from evolora_core.config import SuiteConfig, config_hash, load_suite
from evolora_core.errors import StageError
from evolora_core.home import home_path
from evolora_core.run_index import SuiteId, write_suite
from flows._execute import Outcome, Pool, Results, Step, execute
from flows._preflight import check_suite, identify_host
from tasks import calibrate, compare, datasets, evaluate, evolve, pack, sft, tune
from tasks._stage import StageResult, Suite
from tasks.record import record

ARMS = ("ecology", "single", "sft")


def run_name() -> str:
    """The suite's id: its name and the hash of its configuration."""
    given = flow_run.parameters
    return str(suite_id(load_suite(given["suite"], given.get("overrides") or [])))


@flow(name="paper-suite", flow_run_name=run_name)
def paper_suite(
    suite: str = "configs/suites/quickstart.yaml", overrides: list[str] | None = None, packs: str = "packs"
) -> dict[str, str]:
    """Run what is not done yet of a suite file; returns the suite's id and the folder of its pack in `packs`.

    Raises StageError at the end if anything failed; the pack is then made of the seeds that are complete.
    """
    config = load_suite(suite, overrides or [])
    out = Path(packs) / config.name
    check_suite(config, out)
    host, host_identity = identify_host(config)
    made = Suite(config, suite_id(config), host, host_identity)
    write_suite(home_path(), made.id, config.model_dump(mode="json"))

    def load(result: StageResult) -> None:
        record(str(made.id), result)

    with Pool(config.processes, config.threads) as pool:
        outcome = execute(plan(made), pool, load)
        seeds = complete_seeds(config, outcome.results)
        closed = execute(closing(made, seeds, outcome.results), pool, load) if seeds else Outcome()
    if "pack" in closed.results:
        pack.publish(closed.results["pack"], out)
        show_table(str(made.id), out)
    if failures := outcome.failures | closed.failures:
        raise StageError(why(failures, config, seeds))
    return {"suite": str(made.id), "pack": str(out)}


def suite_id(config: SuiteConfig) -> SuiteId:
    """Name and hash of a configuration."""
    return SuiteId(config.name, config_hash(config))


def plan(suite: Suite) -> list[Step]:
    """Every stage up to the evaluations. The order is that of urgency: what most others wait for comes first."""
    seeds, conditions = suite.config.seeds, suite.config.conditions
    arms = [arm for arm in ARMS if arm in conditions]
    tuned = bool(arms) and len(suite.config.sft.learning_rates) > 1
    steps = tuning(suite, arms) if tuned else []
    for seed in seeds:
        steps += prepared(suite, seed, calibrated=bool(arms))
    for arm in arms:
        steps += [trained(suite, arm, seed, tuned) for seed in seeds]
    for condition in conditions:
        steps += [evaluated(suite, condition, seed) for seed in seeds]
    return steps


def prepared(suite: Suite, seed: int, calibrated: bool = True) -> list[Step]:
    """Datasets and calibration of a seed."""

    def calibration(results: Results) -> Any:
        return calibrate.request(suite, seed, results[f"datasets s{seed}"])

    steps = [Step(f"datasets s{seed}", datasets.datasets, lambda _: datasets.request(suite, seed))]
    if calibrated:
        steps += [Step(f"calibrate s{seed}", calibrate.calibrate, calibration, (f"datasets s{seed}",))]
    return steps


def trained(suite: Suite, arm: str, seed: int, tuned: bool) -> Step:
    """Evolution or fine-tuning of a seed; the rivals wait for the ecology, whose compute is their budget."""
    needs = [f"datasets s{seed}", f"calibrate s{seed}"]
    needs += ["choose"] if tuned else []
    needs += [f"train ecology s{seed}"] if arm != "ecology" else []

    def request(results: Results) -> Any:
        grid = suite.config.sft.learning_rates if arm == "sft" else suite.config.ecology.plasticity.learning_rates
        given: dict[str, Any] = {
            "datasets": results[f"datasets s{seed}"],
            "calibration": results[f"calibrate s{seed}"],
            "learning_rate": results["choose"].summary[arm] if tuned else grid[0],
        }
        if arm != "ecology":
            given["budget"] = results[f"train ecology s{seed}"]
        return sft.request(suite, seed, **given) if arm == "sft" else evolve.request(suite, arm, seed, **given)

    return Step(f"train {arm} s{seed}", sft.sft if arm == "sft" else evolve.evolve, request, tuple(needs))


def evaluated(suite: Suite, condition: str, seed: int) -> Step:
    """The holdouts of a condition and seed."""
    needs = [f"datasets s{seed}"] + ([f"train {condition} s{seed}"] if condition != "frozen" else [])

    def request(results: Results) -> Any:
        found = [results[need] for need in needs]
        return evaluate.request(suite, condition, seed, datasets=found[0], trained=(found + [None])[1])

    return Step(f"evaluate {condition} s{seed}", evaluate.evaluate, request, tuple(needs))


def tuning(suite: Suite, arms: Sequence[str]) -> list[Step]:
    """The trials of every arm on the tuning seed, and the choice."""
    seed = suite.config.tuning.seed
    numbers = range(len(suite.config.sft.learning_rates))
    base = (f"datasets s{seed}", f"calibrate s{seed}")
    measured = tuple(f"try ecology {trial}" for trial in numbers)

    def attempt(arm: str, trial: int) -> Step:
        needs = base if arm == "ecology" else (*base, *measured)

        def request(results: Results) -> Any:
            given = [results[need] for need in needs]
            return tune.trial_request(
                suite, arm, trial, datasets=given[0], calibration=given[1], ecology_trials=given[2:]
            )

        return Step(f"try {arm} {trial}", tune.try_learning_rate, request, needs)

    trials = [attempt(arm, trial) for arm in arms for trial in numbers]
    names = tuple(step.name for step in trials)

    def choice(results: Results) -> Any:
        return tune.choice_request(suite, [results[name] for name in names])

    return [*prepared(suite, seed), *trials, Step("choose", tune.choose_learning_rates, choice, names)]


def complete_seeds(config: SuiteConfig, results: Results) -> list[int]:
    """Seeds that were evaluated in every condition."""
    return [seed for seed in config.seeds if all(f"evaluate {name} s{seed}" in results for name in config.conditions)]


def closing(suite: Suite, seeds: Sequence[int], results: Results) -> list[Step]:
    """Comparisons of the complete seeds, and the pack."""
    evaluations: dict[tuple[str, int], StageResult] = {
        (condition, seed): results[f"evaluate {condition} s{seed}"]
        for condition in suite.config.conditions
        for seed in seeds
    }
    return [
        Step("compare", compare.compare, lambda _: compare.request(suite, evaluations)),
        Step("pack", pack.pack, lambda own: pack.request(suite, seeds, {**results, **own}), ("compare",)),
    ]


def show_table(suite: str, out: Path) -> None:
    """The paper table and the place of the pack as an artifact of the flow run."""
    from evolora_core.report.tables import paper_table

    rows = paper_table(home_path(), suite).records()
    create_table_artifact(rows, key="paper-table", description=f"Paper table of {suite}; pack: {out.absolute()}")


def why(failures: dict[str, str], config: SuiteConfig, seeds: Sequence[int]) -> str:
    """One line: the first failure, how many there are, and which seeds the pack is without."""
    name, reason = next(iter(failures.items()))
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    missing = [str(seed) for seed in config.seeds if seed not in seeds]
    without = f"; the pack is without seed {', '.join(missing)}" if seeds and missing else ""
    return f"{name}: {reason}{more}{without}; `evolora status` shows all, running the suite again makes what is missing"
