"""A verifier that errs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small_ecologies import founded

from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import grade
from evolora_core.lora.answering.grading import TOO_LONG
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.searches.adapters.ecology.learning.asking import observed
from evolora_core.searches.adapters.ecology.learning.learners import Share
from evolora_core.searches.adapters.ecology.merit import appraise
from evolora_core.searches.adapters.ecology.phases.episodes import act, admit, allocate
from evolora_core.searches.adapters.ecology.phases.merging import Proposal, answers_of
from evolora_core.searches.adapters.ecology.rules import es


def outcome(number: int, answer: str) -> Outcome:
    item = Item(f"Compute {number} + 1.", number + 1, "math", "short", f"math:short:{number}")
    return Outcome(item, 0, answer, grade(item, answer), 5, 2, 10, 10, [1], True)


@pytest.mark.parametrize("error", [0.05, 0.3])
def test_it_errs_as_often_as_it_should_in_both_directions(error: float) -> None:
    given = [outcome(i, str(i + 1 if i % 2 else i + 2)) for i in range(4000)]
    seen = observed(given, error, seed=3)
    flipped = np.array([a.grade.correct != b.grade.correct for a, b in zip(given, seen, strict=True)])
    for half in (flipped[::2], flipped[1::2]):
        assert abs(half.mean() - error) < 4 * np.sqrt(error * (1 - error) / len(half))
    assert all(b.grade.reason == "verifier error" for b, own in zip(seen, flipped, strict=True) if own)
    assert observed(given, 0.0, seed=3) == given


def test_it_has_nothing_to_judge_where_an_item_was_too_long_to_be_asked() -> None:
    given = [replace(outcome(i, ""), grade=TOO_LONG, tokens=[]) for i in range(200)]
    assert observed(given, 0.3, seed=3) == given


def test_it_errs_again_about_the_same_answer_whoever_gives_it() -> None:
    given = [outcome(i, str(i + 1)) for i in range(200)]
    others = [replace(one, slot=7, flops=20) for one in given]
    verdicts, again = ([o.grade.correct for o in observed(own, 0.3, seed=1)] for own in (given, list(reversed(others))))
    assert verdicts == again[::-1]
    assert verdicts != [o.grade.correct for o in observed(given, 0.3, seed=2)]


def run_of(small: Any, error: Any, **plasticity: Any) -> Any:
    """An ecology whose verifier errs."""
    own = small.config.plasticity.model_copy(update=plasticity)
    config = small.config.model_copy(update={"verifier_error": error, "plasticity": own, "episodes": 120})
    return founded(small, config)


def wrongly(outcomes: Any) -> Any:
    """The share of answers about which the verifier was wrong; each answer counts once."""
    once = {(o.item.task_id, o.answer): o for o in outcomes}.values()
    return np.mean([o.grade.correct != grade(o.item, o.answer).correct for o in once])


@pytest.mark.parametrize("rule", ["search", "grpo"])
def test_whoever_practises_hears_the_errors(small: Any, rule: str) -> None:
    for error, least, most in ((0.0, 0.0, 0.0), (0.5, 0.3, 0.7)):
        run = run_of(small, error, rule=rule)
        groups = allocate(run, admit(run))
        answers = [outcome for own in act(run, groups) for outcome in own]
        assert least <= wrongly(answers) <= most


@pytest.mark.parametrize("error", [0.0, 0.2, 0.5])
def test_who_answers_like_the_host_gains_nothing_by_errors(small: Any, error: float) -> None:
    """Of an erring verifier the host is right in as many answers more or less as whoever is compared with it."""
    run = run_of(small, error)
    state = run.state
    adapter = state.population.get(0)
    torch.nn.init.constant_(next(iter(adapter.B.values())), 0.01)
    state.population.put(0, adapter)
    truth = np.array([small.prices.accuracy[f"{family}/{depth}"] for family, depth in run.task.cells])
    heard = truth * (1 - error) + (1 - truth) * error
    state.practice[0, :, :2] = np.stack([np.full(len(truth), 1e4), 1e4 * heard], axis=1)
    np.testing.assert_allclose(appraise(run).gain[0], 0, atol=1e-3)


def test_perturbed_copies_hear_the_errors(small: Any) -> None:
    run = run_of(small, 0.5, rule="es", pairs=2)
    attempt = es.attempt(run, appraise(run), Share(run.state.living[0], 40), np.random.default_rng(0))
    (answers,) = es.ask_copies(run, [attempt])
    assert 0.3 < wrongly(answers) < 0.7


def test_a_merge_is_judged_by_the_same_verifier(small: Any) -> None:
    verdicts = []
    for error in (0.0, 1.0):
        run = run_of(small, error)
        first, second = run.state.living[:2]
        pair = Proposal(first, second, ("json_repair", "math"), "weighted", 0.0)
        verdicts.append(answers_of(run, pair, np.arange(20), [0, 1]))
    assert (verdicts[0] == ~verdicts[1]).all()
