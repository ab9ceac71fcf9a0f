"""Stage `measure`: a mechanism that needs no search, measured as programs of a search are."""

from typing import TYPE_CHECKING

from evolora_core.engine.stage import Made, NoFacts, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.searches.attention.settings import Bounds, Training
from evolora_core.searches.attention.stages.loaded import LOADED

if TYPE_CHECKING:
    from evolora_core.searches.attention.experiment import AttentionExperiment


class Mechanism(Strict):
    """What is measured, where; and the sizes that only the evaluation measures, at which it has to work, too."""

    condition: str
    source: str
    trusted: bool
    sizes: list[str]
    predicted: list[str]
    seeds: list[int]
    training: Training
    bounds: Bounds


def request(
    suite: "Suite[AttentionExperiment]", condition: str, seed: int, *, corpus: StageResult, rates: StageResult
) -> StageRequest:
    """Measure a mechanism with the selection's seeds."""
    from evolora_core.searches.attention.seeds import selection_seeds
    from evolora_core.searches.attention.sources import source_of, trusted

    config = suite.config
    own = Mechanism(
        condition=condition,
        source=source_of(condition, config.programs.get(condition, "")),
        trusted=trusted(condition),
        sizes=config.sizes.measured,
        predicted=[] if trusted(condition) else config.sizes.predicted,  # known ones work at every size
        seeds=selection_seeds(seed, config.budget.seeds + config.budget.finalist_seeds),
        training=config.training,
        bounds=config.budget.bounds,
    )
    return stage_request(
        suite,
        "measure",
        condition,
        seed,
        entry=__name__,
        also=LOADED,
        config=own,
        inputs={"corpus": corpus, "rates": rates},
    )


def make(work: Work[Mechanism]) -> Made[NoFacts]:
    """Leaves program.py, its curve on the selection texts, and the tables `attention_losses`, `attention_programs` and
    `compute`. ConfigError for a program that is refused before it is trained.
    """
    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import write_table
    from evolora_core.errors import ConfigError
    from evolora_core.searches.attention.chosen import leave
    from evolora_core.searches.attention.corpus.base import load
    from evolora_core.searches.attention.evolution import PROGRAM
    from evolora_core.searches.attention.measuring import loss_rows, measure_all
    from evolora_core.searches.attention.panel import Panel, select
    from evolora_core.searches.attention.programs.normal import program_id
    from evolora_core.searches.attention.programs.rejection import Rejected
    from evolora_core.searches.attention.stages.rates import read_rates

    own, meter = work.config, Meter()
    try:
        identity = program_id(own.source)
    except Rejected as error:
        raise ConfigError(f"{own.condition}: the program is refused at stage {error}") from error
    corpus = select(load(work.inputs["corpus"]), "selection")
    rates = read_rates(work.inputs["rates"])
    with Panel(corpus, own.training, rates, own.bounds, trusted=own.trusted, keep=work.folder) as panel:
        verdict = panel.check(own.source, "", [*own.sizes, *own.predicted])
        meter.add("selection", 0, 0, verdict.cpu_seconds)
        if verdict.rejection:
            raise ConfigError(f"{own.condition}: the program is refused at stage {verdict.rejection}")
        curve = measure_all(panel, own.condition, own.source, own.sizes, own.seeds, meter, "selection", work.report)
    leave(work.folder, own.source, curve, "", None)
    write_table(work.folder, "attention_losses", loss_rows(own.condition, curve, "selection"))
    program = {"program_id": identity, "source": own.source}
    write_table(work.folder, "attention_programs", [dict.fromkeys(PROGRAM) | program])
    write_table(work.folder, "compute", meter.rows())
    return Made(meter.total(), NoFacts())


MEASURE = Stage("measure", request, make)
