"""Whom the strategies choose as parents, and how the tables of a run's rows say so."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.searches.attention.candidates import Candidate, ranked
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.names import STRATEGIES
from evolora_core.searches.attention.programs.rejection import Rejection
from evolora_core.searches.attention.strategies import BASELINE, POOL, parents

WEIGHTED = ("evolution", "evolution-no-crossover")


def candidate(number: int, score: float | None, given_by: tuple[int, ...] = (), twin: int | None = None) -> Candidate:
    """One that was tried."""
    rejection = Rejection("train", "it failed", "") if score is None else None
    status = "rejected" if rejection else "twin" if twin is not None else "ok"
    return Candidate(
        number, 0, 0, f"id{number}", "", None, "draw", given_by, status, rejection, score, None, None, Curve(), twin, 1
    )


SCORES = st.one_of(st.none(), st.floats(-1, 1, allow_nan=False))


@st.composite
def pasts(draw: st.DrawFn) -> list[Candidate]:
    """Candidates of a run: failed ones, twins and children among them."""
    found: list[Candidate] = []
    for number in range(draw(st.integers(0, 25))):
        before = st.integers(BASELINE, number - 1) if number else st.just(BASELINE)
        own = candidate(number, draw(SCORES), tuple(draw(st.lists(before, max_size=2, unique=True))))
        if draw(st.booleans()) and found:
            first = draw(st.sampled_from(found))
            if first.twin is None:
                own = candidate(number, first.score, own.parents, first.number)
        found.append(own)
    return found


PLACES = st.tuples(st.integers(0, 99), st.integers(1, 9), st.integers(0, 9))  # seed, generation, slot


@given(pasts(), PLACES, st.sampled_from([*STRATEGIES]))
def test_parents_are_programs_with_a_score_or_the_baseline(
    past: list[Candidate], place: tuple[int, int, int], strategy: str
) -> None:
    found = parents(strategy, past, *place)
    best = [own.number for own in ranked(past)]
    assert set(found) <= {BASELINE, *best[:POOL]} and len(set(found)) == len(found)
    assert parents(strategy, list(past), *place) == found  # no state, no clock
    assert parents(strategy, past, place[0], 0, place[2]) == ()  # the first generation is drawn
    expected = {"random": {0}, "greedy": {1}, "evolution-no-crossover": {1}, "evolution": {min(2, 1 + len(best))}}
    assert {len(found)} == expected[strategy]


@given(pasts(), PLACES)
def test_greedy_takes_the_best_and_the_baseline_is_one_of_them(
    past: list[Candidate], place: tuple[int, int, int]
) -> None:
    best = ranked(past)
    better = bool(best) and (best[0].score or 0.0) > 0
    assert parents("greedy", past, *place) == ((best[0].number,) if better else (BASELINE,))


@given(pasts())
def test_ranked_names_no_failure_and_no_twin(past: list[Candidate]) -> None:
    found = ranked(past)
    assert all(own.score is not None and own.twin is None for own in found)
    assert [(own.score, -own.number) for own in found] == sorted(
        ((own.score or 0.0, -own.number) for own in found), reverse=True
    )
    assert len(found) == sum(own.score is not None and own.twin is None for own in past)


def shares(past: Sequence[Candidate], strategy: str) -> Counter[int]:
    """How often each is the first parent, of 400 slots."""
    return Counter(parents(strategy, past, 0, 1 + slot // 20, slot % 20)[0] for slot in range(400))


@pytest.mark.parametrize("strategy", WEIGHTED)
def test_better_programs_have_more_children(strategy: str) -> None:
    found = shares([candidate(number, score) for number, score in enumerate((-0.02, 0.01, 0.02, 0.2))], strategy)
    assert found[3] > 1.2 * found[1] and found[1] > 20 * (found[0] + found[BASELINE])  # 0.01 is the median


@pytest.mark.parametrize("strategy", WEIGHTED)
def test_of_equal_programs_the_childless_has_more_children(strategy: str) -> None:
    past = [candidate(0, 0.1), candidate(1, 0.1), *(candidate(number, None, (0,)) for number in range(2, 6))]
    found = shares(past, strategy)
    assert found[1] > 3 * found[0]  # one over one, against one over one more than four


@pytest.mark.parametrize("strategy", WEIGHTED)
def test_only_the_best_ten_have_children(strategy: str) -> None:
    past = [candidate(number, number / 100) for number in range(1, 30)]
    assert set(shares(past, strategy)) <= set(range(20, 30))


def test_who_alone_is_there_is_the_parent() -> None:
    assert {parents(strategy, [], 0, 1, 0) for strategy in (*WEIGHTED, "greedy")} == {(BASELINE,)}


def test_slots_and_seeds_draw_apart() -> None:
    past = [candidate(number, 0.0) for number in range(8)]
    drawn = [parents("evolution", past, seed, 1, slot) for seed in range(5) for slot in range(5)]
    assert len(set(drawn)) > 10
