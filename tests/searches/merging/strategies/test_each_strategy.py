"""Each strategy does what its paper says, and finds what can be found."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from searches.merging.strategies.toys import ITEMS, by_text, measured, play, problem_of

from evolora_core.engine.rng import stream
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.spaces.operators import Operators
from evolora_core.searches.merging.spaces.routes import Routes
from evolora_core.searches.merging.spaces.smooth import Smooth
from evolora_core.searches.merging.strategies import cycleqd, evomerge_published, niches
from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal, ranked
from evolora_core.searches.merging.strategies.common import attraction, pick
from evolora_core.searches.merging.strategies.registry import make_strategy

SMOOTH = Smooth(("a", "b", "c"), 2, 4)
TARGET = np.array([[0.1, 0.9], [0.6, -0.2], [0.3, 0.7]])


def bowl(genome: Genome) -> float:
    """A quadratic of weights with its top at TARGET."""
    return float(-((SMOOTH.weights(genome) - TARGET) ** 2).sum())


# Random


def test_random_search_exhausts_a_small_space_and_stops() -> None:
    space = Routes(("a", "b"), 1, "base")
    past = play(make_strategy("random", problem_of(space)), by_text, 3)
    assert len(past) == len({one.genome.id for one in past}) == space.models == 4


# EvoMerge


def test_evomerge_as_published_breeds_six_mutants_and_two_means_of_the_last_generation() -> None:
    past = play(make_strategy("evomerge-as-published", problem_of(Operators(("a", "b", "c"), 4, 2))), by_text, 2)
    alive, children = ranked(past[:8]), past[8:]
    assert [one.proposal.parents[0][0] for one in children[:6]] == [alive[0].number] * 3 + [alive[1].number] * 3
    assert {one.proposal.operator for one in children[:6]} <= {"continuous", "ensemble", "structured"}
    triples = [[number for number, _ in one.proposal.parents] for one in children[6:]]
    worst = [one.number for one in alive[-6:]]
    assert triples == [worst[:-3], worst[-3:]]
    assert all(one.proposal.operator == "mean" for one in children[6:])


def test_evomerge_as_published_stops_at_a_plateau_and_after_fifty_generations() -> None:
    space = Operators(("a", "b", "c"), 4, 2)
    flat = play(make_strategy("evomerge-as-published", problem_of(space)), lambda genome: -1.0, 12)
    assert max(one.generation for one in flat) == 6  # the third to the seventh record are the five counts
    strategy = make_strategy("evomerge-as-published", problem_of(space))
    past = play(strategy, by_text, 3)
    assert strategy.propose(3, past) and not strategy.propose(50, past)


def test_plateaus_are_counted_in_a_row() -> None:
    count = evomerge_published.plateaus
    assert count([-1.0, -1.0]) == 0
    assert count([-1.0] * 7) == 5
    assert count([-1.0, -1.0, -1.0, -0.9]) == 0  # an improvement begins the count anew
    assert count([-1.0, -1.0, -1.0, -1.005, -1.006]) == 3
    assert count([-1.0, -1.0, -1.0, -1.2]) == 0  # as does a decline, as published


def test_evomerge_keeps_the_best_of_the_run_as_a_parent() -> None:
    space = Operators(("a", "b", "c"), 4, 2)
    best = play(make_strategy("evomerge", problem_of(space)), by_text, 1)[0].genome
    past = play(make_strategy("evomerge", problem_of(space)), lambda own: -0.1 if own == best else by_text(own), 6)
    for generation in range(1, 6):
        own = [one for one in past if one.generation == generation]
        assert [one.proposal.parents for one in own[:3]] == [((0, "parent"),)] * 3
        assert len(own) == 8 and own[6].proposal.parents[0] == (0, "parent")
        assert all([role for _, role in one.proposal.parents] == ["parent", "mate"] for one in own[6:])


# CMA-ES


def test_cma_climbs_a_quadratic_much_higher_than_random_draws() -> None:
    found = {}
    for name, generations in (("cma", 28), ("random", 32)):
        runs = [play(make_strategy(name, problem_of(SMOOTH, seed)), bowl, generations) for seed in range(4)]
        assert all(len(run) >= 250 for run in runs)
        found[name] = [ranked(run[:250])[0].score or 0.0 for run in runs]
    assert min(found["cma"]) > -0.01 and max(found["random"]) < 10 * min(found["cma"])


def test_cma_climbs_through_failures() -> None:
    past = play(
        make_strategy("cma", problem_of(SMOOTH)),
        lambda genome: None if by_text(genome) is None else bowl(genome),
        28,
    )
    assert any(one.score is None for one in past) and (ranked(past)[0].score or 0.0) > -0.02


def test_cma_begins_anew_where_it_stands_still() -> None:
    space = Routes(("a", "b"), 2, "base")
    past = play(make_strategy("cma", problem_of(space)), lambda genome: -1.0 - space.key(genome), 60)
    late = {space.key(one.genome) for one in past if one.generation >= 40}
    assert len(late) > 8  # without it, a search this long would propose one genome alone


# Niches


SOLVED = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0]], dtype=bool)
ALIKE = np.ones(4)


def test_shared_fitness_is_what_a_hand_computes() -> None:
    # Item 0 is solved by three, items 1 and 2 by one each, item 3 by nobody.
    assert niches.shared_fitness(SOLVED, ALIKE) == pytest.approx([1 / 3 + 1, 1 / 3 + 1, 1 / 3])


def test_attraction_is_to_those_who_solve_what_one_does_not() -> None:
    sums = SOLVED.sum(axis=0)
    assert attraction(SOLVED[0], SOLVED, sums, ALIKE) == pytest.approx([0, 1, 0])
    assert attraction(SOLVED[2], SOLVED, sums, ALIKE) == pytest.approx([1, 1, 0])
    shares = SOLVED / np.maximum(sums, 1)
    for one in range(3):
        wanted = np.maximum(0, shares - shares[one]).sum(axis=1)
        assert attraction(SOLVED[one], SOLVED, sums, ALIKE) == pytest.approx(wanted)


def test_what_is_solved_counts_by_the_weight_of_its_domain() -> None:
    """Items 0 and 1 are of a domain with three times the weight of the one that has item 2; item 3 counts nothing."""
    problem = Problem.of(SMOOTH, 0, np.array([0, 0, 1, 2]), np.array([0.75, 0.25, 0.0]))
    assert problem.domain_weights == pytest.approx([2.25, 0.75, 0]) and problem.item_weights.mean() == pytest.approx(1)
    own = problem.item_weights
    assert own == pytest.approx(4 / 6 * np.array([2.25, 2.25, 1.5, 0]))
    assert niches.shared_fitness(SOLVED, own) == pytest.approx([1 / 3 * own[0] + own[n] for n in (1, 2)] + [own[0] / 3])
    assert attraction(SOLVED[2], SOLVED, SOLVED.sum(axis=0), own) == pytest.approx([own[1], own[2], 0])
    for domains in range(1, 17):  # where all weigh alike, nothing is as it would be without weights, to the last bit
        for weights in (np.full(domains, 0.25), np.full(domains, 0.3) / np.full(domains, 0.3).sum()):
            alike = Problem.of(SMOOTH, 0, np.repeat(np.arange(domains), 48), weights)
            assert (alike.item_weights == 1).all() and (alike.domain_weights == 1).all()


@pytest.mark.parametrize("name", ["evomerge", "niches", "cycleqd"])
def test_a_domain_without_weight_says_nothing_to_a_strategy(name: str) -> None:
    """Whatever is solved there and scored there, the same is proposed."""
    space, of = Operators(("a", "b", "c"), 4, 2), np.arange(ITEMS) % 3
    runs = []
    for noise in (0, 1):
        strategy = make_strategy(name, Problem.of(space, 3, of, np.array([1.0, 1.0, 0.0])))
        past: list[Candidate] = []
        for generation in range(5):
            for one in measured(strategy.propose(generation, past), generation, len(past), by_text):
                rng = stream(noise, 0, 0, "nothing", one.genome.id)
                domains = np.where(np.arange(3) == 2, rng.standard_normal(), one.domains)
                past.append(replace(one, domains=domains, solved=np.where(of == 2, rng.random() < 0.5, one.solved)))
        runs.append([one.genome.id for one in past])
    assert runs[0] == runs[1]


def _candidate(number: int, solved: np.ndarray, score: float = -1.0) -> Candidate:
    genome = Smooth(("a", "b"), 1, 4).genome(np.array([[number / 100], [0.5]]))
    return Candidate(number, 0, number, Proposal(genome, "draw"), score, np.zeros(1), solved)


def test_the_archive_lets_the_worst_under_sharing_go() -> None:
    strategy = niches.Niches(problem_of(SMOOTH, items=21))
    common = np.eye(21, dtype=bool)
    common[:, 0] = True  # all solve the first item, each but one another of its own
    past = [_candidate(number, common[number]) for number in range(20)]
    assert [one.number for one in strategy.archive(past)] == list(range(20))
    # The 21st solves two items of its own: the one that solves what all do leaves.
    twice = np.zeros(21, dtype=bool)
    twice[[5, 20]] = True
    past = [*past, _candidate(20, twice)]
    assert [one.number for one in strategy.archive(past)] == list(range(1, 21))
    # One that adds nothing leaves again at once, an equal genome or one that failed does not enter.
    alone = np.zeros(21, dtype=bool)
    alone[0] = True
    for own in (
        _candidate(21, alone),
        Candidate(22, 1, 0, past[3].proposal, -1.0, np.zeros(1), twice),
        Candidate(23, 1, 1, Proposal(Genome(recipe="a"), "draw"), None, np.zeros(1), ~alone),
    ):
        past = [*past, own]
        assert [one.number for one in strategy.archive(past)] == list(range(1, 21))
    assert niches.Niches(problem_of(SMOOTH, items=21)).archive(past) == strategy.archive(past)


def test_of_those_who_solve_nothing_the_lowest_score_leaves() -> None:
    past = [_candidate(number, np.zeros(ITEMS, bool), -float(number % 7)) for number in range(21)]
    left = niches.Niches(problem_of(SMOOTH)).archive(past)
    assert {*range(21)} - {one.number for one in left} == {20}  # of 6, 13 and 20 the last


def test_a_pick_is_proportional_to_weights() -> None:
    rng = stream(0, 0, 0, "pick")
    found = Counter(pick(np.array([0.0, 1.0, 3.0, 0.0]), rng) for _ in range(4000))
    assert set(found) == {1, 2} and abs(found[2] / 4000 - 0.75) < 0.03
    assert set(Counter(pick(np.zeros(3), rng) for _ in range(100))) == {0, 1, 2}


# CycleQD


def test_an_archive_has_the_best_of_each_cell() -> None:
    scores = stream(0, 0, 0, "scores").normal(-3, 1, (200, 3)).round(1)
    for domain in range(3):
        others = [other for other in range(3) if other != domain]
        cells: dict[tuple[int, ...], int] = {}
        for number, row in enumerate(scores):
            cell = []
            for other in others:
                low, high = scores[:, other].min(), scores[:, other].max()
                cell.append(min(int(15 * (row[other] - low) / (high - low)), 14))
            held = cells.get(tuple(cell))
            if held is None or row[domain] > scores[held, domain]:
                cells[tuple(cell)] = number
        assert sorted(cycleqd.archive(scores, domain).tolist()) == sorted(cells.values())


def test_one_domain_has_one_cell_and_equal_scores_one_bin() -> None:
    assert cycleqd.archive(np.array([[-2.0], [-1.0], [-1.0]]), 0).tolist() == [1]
    assert cycleqd.bins(np.array([-2.0, -2.0])).tolist() == [0, 0]
    assert cycleqd.bins(np.array([-2.0, -1.0, 0.0])).tolist() == [0, 7, 14]


def test_elites_are_sampled_by_the_product_of_all_their_scores() -> None:
    found = cycleqd.sampling_weights(np.array([[-2.0, -1.0], [0.0, -1.0], [-1.0, 0.0]]))
    assert found == pytest.approx([0.5 * 0.5, 1.3 * 0.5, 0.9 * 1.3])


def test_domains_take_turns_as_the_quality() -> None:
    space = Operators(("a", "b", "c"), 4, 2)
    past = play(make_strategy("cycleqd", problem_of(space)), by_text, 5)
    for generation in range(1, 5):
        before = [one for one in past if one.generation < generation and one.score is not None]
        elites = cycleqd.archive(np.array([one.domains for one in before]), generation % 3)
        numbers = {before[place].number for place in elites}
        used = {number for one in past if one.generation == generation for number, _ in one.proposal.parents}
        assert used and used <= numbers


# Hill climbing


def test_a_climber_mutates_the_best_so_far_and_nothing_else() -> None:
    past = play(make_strategy("hill-climbing", problem_of(Operators(("a", "b", "c"), 4, 2))), by_text, 6)
    for generation in range(1, 6):
        best = ranked([one for one in past if one.generation < generation])[0]
        made = [one for one in past if one.generation == generation]
        assert len(made) == 8 and {one.proposal.parents for one in made} == {((best.number, "parent"),)}
    genomes = [one.genome.id for one in past if one.generation]
    assert len(set(genomes)) == len(genomes)
