"""Stage `compare` of an attention suite: fits of every condition over its fresh seeds, and the declared contrasts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from evolora_core.engine.run_index import step_name
from evolora_core.engine.stage import (
    JUDGED,
    WHOLE,
    Made,
    Stage,
    StageRequest,
    StageResult,
    Step,
    Suite,
    Work,
    stage_request,
)
from evolora_core.engine.strict import Strict
from evolora_core.searches.comparing import COMPARISON, in_words

if TYPE_CHECKING:
    from evolora_core.searches.attention.experiment import AttentionExperiment


class Pair(Strict):
    """A declared contrast."""

    a: str
    b: str


class Comparing(Strict):
    """What is compared."""

    conditions: list[str]
    seeds: list[int]
    sizes: list[str]
    largest: str
    fresh: dict[int, list[int]]
    contrasts: list[Pair]


class Verdicts(BaseModel):
    """Verdict by contrast, in words."""

    verdicts: dict[str, str]


def request(
    suite: "Suite[AttentionExperiment]", seeds: Sequence[int], *, evaluations: Sequence[StageResult]
) -> StageRequest:
    """Compare the conditions on the complete run seeds."""
    from evolora_core.searches.attention.seeds import fresh_seeds

    config = suite.config
    own = Comparing(
        conditions=config.conditions,
        seeds=list(seeds),
        sizes=config.sizes.measured,
        largest=[*config.sizes.measured, *config.sizes.predicted][-1],
        fresh={seed: fresh_seeds(seed, config.evaluation.seeds) for seed in seeds},
        contrasts=[Pair(a=pair.a, b=pair.b) for pair in config.evaluation.contrasts],
    )
    inputs = {step_name(own.condition, own.seed, JUDGED): own for own in evaluations}
    return stage_request(suite, "compare", WHOLE, 0, entry=__name__, config=own, inputs=inputs)


def make(work: Work[Comparing]) -> Made[Verdicts]:
    """Leaves the tables `attention_fits` and `attention_contrasts`. StageError where conditions were not measured
    alike.
    """
    from evolora_core.engine.artifacts import read_manifest
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.attention.chosen import CURVE
    from evolora_core.searches.attention.comparing import CONTRASTS, FITS, contrasts, fits
    from evolora_core.searches.attention.curves import load_curve
    from evolora_core.searches.attention.stages.law import read_law
    from evolora_core.statistics.comparisons import facts_of, refuse_unlike

    own = work.config
    folders = {
        (name, seed): work.inputs[step_name(name, seed, JUDGED)] for name in own.conditions for seed in own.seeds
    }
    facts = {key: facts_of(read_manifest(folder) or {}) for key, folder in folders.items()}
    curves = {key: load_curve(folder / CURVE) for key, folder in folders.items()}
    for pair in own.contrasts:
        refuse_unlike(facts, pair.a, pair.b, own.seeds)
    fitted = []
    for seed in own.seeds:
        mine = {name: curves[name, seed] for name in own.conditions}
        fitted += fits(mine, own.sizes, own.fresh[seed], seed, read_law(folders[own.conditions[0], seed]))
    tested = contrasts(curves, [(pair.a, pair.b) for pair in own.contrasts], own.largest, own.fresh)
    write_table(work.folder, FITS, fitted)
    if tested:
        write_table(work.folder, CONTRASTS, tested)
    return Made(0, Verdicts(verdicts=in_words(tested)))


def compare_step(suite: Suite[Any], seeds: Sequence[int], plan: Sequence[Step]) -> Step:
    """Compare the conditions on the seeds that are complete."""
    wanted = {step_name(condition, seed, JUDGED) for condition in suite.config.conditions for seed in seeds}
    evaluations = [step for step in plan if step.name in wanted]
    return Step(COMPARISON, COMPARE, {"suite": suite, "seeds": list(seeds)}, {"evaluations": evaluations})


COMPARE = Stage("compare", request, make)
