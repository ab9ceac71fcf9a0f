"""Stages `search` and `control`: a condition makes its model, within the budget, from base, parents and search items.

The selection items choose among its best; the test items are in neither stage.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from evolora_core.engine.stage import Made, NotRun, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.errors import Unaffordable
from evolora_core.searches.merging.names import PARENT
from evolora_core.searches.merging.roles import role
from evolora_core.searches.merging.settings import Budget, Domain, FineTuning, Gradients

if TYPE_CHECKING:
    from evolora_core.searches.merging.controls.task import Task
    from evolora_core.searches.merging.experiment import MergeExperiment
    from evolora_core.searches.merging.judging.judge import Judge

log = logging.getLogger(__name__)
JUDGED = ("search", "selection")  # splits
_SPACES = "evolora_core.searches.merging.spaces"


class Choosing(Strict):
    """What a condition's model depends on. Training is there for the control that takes it."""

    condition: str
    kind: str
    module: str
    space: str
    groups: int
    parents: list[str]
    parent: str
    domains: dict[str, Domain]
    budget: Budget
    gradients: Gradients | None
    specialists: FineTuning | None


class Chosen(BaseModel):
    """What was chosen."""

    kind: str
    evaluations: int
    search_score: float | None


def asked(config: "MergeExperiment", condition: str) -> Choosing:
    """The work of a condition."""
    kind = config.kind(condition)
    gradients = {"adam": config.adam, "fine-tuned-mean": config.fine_tuned_mean}
    return Choosing(
        condition=condition,
        kind=kind.name,
        module=kind.module,
        space=config.space(condition),
        groups=config.groups_of(condition),
        parents=config.parents,
        parent=condition.removeprefix(PARENT) if kind.name == "parent" else "",
        domains=config.domains,
        budget=config.budget,
        gradients=gradients.get(kind.name),
        specialists=config.specialists if kind.name == "multitask" else None,
    )


def request(
    stage: str,
    suite: "Suite[MergeExperiment]",
    condition: str,
    seed: int,
    *,
    base: StageResult,
    datasets: StageResult,
    parents: Sequence[StageResult],
) -> StageRequest:
    """The stage that makes a condition's model: `search` of a strategy, or `control`."""
    config = asked(suite.config, condition)
    also = [config.module, *([f"{_SPACES}.{config.space}"] if config.space else [])]
    named = {role(name): result for name, result in zip(config.parents, parents, strict=True)}
    return stage_request(
        suite,
        stage,
        condition,
        seed,
        entry=__name__,
        also=[*also, *suite.config.modules_of(config.domains)],
        config=config,
        inputs={"base": base, "datasets": datasets, **named},
    )


def search(work: Work[Choosing]) -> Made[Chosen] | Made[NotRun]:
    """Leaves chosen.json, and the tables `candidates`, `candidate_domains`, `candidate_parents`, `merge_generations`,
    `merge_choices` and `compute`. A killed search goes on from its last generation. NotRun, and nothing is left: the
    budget does not pay for one candidate.
    """
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.merging import finalists
    from evolora_core.searches.merging.evolution import evolve
    from evolora_core.searches.merging.spaces.registry import make_space
    from evolora_core.searches.merging.stages.measuring import judge_of
    from evolora_core.searches.merging.strategies.base import Problem, ranked
    from evolora_core.searches.merging.strategies.registry import make_strategy

    own, judge = work.config, judge_of(work, JUDGED)
    space = make_space(own.space, tuple(own.parents), judge.pool.layers, own.groups, work.seed)
    problem = Problem.of(space, work.seed, judge.questions["search"].domain_of, judge.questions["search"].weights)
    budget = own.budget.evaluations * judge.plain_cost()
    checkpoints = work.folder / ".work" / "checkpoints"
    run = evolve(
        make_strategy(own.kind, problem),
        judge,
        list(own.domains),
        budget=budget - own.budget.finalists * judge.plain_cost("selection"),
        generations=own.budget.generations,
        checkpoints=checkpoints,
        report=work.report,
    )
    if not run.past:
        return _not_run(
            f"{own.kind}: the budget does not pay for one candidate beside {own.budget.finalists} finalists on the "
            "selection items; lower budget.finalists or raise budget.evaluations"
        )
    best = [(one.genome, one.score, one.number) for one in ranked(run.past) if one.score is not None]
    choice = finalists.choose(best, judge, finalists=own.budget.finalists, budget=budget, evaluations=run.measured)
    for name, rows in run.rows.items():
        if rows:
            write_table(work.folder, name, rows)
    return _leave(work, judge, choice)


def control(work: Work[Choosing]) -> Made[Chosen] | Made[NotRun]:
    """Leaves chosen.json, for some the folder `model`, and the tables `merge_choices` and `compute`. NotRun, and
    nothing is left: the budget does not pay for a beginning.
    """
    from importlib import import_module

    from evolora_core.searches.merging.stages.measuring import judge_of

    judge = judge_of(work, JUDGED)
    try:
        choice = import_module(work.config.module).choose(task_of(work, judge))
    except Unaffordable as error:
        return _not_run(str(error))
    return _leave(work, judge, choice)


def task_of(work: Work[Choosing], judge: "Judge") -> "Task":
    """What a control is given. Only one that trains on them has the items of the split `train`."""
    from evolora_core.searches.merging.controls.task import Task
    from evolora_core.searches.merging.settings import FineTuning
    from evolora_core.searches.merging.stages.datasets import read_split

    own = work.config
    train = read_split(work.inputs["datasets"], "train", own.domains) if own.specialists else {}
    return Task(
        judge=judge,
        parents=tuple(own.parents),
        parent=own.parent,
        groups=own.groups,
        finalists=own.budget.finalists,
        budget=own.budget.evaluations * judge.plain_cost(),
        seed=work.seed,
        gradients=own.gradients,
        specialists=own.specialists or FineTuning(),
        train=[item for items in train.values() for item in items],
        folder=work.folder,
        report=work.report,
    )


def _not_run(reason: str) -> Made[NotRun]:
    """The result of a condition whose budget is too small."""
    log.warning("not run: %s", reason)
    return Made(0, NotRun(not_run=reason))


def _leave(work: Work[Choosing], judge: "Judge", choice: Any) -> Made[Chosen]:
    """Write what was chosen, and what it cost."""
    from evolora_core.engine.tables import write_table

    choice.write(work.folder, work.config.kind, work.config.space)
    write_table(work.folder, "compute", judge.meter.rows())
    facts = Chosen(kind=choice.kind, evaluations=choice.evaluations, search_score=choice.search_score)
    return Made(judge.meter.total(), facts)


SEARCH = Stage("search", partial(request, "search"), search)
CONTROL = Stage("control", partial(request, "control"), control)
