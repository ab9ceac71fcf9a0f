"""Stage `evaluate`: one condition with one seed answers the three holdouts, with every router of the suite, and some
of their items with its one adapter at several strengths.

A killed one keeps its answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.progress import part_of
from evolora_core.splits import HOLDOUTS
from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_request, stage_task
from tasks._tables import write_table

if TYPE_CHECKING:
    from evolora_core.config import DecodingConfig
    from evolora_core.evaluation.outcome import Outcome
    from evolora_core.hosts import Host
    from evolora_core.meter import Meter
    from evolora_core.population.stack import Population
    from evolora_core.routing import Routes


def request(
    suite: Suite, condition: str, seed: int, *, datasets: StageResult, trained: StageResult | None = None
) -> StageRequest:
    """Evaluate `condition`, whose adapters are in `trained` (None: the bare host)."""
    config = {
        "condition": condition,
        "routings": list(suite.config.evaluation.routings) if trained else [],
        "decoding": suite.config.decoding.model_dump(mode="json"),
    }
    if suite.config.evaluation.strengths:
        evaluation = suite.config.evaluation
        config["frontier"] = {
            "strengths": sorted({1.0, *evaluation.strengths}) if trained else [0.0],
            "items": evaluation.frontier_items,
        }
    inputs = {"datasets": datasets} | ({"trained": trained} if trained else {})
    return stage_request(suite, "evaluate", condition, seed, entry=__name__, config=config, inputs=inputs)


def make(work: Work) -> Made:
    """Leaves the tables `evaluations`, `compute` and, where strengths are asked for, `frontier`. The arm of the first
    router is named like the condition.
    """
    from evolora_core.config import DecodingConfig
    from evolora_core.datasets import read_items
    from evolora_core.evaluation.frontier import trace_frontier
    from evolora_core.evaluation.holdout import evaluation_rows
    from evolora_core.evaluation.routed import NOBODY, answer_by_router
    from evolora_core.meter import Meter
    from evolora_core.population.slots import HOST
    from evolora_core.routing import FILE, read_classifier
    from tasks._worker import load_stage_host

    host = load_stage_host(work.host)
    condition = work.config["condition"]
    decoding = DecodingConfig.model_validate(work.config["decoding"])
    splits = {split: read_items(work.inputs["datasets"] / f"{split}.jsonl") for split in HOLDOUTS}
    population, organelles = load_adapters(host, work.inputs["trained"]) if "trained" in work.inputs else (None, {})
    meter, rows, done = Meter(), [], 0
    routes = routers(work, host, population, meter, decoding)
    classifier = read_classifier(work.inputs["trained"] / FILE) if "learned" in routes else None
    total = sum(len(items) for items in splits.values())
    frontier = work.config.get("frontier")
    scaled = 2 * frontier["items"] * len(frontier["strengths"]) if frontier else 0  # answers, about
    accuracies: dict[str, float] = {}
    alone: dict[str, list[Outcome]] = {}  # what the one adapter answers, or the bare host
    for split, items in splits.items():
        answered = answer_by_router(
            host,
            population,
            items,
            routes,
            classifier,
            meter,
            decoding=decoding,
            progress=part_of(work.report, done, len(items), total + scaled),
            folder=work.folder / "answered" / split,
        )
        done += len(items)
        for number, (router, answers) in enumerate(answered.items()):
            rows += evaluation_rows(split, f"{condition}:{router}" if number else condition, answers, organelles)
            if router in ("single", NOBODY):
                alone[split] = answers
        headline = next(iter(answered.values()))
        accuracies[f"{split}_acc"] = sum(outcome.grade.correct for outcome in headline) / len(headline)
    if frontier:
        slot = alone["holdout_id"][0].slot
        traced = trace_frontier(
            host,
            population.get(slot) if population and slot != HOST else None,
            alone,
            frontier["strengths"],
            frontier["items"],
            meter,
            decoding=decoding,
            progress=part_of(work.report, done, scaled, total + scaled),
            folder=work.folder / "answered" / "frontier",
        )
        write_table(work.folder, "frontier", traced)
    write_table(work.folder, "evaluations", rows)
    write_table(work.folder, "compute", meter.rows())
    return Made(meter.total(), accuracies | {"comparable": comparable(work, host)})


def routers(
    work: Work, host: "Host", population: "Population | None", meter: "Meter", decoding: "DecodingConfig"
) -> dict[str, "Routes"]:
    """The routes of each router that is asked for: those that training chose; for `reselected`, chosen here."""
    from evolora_core.datasets import read_items
    from evolora_core.routing import read_routes
    from evolora_core.routing.reselected import RESELECTED, reselect

    routes = {}
    for name in work.config["routings"]:
        chosen_by = "family" if name == RESELECTED else name
        routes[name] = read_routes(work.inputs["trained"] / f"routes-{chosen_by}.json")
        if name == RESELECTED:
            foreign = read_items(work.inputs["datasets"] / "reselection.jsonl")
            routes[name] = reselect(host, population, routes[name], foreign, meter, decoding=decoding)
    return routes


def load_adapters(host: "Host", folder: Path) -> tuple["Population", dict[int, int]]:
    """What a training stage left, and the organelle in each slot: an evolved population, or a rival's adapters."""
    if (folder / "population.json").exists():
        from evolora_core.population.saved import load_population

        population, organelles = load_population(host, folder)
        return population, {row["slot"]: row["organelle"] for row in organelles}
    from evolora_core.rivals.candidates import load_candidates

    population = load_candidates(host, folder)
    return population, {slot: slot for slot in range(population.capacity)}


def comparable(work: Work, host: "Host") -> dict[str, Any]:
    """What two evaluations must share to be compared; their code is in the identity."""
    return {
        "host": host.identity["weights_sha256"],
        "tokenizer": host.identity["tokenizer_sha256"],
        "template": host.identity["template_sha256"],
        "dtype": host.identity["dtype"],
        "decoding": work.config["decoding"],
        "dataset": work.identities["datasets"],
    }


evaluate = stage_task("evaluate", request, make)
