"""Resume = no interruption, budgets are kept, failures never win, equal genomes are measured once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from searches.merging.small_pool import DOMAINS, PARENTS

from evolora_core.engine.probes import probe
from evolora_core.engine.rng import stream
from evolora_core.searches.merging import finalists
from evolora_core.searches.merging.evolution import IDLE, Evolution, diversity, evolve
from evolora_core.searches.merging.judging.judge import Judge
from evolora_core.searches.merging.names import STRATEGIES
from evolora_core.searches.merging.recipe import Genome, Merge, Route, Step
from evolora_core.searches.merging.spaces.registry import make_space
from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal, ranked
from evolora_core.searches.merging.strategies.registry import make_strategy


class Killed(BaseException):
    """Like a signal: nothing catches it."""


def run(judge: Judge, folder: Path, kind: str, evaluations: int = 20) -> Evolution:
    """A short evolution."""
    space = make_space(STRATEGIES[kind].space, PARENTS, judge.pool.layers, 2)
    strategy = make_strategy(
        kind, Problem.of(space, 5, judge.questions["search"].domain_of, judge.questions["search"].weights)
    )
    return evolve(
        strategy,
        judge,
        list(DOMAINS),
        budget=evaluations * judge.plain_cost(),
        generations=20,
        checkpoints=folder,
        report=lambda *_: None,
    )


def fresh(judge: Judge) -> Judge:
    """The same judge with an empty meter."""
    return Judge(judge.pool, judge.questions)


def test_a_machine_without_memory_is_no_fault_of_a_recipe(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    genome = Genome(recipe=Merge(op="linear", inputs=list(PARENTS)))
    monkeypatch.setattr("evolora_core.searches.merging.judging.judge.merged_tensor", full)
    with pytest.raises(torch.OutOfMemoryError):
        judge.measure(genome)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_killed_search_ends_as_if_nothing_had_been(judge: Judge, kind: str, tmp_path: Path) -> None:
    whole = run(judge, tmp_path / "whole", kind)
    rng, kills, own = stream(1, 0, 0, "kills", kind), 0, judge

    def die(**known: Any) -> None:
        nonlocal kills
        if kills < 6 and (not kills or rng.random() < 0.5):
            kills += 1
            raise Killed

    with probe("committed", die), probe("generation", die):
        while True:
            own = fresh(judge)
            try:
                resumed = run(own, tmp_path / "killed", kind)
                break
            except Killed:
                continue
    assert kills > 0 and resumed.rows == whole.rows
    spent = [[(row["purpose"], row["flops"], row["tokens"]) for row in one.meter.rows()] for one in (own, judge)]
    assert spent[0] == spent[1]


def test_the_budget_is_kept_and_equal_genomes_cost_once(judge: Judge, tmp_path: Path) -> None:
    found = run(judge, tmp_path, "evomerge", evaluations=20)
    assert judge.meter.total() <= 20 * judge.plain_cost()
    rows = found.rows["candidates"]
    ids = [row["genome_id"] for row in rows if row["fresh"]]
    assert len(set(ids)) == len(ids) == found.measured
    assert all(row["flops"] == 0 for row in rows if not row["fresh"])


class OneBroken:
    """Proposes a recipe that names no model, and two that do."""

    def propose(self, generation: int, past: list[Candidate]) -> list[Proposal]:
        if generation:
            return []
        stray = Genome(recipe=Merge(op="linear", inputs=["code", "nobody"]))
        return [
            Proposal(stray, "seed"),
            Proposal(Genome(recipe="code"), "seed"),
            Proposal(Genome(recipe="math"), "seed"),
        ]


def test_a_failed_candidate_is_recorded_and_never_wins(judge: Judge, tmp_path: Path) -> None:
    found = evolve(
        OneBroken(),  # type: ignore[arg-type]
        judge,
        list(DOMAINS),
        budget=10 * judge.plain_cost(),
        generations=5,
        checkpoints=tmp_path,
        report=lambda *_: None,
    )
    (failed,) = [row for row in found.rows["candidates"] if row["status"] == "failed"]
    assert failed["score"] is None and failed["reject_stage"] == "merge" and "nobody" in failed["reason"]
    assert len(ranked(found.past)) == 2
    best = [(one.genome, one.score or 0.0, one.number) for one in ranked(found.past)]
    choice = finalists.choose(best, judge, finalists=2, budget=10**18, evaluations=3)
    assert choice.candidate in (1, 2) and choice.selection_score is not None


class Twice:
    """Proposes the same two in every generation: a parent, and a route that passes each of its layers often."""

    def __init__(self, layers: int) -> None:
        self.route = Route(inputs=["code"], route=[Step(input=0, layer=place % 4) for place in range(layers)])

    def propose(self, generation: int, past: list[Candidate]) -> list[Proposal]:
        return [
            Proposal(Genome(recipe="code" if generation < 2 else "math"), "seed"),
            Proposal(Genome(recipe=self.route), "seed"),
        ]


@pytest.mark.parametrize(("layers", "rounds"), [(4, 2 + IDLE), (40, 0)], ids=["nothing new", "nothing left"])
def test_a_killed_search_ends_where_it_would_have_ended(judge: Judge, layers: int, rounds: int, tmp_path: Path) -> None:
    """A strategy that finds nothing new is over after some generations, and a budget that the next one exceeds too."""

    def ended(own: Judge, folder: Path) -> Evolution:
        return evolve(
            Twice(layers),  # type: ignore[arg-type]
            own,
            list(DOMAINS),
            budget=5 * own.plain_cost(),
            generations=20,
            checkpoints=folder,
            report=lambda *_: None,
        )

    whole = ended(judge, tmp_path / "whole")
    assert whole.rows["merge_generations"][-1]["generation"] == rounds
    killed = 0

    def die(**known: Any) -> None:
        nonlocal killed
        killed += 1
        raise Killed

    with probe("committed", die):
        while True:
            try:
                resumed = ended(fresh(judge), tmp_path / "killed")
                break
            except Killed:
                continue
    assert killed == len(whole.rows["merge_generations"]) and resumed.rows == whole.rows


def test_diversity_is_the_mean_share_of_items_on_which_two_differ() -> None:
    solved = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert diversity(solved) == pytest.approx(np.mean([(solved[a] != solved[b]).mean() for a, b in pairs]))
    assert diversity(solved[:1]) is None
