"""Who of the best is chosen: they are measured again with further training seeds, against the winner's curse."""

from dataclasses import replace

from evolora_core.searches.attention.candidates import Candidate, ranked
from evolora_core.searches.attention.curves import Curve, joined
from evolora_core.searches.attention.evolution import Run, scored
from evolora_core.searches.attention.panel import Panel, Task, add


def choose(run: Run, panel: Panel, further: list[int]) -> list[Candidate]:
    """The finalists by their scores over all their seeds, the best first, which is the chosen one. One that fails now
    drops out; if all do, those so far.
    """
    finalists = ranked(run.past)[: run.budget.finalists]
    if not further:
        return finalists
    again = list(panel.map(lambda own: _again(own, run, panel, further), finalists))
    for own in again:
        run.meter.add("selection", own.flops, 0, sum(own.curve.seconds.values()))
    found = []
    for first, own in zip(finalists, again, strict=True):
        if own.rejection is None:
            both = replace(first, curve=joined([first.curve, own.curve]))
            found.append(scored(both, run, [*run.seeds, *further]))
    return ranked(found) or finalists


def _again(own: Candidate, run: Run, panel: Panel, seeds: list[int]) -> Candidate:
    """The candidate with the curve of these seeds alone, and what that cost."""
    curve, flops = Curve(), 0
    for size in run.sizes:
        for seed in seeds:
            measured = panel.measure(Task(own.source, size, seed))
            flops += panel.flops(measured, size, run.baseline.flops)
            if measured.rejection:
                return replace(own, rejection=measured.rejection, curve=curve, flops=flops)
            add(curve, size, seed, measured)
    return replace(own, curve=curve, flops=flops)
