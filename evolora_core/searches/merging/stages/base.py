"""Stage `base`: the model that all parents come from. The suite's host as it is, or one trained for the seed."""

from typing import TYPE_CHECKING

from pydantic import BaseModel

from evolora_core.engine.rng import key
from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.language.families.registry import modules_of
from evolora_core.language.hosts.pretrain_config import (
    Architecture,
    Measurement,
    PretrainConfig,
    Schedule,
    pretrain_config,
)

if TYPE_CHECKING:
    from evolora_core.searches.merging.experiment import MergeExperiment

CARD = Measurement(items_per_cell=20)  # of the model card alone: the suite tests its bases with the condition `base`


class Base(Strict):
    """How a base is trained; None: the suite's host is the base."""

    training: PretrainConfig | None


class Based(BaseModel):
    """What was trained."""

    parameters: int
    tokens: int


def named(width: int | None, stage: str) -> str:
    """The name of a stage of the models of a width."""
    return stage if width is None else f"{stage}-w{width}"


def request(suite: "Suite[MergeExperiment]", seed: int, width: int | None = None) -> StageRequest:
    """The base of a seed, of the host's width or another."""
    own, training = suite.config, None
    if own.pretrain or width is not None:
        training = _training(pretrain_config(own.host), seed, width, own.pretrain_steps)
    families = modules_of(training.mixture) if training else []
    stage = named(width, "base")
    return stage_request(
        suite,
        stage,
        SHARED,
        seed,
        entry=__name__,
        also=families,
        config=Base(training=training),
        inputs={},
        uses_host=training is None,
    )


def make(work: Work[Base]) -> Made[Based]:
    """Leaves the folder `model` and the table `compute` if it trains one, and nothing if it does not."""
    if work.config.training is None:
        from evolora_core.language.hosts.kept import stage_host

        host = stage_host(work)
        return Made(0, Based(parameters=host.model.num_parameters(), tokens=0))
    from evolora_core.engine.tables import write_table
    from evolora_core.pretraining.training import pretrain
    from evolora_core.searches.merging.roles import MODEL

    report = pretrain(work.config.training, work.folder / MODEL, work.report)
    spent = {"flops": report.flops, "executed_flops": report.flops, "tokens": report.tokens, "seconds": report.seconds}
    write_table(work.folder, "compute", [{"purpose": "update", **spent}])
    return Made(report.flops, Based(parameters=report.parameters, tokens=report.tokens))


def _training(described: PretrainConfig, seed: int, width: int | None, steps: int | None) -> PretrainConfig:
    """The host file's training with a seed of its own, and another width or number of steps if asked for."""
    own = key(seed, 0, 0, "merge.base") >> 1  # settings hold signed numbers
    changes: dict[str, object] = {"seed": own, "measurement": CARD}
    if width is not None:
        changes["architecture"] = _of_width(described.architecture, width)
    if steps is not None:
        changes["schedule"] = _of_length(described.schedule, steps)
    return described.model_copy(update=changes)


def _of_width(shape: Architecture, width: int) -> Architecture:
    """The same number of layers and heads, all widths in proportion."""
    inner = width * shape.intermediate_size // shape.hidden_size
    sizes = {"hidden_size": width, "head_dim": width // shape.heads, "intermediate_size": inner}
    return shape.model_copy(update=sizes)


def _of_length(schedule: Schedule, steps: int) -> Schedule:
    """The same course in fewer or more steps."""
    scaled = {name: round(getattr(schedule, name) * steps / schedule.steps) for name in ("decay_steps", "warmup_steps")}
    return schedule.model_copy(update={"steps": steps, **scaled})


BASE = Stage("base", request, make)
