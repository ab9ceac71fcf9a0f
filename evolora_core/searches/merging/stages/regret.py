"""Stage `regret`: strategies are replayed on a landscape whose every model is known, at no further cost of models."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.searches.merging.kinds import STRATEGIES
from evolora_core.searches.merging.roles import BASE
from evolora_core.searches.merging.settings import Landscape
from evolora_core.searches.merging.stages.landscape import ROUTES, TABLE

if TYPE_CHECKING:
    from evolora_core.searches.merging.experiment import MergeExperiment

LEFT = 0.1  # share of the gain from the best parent to the optimum that may be left


class Replay(Strict):
    """Who walks the landscape of which models, and how often."""

    parents: list[str]
    layers: int
    items: list[int]  # search items of each domain
    landscape: Landscape


class Replayed(BaseModel):
    """Share of the runs that have at most a tenth of the gain left where the hypothesis is read, by strategy."""

    within: dict[str, float]


def request(
    suite: "Suite[MergeExperiment]", seed: int, *, datasets: StageResult, shards: Sequence[StageResult]
) -> StageRequest:
    """Replay on the landscape of a seed."""
    config = suite.config
    assert config.landscape is not None
    also = [ROUTES, *(STRATEGIES[name].module for name in config.landscape.strategies)]
    return stage_request(
        suite,
        "regret",
        SHARED,
        seed,
        entry=__name__,
        also=also,
        config=Replay(
            parents=config.parents,
            layers=int(shards[0].summary["layers"]),  # type: ignore[arg-type]
            items=[config.data.search] * len(config.domains),
            landscape=config.landscape,
        ),
        inputs={f"shard-{number}": result for number, result in enumerate(shards)},
        uses_host=False,
    )


def make(work: Work[Replay]) -> Made[Replayed]:
    """Leaves the tables `regrets` and `landscape_marks`."""
    import numpy as np

    from evolora_core.engine.tables import read_table, write_table
    from evolora_core.searches.merging.landscape import simulate
    from evolora_core.searches.merging.spaces.registry import make_space
    from evolora_core.statistics.inference import wilson

    own = work.config
    space: Any = make_space("routes", tuple(own.parents), BASE, own.layers, 1)
    rows = sorted(
        (row for folder in work.inputs.values() for row in read_table(folder, TABLE)), key=lambda row: row["model"]
    )
    nothing = "00" * ((sum(own.items) + 7) // 8)
    bits = np.array([np.frombuffer(bytes.fromhex(row["solved"] or nothing), dtype=np.uint8) for row in rows])
    score = np.array([np.nan if row["search_score"] is None else row["search_score"] for row in rows])
    domains = np.array([json.loads(row["domains"]) if row["domains"] else [np.nan] * len(own.items) for row in rows])
    parents = [space.number((space.gene(place, 1),) * own.layers) for place in range(len(own.parents))]
    best_parent = float(np.nanmax(score[parents]))
    gain = float(np.nanmax(score)) - best_parent
    found: list[dict[str, Any]] = []
    within: dict[str, float] = {}
    for number, name in enumerate(own.landscape.strategies):
        (regret,) = simulate(
            [name],
            score,
            space,
            seeds=range(own.landscape.runs),
            evaluations=own.landscape.evaluations,
            domains=domains,
            solved=np.unpackbits(bits, axis=1, count=sum(own.items)).astype(bool),
            item_domains=np.repeat(np.arange(len(own.items)), own.items),
        )
        reached = (regret <= LEFT * gain).sum(axis=0)
        for place in range(own.landscape.evaluations):
            lo, hi = wilson(int(reached[place]), len(regret))
            low, high = np.quantile(regret[:, place], [0.1, 0.9])
            found.append(
                {
                    "strategy": name,
                    "evaluations": place + 1,
                    "runs": len(regret),
                    "regret": float(regret[:, place].mean()),
                    "regret_lo": float(low),
                    "regret_hi": float(high),
                    "within": float(reached[place] / len(regret)),
                    "within_lo": lo,
                    "within_hi": hi,
                }
            )
        within[name] = float(reached[min(own.landscape.read_at, own.landscape.evaluations) - 1] / len(regret))
        work.report(number + 1, len(own.landscape.strategies), name)
    write_table(work.folder, "regrets", found)
    test = np.array([np.nan if row["test_score"] is None else row["test_score"] for row in rows])
    marks = [*zip(own.parents, parents, strict=True)]
    marks += [("optimum of search", int(np.nanargmax(score))), ("optimum of test", int(np.nanargmax(test)))]
    keys = ("model", "genes", "search_score", "test_score", "test_solved")
    marked = [{"what": what} | {key: rows[model][key] for key in keys} for what, model in marks]
    write_table(work.folder, "landscape_marks", marked)
    return Made(0, Replayed(within=within))


REGRET = Stage("regret", request, make)
