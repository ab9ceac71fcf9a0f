"""Stage `law`: the floor that the programs of a run seed share, fitted on its mechanisms before any search."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evolora_core.engine.stage import (
    SHARED,
    Made,
    NoFacts,
    Stage,
    StageRequest,
    StageResult,
    Suite,
    Work,
    stage_request,
)
from evolora_core.engine.strict import Strict

if TYPE_CHECKING:
    from evolora_core.searches.attention.experiment import AttentionExperiment
    from evolora_core.searches.attention.scaling.law import Law

LAW = "law.json"


class Fitting(Strict):
    """On what it is fitted."""

    mechanisms: list[str]
    sizes: list[str]
    seeds: list[int]


def request(suite: "Suite[AttentionExperiment]", seed: int, *, measured: Sequence[StageResult]) -> StageRequest:
    """The law of a run seed."""
    from evolora_core.searches.attention.seeds import selection_seeds

    config = suite.config
    own = Fitting(
        mechanisms=config.mechanisms,
        sizes=config.sizes.measured,
        seeds=selection_seeds(seed, config.budget.seeds + config.budget.finalist_seeds),
    )
    inputs = dict(zip(config.mechanisms, measured, strict=True))
    return stage_request(suite, "law", SHARED, seed, entry=__name__, config=own, inputs=inputs)


def make(work: Work[Fitting]) -> Made[NoFacts]:
    """Leaves law.json, empty where there are fewer than three sizes, and the table `attention_laws`."""
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.attention.chosen import read_chosen
    from evolora_core.searches.attention.curves import losses_of
    from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
    from evolora_core.searches.attention.scaling.law import fit_law

    own = work.config
    if len(own.sizes) < 3:
        (work.folder / LAW).write_text("{}", encoding="utf-8")
        return Made(0, NoFacts())
    curves = {name: read_chosen(work.inputs[name]).curve for name in own.mechanisms}
    controls = [name for name in own.mechanisms if name != BASELINE and not (name in KNOWN and KNOWN[name].negative)]
    found = fit_law(losses_of(curves, own.sizes, own.seeds), BASELINE, controls)
    facts = {"floor": found.floor, "floor_se": found.floor_se, "bend": found.bend}
    (work.folder / LAW).write_text(json.dumps(facts | {"programs": found.programs}), encoding="utf-8")
    write_table(work.folder, "attention_laws", [facts | {"programs": ",".join(found.programs)}])
    return Made(0, NoFacts())


def read_law(folder: Path) -> "Law | None":
    """What the stage left."""
    from evolora_core.searches.attention.scaling.law import Law

    facts = json.loads((folder / LAW).read_text(encoding="utf-8"))
    return Law(facts["floor"], facts["floor_se"], facts["bend"], tuple(facts["programs"])) if facts else None


FIT = Stage("law", request, make)
