"""Stages `tune`: settings are tried by a short run and judged by routed accuracy on the selection split; then
the best is chosen. Every arm gets the same number of trials at the same share of the budget, on a seed that is never
reported.
"""

import json
from collections.abc import Sequence

from tasks import es, evolve, grpo, sft
from tasks._matched import arrivals, rival_config
from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_request, stage_task
from tasks._tables import read_table, write_table


def trial_request(
    suite: Suite,
    arm: str,
    trial: int,
    *,
    datasets: StageResult,
    calibration: StageResult,
    ecology_trials: Sequence[StageResult] = (),
) -> StageRequest:
    """Make trial number `trial` of an arm. The ecology runs a share of its generations; the mean of what that
    cost (`ecology_trials`) is the budget of a trial of the others."""
    tuning = suite.config.tuning
    kind = suite.config.kind(arm)
    evolved = kind in ("ecology", "single")
    config = evolve.evolve_config(suite, arm, trial) if evolved else rival_config(suite, kind, arm, trial)
    if arm == "ecology":
        fewest = len(arrivals(suite)) or 1  # each family that comes and goes stays for one at least
        config["generations"] = max(fewest, round(suite.config.ecology.generations * tuning.fraction))
    else:
        mean = sum(result.flops for result in ecology_trials) / len(ecology_trials)
        config["budget_flops"] = round(suite.config.budget(arm) * mean)
    return stage_request(
        suite,
        f"try-{arm}-{trial}",
        "tuning",
        tuning.seed,
        entry=__name__,
        config=config | {"arm": arm, "trial": trial, "changes": suite.config.settings(arm).trials[trial]},
        inputs={"datasets": datasets, "calibration": calibration},
    )


def attempt(work: Work) -> Made:
    """Leaves the short run in run/ and its compute, all charged to `tuning`."""
    from evolora_core.compute import Meter
    from evolora_core.rivals.training import Diverged

    folder = work.folder / "run"
    folder.mkdir(exist_ok=True)
    try:
        if "sft" in work.config:
            made = sft.run(work, folder, work.config["budget_flops"])
        elif "es" in work.config:
            made = es.run(work, folder, work.config["budget_flops"])
        elif "grpo" in work.config:
            made = grpo.run(work, folder, work.config["budget_flops"])
        else:
            made = evolve.run(work, folder, work.config.get("generations"), work.config.get("budget_flops"))
        accuracy = routed_accuracy(json.loads((folder / f"routes-{work.config['routings'][0]}.json").read_text()))
        rows = read_table(folder, "compute")
    except Diverged as failure:
        made, accuracy, rows = Made(failure.meter.total()), 0.0, failure.meter.rows()
    meter = Meter()
    for row in rows:
        meter.add("tuning", **{key: row[key] for key in ("flops", "tokens", "seconds", "executed_flops")})
    write_table(work.folder, "compute", meter.rows())
    facts = {"arm": work.config["arm"], "trial": work.config["trial"], "changes": json.dumps(work.config["changes"])}
    return Made(made.flops, facts | {"selection_acc": accuracy, "flops": made.flops})


def routed_accuracy(routes: dict) -> float:
    """Accuracy on the selection split if the best candidate of each bucket answered it, proven better or not.

    After a fraction of the budget few leads are beyond chance; by the routes themselves all trials would look alike.
    """
    right = [count * max(routes["accuracy"][bucket].values()) for bucket, count in routes["n"].items()]
    return sum(right) / sum(routes["n"].values())


def choice_request(suite: Suite, trials: Sequence[StageResult]) -> StageRequest:
    """Choose among finished trials."""
    return stage_request(
        suite,
        "choose",
        "tuning",
        suite.config.tuning.seed,
        entry=__name__,
        config={},
        inputs={trial.stage: trial for trial in trials},
        uses_host=False,
    )


def choose(work: Work) -> Made:
    """Leaves the table `tuning`; the summary says the chosen trial of each arm. A tie goes to the earlier trial."""
    rows = sorted(map(dict, work.summaries.values()), key=lambda row: (row["arm"], row["trial"]))
    write_table(work.folder, "tuning", rows)
    by_merit = sorted(rows, key=lambda row: (row["selection_acc"], -row["trial"]))
    best = {row["arm"]: row["trial"] for row in by_merit}  # the last of an arm, which is its best, stays
    return Made(summary=best)


try_settings = stage_task("tune", attempt)
choose_settings = stage_task("tune", choose)
