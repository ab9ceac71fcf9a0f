"""The bare host with solved examples in its prompt (few-shot prompting; Brown et al. 2020, arXiv 2005.14165): nothing
is trained, and the selection split chooses how many examples, and which.
"""

import logging
from collections.abc import Sequence
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
from evolora_core.searches.adapters.labels import labelled, solved
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.routing.candidates import choose_among
from evolora_core.searches.adapters.routing.routes import Routes, read_routes
from evolora_core.searches.adapters.routing.shots import Shots, Way, feature_flops, fitting, in_drawn_order, write_shots
from evolora_core.searches.adapters.settings.examples import ExamplesConfig

log = logging.getLogger(__name__)


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
    """Leave shots.json and routes in `folder`, and an empty candidates.json. The ways with most examples are left out
    where the budget might not pay for the answers to the selection split. Raises Unaffordable before anything is asked
    if it might pay for none.
    """
    items = labelled(terms.items, config, terms.seed)
    tried = [
        Way(HOST, count, chosen) for count, chosen in product(sorted({*config.shown}), dict.fromkeys(config.chosen))
    ]
    solved_items = {HOST: in_drawn_order(solved(items), terms.seed)}
    affordable = _affordable(Shots(dict(enumerate(tried)), solved_items), terms)
    shots = Shots(dict(enumerate(tried[:affordable])), solved_items)
    if affordable < len(tried):
        log.warning(
            "examples: %d of %d ways of showing examples are left out, as the budget might not pay for trying them "
            "(examples.shown, data.selection_items)",
            len(tried) - affordable,
            len(tried),
        )
    write_shots(folder, shots)
    write_candidates(folder, [], [])
    meter = Meter()
    meter.add("routing", feature_flops(terms.host, shots), 0, 0.0)
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
    rows = [row for routing in terms.routings for row in _rows(shots, read_routes(folder, routing))]
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


def _affordable(shots: Shots, terms: Terms) -> int:
    """How many of the ways, from the first one on, the budget pays for if all answers are of the longest: the selection
    items asked in each way, with the family told and, for the router `single`, untold; the bare host comes before.
    Raises Unaffordable if that is none.
    """
    host, cap, items = terms.host, terms.decoding.max_new_tokens, terms.selection
    prompts, families = [item.prompt for item in items], [item.family for item in items]
    model = FlopModel.from_model(host.model)

    def cost(examples: Sequence[Sequence[Example]]) -> float:
        encoded = encode_unique(host, prompts, fitting(host, prompts, examples, cap))
        return float(np.sum(model.generate_flops([len(ids) for ids in encoded], [cap] * len(items))))

    left = terms.budget_flops - cost([[] for _ in items]) - feature_flops(terms.host, shots)
    for number in shots.ways:
        for told in [families] if "single" not in terms.routings else [families, None]:
            _, examples, choosing = shots.before(host, items, [number] * len(items), told)
            left -= cost(examples) + sum(choosing)
        if left < 0 and not number:
            raise Unaffordable(
                f"examples: the budget of {terms.budget_flops:.3g} FLOPs might not pay for trying one way of showing "
                f"examples, which takes up to {terms.budget_flops - left:.3g}; lower data.selection_items or "
                "examples.shown"
            )
        if left < 0:
            return number
    return len(shots.ways)
