"""Training rows as token ids: the very prompts that evaluation asks, their answers, the end token."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evolora_core.errors import DataError
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.template import Example
from evolora_core.searches.adapters.routing.shots import Solved


@dataclass(frozen=True)
class TrainingRows:
    """Tokenised rows. `left_out` items do not fit the host's context and are not among them."""

    prompts: list[list[int]]
    completions: list[list[int]]
    left_out: int

    @property
    def input_ids(self) -> list[list[int]]:
        """Prompt and completion of each row."""
        return [prompt + completion for prompt, completion in zip(self.prompts, self.completions, strict=True)]

    @property
    def completion_mask(self) -> list[list[int]]:
        """1 where the loss counts: on the completion, its end token included."""
        return [
            [0] * len(prompt) + [1] * len(answer) for prompt, answer in zip(self.prompts, self.completions, strict=True)
        ]

    @cached_property
    def answers(self) -> np.ndarray:
        """Completion tokens of each row `[rows]`."""
        return np.array([len(ids) for ids in self.completions], dtype=np.int64)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each row `[rows]`."""
        return self.answers + np.array([len(ids) for ids in self.prompts], dtype=np.int64)


def tokenise(host: Host, items: Sequence[Solved], examples: Sequence[Sequence[Example]] | None = None) -> TrainingRows:
    """Rows of all items whose prompt, `examples` before it, and completion fit the host's context together. DataError
    if none does.
    """
    prompts = host.encode_prompts([item.prompt for item in items], examples)
    completions = host.encode_answers([item.answer for item in items])
    fits = [len(p) + len(c) <= host.max_context for p, c in zip(prompts, completions, strict=True)]
    if not any(fits):
        raise DataError(f"sft: none of {len(items)} training items fits the context of {host.name}; use shorter depths")
    kept = [i for i, fit in enumerate(fits) if fit]
    return TrainingRows([prompts[i] for i in kept], [completions[i] for i in kept], len(items) - len(kept))
