"""Which items a step of group-relative learning asks, what it can cost at most, and which answers it learns from."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from torch import Tensor, argsort
from torch.utils.data import Sampler

from evolora_core.engine import rng
from evolora_core.language.flops import FlopModel


class Groups(Sampler[int]):
    """The items of every step, `groups` of `items` of them, pass after pass, each shuffled anew.

    As a sampler it gives row numbers as TRL's GRPOTrainer wants them: every item of a step `samples` times in a row,
    and each step's rows once for each of the `parts` into which its batch is cut.
    """

    def __init__(self, items: int, *, groups: int, samples: int, parts: int, steps: int, seed: int) -> None:
        self.items, self.groups, self.samples, self.parts, self.steps = items, groups, samples, parts, steps
        self.seed = seed
        self._shuffled = lru_cache(maxsize=4)(self._shuffle)

    def chosen(self, step: int) -> np.ndarray:
        """Item numbers of a step, counted from 0, `[groups]`."""
        places = np.arange(step * self.groups, (step + 1) * self.groups)
        return np.array([self._shuffled(int(p) // self.items)[p % self.items] for p in places])

    def __iter__(self) -> Iterator[int]:
        for step in range(self.steps):
            for _ in range(self.parts):
                yield from np.repeat(self.chosen(step), self.samples).tolist()

    def __len__(self) -> int:
        return self.steps * self.parts * self.groups * self.samples

    def _shuffle(self, number: int) -> np.ndarray:
        return rng.stream(self.seed, 0, 0, "grpo order", number).permutation(self.items)


def group_flops(
    model: FlopModel, prompts: np.ndarray, answers: int | np.ndarray, *, samples: int, rank: int, reference: bool
) -> np.ndarray:
    """Budget FLOPs `[groups]` of `samples` answers to each prompt: sampled, learned, and, with `reference`, scored by
    the host. `prompts`, `answers` are tokens, the end token included.
    """
    whole = np.asarray(prompts) + answers
    each = model.generate_flops(prompts, answers, rank) + model.train_flops(whole, answers, rank)
    result: np.ndarray = samples * (each + (model.score_flops(whole, answers) if reference else 0))
    return result


# Above what rounding leaves of equal rewards: 6e-8 of them, divided by the least deviation that TRL divides by, 1e-4.
ROUNDED = 1e-3


def informative(batch: dict[str, Any], parts: int) -> dict[str, Any]:
    """The rows of a batch whose advantage is not 0 but for rounding, filled up with others to one row at least for each
    of `parts`, and equally many in each. An answer as good as the mean of its group has no gradient where there is no
    KL term.
    """
    advantages: Tensor = batch["advantages"]
    teaches = advantages.abs() > ROUNDED
    teaching = int(teaches.sum())
    count = max(1, -(-teaching // parts)) * parts
    rows = argsort((~teaches).int(), stable=True)[:count].sort().values
    return {
        name: value[rows] if isinstance(value, Tensor) and value.ndim and len(value) == len(advantages) else value
        for name, value in batch.items()
    }
