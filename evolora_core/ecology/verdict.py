"""What the verifier says: the truth, or, in a suite with `verifier_error`, sometimes the contrary."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from evolora_core.evaluation.outcome import Outcome
from evolora_core.families.base import Grade


def observed(outcomes: Sequence[Outcome], error: float, seed: int) -> list[Outcome]:
    """The outcomes as a verifier grades them that errs with probability `error`.

    It errs consistently: the same answer to the same item always gets the same verdict. An
    error has no partial credit.
    """
    if not error:
        return list(outcomes)
    return [_contrary(outcome) if _uniform(outcome, seed) < error else outcome for outcome in outcomes]


def _uniform(outcome: Outcome, seed: int) -> float:
    text = f"{seed}\0{outcome.item.task_id}\0{outcome.answer}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) / 2**64


def _contrary(outcome: Outcome) -> Outcome:
    right = not outcome.grade.correct
    return replace(outcome, grade=Grade(float(right), right, "verifier error"))
