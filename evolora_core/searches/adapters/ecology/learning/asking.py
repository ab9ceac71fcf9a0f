"""Ask organelles, and hear what the verifier says: the truth, or, in a suite with `verifier_error`, sometimes the
contrary.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from evolora_core.language.families.base import Grade
from evolora_core.lora.answering.grading import TOO_LONG, answer_items
from evolora_core.lora.answering.outcome import GREEDY, Manner, Outcome
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.ecology.organelle import Group
from evolora_core.searches.adapters.ecology.run import Run


def ask(
    run: Run,
    population: Population,
    items: Sequence[int] | np.ndarray,
    slots: Sequence[int] | np.ndarray,
    manner: Manner = GREEDY,
) -> list[Outcome]:
    """Let `slots[i]` of a population answer item number `items[i]`, and grade as the run's verifier does. It charges
    nobody.
    """
    chosen = [run.task.items[item] for item in items]
    outcomes = answer_items(run.task.host, population, chosen, slots, manner, decoding=run.task.decoding)
    return observed(outcomes, run.config.verifier_error, run.task.seed)


def samples(run: Run, groups: Sequence[Group], *, sampled: bool = False) -> list[list[Outcome]]:
    """`config.samples` independent samples of every group, each organelle at its own temperature; with the
    log-probabilities of their tokens if they are to be `sampled`.
    """
    count = run.config.samples
    repeated = [group for group in groups for _ in range(count)]
    outcomes = ask(
        run,
        run.state.population,
        [group.item for group in repeated],
        np.array([group.organelle.slot for group in repeated]),
        Manner(
            temperatures=[group.organelle.temperature for group in repeated],
            keys=run.keys("act", len(repeated)),
            sampled=sampled,
        ),
    )
    return [outcomes[i : i + count] for i in range(0, len(outcomes), count)]


def observed(outcomes: Sequence[Outcome], error: float, seed: int) -> list[Outcome]:
    """The outcomes as a verifier grades them that errs with probability `error`.

    It errs consistently: the same answer to the same item always gets the same verdict. An error has no partial credit.
    Items that were too long to be asked have no answer that it could judge.
    """
    if not error:
        return list(outcomes)
    return [
        _contrary(outcome) if outcome.grade != TOO_LONG and _uniform(outcome, seed) < error else outcome
        for outcome in outcomes
    ]


def _uniform(outcome: Outcome, seed: int) -> float:
    text = f"{seed}\0{outcome.item.task_id}\0{outcome.answer}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) / 2**64


def _contrary(outcome: Outcome) -> Outcome:
    right = not outcome.grade.correct
    return replace(outcome, grade=Grade(float(right), right, "verifier error"))
