from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolora_core.errors import StageError
from evolora_core.searches.adapters.rivals.plan import SELECTION_SHARE, make_plan


def plan_for(
    lengths: Any,
    *,
    steps: float = 7.5,
    batch_rows: int = 4,
    checkpoints: int = 3,
    seed: int = 0,
    questions: Any = None,
    cost: int = 100,
) -> Any:
    tokens = np.array(lengths)
    mean = tokens.mean() * cost * batch_rows
    budget = int(steps * mean)
    return budget, make_plan(
        tokens * cost,
        tokens,
        budget_flops=budget,
        batch_rows=batch_rows,
        checkpoints=checkpoints,
        seed=seed,
        question_flops=questions,
    )


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=40),
    steps=st.floats(10, 60),
    batch_rows=st.integers(1, 8),
    checkpoints=st.integers(1, 6),
    asked=st.integers(0, 80),
    seed=st.integers(0, 99),
)
def test_the_budget_is_used_and_never_exceeded(
    lengths: Any, steps: float, batch_rows: int, checkpoints: int, asked: int, seed: int
) -> None:
    questions = np.full(asked, 5)
    budget, plan = plan_for(
        lengths, steps=steps, batch_rows=batch_rows, checkpoints=checkpoints, seed=seed, questions=questions
    )
    reserve = plan.questions * 5 * checkpoints
    spent = int(plan.flops.sum()) + reserve
    assert spent <= budget
    assert budget - spent < max(lengths) * 100 * batch_rows  # no further step of any rows would fit
    assert reserve <= SELECTION_SHARE * budget
    assert plan.order.shape == (plan.steps, batch_rows)
    assert plan.keep[-1] == plan.steps and plan.keep[0] >= 1 and len(plan.keep) <= checkpoints
    assert (plan.flops == plan.tokens * 100).all()


def test_every_pass_sees_every_row_once() -> None:
    _, plan = plan_for(list(range(1, 13)), steps=9, batch_rows=4)
    first, second = plan.order[:3].reshape(-1), plan.order[3:6].reshape(-1)
    assert sorted(first) == sorted(second) == list(range(12))
    assert list(first) != list(second)


def test_a_step_is_sorted_by_length() -> None:
    _, plan = plan_for([9, 1, 5, 3, 7, 2, 8, 6])
    assert (np.diff(plan.order, axis=1) != 0).all()
    tokens = np.array([9, 1, 5, 3, 7, 2, 8, 6])
    assert (np.diff(tokens[plan.order], axis=1) >= 0).all()


def test_selection_is_cut_to_its_share_and_needs_a_choice() -> None:
    budget, plan = plan_for([10] * 8, steps=20, questions=np.full(1000, 50), checkpoints=4)
    assert SELECTION_SHARE * budget - 200 < plan.questions * 50 * 4 <= SELECTION_SHARE * budget
    _, alone = plan_for([10] * 8, steps=20, questions=np.full(1000, 50), checkpoints=1)
    assert alone.questions == 0


@pytest.mark.parametrize(("rows", "epochs", "steps"), [(12, 2, 6), (12, 2.5, 7), (10, 1, 2), (3, 1, 1), (3, 4, 3)])
def test_no_more_passes_are_made_than_allowed_and_one_step_at_least(rows: int, epochs: float, steps: int) -> None:
    lengths = np.full(rows, 10)
    given: dict[str, Any] = {"budget_flops": 10**6, "batch_rows": 4, "checkpoints": 1, "seed": 0}
    assert make_plan(lengths * 100, lengths, epochs=epochs, **given).steps == steps
    assert make_plan(lengths * 100, lengths, **given).steps == 250


def test_too_few_questions_to_choose_by_are_not_asked() -> None:
    _, plan = plan_for([10] * 8, steps=20, questions=np.full(5, 50), checkpoints=4)
    assert plan.questions == 0


def test_a_budget_below_one_step_is_refused_with_the_mend() -> None:
    with pytest.raises(StageError, match="does not pay for one optimizer step.*lower sft.batch_rows"):
        plan_for([10] * 8, steps=0.5)


def test_the_fingerprint_tells_plans_apart() -> None:
    prints = {plan_for([3, 4, 5, 6, 7], steps=steps, seed=seed)[1].fingerprint for steps in (4, 8) for seed in (0, 1)}
    assert len(prints) == 4
    assert plan_for([3, 4, 5, 6, 7])[1].fingerprint == plan_for([3, 4, 5, 6, 7])[1].fingerprint
