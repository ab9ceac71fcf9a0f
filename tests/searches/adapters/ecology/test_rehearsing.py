"""The sum that goes on learning: what it learns from, what it costs, and that a budget pays for it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from small_ecologies import evolve, founded, rows, without_clock

from evolora_core.engine.meter import Meter
from evolora_core.language.families.registry import gold
from evolora_core.lora.population.merge import add_up, resize
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import build_batch, gradients_of
from evolora_core.searches.adapters.ecology.horizon import Horizon
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.phases.choosing import sum_of
from evolora_core.searches.adapters.ecology.phases.rehearsing import rehearsed
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.settings.ecology import EcologyConfig

SHARE = 0.5


def rehearsing(config: EcologyConfig, share: float = SHARE) -> EcologyConfig:
    return config.model_copy(update={"assimilation": config.assimilation.model_copy(update={"rehearsal": share})})


@pytest.fixture
def run(small: Any, skill: Any, tmp_path: Path) -> Run:
    """Two that have an adapter and memories of gold answers, a first one of each family, after some FLOPs."""
    made: Run = founded(small, rehearsing(small.config), folder=tmp_path)
    state, host = made.state, small.host
    for organelle in state.organelles[:2]:
        state.population.put(organelle.slot, resize(skill, int(state.population.ranks[organelle.slot])))
        own = [n for n, item in enumerate(small.items) if item.family == organelle.niche][:16]
        for n, tokens in zip(own, host.encode_answers([gold(small.items[n]) for n in own]), strict=True):
            state.remember(organelle, Memory(n, tuple(tokens[:-1]), 1.0), 100)
    state.meter.add("rollout", flops=int(5e9), tokens=1, seconds=0.0)
    return made


def loss(run: Run, adapter: Any) -> float:
    """Of an adapter, over all that the first two remember."""
    memories = [own for number in (0, 1) for own in run.state.buffers[number].memories.values()]
    population = Population.empty(run.task.host, 1, adapter.rank)
    population.put(0, adapter)
    prompts = [run.task.prompts[memory.item] for memory in memories]
    answers = [[*memory.tokens, run.task.host.template.end] for memory in memories]
    batch = build_batch(run.task.host, prompts, answers, [0] * len(memories), np.ones(len(memories)))
    return float(gradients_of(run.task.host, population, batch)[1].sum())


def test_the_sum_learns_what_its_parents_remember_for_its_share(run: Run) -> None:
    parents = run.state.organelles[:2]
    plain = add_up([run.state.population.get(parent.slot) for parent in parents], 0.85)
    meter, before = Meter(), run.state.meter.total()
    learned = rehearsed(run, plain, parents, meter)
    assert loss(run, learned) < 0.9 * loss(run, plain) and learned.rank == plain.rank
    assert 0.7 * SHARE * before < meter.total() == meter.flops("update") <= SHARE * before
    assert run.state.meter.total() == before  # whoever asks is charged
    again = rehearsed(run, plain, parents, Meter())
    assert all(torch.equal(again.A[name], learned.A[name]) for name in learned.A)


def test_without_memories_or_flops_it_stays_the_sum(run: Run) -> None:
    parents, meter = run.state.organelles[2:4], Meter()
    plain = add_up([run.state.population.get(slot) for slot in (0, 1)], 0.85)
    same = rehearsed(run, plain, parents, meter)
    assert all(torch.equal(same.delta(name), plain.delta(name)) for name in plain.A)
    assert meter.total() == 0


def test_the_sum_of_a_run_is_the_one_that_rehearsed(run: Run) -> None:
    parents = run.state.organelles[:2]
    plain = add_up([run.state.population.get(parent.slot) for parent in parents], 0.85)
    population = sum_of(run, [parent.slot for parent in parents], run.state.meter)
    assert loss(run, population.get(population.capacity - 1)) < 0.9 * loss(run, plain)
    assert run.state.meter.flops("update") > 0


def test_a_budget_leaves_room_for_it() -> None:
    whole = Horizon(None, 1200)
    assert whole.leaving(0.2).budget_flops == 1000 and whole.leaving(0.0) is whole
    assert Horizon(4).leaving(0.2) == Horizon(4)


@pytest.mark.parametrize("budget", [None, int(6e10)])
def test_a_run_that_rehearses_is_deterministic_and_keeps_to_its_budget(
    small: Any, tmp_path: Path, budget: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evolora_core.searches.adapters.routing.candidates.PROOF", -100.0)  # so that there is a sum
    config = rehearsing(small.config.model_copy(update={"generations": 2}))
    first = evolve(small, tmp_path / "first", config, budget=budget)
    assert rows(first.folder, "organelles")[-1]["niche"] == ""
    spent = flops_of(first.folder)
    if budget:
        assert sum(spent.values()) == first.meter.total() <= budget
    else:
        again = evolve(small, tmp_path / "again", config)
        assert without_clock(first.folder) == without_clock(again.folder)
        plain = flops_of(evolve(small, tmp_path / "plain", rehearsing(config, 0.0)).folder)
        more, before = spent["update"] - plain["update"], sum(plain.values()) - plain["routing"]
        assert 0.7 * SHARE * before < more <= SHARE * before


def flops_of(folder: Path) -> dict[str, int]:
    """What a run spent, by purpose."""
    return {row["purpose"]: row["flops"] for row in rows(folder, "compute")}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"assimilation": {"rehearsal": 0.1, "sum_weight": 0}}, "sum_weight: 0 makes none"),
        ({"assimilation": {"rehearsal": 0.1}, "plasticity": {"rule": "grpo"}}, "the rule grpo remembers nothing"),
    ],
)
def test_what_cannot_rehearse_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        EcologyConfig.model_validate(changes)
