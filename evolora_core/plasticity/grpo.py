"""Policy gradients relative to the group: what the samples of one item are worth, compared with one another.

As GRPO (arXiv 2402.03300), the mean reward of an organelle's own samples of an item is the baseline of each, so no
critic is needed and wrong answers teach too. As Dr. GRPO (arXiv 2503.20783, section 3), the difference is not divided
by the group's standard deviation: that would weigh items that are nearly always or nearly never solved the most, where
a right answer is often luck, and would no longer be the gradient of the expected reward.
"""

import numpy as np


def advantages(rewards: np.ndarray) -> np.ndarray:
    """Reward less the group's mean, `[samples]`; all 0 where all are right or all wrong, which teaches nothing."""
    result: np.ndarray = rewards - rewards.mean()
    return result


def step_order(samples: int, rows: int, steps: int, draw: np.random.Generator) -> np.ndarray:
    """Which of the samples each step goes over, `[steps, rows]`: all once in random order, then all again.

    If there are more than the steps can take, the rest are left out.
    """
    taken = draw.permutation(samples)[: rows * steps]
    rounds = -(-rows * steps // len(taken))
    return np.concatenate([taken, *(draw.permutation(taken) for _ in range(rounds - 1))])[: rows * steps].reshape(
        steps, rows
    )
