"""Who of the best is chosen: they are measured again with further training seeds, against the winner's curse."""

from collections.abc import Sequence
from dataclasses import replace

from evolora_core.searches.attention.candidates import Candidate, ranked
from evolora_core.searches.attention.curves import joined
from evolora_core.searches.attention.evolution import Run, measured_at, scored
from evolora_core.searches.attention.panel import Panel


def reached(run: Run, panel: Panel, further: list[int], budget: int) -> tuple[list[Candidate], list[Candidate]]:
    """The best programs of a search that its budget reaches, and those of `budget.finalists` that it does not.

    budget  FLOPs of the whole search. Each of the best may cost three times the baseline. The first is measured in any
            case, and the last may overspend the budget, as the last program of a search may
    """
    finalists = ranked(run.past)[: run.budget.finalists]
    spent, number = run.meter.total(), 0
    while number < len(finalists) and (number == 0 or not further or spent < budget):
        spent += len(further) * panel.plain(finalists[number].curve, [run.largest])
        number += 1
    return finalists[:number], finalists[number:]


def choose(run: Run, panel: Panel, further: list[int], finalists: list[Candidate]) -> list[Candidate]:
    """The finalists by their scores over all their seeds, the best first. One that fails now drops out; if all do,
    those so far.
    """
    if not further:
        return finalists
    again = panel.map(lambda own: measured_at(own, run, panel, [run.largest], further), finalists)
    found = []
    for first, own in zip(finalists, again, strict=True):
        run.meter.add("selection", own.flops, 0, own.seconds)
        if own.rejection is None:
            both = replace(first, curve=joined([first.curve, own.curve]))
            found.append(scored(both, run, [*run.seeds, *further]))
    return ranked(found) or finalists


def complete(finalists: Sequence[Candidate], run: Run, panel: Panel, further: list[int]) -> list[Candidate]:
    """The finalists, the chosen one first: the best that can be trained at the smaller sizes too, with its curve over
    all sizes, which the law needs for its predictions. Where none can, the best as it is.

    It is charged as evaluation, since it bears on no choice but that.
    """
    for place, best in enumerate(finalists):
        own = measured_at(best, run, panel, run.sizes[:-1], [*run.seeds, *further])
        run.meter.add("evaluation", own.flops, 0, own.seconds)
        if own.rejection is None:
            whole = replace(best, curve=joined([own.curve, best.curve]))
            return [whole, *finalists[:place], *finalists[place + 1 :]]
    return list(finalists)
