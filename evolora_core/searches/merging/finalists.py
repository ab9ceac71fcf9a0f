"""How a condition chooses among candidates that the search items have ranked: by the selection items."""

from collections.abc import Sequence

from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.judging.judge import Failed, Judge
from evolora_core.searches.merging.recipe import Genome

Ranked = tuple[Genome, float, int | None]  # genome, search score, number of the candidate


def choose(ranked: Sequence[Ranked], judge: Judge, *, finalists: int, budget: int, evaluations: int) -> Choice:
    """The best on the selection items among the first `finalists` different genomes of `ranked`, the best first, as far
    as the budget (FLOPs) goes; the first is always measured. Failed if none can be.
    """
    best: Choice | None = None
    seen: set[str] = set()
    for genome, score, number in ranked:
        if genome.id in seen:
            continue
        if len(seen) == finalists or (best and judge.meter.total() + judge.cost(genome, "selection") > budget):
            break
        seen.add(genome.id)
        try:
            own = judge.measure(genome, "selection").score
        except Failed:
            continue
        if best is None or own > (best.selection_score or 0.0):
            best = Choice("recipe", genome, number, evaluations, score, own)
    if best is None:
        raise Failed("selection", "none of its candidates could be measured")
    return best
