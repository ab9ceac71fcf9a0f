"""Stage `compare` of an attention suite: fits of every condition over its fresh seeds, and the declared contrasts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

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
    step_name,
)
from evolora_core.engine.strict import Strict
from evolora_core.searches.comparing import COMPARISON

if TYPE_CHECKING:
    from evolora_core.searches.attention.curves import Curve
    from evolora_core.searches.attention.experiment import AttentionExperiment

# Columns of a fit, unknown where a program has no finite losses, or a single size.
_FITTED = (
    "form", "gain", "lo", "hi", "line_gain", "slope", "slope_se", "r2", "largest", "largest_lo", "largest_hi"
)  # fmt: skip


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
    from evolora_core.searches.attention.curves import load_curve
    from evolora_core.searches.attention.scaling.validation import compare_losses, decide_family
    from evolora_core.searches.attention.stages.law import read_law
    from evolora_core.statistics.comparisons import facts_of, refuse_unlike

    own = work.config
    folders = {
        (name, seed): work.inputs[step_name(name, seed, JUDGED)] for name in own.conditions for seed in own.seeds
    }
    facts = {key: facts_of(read_manifest(folder) or {}) for key, folder in folders.items()}
    curves = {key: load_curve(folder / CURVE) for key, folder in folders.items()}
    fits = [
        row
        for seed in own.seeds
        for row in _fits(
            own, {name: curves[name, seed] for name in own.conditions}, seed, read_law(folders[own.conditions[0], seed])
        )
    ]
    tests = []
    for pair in own.contrasts:
        refuse_unlike(facts, pair.a, pair.b, own.seeds)
        losses = {
            name: {seed: _mean(curves[name, seed], own.largest, own.fresh[seed]) for seed in own.seeds}
            for name in (pair.a, pair.b)
        }
        tests.append(compare_losses(pair.a, pair.b, losses[pair.a], losses[pair.b]))
    decided = decide_family(tests)
    contrasts = [
        {
            "a": found.a,
            "b": found.b,
            "size": own.largest,
            "seeds": found.seeds,
            "gain": found.gain,
            "lo": _finite(found.lo),
            "hi": _finite(found.hi),
            "p": found.p,
            "p_holm": found.p_holm,
            "cohens_d": _finite(found.effect),
            "verdict": found.verdict,
            "note": found.note,
        }
        for found in decided
    ]
    write_table(work.folder, "attention_fits", fits)
    if contrasts:
        write_table(work.folder, "attention_contrasts", contrasts)
    return Made(0, Verdicts(verdicts={f"{row['a']} vs {row['b']}": str(row["verdict"]) for row in contrasts}))


def _fits(own: Comparing, curves: "Mapping[str, Curve]", seed: int, law: Any) -> list[dict[str, Any]]:
    """What the fresh seeds of a run seed say of every condition, the sizes of the search alone."""
    from evolora_core.searches.attention.curves import losses_of, ratios
    from evolora_core.searches.attention.known.registry import BASELINE
    from evolora_core.searches.attention.scaling.fits import straight
    from evolora_core.searches.attention.scaling.losses import star
    from evolora_core.searches.attention.scaling.predict import predict_gain
    from evolora_core.searches.attention.scaling.score import score

    losses = losses_of(curves, own.sizes, own.fresh[seed])
    at = star(losses, BASELINE)
    rows = []
    for name, curve in curves.items():
        row: dict[str, Any] = {"arm": name, "run_seed": seed, "at_parameters": at, **dict.fromkeys(_FITTED)}
        found = score(losses, name, BASELINE, ratios(curve, curves[BASELINE]))
        if found.curve is not None and len(found.curve) > 1:
            gain, fitted = predict_gain(losses, name, BASELINE, at, law), straight(losses, name)
            row |= {
                "form": gain.form,
                "gain": gain.value,
                "lo": _finite(gain.estimate.lo),
                "hi": _finite(gain.estimate.hi),
                "line_gain": predict_gain(losses, name, BASELINE, at).value,
                "slope": fitted.slope,
                "slope_se": _finite(fitted.se),
                "r2": _finite(fitted.r2),
            }
        if found.curve is not None:
            worse = found.curve[own.sizes[-1]]
            row |= {"largest": worse.value, "largest_lo": _finite(worse.lo), "largest_hi": _finite(worse.hi)}
        rows.append(row | {"guards": ", ".join(found.guards)})
    return rows


def _mean(curve: "Curve", size: str, seeds: Sequence[int]) -> Any:
    """The mean loss of a run seed at a size, over its training seeds."""
    import numpy as np

    return np.mean([curve.mean(size, seed) for seed in seeds])


def _finite(value: float) -> float | None:
    """None for a number that is not known."""
    return value if value == value and abs(value) != float("inf") else None


def compare_step(suite: Suite[Any], seeds: Sequence[int], plan: Sequence[Step]) -> Step:
    """Compare the conditions on the seeds that are complete."""
    wanted = {step_name(condition, seed, JUDGED) for condition in suite.config.conditions for seed in seeds}
    evaluations = [step for step in plan if step.name in wanted]
    return Step(COMPARISON, COMPARE, {"suite": suite, "seeds": list(seeds)}, {"evaluations": evaluations})


COMPARE = Stage("compare", request, make)
