"""What is asked for, and what comes of asking: how answers are decoded, and one graded answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from evolora_core.language.families.base import Grade, Item

if TYPE_CHECKING:
    import numpy as np

    from evolora_core.language.hosts.template import Example
    from evolora_core.lora.population.generate import Alternatives, Sampled


class Decoding(Protocol):
    """What `DecodingConfig` says about decoding; the same for every arm."""

    @property
    def max_new_tokens(self) -> int: ...

    @property
    def batch_rows(self) -> int: ...

    @property
    def stop_strings(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class Manner:
    """How rows are answered; greedily, unless it says otherwise.

    temperatures  of each row, or of all
    keys          the rows' random streams (uint64 `[rows]`), needed where a temperature is above 0
    sampled       whether all sampled tokens are asked for
    prefixes      token ids with which each answer begins; reading them costs like reading a longer prompt
    examples      solved examples that are shown before each prompt
    alternatives  how many of the tokens not taken are asked for
    """

    temperatures: float | Sequence[float] = 0.0
    keys: "np.ndarray | None" = None
    sampled: bool = False
    prefixes: Sequence[Sequence[int]] | None = None
    examples: "Sequence[Sequence[Example]] | None" = None
    alternatives: int = 0


GREEDY = Manner()


@dataclass(frozen=True)
class Outcome:
    """One answer of one organelle (`slot`; -1 = bare host) to one item.

    answer_tokens   sampled tokens, the end token included
    flops           budget FLOPs: non-padding tokens, KV cache, no prefix sharing, the slot's own rank
    executed_flops  what was computed for it: padding, the batch's highest rank, shared prefills
    tokens          token ids of the answer, given prefix included, the end token excluded
    finished        whether it ended of itself, within the token cap
    alternatives    the tokens not taken after the prefix, if they were asked for
    sampled         all sampled tokens with their log-probabilities, if they were asked for
    """

    item: Item
    slot: int
    answer: str
    grade: Grade
    prompt_tokens: int
    answer_tokens: int
    flops: int
    executed_flops: int
    tokens: list[int]
    finished: bool
    alternatives: "Alternatives | None" = None
    sampled: "Sampled | None" = None


def evaluation_rows(
    split: str, arm: str, outcomes: Sequence[Outcome], organelle_of_slot: Mapping[int, int] | None = None
) -> list[dict[str, Any]]:
    """Rows of the table `evaluations`; `organelle` is -1 for the bare host, -2 for the host after
    examples, and the slot where no ids are given.
    """
    ids = organelle_of_slot or {}
    return [
        {
            "split": split,
            "task_id": outcome.item.task_id,
            "family": outcome.item.family,
            "depth": outcome.item.depth,
            "arm": arm,
            "organelle": ids.get(outcome.slot, outcome.slot),
            "prompt": outcome.item.prompt,
            "answer": outcome.answer,
            "score": outcome.grade.score,
            "correct": outcome.grade.correct,
            "reason": outcome.grade.reason,
            "prompt_tokens": outcome.prompt_tokens,
            "answer_tokens": outcome.answer_tokens,
            "flops": outcome.flops,
        }
        for outcome in outcomes
    ]
