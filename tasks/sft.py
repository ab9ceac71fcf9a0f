"""Stage `sft`: supervised fine-tuning of one adapter with what the ecology of the same seed spent, routing included."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_request, stage_task
from tasks._tables import write_table

if TYPE_CHECKING:
    from evolora_core.hosts import Host
    from evolora_core.population.stack import Population


def request(
    suite: Suite,
    arm: str,
    seed: int,
    *,
    datasets: StageResult,
    calibration: StageResult,
    trial: int | None,
    budget: StageResult,
) -> StageRequest:
    """Fine-tune an arm; `budget` is the stage to whose FLOPs the arm's are relative."""
    return stage_request(
        suite,
        "sft",
        arm,
        seed,
        entry=__name__,
        config=sft_config(suite, arm, trial) | {"budget_flops": round(suite.config.budget(arm) * budget.flops)},
        inputs={"datasets": datasets, "calibration": calibration},
    )


def sft_config(suite: Suite, arm: str, trial: int | None) -> dict:
    """What fine-tuning depends on, its budget apart."""
    return {
        "sft": suite.config.settings(arm, trial).model_dump(mode="json", exclude={"trials"}),
        "decoding": suite.config.decoding.model_dump(mode="json"),
        "routings": suite.config.evaluation.routings,
    }


def make(work: Work) -> Made:
    """Leaves adapter/ in PEFT's format, routes, and the tables `sft_steps` and `compute`."""
    return run(work, work.folder, work.config["budget_flops"])


def run(work: Work, folder: Path, budget_flops: int) -> Made:
    """Train into `folder`, then choose between the adapter and the host on the selection split, all within the
    budget.
    """
    from evolora_core.config import DecodingConfig, SftConfig
    from evolora_core.datasets import read_items
    from evolora_core.ecology.calibration import Calibration
    from evolora_core.evaluation.grading import charge
    from evolora_core.rivals.sft import train_sft
    from evolora_core.routing import answer_as_each, choose_routes, write_routes
    from tasks._worker import load_stage_host

    host = load_stage_host(work.host)
    selection = read_items(work.inputs["datasets"] / "selection.jsonl")
    calibration = Calibration.load(work.inputs["calibration"] / "calibration.json")
    decoding = DecodingConfig.model_validate(work.config["decoding"])
    config = SftConfig.model_validate(work.config["sft"])
    result = train_sft(
        host,
        read_items(work.inputs["datasets"] / "train.jsonl"),
        config,
        budget_flops=budget_flops - calibration.routing_reserve(len(selection)),
        seed=work.seed,
        folder=folder,
        selection_items=selection,
        decoding=decoding,
        progress=work.report,
    )
    started = time.perf_counter()
    outcomes = answer_as_each(host, load_adapter(result.adapter_folder, host), selection, [0], decoding=decoding)
    for routing in work.config["routings"]:
        write_routes(folder / f"routes-{routing}.json", choose_routes(outcomes, routing))
    answered = [outcome for answers in outcomes.values() for outcome in answers]
    charge(result.meter, "routing", answered, time.perf_counter() - started)
    write_table(folder, "sft_steps", result.steps)
    write_table(folder, "compute", result.meter.rows())
    chosen = next(checkpoint for checkpoint in result.checkpoints if checkpoint.chosen)
    summary = {"steps": len(result.steps), "chosen_step": chosen.step, "left_out": result.left_out}
    return Made(result.meter.total(), summary | {"diverged": result.diverged})


def load_adapter(folder: Path, host: "Host") -> "Population":
    """A PEFT adapter folder as a population of one, in slot 0."""
    from evolora_core.population.peft_io import import_peft
    from evolora_core.population.stack import Population

    adapter = import_peft(folder, host)
    population = Population.empty(host, 1, adapter.rank, scale=adapter.scale)
    population.put(0, adapter)
    return population


sft = stage_task("sft", make)
