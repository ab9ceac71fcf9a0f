"""Who of the best is chosen: they are measured again with further training seeds, against the winner's curse."""

from collections.abc import Sequence
from dataclasses import replace

from evolora_core.searches.attention.candidates import Candidate, ranked
from evolora_core.searches.attention.curves import joined
from evolora_core.searches.attention.evolution import Run, measured_at, scored
from evolora_core.searches.attention.panel import Panel


def choose(run: Run, panel: Panel, further: list[int], budget: int) -> list[Candidate]:
    """The finalists by their scores over all their seeds, the best first. One that fails now drops out; if all do,
    those so far.

    budget  FLOPs of the whole search. Whom it no longer reaches, as those before may cost three times the baseline, is
            no finalist; the best is one in any case, and the last may overspend it as the last program of a search may
    """
    finalists = ranked(run.past)[: run.budget.finalists]
    if not further:
        return finalists
    costs = [len(further) * panel.plain(own.curve, [run.largest]) for own in finalists]
    before = [run.meter.total() + sum(costs[:place]) for place in range(len(costs))]
    finalists = [own for place, own in enumerate(finalists) if place == 0 or before[place] < budget]
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
