"""Merging some tensors by an operator's name."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from evolora_core.searches.merging.operators.registry import get_operator

Merge = Callable[..., Tensor]


@pytest.fixture(scope="session")
def merge() -> Merge:
    """(operator, inputs, base, seed=, options=, parameters...) -> the merged tensor; the stream of input i has seed
    `seed` + i.
    """

    def merged(
        name: str,
        inputs: Sequence[Tensor],
        base: Tensor | None = None,
        *,
        seed: int = 0,
        options: dict[str, str] | None = None,
        **params: float | list[float],
    ) -> Tensor:
        operator = get_operator(name)
        operator.check(len(inputs), params, options or {})
        values = operator.resolve(params, len(inputs), float)
        streams = [torch.Generator().manual_seed(seed + index) for index in range(len(inputs))]
        return operator.apply(
            inputs, base if operator.base else None, values, operator.choices(options or {}), streams.__getitem__
        )

    return merged
