"""What holds of all strategies: they are functions of past, seed and generation, and they survive failures."""

from typing import Any

import numpy as np
import pytest
from searches.merging.strategies.toys import by_text, measured, play, problem_of

from evolora_core.engine.rng import stream
from evolora_core.searches.merging.names import STRATEGIES
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.spaces.names import NAMES
from evolora_core.searches.merging.spaces.registry import make_space
from evolora_core.searches.merging.strategies.base import Candidate, Proposal, ranked
from evolora_core.searches.merging.strategies.registry import make_strategy

PARENTS = ("code", "math", "structured")
SEEDED = [name for name in STRATEGIES if name not in ("random", "cma")]


def copied(candidate: Candidate) -> Candidate:
    """The same as the store gives it back."""
    own = candidate.proposal
    proposal = Proposal(Genome.read(own.genome.text), own.operator, own.parents)
    return Candidate(
        candidate.number,
        candidate.generation,
        candidate.slot,
        proposal,
        candidate.score,
        candidate.domains.copy(),
        candidate.solved.copy(),
    )


@pytest.mark.parametrize("space", NAMES)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_fresh_strategy_proposes_the_same(name: str, space: str) -> None:
    problem = problem_of(make_space(space, PARENTS, 3, 2))
    strategy = make_strategy(name, problem)
    past: list[Candidate] = []
    proposed: list[list[Proposal]] = []
    starts: list[int] = []
    state: Any = np.random.get_state()
    for generation in range(6):
        starts.append(len(past))
        proposed.append(strategy.propose(generation, past))
        assert strategy.propose(generation, past) == proposed[-1]  # asking twice changes nothing
        past += measured(proposed[-1], generation, len(past), by_text)
    rng = stream(0, 0, 0, "resume", name, space)
    for generation in [5, *rng.integers(6, size=2).tolist()]:
        until = past[: starts[generation]]
        assert make_strategy(name, problem).propose(generation, until) == proposed[generation]
        fresh = make_strategy(name, problem_of(make_space(space, PARENTS, 3, 2)))
        assert fresh.propose(generation, [copied(candidate) for candidate in until]) == proposed[generation]
        # The one that has gone on, asked for an earlier generation or with copies, answers alike.
        assert strategy.propose(generation, [copied(candidate) for candidate in until]) == proposed[generation]
    now: Any = np.random.get_state()
    assert (now[1] == state[1]).all() and now[2:] == state[2:]


@pytest.mark.parametrize("name", STRATEGIES)
def test_other_seeds_propose_others(name: str) -> None:
    space = make_space("operators", PARENTS, 4, 2)
    runs = [play(make_strategy(name, problem_of(space, seed)), by_text, 4) for seed in (0, 1)]
    assert {one.genome.id for one in runs[0]} != {one.genome.id for one in runs[1]}


@pytest.mark.parametrize("name", SEEDED)
def test_the_first_generation_is_the_seeds(name: str) -> None:
    space = make_space("operators", PARENTS, 4, 2)
    first = make_strategy(name, problem_of(space)).propose(0, [])
    assert [(one.genome, one.operator) for one in first] == space.seeds(stream(3, 0, 0, "seeds"))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_in_which_everything_fails_does_not_raise(name: str) -> None:
    space = make_space("operators", PARENTS, 4, 2)
    past = play(make_strategy(name, problem_of(space)), lambda genome: None, 4)
    assert len(past) >= 8 and not ranked(past)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_single_survivor_is_enough(name: str) -> None:
    space = make_space("smooth", PARENTS, 4, 2)
    strategy = make_strategy(name, problem_of(space))
    first = measured(strategy.propose(0, []), 0, 0, lambda genome: -1.0)
    past = measured([one.proposal for one in first], 0, 0, lambda genome: -1.0 if genome == first[0].genome else None)
    for generation in range(1, 4):
        past += measured(strategy.propose(generation, past), generation, len(past), lambda genome: None)
    assert [one.number for one in ranked(past)] == [0]


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in ("cma", "evomerge-as-published")])
@pytest.mark.parametrize("space", ["smooth", "operators", "routes"])
def test_hardly_a_genome_is_proposed_twice(name: str, space: str) -> None:
    past = play(make_strategy(name, problem_of(make_space(space, PARENTS, 4, 2))), by_text, 10)
    assert len({one.genome.id for one in past}) >= 0.97 * len(past) and len(past) == 80


@pytest.mark.parametrize("name", STRATEGIES)
def test_parents_are_candidates_of_earlier_generations(name: str) -> None:
    past = play(make_strategy(name, problem_of(make_space("routes", PARENTS, 4, 2))), by_text, 6)
    for one in past:
        assert all(past[number].generation < one.generation for number, _ in one.proposal.parents)
        assert bool(one.proposal.parents) == (one.generation > 0 and name not in ("random", "cma"))


def test_an_unknown_strategy_is_told_its_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'evomerge'"):
        make_strategy("evomrge", problem_of(make_space("routes", PARENTS, 2, 1)))
