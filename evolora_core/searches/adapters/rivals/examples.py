"""The bare host with solved examples in its prompt (few-shot prompting; Brown et al. 2020, arXiv 2005.14165): nothing
is trained, and the selection split chooses how many examples, and which.
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.errors import Unaffordable
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.template import Example
from evolora_core.lora.answering.grading import encode_unique
from evolora_core.lora.population.candidates import write_candidates
from evolora_core.lora.population.slots import HOST
from evolora_core.searches.adapters.labels import labelled
from evolora_core.searches.adapters.rivals.shown import solved
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.routing.candidates import choose_among
from evolora_core.searches.adapters.routing.learned import prompt_features
from evolora_core.searches.adapters.routing.routes import Routes, read_routes
from evolora_core.searches.adapters.routing.shots import Shots, Way, fitting, in_drawn_order, write_shots
from evolora_core.searches.adapters.settings.examples import ExamplesConfig


@dataclass(frozen=True)
class Shown:
    """What choosing cost, the gold answers that examples were taken from, the ways that were tried, and what each was
    worth: rows of the table `shots`.
    """

    meter: Meter
    labels: int
    ways: int
    rows: list[dict[str, Any]]


def choose_examples(config: ExamplesConfig, terms: Terms, folder: Path) -> Shown:
    """Leave shots.json and routes in `folder`, and an empty candidates.json. Raises Unaffordable before anything is
    asked, if the budget might not pay for the answers to the selection split.
    """
    items = labelled(terms.items, config, terms.seed)
    tried = product(dict.fromkeys(config.shown), dict.fromkeys(config.chosen))
    shots = Shots(
        ways={number: Way(HOST, count, chosen) for number, (count, chosen) in enumerate(tried)},
        solved={HOST: in_drawn_order(solved(items), terms.seed)},
    )
    most = _at_most(shots, terms)
    if most > terms.budget_flops:
        raise Unaffordable(
            f"trying {len(shots.ways)} ways of showing examples may take {most:.3g} FLOPs, and the budget is "
            f"{terms.budget_flops:.3g}; try fewer (examples.shown, examples.chosen), or lower data.selection_items"
        )
    write_shots(folder, shots)
    write_candidates(folder, [], [])
    meter = Meter()
    if "nearest" in config.chosen:
        meter.add("routing", int(prompt_features(terms.host, items)[1].sum()), 0, 0.0)
    choose_among(
        terms.host,
        None,
        terms.selection,
        {"": list(shots.ways)},
        terms.routings,
        folder,
        meter,
        decoding=terms.decoding,
        shots=shots,
        progress=terms.progress,
    )
    rows = [row for routing in terms.routings for row in _rows(shots, read_routes(folder / f"routes-{routing}.json"))]
    return Shown(meter, len(items), len(shots.ways), rows)


def _rows(shots: Shots, routes: Routes) -> list[dict[str, Any]]:
    """What each way, and the bare host, was worth in each bucket of a router."""
    return [
        {"routing": routes.routing, "bucket": bucket, "shown": way.count, "which": way.chosen}
        | {"items": routes.n[bucket], "accuracy": accuracy, "chosen": routes.table[bucket] == number}
        for bucket, given in routes.accuracy.items()
        for number, accuracy in ((int(slot), own) for slot, own in given.items())
        for way in [shots.ways.get(number, Way(HOST, 0, ""))]
    ]


def _at_most(shots: Shots, terms: Terms) -> float:
    """FLOPs of asking the selection items in every way, and the bare host, if all answers were of the longest."""
    host, cap, items = terms.host, terms.decoding.max_new_tokens, terms.selection
    prompts, families = [item.prompt for item in items], [item.family for item in items]
    model = FlopModel.from_model(host.model)
    asked: list[list[list[Example]]] = [[[] for _ in items]]
    for told in [families] if "single" not in terms.routings else [families, None]:
        asked += [shots.before(host, items, [number] * len(items), told)[1] for number in shots.ways]
    flops = 0.0
    for examples in asked:
        encoded = encode_unique(host, prompts, fitting(host, prompts, examples, cap))
        flops += float(np.sum(model.generate_flops([len(ids) for ids in encoded], [cap] * len(items))))
    return flops
