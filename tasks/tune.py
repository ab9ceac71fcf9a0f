"""Stages `tune`: settings are tried by a short run and judged by its answers to a holdout; then the best is chosen.
Every arm gets the same number of trials at the same share of the budget, on seeds that are never reported. Their
holdout items chose no route; as between any two seeds, some prompts of small families are in other seeds' splits too.
"""

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from evolora_core.progress import part_of
from tasks import es, evolve, grpo, sft
from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_request, stage_task
from tasks._tables import read_table, write_table
from tasks.matched import arrivals, rival_config

if TYPE_CHECKING:
    from evolora_core.evaluation.outcome import Outcome
    from evolora_core.families.base import Item
    from evolora_core.routing.routes import Routes


def trial_request(
    suite: Suite,
    arm: str,
    trial: int,
    seed: int,
    *,
    datasets: StageResult,
    prices: StageResult,
    ecology_trials: Sequence[StageResult] = (),
) -> StageRequest:
    """Make trial number `trial` of an arm on a seed. The ecology runs a share of its generations; the mean of what
    that cost there (`ecology_trials`) is the budget of a trial of the others: more where an arm may spend more than
    the ecology; where it may spend less, as much (a fraction of a fraction hardly pays for the choice of a route),
    but never more than the arm's whole run, as these trials foretell it. What died out spent less and is left out of
    the mean. An ecology's learning rate falls as far in a trial as in the whole run."""
    tuning = suite.config.tuning
    kind = suite.config.kind(arm)
    evolved = kind in ("ecology", "single")
    config = evolve.evolve_config(suite, arm, trial) if evolved else rival_config(suite, kind, arm, trial)
    generations = suite.config.ecology.generations
    fewest = len(arrivals(suite)) or 1  # each family that comes and goes stays for one at least
    tried = max(fewest, math.ceil(generations * tuning.fraction))
    if arm == "ecology":
        config["generations"] = tried
        share = tried / generations
    else:
        lived = [result for result in ecology_trials if not result.summary["extinct"]] or ecology_trials
        mean, fixed = (fmean(result.summary[key] for result in lived) for key in ("flops", "fixed_flops"))
        whole = fixed + (mean - fixed) * generations / tried
        budget = suite.config.budget(arm)
        spent = min(max(1.0, budget) * mean, budget * whole)
        config["budget_flops"] = round(spent)
        share = spent / (budget * whole)
    if evolved:
        config["ecology"]["plasticity"]["half_life"] *= round(share, 6)
    return stage_request(
        suite,
        f"try-{arm}-{trial}",
        "tuning",
        seed,
        entry=__name__,
        config=config | {"arm": arm, "trial": trial, "changes": suite.config.settings(arm).trials[trial]},
        inputs={"datasets": datasets, "prices": prices},
        also=suite.families,
    )


def attempt(work: Work) -> Made:
    """Leaves the short run in run/, the table `tuning` and the compute, all charged to `tuning`, as are the answers
    that judge it.

    The summary's `flops` are the run's own, without those answers; of them `fixed_flops`, for calibration and the
    choice of routes, would be the same in a longer run.
    """
    from evolora_core.evaluation.grading import charge
    from evolora_core.meter import Meter

    folder = work.folder / "run"
    folder.mkdir(exist_ok=True)
    meter = Meter()
    if "sft" in work.config:
        made = sft.run(work, folder, work.config["budget_flops"])
    elif "es" in work.config:
        made = es.run(work, folder, work.config["budget_flops"])
    elif "grpo" in work.config:
        made = grpo.run(work, folder, work.config["budget_flops"])
    else:
        made = evolve.run(work, folder, work.config.get("generations"), work.config.get("budget_flops"))
    rows = read_table(folder, "compute")
    started = time.perf_counter()
    outcomes = holdout_answers(work, folder)
    charge(meter, "tuning", outcomes, time.perf_counter() - started)
    accuracy = sum(outcome.grade.correct for outcome in outcomes) / len(outcomes)
    for row in (row for row in rows if row["purpose"] != "calibration"):  # which was made, and counted, once
        meter.add("tuning", **{key: row[key] for key in ("flops", "tokens", "seconds", "executed_flops")})
    write_table(work.folder, "compute", meter.rows())
    facts = {"arm": work.config["arm"], "trial": work.config["trial"], "changes": json.dumps(work.config["changes"])}
    facts |= {"holdout_acc": accuracy, "flops": made.flops}
    write_table(work.folder, "tuning", [facts])
    fixed = sum(row["flops"] for row in rows if row["purpose"] in ("calibration", "routing"))
    return Made(meter.total(), facts | {"fixed_flops": fixed, "extinct": made.summary.get("extinct", False)})


def holdout_answers(work: Work, folder: Path) -> "list[Outcome]":
    """What the run in `folder` answers to the tuning seed's holdout_id under the suite's first router."""
    from evolora_core.config import DecodingConfig
    from evolora_core.datasets import read_items
    from evolora_core.evaluation.grading import answer_items
    from evolora_core.routing.routes import read_routes
    from tasks._host import load_stage_host
    from tasks.evaluate import load_adapters

    host = load_stage_host(work.host)
    items = read_items(work.inputs["datasets"] / "holdout_id.jsonl")
    population, _ = load_adapters(host, folder)
    return answer_items(
        host,
        population,
        items,
        leaders(items, read_routes(folder / f"routes-{work.config['routings'][0]}.json")),
        decoding=DecodingConfig.model_validate(work.config["decoding"]),
        progress=part_of(work.report, 0, 1, 1),
        folder=work.folder / "answered",
    )


def leaders(items: "Sequence[Item]", routes: "Routes") -> list[int]:
    """The slot that was best on the selection split for each item's bucket, whether or not it was proven better than
    the host; the host where it was best itself. The bucket is the item's own, for the router `learned` too.

    After a fraction of the budget few leads are beyond chance; by the routes themselves all trials would look alike.
    A tie goes to the lower slot, the host's first; what selection never saw, to where routes send it.
    """
    from evolora_core.routing.routes import ROUTINGS

    best = {
        bucket: max(map(int, tried), key=lambda slot: (tried[str(slot)], -slot))
        for bucket, tried in routes.accuracy.items()
    }
    return [best.get(ROUTINGS[routes.routing](item), routes.fallback) for item in items]


def choice_request(suite: Suite, trials: Sequence[StageResult]) -> StageRequest:
    """Choose among finished trials; asked for under the first tuning seed."""
    return stage_request(
        suite,
        "choose",
        "tuning",
        suite.config.tuning.seeds[0],
        entry=__name__,
        config={},
        inputs={f"s{trial.seed}-{trial.stage}": trial for trial in trials},
        uses_host=False,
    )


def choose(work: Work) -> Made:
    """The summary says the chosen trial of each arm."""
    from evolora_core.evaluation.trials import best_trials

    rows = work.summaries.values()
    return Made(summary=best_trials((row["arm"], row["trial"], row["holdout_acc"]) for row in rows))


try_settings = stage_task("tune", trial_request, attempt)
choose_settings = stage_task("tune", choice_request, choose)
