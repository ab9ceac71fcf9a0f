"""The end of a run: the sum of the learners."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_ecologies import founded

from evolora_core.lora.population.merge import resize
from evolora_core.lora.population.saved import load_population
from evolora_core.searches.adapters.ecology.evolve import publish
from evolora_core.searches.adapters.ecology.phases.choosing import choose, shortlist, sum_of
from evolora_core.searches.adapters.ecology.run import Run


@pytest.fixture
def run(small: Any, tmp_path: Path) -> Run:
    made: Run = founded(small, small.config.model_copy(update={"ranks": [2, 4]}), folder=tmp_path)
    return made


def test_the_sum_is_entered_as_a_merge_in_a_slot_of_its_own(small: Any, run: Run, skill: Any, tmp_path: Path) -> None:
    state = run.state
    state.population.put(0, resize(skill, 4))
    state.population.put(1, skill.scaled(-0.5))
    before = [state.population.get(slot) for slot in range(state.population.capacity)]
    population = sum_of(run, [1, 0], state.meter)
    child = state.organelles[-1]
    assert (child.origin, child.niche, child.parents, child.rank) == ("merge", "", (1, 0), 6)
    assert child.slot == population.capacity - 1 == len(before) and population is state.population
    weight = run.config.assimilation.sum_weight
    whole = population.get(child.slot)
    for name in skill.A:
        torch.testing.assert_close(whole.delta(name), skill.delta(name) * weight * 0.5, atol=1e-5, rtol=1e-4)
        assert all(torch.equal(population.get(slot).delta(name), own.delta(name)) for slot, own in enumerate(before))
    rows = [row for row in state.events["lineage"] if row["child"] == child.id]
    assert [(row["parent"], row["role"], row["weight"]) for row in rows] == [
        (1, "parent", weight),
        (0, "parent", weight),
    ]
    assert sum(state.ledger.balances.values()) == 0

    publish(run, state.meter)
    again, organelles = load_population(small.host, tmp_path)
    assert torch.equal(again.get(child.slot).A[name], whole.A[name]) and int(again.ranks[child.slot]) == 6
    assert organelles[-1]["organelle"] == child.id and organelles[-1]["slot"] == child.slot


def test_a_niche_without_a_learner_offers_its_own(run: Run, skill: Any) -> None:
    """An organelle that never answered there has the bare host's skill, which may be more than its own was shown."""
    state = run.state
    for slot in (0, 1):
        state.population.put(slot, skill)
    state.organelles[0] = replace(state.organelles[0], learned=0, lessons=1)
    assert state.organelles[1].niche == "math"
    inside = run.task.inside[run.task.families.index("math")].astype(bool)
    state.practice[1, inside] = (20, 0, 20)
    assert shortlist(run)["math"] == [1] and shortlist(run)["json_repair"] == [0]


def test_one_that_leads_alone_answers_everything(run: Run, skill: Any, tmp_path: Path) -> None:
    state = run.state
    state.population.put(0, skill)
    state.organelles[0] = replace(state.organelles[0], learned=0)
    assert shortlist(run) == {"json_repair": [0], "math": [0], "": []}
    choose(run, ["family", "single"])
    routes = {name: json.loads((tmp_path / f"routes-{name}.json").read_text()) for name in ("family", "single")}
    assert routes["family"]["table"]["json_repair"] == 0
    assert set(routes["single"]["accuracy"][""]) == {"-1", "0"}, routes  # the host and the one were asked
    assert len(state.organelles) == run.config.population  # nothing to add up
