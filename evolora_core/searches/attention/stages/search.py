"""Stage `search`: a strategy spends its budget on programs of a framework, and chooses one."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, JsonValue

from evolora_core.engine.stage import Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import LATER, Strict
from evolora_core.searches.attention.names import OPENEVOLVE
from evolora_core.searches.attention.proposers.settings import ProposerSettings
from evolora_core.searches.attention.settings import Budget, Training
from evolora_core.searches.attention.stages.loaded import LOADED

if TYPE_CHECKING:
    from evolora_core.searches.attention.experiment import AttentionExperiment

GRAMMARS = "evolora_core.searches.attention.grammar"
MAKING = "evolora_core.searches.attention.proposers.making"  # loaded where a model is asked
RIVAL = "evolora_core.searches.attention.rival.loop"  # loaded where OpenEvolve searches
RIVAL_PROCESS = "evolora_core.searches.attention.rival.child"


class Searching(Strict):
    """Who searches what.

    parallel   programs that are measured at a time: no part of the identity, as it changes no result. What OpenEvolve
               finds does depend on it, and it alone reads that of its budget
    proposer   None: the grammar. Its settings `asked` and the hash `record` of the answers that are replayed are in the
               identity; where their file lies is not
    """

    strategy: str
    framework: str
    sizes: list[str]
    seeds: list[int]
    further: list[int]  # training seeds of the finalists alone
    training: Training
    budget: Budget
    asked: dict[str, JsonValue] = Field({}, json_schema_extra=LATER)
    record: str = Field("", json_schema_extra=LATER)
    proposer: ProposerSettings | None = Field(exclude=True)
    parallel: int = Field(exclude=True)


class Searched(BaseModel):
    """How many programs were tried, how many of them have a score, and the score of the chosen one."""

    programs: int
    alive: int
    score: float


def request(
    suite: "Suite[AttentionExperiment]",
    condition: str,
    seed: int,
    *,
    corpus: StageResult,
    rates: StageResult,
    baseline: StageResult,
) -> StageRequest:
    """A strategy of a suite searches."""
    from evolora_core.searches.attention.seeds import selection_seeds

    config = suite.config
    seeds = selection_seeds(seed, config.budget.seeds + config.budget.finalist_seeds)
    framework = config.framework_of(condition)
    proposer, record = config.asked(condition)
    strategy, budget = config.strategy(condition), config.budget
    own = Searching(
        strategy=strategy,
        framework=framework,
        sizes=config.sizes.measured,
        seeds=seeds[: config.budget.seeds],
        further=seeds[config.budget.seeds :],
        training=config.training,
        budget=budget if strategy == OPENEVOLVE else budget.model_copy(update={"parallel": 1}),
        asked=proposer.model_dump(mode="json", exclude={"recorded"}) if proposer else {},
        record=record,
        proposer=proposer,
        parallel=budget.parallel,
    )
    loaded = [*LOADED, f"{GRAMMARS}.{framework.replace('-', '_')}"]
    loaded += [MAKING] if proposer else []
    loaded += [RIVAL, RIVAL_PROCESS] if own.strategy == OPENEVOLVE else []
    return stage_request(
        suite,
        "search",
        condition,
        seed,
        entry=__name__,
        also=loaded,
        config=own,
        inputs={"corpus": corpus, "rates": rates, "baseline": baseline},
    )


def make(work: Work[Searching]) -> Made[Searched]:
    """Leaves program.py, its curve, finalists.json, and the tables of its candidates, their `attention_losses` and
    `compute`; where a model is asked calls.jsonl and the table `proposer_calls`. StageError if nothing that was tried
    has a score.
    """
    from functools import partial
    from importlib import import_module

    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import write_table
    from evolora_core.errors import StageError
    from evolora_core.searches.attention.asked import call_rows
    from evolora_core.searches.attention.candidates import ranked
    from evolora_core.searches.attention.chosen import leave, leave_finalists, read_chosen
    from evolora_core.searches.attention.corpus.base import load
    from evolora_core.searches.attention.evolution import Run, evolve, rows_of
    from evolora_core.searches.attention.finalists import choose, complete, reached
    from evolora_core.searches.attention.frameworks.registry import get_framework
    from evolora_core.searches.attention.grammar.registry import get_grammar
    from evolora_core.searches.attention.measuring import loss_rows
    from evolora_core.searches.attention.panel import Panel, select
    from evolora_core.searches.attention.proposers.base import Proposer
    from evolora_core.searches.attention.proposers.grammar import GrammarProposer
    from evolora_core.searches.attention.stages.rates import read_rates

    own, meter = work.config, Meter()
    run = Run(
        framework=own.framework,
        template=get_framework(own.framework).source,
        baseline=read_chosen(work.inputs["baseline"]).curve,
        sizes=own.sizes,
        seeds=own.seeds,
        budget=own.budget,
        seed=work.seed,
        meter=meter,
    )
    corpus = select(load(work.inputs["corpus"]), "selection")
    checkpoints = work.folder / ".work" / "checkpoints"
    rates = read_rates(work.inputs["rates"])
    proposer: Proposer = GrammarProposer(get_grammar(own.framework))
    if own.proposer:
        proposer, run.asked = import_module(MAKING).make_proposer(own.proposer, work.folder)
    rival = own.strategy == OPENEVOLVE
    search = import_module(RIVAL).evolve if rival else partial(evolve, own.strategy)
    with Panel(
        corpus, own.training, rates, own.budget.bounds, trusted=not (own.proposer or rival),
        parallel=own.parallel, keep=work.folder,
    ) as panel:  # fmt: skip
        plain = panel.plain(run.baseline, [run.largest])
        budget = plain * own.budget.programs * len(own.seeds)
        search(
            proposer,
            panel,
            run,
            limit=budget - plain * own.budget.finalists * len(own.further),
            checkpoints=checkpoints,
            report=work.report,
        )
        if not ranked(run.past):
            raise StageError(f"{len(run.past)} programs were tried and none has a score; see the table `candidates`")
        measured, others = reached(run, panel, own.further, budget)
        finalists = complete(choose(run, panel, own.further, measured), run, panel, own.further)
    best = finalists[0]
    leave(work.folder, best.source, best.curve, own.framework, best.genome)
    leave_finalists(work.folder, [one.source for one in (*finalists, *others)])  # an ensemble may take all
    tables = rows_of(run.past, finalists) | {"proposer_calls": call_rows(run.calls, len(run.past))}
    for name, rows in tables.items():
        if rows:  # those that are drawn have no parents, and a grammar is not called
            write_table(work.folder, name, rows)
    curves = {one.program_id: one.curve for one in (*run.past, *finalists) if one.curve.texts}
    losses = [row for program, curve in curves.items() for row in loss_rows(program, curve, "selection")]
    if losses:
        write_table(work.folder, "attention_losses", losses)
    write_table(work.folder, "compute", meter.rows())
    alive = ranked(run.past)
    return Made(meter.total(), Searched(programs=len(run.past), alive=len(alive), score=best.score or 0.0))


SEARCH = Stage("search", request, make)
