"""What samples are worth relative to their group, and which of them a step goes over."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.searches.adapters.ecology.learning.on_policy import step_order
from evolora_core.searches.adapters.ecology.rules.grpo import advantages


def test_right_and_wrong_answers_are_worth_what_they_are_over_the_mean() -> None:
    assert advantages(np.array([1.0, 0.0, 0.0, 0.0])).tolist() == [0.75, -0.25, -0.25, -0.25]
    assert not advantages(np.ones(3)).any() and not advantages(np.zeros(3)).any()


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_a_group_as_a_whole_is_worth_nothing(correct: Any) -> None:
    own = advantages(np.array(correct, dtype=float))
    assert abs(own.sum()) < 1e-12
    assert all((worth >= 0) == right or worth == 0 for worth, right in zip(own, correct, strict=True))


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 6), st.integers(0, 9))
def test_every_sample_is_taken_once_before_any_is_taken_again(samples: Any, rows: Any, steps: Any, seed: int) -> None:
    order = step_order(samples, rows, steps, np.random.default_rng(seed))
    assert order.shape == (steps, rows) and order.max() < samples
    counts = np.bincount(order.ravel(), minlength=samples)
    taken = counts[counts > 0]
    assert len(taken) == min(samples, rows * steps)
    assert taken.max() - taken.min() <= 1
