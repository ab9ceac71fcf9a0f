"""What a condition answers to the holdouts: under every router, with its one adapter at several strengths, and in other
forms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress, part_of
from evolora_core.language.datasets import read_items
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.outcome import Decoding, Outcome, evaluation_rows
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.trained import load_trained
from evolora_core.searches.adapters.evaluation.forms import FORMS, SPLIT
from evolora_core.searches.adapters.evaluation.frontier import trace_frontier
from evolora_core.searches.adapters.evaluation.routed import NOBODY, answer_by_router
from evolora_core.searches.adapters.evaluation.settings import Evaluation
from evolora_core.searches.adapters.evaluation.variants import ask_variants
from evolora_core.searches.adapters.routing.learned import FILE, read_classifier
from evolora_core.searches.adapters.routing.reselected import RESELECTED, reselect
from evolora_core.searches.adapters.routing.routes import EVERYTHING, Routes, read_routes
from evolora_core.searches.adapters.routing.shots import Shots, Solved, Way, read_shots


@dataclass(frozen=True)
class Found:
    """Rows by table, accuracy of the headline by `SPLIT_acc`, and what all of it cost."""

    tables: Mapping[str, list[dict[str, Any]]]
    accuracies: Mapping[str, float]
    meter: Meter


def evaluate_condition(
    host: Host,
    asked: Evaluation,
    splits: Mapping[str, Sequence[Item]],
    trained: Path | None,
    *,
    foreign: Path,
    progress: Progress,
    answered: Path,
) -> Found:
    """Let what is in `trained` (None: the bare host) answer all `splits` under each router; the arm of the first
    is named like the condition. `foreign` is the file with the items on which the router `reselected` chooses; answers
    are kept in `answered`.
    """
    frontier, decoding = asked.frontier, asked.decoding
    population, organelles = load_trained(host, trained) if trained else (None, {})
    shots = read_shots(trained) if trained else None
    meter, rows, done = Meter(), [], 0
    routes = {
        name: _routes(name, host, population, shots, trained, foreign, meter, decoding)
        for name in asked.routings
        if trained
    }
    classifier = read_classifier(trained / FILE) if trained and "learned" in routes else None
    scaled = 2 * frontier.items * len(frontier.strengths) if frontier else 0  # answers, about
    varied = (len(FORMS) - 1) * len(splits[SPLIT]) if asked.variants else 0  # at most
    total = sum(len(items) for items in splits.values()) + scaled + varied
    accuracies: dict[str, float] = {}
    first: dict[str, list[Outcome]] = {}  # what is answered under the first router
    alone: dict[str, list[Outcome]] = {}  # what the one adapter answers, or the bare host
    for split, items in splits.items():
        by_router = answer_by_router(
            host,
            population,
            items,
            routes,
            classifier,
            meter,
            shots=shots,
            decoding=decoding,
            progress=part_of(progress, done, len(items), total),
            folder=answered / split,
        )
        done += len(items)
        for number, (router, answers) in enumerate(by_router.items()):
            arm = f"{asked.condition}:{router}" if number else asked.condition
            rows += evaluation_rows(split, arm, answers, organelles)
            if router in ("single", NOBODY):
                alone[split] = answers
        first[split] = next(iter(by_router.values()))
        accuracies[f"{split}_acc"] = sum(outcome.grade.correct for outcome in first[split]) / len(first[split])
    tables = {"evaluations": rows}
    if frontier:
        slot = alone["holdout_id"][0].slot
        tables["frontier"] = trace_frontier(
            host,
            population.get(slot) if population and slot >= 0 else None,
            alone,
            frontier.strengths,
            frontier.items,
            meter,
            shown=_shown_alone(routes, shots),
            decoding=decoding,
            progress=part_of(progress, done, scaled, total),
            folder=answered / "frontier",
        )
        done += scaled
    if asked.variants:
        tables["variants"] = ask_variants(
            host,
            population,
            first[SPLIT],
            next(iter(routes.values()), None),
            classifier,
            meter,
            organelles=organelles,
            shots=shots,
            decoding=decoding,
            progress=part_of(progress, done, varied, total),
            folder=answered / "variants",
        )
    return Found(tables | {"compute": meter.rows()}, accuracies, meter)


def _routes(
    router: str,
    host: Host,
    population: Population | None,
    shots: Shots | None,
    trained: Path,
    foreign: Path,
    meter: Meter,
    decoding: Decoding,
) -> Routes:
    """The routes of a router: those that training chose; for `reselected`, chosen here."""
    chosen_by = "family" if router == RESELECTED else router
    routes = read_routes(trained, chosen_by)
    if router != RESELECTED:
        return routes
    ways = shots.ways if shots else ()
    return reselect(host, population, routes, read_items(foreign), meter, ways=ways, decoding=decoding)


def _shown_alone(routes: Mapping[str, Routes], shots: Shots | None) -> tuple[Way, Sequence[Solved]] | None:
    """How the one adapter that answers everything shows examples, and which; None where it shows none."""
    way = shots.ways.get(routes["single"].table[EVERYTHING]) if shots and "single" in routes else None
    return (way, shots.solved[way.slot]) if shots and way else None
