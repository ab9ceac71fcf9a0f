"""Stages `regret-STRATEGY`: a strategy is replayed on a landscape whose every model is known, at no further cost of
models.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.searches.merging.names import STRATEGIES
from evolora_core.searches.merging.settings import Landscape
from evolora_core.searches.merging.stages.landmarks import Known, inputs_of, layers_of, models, parents_in, space_of
from evolora_core.searches.merging.stages.landscape import ROUTES

if TYPE_CHECKING:
    from evolora_core.searches.merging.experiment import MergeExperiment

LEFT = 0.1  # share of the gain from the best parent to the optimum that may be left
TOGETHER = 20  # runs between two reports


class Replay(Known):
    """Who walks the landscape, how often, and how far."""

    strategy: str
    items: list[int]  # search items of each domain
    weights: list[float]  # of each domain in the score
    runs: int
    evaluations: int
    read_at: int


class Replayed(BaseModel):
    """Share of the runs that have at most a tenth of the gain left where the hypothesis is read."""

    within: float


def request(
    suite: "Suite[MergeExperiment]", strategy: str, seed: int, *, shards: Sequence[StageResult]
) -> StageRequest:
    """Replay of a strategy on the landscape of a seed."""
    config = suite.config
    assert config.landscape is not None
    return stage_request(
        suite,
        f"regret-{strategy}",
        SHARED,
        seed,
        entry=__name__,
        also=[ROUTES, STRATEGIES[strategy].module],
        config=replay(
            config.parents,
            layers_of(shards),
            [config.data.search] * len(config.domains),
            [domain.weight for domain in config.domains.values()],
            strategy,
            config.landscape,
        ),
        inputs=inputs_of(shards),
        uses_host=False,
    )


def replay(
    parents: Sequence[str],
    layers: int,
    items: Sequence[int],
    weights: Sequence[float],
    strategy: str,
    landscape: Landscape,
) -> Replay:
    """What of a landscape's settings decides the replay of one strategy."""
    return Replay(
        parents=list(parents),
        layers=layers,
        items=list(items),
        weights=list(weights),
        strategy=strategy,
        runs=landscape.runs,
        evaluations=landscape.evaluations,
        read_at=landscape.read_at,
    )


def make(work: Work[Replay]) -> Made[Replayed]:
    """Leaves the table `regrets`. Each run has a seed of its own, which no arm of the suite has."""
    import numpy as np

    from evolora_core.engine.rng import key
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.merging.landscape import simulate
    from evolora_core.statistics.inference import wilson

    own = work.config
    rows, space = models(work.inputs.values()), space_of(own.parents, own.layers)
    nothing = "00" * ((sum(own.items) + 7) // 8)
    bits = np.array([np.frombuffer(bytes.fromhex(row["solved"] or nothing), dtype=np.uint8) for row in rows])
    score = np.array([np.nan if row["search_score"] is None else row["search_score"] for row in rows])
    domains = np.array([json.loads(row["domains"]) if row["domains"] else [np.nan] * len(own.items) for row in rows])
    solved = np.unpackbits(bits, axis=1, count=sum(own.items)).astype(bool)
    gain = float(np.nanmax(score) - np.nanmax(score[parents_in(space)]))
    walked = []
    for first in range(0, own.runs, TOGETHER):
        numbers = range(first, min(first + TOGETHER, own.runs))
        (found,) = simulate(
            [own.strategy],
            score,
            space,
            seeds=[key(work.seed, 0, number, "merge.replay") for number in numbers],
            evaluations=own.evaluations,
            domains=domains,
            solved=solved,
            item_domains=np.repeat(np.arange(len(own.items)), own.items),
            weights=np.array(own.weights),
        )
        walked.append(found)
        work.report(numbers.stop, own.runs, "runs")
    regret = np.concatenate(walked)
    reached = (regret <= LEFT * gain).sum(axis=0)
    table: list[dict[str, Any]] = []
    for place in range(own.evaluations):
        lo, hi = wilson(int(reached[place]), own.runs)
        low, high = np.quantile(regret[:, place], [0.1, 0.9])
        table.append(
            {
                "strategy": own.strategy,
                "evaluations": place + 1,
                "runs": own.runs,
                "regret": float(regret[:, place].mean()),
                "regret_lo": float(low),
                "regret_hi": float(high),
                "within": float(reached[place] / own.runs),
                "within_lo": lo,
                "within_hi": hi,
            }
        )
    write_table(work.folder, "regrets", table)
    return Made(0, Replayed(within=float(reached[own.read_at - 1] / own.runs)))


REGRET = Stage("regret", request, make)
