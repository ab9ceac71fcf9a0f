"""The router `reselected`: `family`, but it chooses for foreign families too, on items of theirs.

That is a privilege which no other router has. Every arm has it alike, with all adapters among which it chose for its
own families; what choosing costs is part of the evaluation and of no arm's budget.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from evolora_core.engine.meter import Meter
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import charge
from evolora_core.lora.answering.outcome import Decoding
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.routing.candidates import answer_as_each
from evolora_core.searches.adapters.routing.routes import Routes, choose_routes

RESELECTED = "reselected"


def reselect(
    host: Host,
    population: Population | None,
    routes: Routes,
    items: Sequence[Item],
    meter: Meter,
    *,
    ways: Collection[int] = (),
    decoding: Decoding,
) -> Routes:
    """Routes of `family` and, for the families of the `items`, the best of all its candidates, by the same rule.
    `ways` of showing examples are none: no example is of a foreign family.

    The answers are charged to `meter` as evaluation.
    """
    started = time.perf_counter()
    slots = sorted({int(slot) for given in routes.accuracy.values() for slot in given} - {HOST, *ways})
    outcomes = answer_as_each(host, population, items, slots, decoding=decoding)
    charge(meter, "evaluation", [o for own in outcomes.values() for o in own], time.perf_counter() - started)
    found = choose_routes(outcomes, "family")
    return replace(
        routes,
        routing=RESELECTED,
        table=found.table | routes.table,
        accuracy=found.accuracy | routes.accuracy,
        n=found.n | routes.n,
    )
