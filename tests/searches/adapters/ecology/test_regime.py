"""What differs between an ecology and `single`, and how long they last."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_ecologies import founded

from evolora_core.lora.population.merge import summed_rank
from evolora_core.searches.adapters.ecology.evolve import begin
from evolora_core.searches.adapters.ecology.horizon import Horizon
from evolora_core.searches.adapters.ecology.ledger import SINK, micro
from evolora_core.searches.adapters.ecology.pace import cooldown_steps, limit, phase_over
from evolora_core.searches.adapters.ecology.phases.episodes import admit
from evolora_core.searches.adapters.ecology.regime import Seat
from evolora_core.searches.adapters.ecology.regimes.ecology import Ecology
from evolora_core.searches.adapters.ecology.regimes.names import REGIMES
from evolora_core.searches.adapters.ecology.regimes.registry import regime as regime_of
from evolora_core.searches.adapters.ecology.regimes.single import Single
from evolora_core.searches.adapters.settings.assimilation import AssimilationConfig
from evolora_core.searches.adapters.settings.ecology import EcologyConfig, EconomyConfig, PlasticityConfig


def test_their_words_key_their_random_streams(small: Any) -> None:
    assert {word: regime_of(word).word for word in REGIMES} == {"ecology": "ecology", "single": "single"}
    draws = {word: founded(small, mode=word).stream(0, "x").random() for word in REGIMES}
    assert draws["ecology"] != draws["single"]


def test_founders_of_an_ecology_scatter_by_trait_sigma_and_those_of_single_do_not(small: Any) -> None:
    still = EcologyConfig.model_validate(small.config.model_dump() | {"variation": {"trait_sigma": 0.0}})

    def rates(config: EcologyConfig, mode: str) -> set[float]:
        return {own.learning_rate for own in founded(small, config, mode=mode).state.living}

    assert len(rates(small.config, "ecology")) == 4 and rates(still, "ecology") == {1.0}
    assert rates(small.config, "single") == {1.0}


def test_an_ecology_deals_niches_and_ranks(small: Any) -> None:
    seats = Ecology().seats(small.config, ["a", "b"])
    assert seats == [Seat(rank, niche, 0.1) for rank, niche in ((4, "a"), (4, "b"), (2, "a"), (2, "b"))]
    assert Ecology().slots(small.config) == 4 + 4 + 1 + 1
    assert Ecology().limit(small.config) == 4
    assert Ecology().births(small.config) == 4 and Ecology().attempts(small.config) == 1
    assert Ecology().candidate_ranks(small.config, families=2) == [4, summed_rank(4)]
    assert Ecology().candidate_ranks(small.config, families=1) == [4]  # who answers it answers everything
    alone = small.config.model_copy(update={"assimilation": AssimilationConfig(sum_weight=0)})
    assert Ecology().candidate_ranks(alone, families=2) == [4, 4]


def test_single_is_one_of_the_largest_rank_that_never_multiplies(small: Any) -> None:
    assert Single().seats(small.config, ["a", "b"]) == [Seat(4, "", 0.0)]
    assert Single().slots(small.config) == Single().limit(small.config) == 1
    assert Single().births(small.config) == Single().attempts(small.config) == 0
    assert Single().candidate_ranks(small.config, families=2) == [4]
    state = founded(small, mode="single").state
    (organelle,) = state.living
    assert state.elites.capacity == 0 < founded(small).state.elites.capacity  # no child is made of them
    assert (organelle.learning_rate, organelle.temperature) == (1.0, small.config.temperature)


def test_who_practises_all_families_remembers_as_much_of_each(small: Any) -> None:
    data = small.config.model_dump() | {"memory": {"labels": 4}, "plasticity": {"buffer": 4}}
    for mode, most in (("ecology", 4), ("single", 8)):
        run = founded(small, EcologyConfig.model_validate(data), mode=mode)
        assert run.memories == most and {len(own) for own in run.state.buffers.values()} == {most}


@given(st.integers(-(10**9), 10**9), st.floats(0, 100))
def test_a_ticket_is_paid_by_who_has_it_and_single_needs_none(balance: int, ticket: float) -> None:
    economy = EconomyConfig(ticket=ticket)
    assert Ecology().ticket(balance, economy) == (micro(ticket) if balance >= micro(ticket) else None)
    assert Single().ticket(balance, economy) == 0
    assert Ecology().solvent(balance) == (balance > 0) and Single().solvent(balance)


@given(st.integers(1, 40), st.integers(1, 64), st.integers(1, 64), st.floats(0.1, 50))
def test_both_learn_equally_many_rows(steps: int, rows: int, alone: int, generations: float) -> None:
    plasticity = PlasticityConfig(steps=steps, batch_rows=rows, single_batch_rows=alone)
    learned = [regime.steps(plasticity, generations) * regime.rows(plasticity) for regime in (Ecology(), Single())]
    assert abs(learned[0] - learned[1]) <= max(rows, alone)
    assert Ecology().steps(plasticity, 0) == Single().steps(plasticity, 0) == 0


def test_single_takes_part_whatever_it_owes(small: Any) -> None:
    run = founded(small, mode="single")
    run.state.ledger.post(0, "answer", "0", SINK, micro(1000))
    assert admit(run) == run.state.living and run.state.ledger.balance(0) == micro(60 - 1000)


def test_single_without_a_budget_is_refused(small: Any, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="single needs the FLOPs"):
        begin(small.task, small.config, Horizon(4), regime_of("single"), tmp_path)


def test_a_horizon_of_generations_and_one_of_flops() -> None:
    whole, parts = Horizon(4), Horizon(4, arrivals=("b", "a"))
    assert [whole.had_its_share(g, 0) for g in (3, 4)] == [False, True]
    assert [parts.had_its_share(g, 0) for g in (1, 2)] == [False, True]
    assert [parts.had_its_share(g, 1) for g in (3, 4)] == [False, True]
    assert whole.there("a", 0) and [parts.there("a", phase) for phase in (0, 1)] == [False, True]
    assert whole.limit(10, 0) is None and whole.without(5) == whole
    budget = Horizon(4, 110, ("b", "a")).without(10)
    assert budget.budget_flops == 100 and [budget.limit(20, phase) for phase in (0, 1)] == [60.0, 100.0]
    shared = replace(budget, shares=(0.75, 0.25))
    assert [shared.limit(20, phase) for phase in (0, 1)] == [80.0, 100.0]


def test_what_a_run_may_spend_begins_after_its_prices(small: Any) -> None:
    spent = small.prices.spent
    run = founded(small, budget=3 * spent, arrivals=("math", "json_repair"))
    assert limit(run) == 2 * spent and run.state.meter.total() == spent
    assert run.present.tolist() == [False, True] and {o.niche for o in run.awake()} == {"math"}
    assert not phase_over(founded(small)) and cooldown_steps(founded(small)) == 0


def test_prices_depend_on_no_more_than_they_are_told(small: Any) -> None:
    other = small.config.model_copy(update={"generations": 9, "episodes": small.config.episodes + 1})
    assert small.config.practice == other.practice
    practice = small.config.practice
    assert practice.answers == 256 and practice.rank == 4 and np.isclose(1 / practice.break_even_accuracy, 100)
