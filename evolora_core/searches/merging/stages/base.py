"""Stage `base`: the model that all parents come from. The suite's host as it is, or one trained for the seed."""

from typing import TYPE_CHECKING

from pydantic import BaseModel

from evolora_core.engine.rng import key
from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.language.families.registry import modules_of

if TYPE_CHECKING:
    from evolora_core.searches.merging.experiment import MergeExperiment


class Base(Strict):
    """Whether a base is trained, and as which described host."""

    host: str
    pretrain: bool
    width: int | None  # hidden size, where it is not the host's


class Based(BaseModel):
    """What was trained."""

    parameters: int
    tokens: int


def named(width: int | None, stage: str) -> str:
    """The name of a stage of the models of a width."""
    return stage if width is None else f"{stage}-w{width}"


def request(suite: "Suite[MergeExperiment]", seed: int, width: int | None = None) -> StageRequest:
    """The base of a seed, of the host's width or another."""
    config = Base(host=suite.config.host, pretrain=suite.config.pretrain or width is not None, width=width)
    families: list[str] = []
    if config.pretrain:
        from evolora_core.language.hosts.pretrain_config import pretrain_config

        families = modules_of(pretrain_config(config.host).mixture)
    return stage_request(
        suite, named(width, "base"), SHARED, seed, entry=__name__, also=families, config=config, inputs={}
    )


def make(work: Work[Base]) -> Made[Based]:
    """Leaves the folder `model` and the table `compute` if it trains one, and nothing if it does not."""
    if not work.config.pretrain:
        from evolora_core.language.hosts.kept import stage_host

        return Made(0, Based(parameters=stage_host(work).model.num_parameters(), tokens=0))
    from evolora_core.engine.tables import write_table
    from evolora_core.language.hosts.pretrain_config import pretrain_config
    from evolora_core.pretraining.training import PretrainStep, pretrain
    from evolora_core.searches.merging.roles import MODEL

    seed = key(work.seed, 0, 0, "merge.base") >> 1  # settings hold signed numbers
    config = pretrain_config(work.config.host).model_copy(update={"seed": seed})
    if width := work.config.width:
        shape = config.architecture
        sizes = {
            "hidden_size": width,
            "head_dim": width // shape.heads,
            "intermediate_size": width * shape.intermediate_size // shape.hidden_size,
        }
        config = config.model_copy(update={"architecture": shape.model_copy(update=sizes)})

    def progress(step: PretrainStep) -> None:
        work.report(step.step, step.steps, f"loss {step.loss:.3f}")

    report = pretrain(config, work.folder / MODEL, progress)
    spent = {"flops": report.flops, "executed_flops": report.flops, "tokens": report.tokens, "seconds": report.seconds}
    write_table(work.folder, "compute", [{"purpose": "update", **spent}])
    return Made(report.flops, Based(parameters=report.parameters, tokens=report.tokens))


BASE = Stage("base", request, make)
