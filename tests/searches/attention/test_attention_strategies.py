"""Whom the strategies choose as parents, and how the tables of a run's rows say so."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.searches.attention.candidates import Candidate, ranked
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.names import STRATEGIES
from evolora_core.searches.attention.programs.kinds import kind_of
from evolora_core.searches.attention.programs.rejection import Rejection
from evolora_core.searches.attention.strategies import BASELINE, ISLANDS, MEETING, POOL, parents

WEIGHTED = ("evolution", "evolution-no-crossover")
SOFTMAX, SUMS = "alpha = F.softmax(scores, -1)", "alpha = scores / scores.sum(-1)"


def candidate(
    number: int,
    score: float | None,
    given_by: tuple[int, ...] = (),
    twin: int | None = None,
    source: str = "",
    slot: int = 0,
) -> Candidate:
    """One that was tried."""
    rejection = Rejection("train", "it failed", "") if score is None else None
    status = "rejected" if rejection else "twin" if twin is not None else "ok"
    return Candidate(
        number, 0, slot, f"id{number}", source, None, "draw", given_by, status, rejection, score, None, None, Curve(),
        twin, 1,
    )  # fmt: skip


SCORES = st.one_of(st.none(), st.floats(-1, 1, allow_nan=False))


@st.composite
def pasts(draw: st.DrawFn) -> list[Candidate]:
    """Candidates of a run: failed ones, twins and children among them."""
    found: list[Candidate] = []
    for number in range(draw(st.integers(0, 25))):
        before = st.integers(BASELINE, number - 1) if number else st.just(BASELINE)
        givers = tuple(draw(st.lists(before, max_size=2, unique=True)))
        own = candidate(
            number, draw(SCORES), givers, source=draw(st.sampled_from([SOFTMAX, SUMS])), slot=draw(st.integers(0, 4))
        )
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
    exact = {"random": 0, "greedy": 1, "evolution-no-crossover": 1, "evolution": min(2, 1 + len(best))}
    if strategy in exact:
        assert len(found) == exact[strategy]
    else:
        assert 1 <= len(found) <= exact["evolution"]


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


def drawn(past: Sequence[Candidate], strategy: str, generation: int, slot: int) -> set[int]:
    """All that are a parent with one of 200 seeds."""
    return {number for seed in range(200) for number in parents(strategy, past, seed, generation, slot)}


def test_an_archive_draws_the_best_of_each_kind_alone() -> None:
    sources = [SOFTMAX, SOFTMAX, SUMS, SUMS]
    past = [
        candidate(number, score, source=source)
        for number, (score, source) in enumerate(zip((-0.1, 0.0, 0.0, -0.1), sources, strict=True))
    ]
    assert drawn(past, "evolution-archive", 1, 0) == {BASELINE, 1, 2}
    assert drawn(past, "evolution", 1, 0) == {BASELINE, 0, 1, 2, 3}


def test_islands_see_their_own_programs_until_they_meet() -> None:
    past = [candidate(number, 0.1, slot=number) for number in range(5)]
    for slot in range(5):
        own = {BASELINE, *(number for number in range(5) if number % ISLANDS == slot % ISLANDS)}
        assert drawn(past, "evolution-islands", 1, slot) == own
        assert drawn(past, "evolution-islands", MEETING, slot) == {BASELINE, 0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("arm", "kind"),
    [
        ("mha", ("softmax", "kept")),
        ("alibi", ("softmax", "by distance")),
        ("forgetting", ("softmax", "fading")),
        ("linear", ("sums", "kept")),
        ("retention", ("sums", "by distance")),
        ("gated-deltanet", ("solved", "fading")),
    ],
)
def test_the_kinds_of_known_mechanisms(arm: str, kind: tuple[str, str]) -> None:
    assert kind_of(KNOWN[arm].source) == kind


def test_names_and_comments_say_nothing_of_a_kind() -> None:
    assert kind_of("softmax = 1  # softmax(x)\ny = cumsum") == ("sums", "kept")
    assert kind_of("torch.linalg.solve(a, b).cumsum(0)") == ("solved", "fading")
