"""Learning rates that compete: successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943) of fine-tunings.

In each round the rates that are left train for equal parts of a budget, and the better half goes on. A fine-tuning
cannot go on from where its try ended, since its learning rate has fallen to zero there: it trains anew, for longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress, part_of
from evolora_core.errors import Unaffordable
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.searches.adapters.rivals.checkpoints import Checkpoint, choose_checkpoint, interleave
from evolora_core.searches.adapters.rivals.plan import FEWEST_QUESTIONS, SELECTION_SHARE
from evolora_core.searches.adapters.rivals.sft import SftResult, train_sft
from evolora_core.searches.adapters.rivals.shown import Before, before
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.routing.shots import Solved
from evolora_core.searches.adapters.settings.sft import SftSettings

SHARE = 0.5  # of the budget, for all tries together; each round has an equal part of it

Row = dict[str, float | str]


@dataclass(frozen=True)
class Tried:
    """What the tries left: the settings with the rate that was chosen, and the rows of `sft_steps` of each try."""

    config: SftSettings
    steps: list[Row]
    meter: Meter


def with_drawn_rate(config: SftSettings, seed: int) -> SftSettings:
    """The settings with the learning rate that the run draws, if it draws one."""
    rate = config.prior.rate(seed, 0)
    return config if rate is None else config.model_copy(update={"learning_rate": rate})


def choose_rate(terms: Terms, items: Sequence[Solved], config: SftSettings, budget_flops: int, folder: Path) -> Tried:
    """Halve the contenders until one is left, on at most SHARE of the budget. Raises Unaffordable, before anything is
    trained, if a try pays for no step, or the share of a round's answers might not pay for FEWEST_QUESTIONS of each.
    """
    rates = {number: config.prior.rate(terms.seed, number) for number in range(config.contenders)}
    tried = {
        number: config.model_copy(update={"learning_rate": rate, "checkpoints": 1}) for number, rate in rates.items()
    }
    rounds = (len(rates) - 1).bit_length()
    meter, steps = Meter(), list[Row]()
    part_flops = int(SHARE * budget_flops / rounds)
    questions = _questions(terms, items, config)
    _check_affordable(terms, questions, config, part_flops)
    meter.add("update", questions.shown.flops, 0, 0.0)  # they are chosen once, for all rounds
    left = list(tried)
    for number in range(rounds):
        if len(left) == 1:  # the others diverged: what is left of the budget trains it
            break
        part, name = part_of(terms.progress, number, 1, 2 * rounds), f"round-{number + 1}"
        own = {one: tried[one] for one in left}
        asked, made = _round(terms, items, questions, own, part_flops, folder / name, meter, part)
        steps += [{"adapter": f"{name}-contender-{one}", **row} for one, rows in made.items() for row in rows]
        best = sorted(asked, key=lambda one: (-(one.accuracy or 0.0), not one.chosen, one.step))
        left = sorted(one.step for one in best[: (len(best) + 1) // 2])
    return Tried(config.model_copy(update={"learning_rate": rates[left[0]]}), steps, meter)


@dataclass(frozen=True)
class _Questions:
    """Selection items in the order in which every round asks them, and the examples before each."""

    items: list[Item]
    shown: Before


def _questions(terms: Terms, items: Sequence[Solved], config: SftSettings) -> _Questions:
    asked = interleave(terms.selection, terms.seed)
    return _Questions(asked, before(terms.host, asked, items, config.shots, terms.decoding.max_new_tokens))


def _check_affordable(terms: Terms, questions: _Questions, config: SftSettings, budget_flops: int) -> None:
    """Raise Unaffordable unless what a round of so many FLOPs sets aside for answers pays for FEWEST_QUESTIONS of each
    contender, or all there are, however long the answers. The first round has most contenders.
    """
    host, fewest = terms.host, min(FEWEST_QUESTIONS, len(questions.items))
    prompts = host.encode_prompts([item.prompt for item in questions.items[:fewest]], questions.shown.examples[:fewest])
    model, lengths = FlopModel.from_model(host.model), [len(ids) for ids in prompts]
    each = int(model.generate_flops(lengths, terms.decoding.max_new_tokens, config.rank).sum())
    dearest, room = config.contenders * each + questions.shown.flops, SELECTION_SHARE * budget_flops
    if dearest > room:
        raise Unaffordable(
            f"sft: {max(0, room):.3g} FLOPs, the share of the answers by which contenders are compared, do not pay for "
            f"{fewest} of each ({dearest:.3g} FLOPs); raise ecology.generations or ecology.episodes, or lower "
            "sft.contenders"
        )


def _round(
    terms: Terms,
    items: Sequence[Solved],
    questions: _Questions,
    tried: dict[int, SftSettings],
    budget_flops: int,
    folder: Path,
    meter: Meter,
    progress: Progress,
) -> tuple[list[Checkpoint], dict[int, list[dict[str, float]]]]:
    """Each contender trains on an equal part of the budget, and all answer the same selection items, as many as
    SELECTION_SHARE of it pays for; one that diverged answers only where all did. Returns how they answered, a
    contender's number in the place of a step, and the rows of `sft_steps` of each.
    """
    each = int((1 - SELECTION_SHARE) * budget_flops / len(tried))
    spent, results = meter.total(), dict[int, SftResult]()
    for place, (number, own) in enumerate(tried.items()):
        results[number] = train_sft(
            terms.host,
            items,
            own,
            budget_flops=each,
            seed=terms.seed,
            folder=folder / f"contender-{number}",
            progress=part_of(progress, place, 1, len(tried)),
        )
        meter.merge(results[number].meter)
    sound = {number: result for number, result in results.items() if not result.diverged} or results
    asked = choose_checkpoint(
        terms.host,
        {number: result.adapter_folder for number, result in sound.items()},
        questions.items,
        decoding=terms.decoding,
        allowance=budget_flops - (meter.total() - spent),
        spent=dict.fromkeys(sound, each),
        meter=meter,
        examples=questions.shown.examples,
    )
    return asked, {number: result.steps for number, result in results.items()}
