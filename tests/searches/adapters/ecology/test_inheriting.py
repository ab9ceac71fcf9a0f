"""Founders of a family that arrives begin with the weights of their donor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_ecologies import evolve, rows, start, without_clock

from evolora_core.engine.probes import probe
from evolora_core.lora.population.merge import resize
from evolora_core.searches.adapters.ecology import evolve as loop
from evolora_core.searches.adapters.ecology.evolve import advance, cool
from evolora_core.searches.adapters.ecology.ledger import SUN
from evolora_core.searches.adapters.ecology.phases import inheriting
from evolora_core.searches.adapters.ecology.phases.inheriting import inherit
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.settings.ecology import EcologyConfig

ORDER = ["math", "json_repair"]
Arrived = Callable[..., Run]


def inheriting_from(small: Any, donor: str, **changes: Any) -> EcologyConfig:
    """The little ecology whose founders inherit."""
    return EcologyConfig.model_validate(
        small.config.model_dump() | {"inheritance": {"donor": donor, "items": 12}} | changes
    )


@pytest.fixture
def arrived(small: Any, tmp_path: Path) -> Arrived:
    """A run whose second family has just come; nobody has inherited yet."""

    def run_to_there(donor: str, **changes: Any) -> Run:
        run = start(small, tmp_path / donor, inheriting_from(small, donor, **changes), arrivals=ORDER)
        advance(run, generations=2)
        cool(run)
        run.state.arrive()
        return run

    return run_to_there


def delta(run: Run, slot: int) -> torch.Tensor:
    """ΔW of all modules of a slot, in one row."""
    adapter = run.state.population.get(slot)
    return torch.cat([(adapter.B[name] @ adapter.A[name]).flatten() for name in adapter.A])


def test_founders_get_the_donors_weights_in_their_own_rank(arrived: Arrived) -> None:
    run = arrived("random")
    heirs = [own for own in run.state.living if own.niche == "json_repair"]
    before, spent = {own.id: delta(run, own.slot) for own in heirs}, run.state.meter.total()
    assert all(not weights.any() for weights in before.values())
    inherit(run)
    lineage = [row for row in run.state.events["lineage"] if row["role"] == "donor"]
    assert {row["child"] for row in lineage} == {own.id for own in heirs}
    (donor,) = {row["parent"] for row in lineage}
    source = run.state.organelles[donor]
    assert source.niche == "math" and source.lessons
    for heir in heirs:
        own, whole = delta(run, heir.slot), delta(run, source.slot)
        assert run.state.population.ranks[heir.slot] == heir.rank and own.any()
        if heir.rank >= source.rank:
            torch.testing.assert_close(own, whole, atol=1e-5, rtol=1e-3)
        else:
            nearest = resize(run.state.population.get(source.slot), heir.rank)
            wanted = torch.cat([(nearest.B[name] @ nearest.A[name]).flatten() for name in nearest.A])
            torch.testing.assert_close(own, wanted, atol=1e-5, rtol=1e-3)
            assert 0 < float((own - whole).norm()) < float(whole.norm())
    assert {heir.rank >= source.rank for heir in heirs} == {True, False}
    assert run.state.meter.total() == spent  # to draw a donor asks nobody


def test_the_best_of_the_host_and_the_learners_is_the_donor(arrived: Arrived, monkeypatch: pytest.MonkeyPatch) -> None:
    run = arrived("best")
    spent = run.state.meter.flops("selection")
    inherit(run)
    told = [*run.state.events["inheritance"]]
    assert [row["donor"] for row in told][0] == "host" and {row["items"] for row in told} == {12}
    (chosen,) = [row for row in told if row["chosen"]]
    assert chosen == max(told, key=lambda row: row["correct"])  # of equals the first
    assert run.state.meter.flops("selection") > spent
    assert not run.state.ledger.postings  # all are entered: a commit may follow, which has none that wait
    now = run.state.generation
    paid = [row for row in run.state.events["ledger"] if (row["entry"], row["generation"]) == ("test", now)]
    assert sum(row["amount"] for row in paid) == 0 and paid[0]["account"] == SUN
    run.state.ledger.postings = paid
    assert loop._summary(run.state, loop._Before(0, 0, 0), 0.0)["mean_cost"] == 0  # no organelle paid

    asked = inheriting._answers

    def where_the_host_knows_nothing(*arguments: Any) -> Any:
        right = asked(*arguments)
        right[0], right[1] = False, True
        return right

    monkeypatch.setattr(inheriting, "_answers", where_the_host_knows_nothing)
    inherit(run)
    assert [row["chosen"] for row in run.state.events["inheritance"][len(told) :]][:2] == [False, True]
    assert all(run.state.moved()[own.slot] for own in run.state.living if own.niche == "json_repair")


def test_the_sum_of_several_learners_is_a_donor(arrived: Arrived) -> None:
    run = arrived("best")
    learner = next(own for own in run.state.living if own.lessons)
    for number, own in enumerate(run.state.living):  # as if two families had come and gone
        run.state.organelles[own.id] = type(own).from_row(own.row() | {"niche": f"earlier {number % 2}", "lessons": 1})
        run.state.population.put(own.slot, run.state.population.get(learner.slot))
    *learners, together = inheriting._donors(run)
    assert len(learners) == 2 and together.name == "sum"
    weight = run.config.assimilation.sum_weight
    for name in together.adapter.A:  # two equal learners: their sum has the rank of one
        wanted = weight * sum(one.adapter.B[name] @ one.adapter.A[name] for one in learners)
        torch.testing.assert_close(together.adapter.B[name] @ together.adapter.A[name], wanted, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("donor", ["best", "random"])
def test_a_killed_run_inherits_the_same(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, donor: str
) -> None:
    config = inheriting_from(small, donor)
    whole = evolve(small, tmp_path / "whole", config, arrivals=ORDER)
    told = rows(whole.folder, "inheritance")
    assert {row["niche"] for row in told} == {"json_repair"} and {row["generation"] for row in told} == {2}
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0")

    def kill(number: Any) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with probe("generation", kill), pytest.raises(KeyboardInterrupt):
        evolve(small, tmp_path / "killed", config, arrivals=ORDER)
    resumed = evolve(small, tmp_path / "killed", config, arrivals=ORDER)
    assert without_clock(resumed.folder) == without_clock(whole.folder)
