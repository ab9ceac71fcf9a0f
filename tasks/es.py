"""Stage `es`: evolution strategies on one adapter, with what the ecology of the same seed spent, routing included."""

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
    """Evolve an arm; `budget` is the stage to whose FLOPs the arm's are relative."""
    config = rival_config(suite, "es", arm, suite.trial(arm, choice))
    return matched_request(
        suite, "es", arm, seed, entry=__name__, config=config, datasets=datasets, prices=prices, budget=budget
    )


def make(work: Work) -> Made:
    """Leaves an adapter in PEFT's format, candidates.json, routes, and the tables `es_steps` and `compute`."""
    return run(work, work.folder, work.config["budget_flops"])


def run(work: Work, folder: Path, budget_flops: int) -> Made:
    """Evolve into `folder`, then choose between adapter and host on the selection split, all within the budget."""
    from evolora_core.config import EsConfig
    from evolora_core.rivals.es import train_es
    from evolora_core.rivals.rewarded import train_and_route

    config = EsConfig.model_validate(work.config["es"])
    given = matched_inputs(work)
    result = train_and_route(train_es, config=config, budget_flops=budget_flops, folder=folder, **given)
    write_table(folder, "es_steps", result.steps)
    write_table(folder, "compute", result.meter.rows())
    return Made(result.meter.total(), {"steps": len(result.steps)})


es = stage_task("es", request, make)
