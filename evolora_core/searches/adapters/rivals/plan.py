"""What a budget buys: the exact sequence of training batches, planned before the first step.

The order of the rows is drawn beforehand, so the FLOPs of every step are known, and with them the number of steps.
The learning rate can then decay to zero exactly where the budget ends, and nothing is overshot. Knows nothing of
models or trainers.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from evolora_core.engine import rng
from evolora_core.errors import Unaffordable

SELECTION_SHARE = 0.1  # of the budget, at most, goes to choosing among checkpoints; training gains more from it
FEWEST_QUESTIONS = 32  # with fewer items a choice is noise, and the last checkpoint the better guess


@dataclass(frozen=True)
class Plan:
    """A training run on paper.

    order       row numbers of the training set, `[steps, batch_rows]`: pass after pass, each shuffled anew;
                within a step sorted by length
    flops       budget FLOPs of each step `[steps]`
    tokens      non-padding tokens of each step `[steps]`
    keep        steps after which the adapter is kept for selection; the last one is always among them
    questions   selection items that are asked, per kept checkpoint; what they and all steps cost is within the budget
    """

    order: np.ndarray
    flops: np.ndarray
    tokens: np.ndarray
    keep: tuple[int, ...]
    questions: int

    @property
    def steps(self) -> int:
        """Optimizer steps."""
        return len(self.order)

    @property
    def fingerprint(self) -> str:
        """Hash of all that the plan fixes; a resumed run must have the same."""
        digest = blake2b(digest_size=16)
        for part in (self.order, self.flops, np.array(self.keep)):
            digest.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
        return digest.hexdigest()


def make_plan(
    row_flops: np.ndarray,
    row_tokens: np.ndarray,
    *,
    budget_flops: int,
    batch_rows: int,
    checkpoints: int,
    seed: int,
    question_flops: np.ndarray | None = None,
    epochs: float | None = None,
) -> Plan:
    """Plan the longest run that a budget pays for.

    `row_flops`, `row_tokens` `[rows]`: cost and length of one training row in one step. `question_flops` `[items]`:
    expected cost of one selection answer, in the order in which the items will be asked; the number of items is cut
    so that `checkpoints` times their cost stays within SELECTION_SHARE of the budget. There is no selection at all
    with a single checkpoint or with fewer than FEWEST_QUESTIONS items. At most `epochs` passes are made, but one step.
    Raises Unaffordable if not even one step is.
    """
    questions, reserve = 0, 0
    if question_flops is not None and len(question_flops) and checkpoints > 1:
        spent = np.cumsum(np.asarray(question_flops, dtype=np.int64)) * checkpoints
        questions = int(np.searchsorted(spent, SELECTION_SHARE * budget_flops, side="right"))
        if questions < FEWEST_QUESTIONS:
            questions = 0
        reserve = int(spent[questions - 1]) if questions else 0
    room = budget_flops - reserve

    order: list[np.ndarray] = []
    flops: list[int] = []
    total = 0
    pending = np.empty(0, dtype=np.int64)
    epoch = 0
    while True:
        while len(pending) < batch_rows:
            shuffled = rng.stream(seed, 0, 0, "sft order", epoch).permutation(len(row_flops))
            pending = np.concatenate([pending, shuffled])
            epoch += 1
        batch, pending = pending[:batch_rows], pending[batch_rows:]
        cost = int(row_flops[batch].sum())
        enough = epochs is not None and bool(order) and (len(order) + 1) * batch_rows > epochs * len(row_flops)
        if total + cost > room or enough:
            break
        order.append(batch[np.argsort(row_tokens[batch], kind="stable")])
        flops.append(cost)
        total += cost
    if not order:
        raise Unaffordable(
            f"sft: the budget of {max(0, budget_flops):.3g} FLOPs, the choice of routes apart, does not pay for one "
            f"optimizer step of {batch_rows} rows ({cost:.3g} FLOPs); raise ecology.generations or ecology.episodes, "
            "or lower sft.batch_rows"
        )
    steps = len(order)
    keep = sorted({max(1, round(steps * (i + 1) / checkpoints)) for i in range(checkpoints)})
    rows = np.stack(order)
    return Plan(rows, np.array(flops), row_tokens[rows].sum(axis=1), tuple(keep), questions)
