"""Supervised fine-tuning as a rival: one adapter, one for each family, or one on families that come one after another;
then the choice among them and the host, all within one budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evolora_core.engine import rng
from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import part_of
from evolora_core.language.families.base import Item
from evolora_core.lora.population.candidates import add_candidate, load_candidates, write_candidates
from evolora_core.lora.population.merge import summed_rank
from evolora_core.searches.adapters.labels import labelled, parts, solved
from evolora_core.searches.adapters.rivals.checkpoints import interleave
from evolora_core.searches.adapters.rivals.contenders import choose_rate, with_drawn_rate
from evolora_core.searches.adapters.rivals.donors import best_start, dearest_choice
from evolora_core.searches.adapters.rivals.sft import SftResult, plan_sft, train_sft
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.routing.candidates import choose_among
from evolora_core.searches.adapters.routing.shots import Shots, Way, in_drawn_order, write_shots
from evolora_core.searches.adapters.settings.sft import SftSettings


@dataclass(frozen=True)
class FineTuned:
    """What fine-tuning left in its folder, and what it cost.

    steps      rows of the table `sft_steps`
    labels     training items with their gold answers
    chosen     the step of the checkpoint that was chosen, by adapter
    left_out   training items that do not fit the host's context
    diverged   whether any training ended early on a NaN
    """

    meter: Meter
    steps: list[dict[str, float | str]]
    labels: int
    chosen: dict[str, int]
    left_out: int
    diverged: bool


@dataclass(frozen=True)
class _Training:
    """A fine-tuning: its items, those that choose among its checkpoints, its seed, and FLOPs that it may spend."""

    items: list[Item]
    selection: list[Item]
    seed: int
    budget_flops: int


def fine_tune_and_route(
    config: SftSettings, terms: Terms, folder: Path, arrivals: Mapping[str, float] | None = None
) -> FineTuned:
    """Train into `folder`, an adapter in PEFT's format for everything or for each family, and choose routes: leaves
    candidates.json and routes too. Where families come one after another (`arrivals`: the share of the budget of each,
    in their order), one adapter is trained on each in turn, or, with specialists, one adapter on each. With contenders
    their rates are tried first. Raises Unaffordable before anything is trained, if what is left for one of several
    trainings pays for no step.
    """
    items = labelled(terms.items, config, terms.seed)
    trainings = _trainings(config, terms, parts(items, config, list(arrivals or ())), arrivals)
    meter, tries = Meter(), list[dict[str, float | str]]()
    config = with_drawn_rate(config, terms.seed)
    if config.contenders > 1:
        whole = trainings["all"]  # contenders try the rate of one adapter for everything
        tried = choose_rate(terms, solved(items), config, whole.budget_flops, folder)
        config, tries = tried.config, tried.steps
        trainings = {"all": replace(whole, budget_flops=whole.budget_flops - tried.meter.total())}
        meter.merge(tried.meter)
    if len(trainings) > 1:
        _check_affordable(config, terms, trainings)
    results = _train(config, terms, trainings, folder, meter, before=bool(tries))
    _choose(config, terms, trainings, items, list(results), folder, meter)
    terms.tell_overspent(meter.total())
    return FineTuned(
        meter=meter,
        steps=tries + [{"adapter": name, **row} for name, result in results.items() for row in result.steps],
        labels=len(items),
        chosen={name: next(c.step for c in result.checkpoints if c.chosen) for name, result in results.items()},
        left_out=sum(result.left_out for result in results.values()),
        diverged=any(result.diverged for result in results.values()),
    )


def _sums(config: SftSettings) -> bool:
    """Whether the sum of the specialists is a candidate."""
    return config.specialists and config.sum_weight > 0 and not config.shots


def _trainings(
    config: SftSettings, terms: Terms, items: Mapping[str, list[Item]], arrivals: Mapping[str, float] | None
) -> dict[str, _Training]:
    """The fine-tunings by name, in their order: what of the budget the choice of routes leaves is cut among them."""
    ranks = [config.rank] * len(config.strengths)
    if config.specialists:  # one of them, or their sum, answers everything
        ranks.append(summed_rank(config.rank) if _sums(config) else config.rank)
    together = terms.for_training(ranks, [config.shots] * (config.shots > 0), specialists=config.specialists)
    return {
        name: _Training(
            items=own,
            selection=[item for item in terms.selection if name in ("all", item.family)],
            # Specialists of the same beginnings would be more alike, and their sum nearer to each, than organelles are.
            seed=rng.key(terms.seed, 0, number, "specialist") if config.specialists else terms.seed,
            budget_flops=int(arrivals[name] * together) if arrivals else together // len(items),
        )
        for number, (name, own) in enumerate(items.items())
    }


def _check_affordable(config: SftSettings, terms: Terms, trainings: Mapping[str, _Training]) -> None:
    """Raise Unaffordable if one of them pays for no step, the choice of whose weights it begins with set aside."""
    for number, own in enumerate(trainings.values()):
        lent = dearest_choice(terms.host, number, own.items[: config.donor_items], terms.decoding, config.rank)
        plan_sft(
            terms.host,
            solved(own.items),
            config,
            budget_flops=own.budget_flops - lent,
            seed=own.seed,
            asked=interleave(own.selection, own.seed),
            decoding=terms.decoding,
        )


def _train(
    config: SftSettings,
    terms: Terms,
    trainings: Mapping[str, _Training],
    folder: Path,
    meter: Meter,
    *,
    before: bool,
) -> dict[str, SftResult]:
    """Train them one after another. Without specialists each goes on with the adapter of the one before; with donors
    it begins with the best of all before it. `before`: rates were tried first, which is a part of the progress.
    """
    results: dict[str, SftResult] = {}
    start: Path | None = None
    for number, (name, own) in enumerate(trainings.items(), start=int(before)):
        choosing = Meter()
        if config.donor_items:
            earlier = [result.adapter_folder for result in results.values()]
            start = best_start(terms.host, earlier, own.items[: config.donor_items], terms.decoding, choosing)
            meter.merge(choosing)
        results[name] = train_sft(
            terms.host,
            solved(own.items),
            config,
            budget_flops=own.budget_flops - choosing.total(),
            seed=own.seed,
            folder=folder / name,
            selection_items=own.selection,
            decoding=terms.decoding,
            start=start,
            progress=part_of(terms.progress, number, 1, len(trainings) + before),
        )
        meter.merge(results[name].meter)
        start = None if config.specialists else results[name].adapter_folder
    return results


def _choose(
    config: SftSettings,
    terms: Terms,
    trainings: Mapping[str, _Training],
    items: Sequence[Item],
    names: Sequence[str],
    folder: Path,
    meter: Meter,
) -> None:
    """Choose routes among all specialists, or among the strengths of the last adapter."""
    host = terms.host
    candidates = write_candidates(folder, names if config.specialists else names[-1:], config.strengths)
    shots = _shots(config, candidates, {name: own.items for name, own in trainings.items()}, items, terms.seed)
    if shots:
        write_shots(folder, shots)
    listed: dict[str, list[int]] = {}
    for row in candidates:
        ways = [number for number, way in shots.ways.items() if way.slot == row["slot"]] if shots else []
        listed.setdefault(row["adapter"] if config.specialists else "", []).extend([row["slot"], *ways])
    choose_among(
        host,
        load_candidates(host, folder),
        terms.selection,
        listed,
        terms.routings,
        folder,
        meter,
        decoding=terms.decoding,
        add_up=(lambda slots: add_candidate(host, folder, slots, config.sum_weight)) if _sums(config) else None,
        shots=shots,
    )


def _shots(
    config: SftSettings,
    candidates: Sequence[dict[str, Any]],
    training: dict[str, list[Item]],
    items: Sequence[Item],
    seed: int,
) -> Shots | None:
    """Every candidate may show the labelled items that it was trained with; its number as a way is its slot's, behind
    all slots. None where nothing is shown.
    """
    if not config.shots:
        return None
    ways = {len(candidates) + row["slot"]: Way(row["slot"], config.shots, "nearest") for row in candidates}
    own = {row["slot"]: training[row["adapter"]] if config.specialists else items for row in candidates}
    return Shots(ways, {slot: in_drawn_order(solved(known), seed) for slot, known in own.items()})
