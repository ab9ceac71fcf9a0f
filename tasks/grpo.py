"""Stage `grpo`: group relative policy optimisation of one adapter, with what the ecology of the same seed spent,
routing included.
"""

from pathlib import Path

from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_task
from tasks._tables import write_table
from tasks.matched import matched_inputs, matched_request, rival_config


def request(
    suite: Suite,
    arm: str,
    seed: int,
    *,
    datasets: StageResult,
    prices: StageResult,
    budget: StageResult,
    choice: StageResult | None = None,
) -> StageRequest:
    """Train an arm; `budget` is the stage to whose FLOPs the arm's are relative."""
    config = rival_config(suite, "grpo", arm, suite.trial(arm, choice))
    return matched_request(
        suite, "grpo", arm, seed, entry=__name__, config=config, datasets=datasets, prices=prices, budget=budget
    )


def make(work: Work) -> Made:
    """Leaves an adapter in PEFT's format, candidates.json, routes, and the tables `grpo_steps` and `compute`."""
    return run(work, work.folder, work.config["budget_flops"])


def run(work: Work, folder: Path, budget_flops: int) -> Made:
    """Train into `folder`, then choose between adapter and host on the selection split, all within the budget."""
    from evolora_core.config import GrpoConfig
    from evolora_core.rivals.grpo import train_grpo
    from evolora_core.rivals.rewarded import train_and_route

    config = GrpoConfig.model_validate(work.config["grpo"])
    given = matched_inputs(work)
    result = train_and_route(train_grpo, config=config, budget_flops=budget_flops, folder=folder, **given)
    write_table(folder, "grpo_steps", result.steps)
    write_table(folder, "compute", result.meter.rows())
    return Made(
        result.meter.total(), {"steps": len(result.steps), "left_out": result.left_out, "diverged": result.diverged}
    )


grpo = stage_task("grpo", request, make)
