"""Stage `sft`: supervised fine-tuning, of one adapter or one for each family, with what the ecology of the same seed
spent, routing included.
"""

from pathlib import Path

from evolora_core.progress import part_of
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
    """Fine-tune an arm; `budget` is the stage to whose FLOPs the arm's are relative."""
    config = rival_config(suite, "sft", arm, suite.trial(arm, choice))
    return matched_request(
        suite, "sft", arm, seed, entry=__name__, config=config, datasets=datasets, prices=prices, budget=budget
    )


def make(work: Work) -> Made:
    """Leaves an adapter in PEFT's format for everything or for each family, candidates.json, routes, and the tables
    `sft_steps` and `compute`.
    """
    return run(work, work.folder, work.config["budget_flops"])


def run(work: Work, folder: Path, budget_flops: int) -> Made:
    """Train into `folder`, then choose among the adapters and the host on the selection split, all within the
    budget. Where families come one after another, one adapter is trained on each in turn, or, with specialists, one
    adapter on each.
    """
    from evolora_core import rng
    from evolora_core.config import SftConfig
    from evolora_core.flops import FlopModel
    from evolora_core.meter import Meter
    from evolora_core.population.merge import summed_rank
    from evolora_core.pricing import Prices
    from evolora_core.rivals.candidates import add_candidate, load_candidates, write_candidates
    from evolora_core.rivals.labels import labelled, parts
    from evolora_core.rivals.sft import SftResult, train_sft
    from evolora_core.routing import choose_among

    given = matched_inputs(work)
    host, selection, decoding = given["host"], given["selection"], given["decoding"]
    calibration: Prices = given["calibration"]
    config = SftConfig.model_validate(work.config["sft"])
    items = labelled(given["items"], config, work.seed)
    arrivals = work.config["arrivals"]
    training = parts(items, config, arrivals)
    summed = config.specialists and config.sum_weight > 0
    ranks = [config.rank] * len(config.strengths)
    if config.specialists:  # one of them, or their sum, answers everything
        ranks.append(summed_rank(config.rank) if summed else config.rank)
    left = budget_flops - calibration.routing_reserve(FlopModel.from_model(host.model), len(selection), ranks)
    results: dict[str, SftResult] = {}
    meter = Meter()
    start: Path | None = None
    for number, (name, own) in enumerate(training.items()):
        # Specialists of the same beginnings would be more alike, and their sum nearer to each, than organelles are.
        seed = rng.key(work.seed, 0, number, "specialist") if config.specialists else work.seed
        results[name] = train_sft(
            host,
            own,
            config,
            budget_flops=left // len(training),
            seed=seed,
            folder=folder / name,
            selection_items=[item for item in selection if name in ("all", item.family)],
            decoding=decoding,
            start=start,
            progress=part_of(work.report, number, 1, len(training)),
        )
        meter.merge(results[name].meter)
        start = None if config.specialists else results[name].adapter_folder
    final = list(results)[0 if config.specialists else -1 :]
    listed: dict[str, list[int]] = {}
    for row in write_candidates(folder, final, config.strengths):
        listed.setdefault(row["adapter"] if config.specialists else "", []).append(row["slot"])
    choose_among(
        host,
        load_candidates(host, folder),
        selection,
        listed,
        work.config["routings"],
        folder,
        meter,
        decoding=decoding,
        add_up=(lambda slots: add_candidate(host, folder, slots, config.sum_weight)) if summed else None,
    )
    rows = [{"adapter": name, **row} for name, result in results.items() for row in result.steps]
    write_table(folder, "sft_steps", rows)
    write_table(folder, "compute", meter.rows())
    chosen = {name: next(c.step for c in result.checkpoints if c.chosen) for name, result in results.items()}
    summary = {"labels": len(items), "steps": len(rows), "chosen_step": chosen}
    left_out = sum(result.left_out for result in results.values())
    diverged = any(result.diverged for result in results.values())
    return Made(meter.total(), summary | {"left_out": left_out, "diverged": diverged})


sft = stage_task("sft", request, make)
