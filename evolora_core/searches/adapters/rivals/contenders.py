"""Learning rates that compete: each trains for a part of a budget, and the one that answers best trains anew.

Successive halving with one round. A fine-tuning cannot go on from where its try ended, since its learning rate has
fallen to zero there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import part_of
from evolora_core.searches.adapters.rivals.checkpoints import choose_checkpoint, interleave
from evolora_core.searches.adapters.rivals.plan import SELECTION_SHARE
from evolora_core.searches.adapters.rivals.sft import SftResult, train_sft
from evolora_core.searches.adapters.rivals.shown import before
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.routing.shots import Solved
from evolora_core.searches.adapters.settings.sft import SftSettings

SHARE = 0.5  # of the budget, for all tries together


@dataclass(frozen=True)
class Tried:
    """What the tries left: the settings with the rate that was chosen, and the rows of `sft_steps` of each try."""

    config: SftSettings
    steps: list[dict[str, float | str]]
    meter: Meter


def with_drawn_rate(config: SftSettings, seed: int) -> SftSettings:
    """The settings with the learning rate that the run draws, if it draws one."""
    rate = config.prior.rate(seed, 0)
    return config if rate is None else config.model_copy(update={"learning_rate": rate})


def choose_rate(terms: Terms, items: Sequence[Solved], config: SftSettings, budget_flops: int, folder: Path) -> Tried:
    """Try every contender's rate on an equal part of SHARE of the budget, and take the one whose adapter has most
    selection items right; of equals the first. Each is asked as many items as SELECTION_SHARE of that part pays for.
    Raises Unaffordable if a part pays for no step.
    """
    together = SHARE * budget_flops
    each = int((1 - SELECTION_SHARE) * together / config.contenders)
    meter, results = Meter(), list[SftResult]()
    rates = [config.prior.rate(terms.seed, number) for number in range(config.contenders)]
    for number, rate in enumerate(rates):
        tried = config.model_copy(update={"learning_rate": rate, "checkpoints": 1})
        results.append(
            train_sft(
                terms.host,
                items,
                tried,
                budget_flops=each,
                seed=terms.seed,
                folder=folder / f"contender-{number}",
                progress=part_of(terms.progress, number, 1, 2 * len(rates)),
            )
        )
        meter.merge(results[-1].meter)
    questions = interleave(terms.selection, terms.seed)
    room = terms.decoding.max_new_tokens
    asked = choose_checkpoint(
        terms.host,
        {number: result.adapter_folder for number, result in enumerate(results)},
        questions,
        decoding=terms.decoding,
        allowance=int(together) - meter.total(),
        spent=dict.fromkeys(range(len(results)), each),
        meter=meter,
        examples=before(terms.host, questions, items, config.shots, room).examples,
    )
    best = next(own.step for own in asked if own.chosen)
    return Tried(
        config.model_copy(update={"learning_rate": rates[best]}),
        [{"adapter": f"contender-{number}", **row} for number, own in enumerate(results) for row in own.steps],
        meter,
    )
