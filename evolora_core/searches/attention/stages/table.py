"""Stages `table-SIZE-K`: every program of the small grammar, measured once at a size with every seed, in shards.

It is an instrument, not an arm. Sizes are stages of their own, so that small ones are whole first, and a suite that
asks for one size more trains that one alone.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.searches.attention.settings import Bounds, Training
from evolora_core.searches.attention.stages.loaded import LOADED

if TYPE_CHECKING:
    from evolora_core.engine.meter import Meter
    from evolora_core.searches.attention.experiment import AttentionExperiment
    from evolora_core.searches.attention.judging.measure import Measured
    from evolora_core.searches.attention.panel import Panel
    from evolora_core.searches.attention.programs.rejection import Rejection

ROWS = "attention_table_programs"


class Shard(Strict):
    """A stretch of the programs at one size. checked: the sizes for which they climb the ladder first; none: not."""

    shard: int
    shards: int
    size: str
    seeds: list[int]
    checked: list[str]
    training: Training
    bounds: Bounds


class Measurements(BaseModel):
    """How many programs were measured, and how many of them were refused."""

    programs: int
    refused: int


def request(
    suite: "Suite[AttentionExperiment]", size: str, shard: int, seed: int, *, corpus: StageResult, rates: StageResult
) -> StageRequest:
    """A shard of the table of a run seed at a size."""
    from evolora_core.searches.attention.seeds import selection_seeds

    config = suite.config
    assert config.table is not None
    own = Shard(
        shard=shard,
        shards=config.table.shards,
        size=size,
        seeds=selection_seeds(seed, config.table.seeds),
        checked=config.sizes.measured if size == config.table.sizes[0] else [],
        training=config.training,
        bounds=config.budget.bounds,
    )
    return stage_request(
        suite,
        f"table-{size}-{shard}",
        SHARED,
        seed,
        entry=__name__,
        also=LOADED,
        config=own,
        inputs={"corpus": corpus, "rates": rates},
    )


def make(work: Work[Shard]) -> Made[Measurements]:
    """Leaves the tables `attention_table_programs` and `compute`."""
    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.attention.corpus.base import load
    from evolora_core.searches.attention.exhaustive import stretch
    from evolora_core.searches.attention.panel import Panel, select
    from evolora_core.searches.attention.stages.rates import read_rates

    own, meter = work.config, Meter()
    corpus, rates = select(load(work.inputs["corpus"]), "selection"), read_rates(work.inputs["rates"])
    numbers = stretch(own.shard, own.shards)
    rows: list[dict[str, Any]] = []
    with Panel(corpus, own.training, rates, own.bounds, trusted=True, keep=work.folder) as panel:
        plain = _plain(panel, own)
        for done, number in enumerate(numbers, start=1):
            rows += _measured(panel, number, own, plain, meter)
            work.report(done, len(numbers), f"programs at size {own.size}")
    write_table(work.folder, ROWS, rows)
    write_table(work.folder, "compute", meter.rows())
    refused = {row["program"] for row in rows if row["loss"] is None}
    return Made(meter.total(), Measurements(programs=len(numbers), refused=len(refused)))


def _measured(
    panel: "Panel", number: int, own: Shard, plain: Mapping[str, int], meter: "Meter"
) -> list[dict[str, Any]]:
    """The rows of a program, one a seed."""
    from evolora_core.searches.attention.exhaustive import genomes
    from evolora_core.searches.attention.grammar.genes import genome_json
    from evolora_core.searches.attention.grammar.table import TABLE
    from evolora_core.searches.attention.panel import Task

    source = TABLE.program(genomes()[number])
    key = {"program": number, "genome": genome_json(genomes()[number]), "size": own.size}
    if own.checked:
        verdict = panel.check(source, TABLE.framework, own.checked)
        meter.add("selection", 0, 0, verdict.cpu_seconds)
        if verdict.rejection:
            return [key | {"train_seed": seed} | _refused(verdict.rejection, 0.0) for seed in own.seeds]
    rows = []
    for seed in own.seeds:
        found = panel.measure(Task(source, own.size, seed))
        meter.add("selection", panel.flops(found, own.size, plain), 0, found.cpu_seconds)
        rows.append(key | {"train_seed": seed} | _facts(found))
    return rows


def _facts(found: "Measured") -> dict[str, Any]:
    """What is kept of a measurement."""
    if found.losses is None:
        assert found.rejection is not None
        return _refused(found.rejection, found.cpu_seconds)
    return {
        "loss": float(found.losses.mean()),
        "flops": found.flops,
        "parameters": found.parameters,
        "seconds": found.cpu_seconds,
        "reason": "",
    }


def _refused(rejection: "Rejection", seconds: float) -> dict[str, Any]:
    why = f"{rejection.stage}: {rejection.why}"
    return {"loss": None, "flops": None, "parameters": None, "seconds": seconds, "reason": why}


def _plain(panel: "Panel", own: Shard) -> dict[str, int]:
    """Operations of the baseline's training step, charged for a program that returned no count."""
    from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS
    from evolora_core.searches.attention.grammar.table import TABLE
    from evolora_core.searches.attention.host.flops import cost_of_step
    from evolora_core.searches.attention.host.sizes import SIZES
    from evolora_core.searches.attention.judging.loading import load_program

    program, corpus = load_program(FRAMEWORKS[TABLE.framework].source), panel.corpus
    cost = cost_of_step(program, SIZES[own.size], corpus.vocab, own.training.batch, corpus.context)
    return {own.size: cost.flops}


TABLE_SHARD = Stage("table", request, make)
