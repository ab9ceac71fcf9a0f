"""Rules that learn from a generation's own answers, or from those of perturbed copies, and keep nothing, on the shipped
nano host.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_ecologies import evolve, founded, without_clock

from evolora_core.engine.probes import watch
from evolora_core.language.families.base import Grade
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.population.saved import load_population
from evolora_core.searches.adapters.ecology.learning import asking
from evolora_core.searches.adapters.ecology.pace import first_generation
from evolora_core.searches.adapters.ecology.phases.episodes import act, admit, allocate, settle
from evolora_core.searches.adapters.settings.ecology import EcologyConfig

RULES = ["grpo", "hebbian", "es"]


def with_rule(small: Any, rule: Any, **plasticity: Any) -> Any:
    data = small.config.model_dump()
    data["plasticity"] |= {"rule": rule, "steps": 3, "sigma": 0.1, "pairs": 2, **plasticity}
    return EcologyConfig.model_validate(data)


def one_generation(small: Any, rule: Any, mode: str = "single", **plasticity: Any) -> Any:
    """A run and its state after the answers of a first generation, and what its rule's `learn` is given."""
    run = founded(small, with_rule(small, rule, **plasticity), mode=mode)
    groups = allocate(run, admit(run))
    answers = act(run, groups)
    return run, run.state, groups, answers


@pytest.mark.parametrize("mode", ["single", "ecology"])
@pytest.mark.parametrize("rule", RULES)
def test_a_killed_run_goes_on_as_if_nothing_had_been(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: str, rule: Any
) -> None:
    """Killed in the middle of its third generation, after a commit of the second."""
    calibrated = sum(row["flops"] for row in small.prices.meter["rows"])
    budget = {} if mode == "ecology" else {"budget": calibrated + round(560 * small.prices.unit_flops)}
    config = with_rule(small, rule).model_copy(update={"generations": 3})
    straight = evolve(small, tmp_path / "straight", config, mode=mode, **budget)
    assert straight.generations >= 3
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0")
    steps = iter(range(3))

    @contextmanager
    def kill(name: str) -> Iterator[None]:
        yield
        if name == "learn" and next(steps) == 2:
            raise KeyboardInterrupt

    with watch(kill), pytest.raises(KeyboardInterrupt):
        evolve(small, tmp_path / "killed", config, mode=mode, **budget)
    with caplog.at_level("INFO"):
        evolve(small, tmp_path / "killed", config, mode=mode, **budget)
    assert "resumed at generation 2" in caplog.text
    assert without_clock(tmp_path / "killed") == without_clock(tmp_path / "straight")
    weights = [(tmp_path / name / "population.safetensors").read_bytes() for name in ("killed", "straight")]
    assert weights[0] == weights[1]
    population, _ = load_population(small.host, tmp_path / "straight")
    assert float(population.delta_norms().max()) > 0


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_kept_sold_or_rehearsed_in_the_end(small: Any, rule: Any) -> None:
    run, state, groups, answers = one_generation(small, rule, "ecology")
    assert settle(run, groups, answers) == []
    assert not any(map(len, state.buffers.values()))
    assert run.cooldown == 0


@pytest.mark.parametrize("rule", RULES)
def test_a_first_generation_costs_about_what_was_foretold(small: Any, rule: Any) -> None:
    """A budget that pays for no generation is refused by it."""
    run, state, groups, answers = one_generation(small, rule, mode="ecology", steps=4, pairs=8)
    before = run.task.prices.spent
    run.rule.learn(run, groups, answers)
    assert 0.5 < first_generation(run) / (state.meter.total() - before) < 2


@pytest.mark.parametrize("rule", RULES)
def test_the_learners_pay_for_all_that_the_meter_counts(small: Any, rule: Any) -> None:
    run, state, groups, answers = one_generation(small, rule, "ecology")
    before = state.meter.total()  # perturbed copies' answers are rollouts
    state.ledger.drain()
    run.rule.learn(run, groups, answers)
    spent = state.meter.total() - before
    paid = [row for row in state.ledger.drain() if row["entry"] == "update" and row["account"] == "sink"]
    assert spent > 0 and sum(row["amount"] for row in paid) == pytest.approx(run.task.energy(spent), abs=len(paid))
    assert sum(organelle.learned == 0 for organelle in state.living) == len(run.task.families)


def test_the_hosts_reading_is_metered(small: Any) -> None:
    """With a KL divergence an update costs one pass of the bare host more for every row that is learned from."""
    spent = []
    for kl in (0.0, 0.1):
        run, state, groups, answers = one_generation(small, "grpo", kl=kl, single_batch_rows=64)
        before = state.meter.flops("update")
        run.rule.learn(run, groups, answers)
        spent.append(state.meter.flops("update") - before)
    rows = 0
    for group, outcomes in zip(groups, answers, strict=True):
        correct = [outcome.grade.correct for outcome in outcomes]
        if any(correct) and not all(correct):
            lengths = np.array([len(run.task.prompts[group.item]) + len(o.sampled.tokens) for o in outcomes])
            rows += run.task.flops.score_flops(lengths, np.array([len(o.sampled.tokens) for o in outcomes])).sum()
    assert 0 < rows == spent[1] - spent[0]


def test_where_all_samples_of_an_item_are_alike_nothing_is_learned(small: Any) -> None:
    run, state, groups, answers = one_generation(small, "grpo")
    before, spent = state.population.weights.clone(), state.meter.flops("update")
    run.rule.learn(run, groups, [[outcomes[0]] * len(outcomes) for outcomes in answers])
    assert torch.equal(state.population.weights, before)
    assert state.meter.flops("update") == spent


def test_the_rule_hebbian_compares_with_a_running_mean_of_the_family(small: Any) -> None:
    """As expected, nothing changes; better than expected, weights and expectation do, of the families that were met."""
    run, state, groups, answers = one_generation(small, "hebbian")
    right = [i for i, outcomes in enumerate(answers) if outcomes[0].grade.correct]
    assert right
    met = {run.task.families.index(run.task.items[groups[i].item].family) for i in right}
    groups, answers = [groups[i] for i in right], [[answers[i][0]] for i in right]
    before = state.population.weights.clone()
    state.baselines[:] = 1.0
    run.rule.learn(run, groups, answers)
    assert torch.equal(state.population.weights, before) and (state.baselines == 1).all()
    state.baselines[:] = 0.5
    run.rule.learn(run, groups, answers)
    moved = 0.5 + run.config.curriculum.smoothing * 0.5
    assert state.baselines.tolist() == pytest.approx(
        [moved if i in met else 0.5 for i in range(len(run.task.families))]
    )
    assert not torch.equal(state.population.weights, before)


@pytest.mark.parametrize("rule", RULES)
def test_a_generation_without_answers_teaches_nothing(small: Any, rule: Any) -> None:
    run, state, _, _ = one_generation(small, rule, "ecology")
    groups = allocate(run, [])
    before = state.population.weights.clone()
    run.rule.learn(run, groups, act(run, groups))
    assert torch.equal(state.population.weights, before)


def test_wrong_answers_teach_too(small: Any) -> None:
    """Of a group with one right answer, the wrong ones alone change the weights too."""
    run, state, groups, answers = one_generation(small, "grpo")
    mixed = next(i for i, own in enumerate(answers) if 0 < sum(o.grade.correct for o in own) < len(own))
    own = [replace(o, sampled=None) if o.grade.correct else o for o in answers[mixed]]
    before = state.population.weights.clone()
    run.rule.learn(run, [groups[mixed]], [own])
    assert not torch.equal(state.population.weights, before)


def test_perturbed_copies_stay_within_the_rank_and_mirror_each_other(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, state, groups, answers = one_generation(small, "es", "ecology", pairs=3, sigma=0.1)
    before, asked = state.population.weights.clone(), []

    def spied(host: Any, tried: Any, items: Any, slots: Any, *given: Any, **more: Any) -> Any:
        asked.append((tried.weights.clone(), tried.ranks.clone(), np.asarray(slots), [item.family for item in items]))
        return answer_items(host, tried, items, slots, *given, **more)

    monkeypatch.setattr(asking, "answer_items", spied)
    run.rule.learn(run, groups, answers)
    learners = [organelle for organelle in state.living if organelle.learned == 0]
    weights, ranks, slots, families = asked[0]
    assert len(asked) == 3 and len(weights) == 6 * len(learners)
    for number, learner in enumerate(learners):
        copies = weights[6 * number : 6 * number + 6]
        noise = copies - before[learner.slot]
        assert torch.allclose(noise[:3], -noise[3:], atol=1e-6) and noise.abs().max() > 0.1
        assert (ranks[6 * number : 6 * number + 6] == learner.rank).all()
        outside = ~state.population.rank_mask(torch.tensor([learner.slot]))[0]
        assert (copies[:, outside] == 0).all() and (state.population.weights[learner.slot, outside] == 0).all()
        own = [family for slot, family in zip(slots, families, strict=True) if slot // 6 == number]
        assert set(own) == {learner.niche} and len(own) % 6 == 0


def test_perturbed_copies_that_score_alike_teach_nothing(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run, state, groups, answers = one_generation(small, "es")
    before, spent = state.population.weights.clone(), state.meter.flops("rollout")
    wrong = Grade(0.0, False, "wrong")

    def failed(*args: Any, **more: Any) -> Any:
        return [replace(outcome, grade=wrong) for outcome in answer_items(*args, **more)]

    monkeypatch.setattr(asking, "answer_items", failed)
    run.rule.learn(run, groups, answers)
    assert torch.equal(state.population.weights, before)
    assert state.meter.flops("rollout") > spent
