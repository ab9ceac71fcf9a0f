"""The stages of a landscape and of a law of a merge suite: made-up models, and the real replay and fit over them."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from example_suite import part, write_stage

from evolora_core.engine.rng import stream
from evolora_core.engine.stage import Stage, Work
from evolora_core.engine.strict import Strict
from evolora_core.engine.tables import read_table, write_table
from evolora_core.searches.merging.law import law, subsets
from evolora_core.searches.merging.settings import Landscape, Law
from evolora_core.searches.merging.spaces.routes import Routes
from evolora_core.searches.merging.stages.landmarks import LANDMARKS, Known
from evolora_core.searches.merging.stages.law_fit import LAW_FIT, Fitting
from evolora_core.searches.merging.stages.regret import REGRET, replay
from evolora_core.store import Slice

Tables = dict[str, list[dict[str, Any]]]
LANDSCAPE = Landscape(strategies=["random", "evomerge"], runs=12, evaluations=40, read_at=25, shards=2)
LAW = Law(widths=[48, 64, 96], methods=["linear", "ties"], fitted=3, first_predicted=4, bootstrap=10)
LAYERS, ITEMS = 2, 8  # 80 distinct models of 4 parents; search items of a domain
FAILED = 17  # the number of a model that failed
SIZES = (110_000, 190_000, 420_000)


def landscape_stages(home: Path, suite: str, seed: int, parents: tuple[str, ...]) -> list[Slice]:
    """Shards with a made-up score for each model, and strategies replayed on them."""
    return [
        write_stage(home, part(suite, "shared", seed, stage), own) for stage, own in _landscape(seed, parents).items()
    ]


def law_stages(home: Path, suite: str, seed: int, parents: tuple[str, ...]) -> list[Slice]:
    """Made-up losses of every subset, and the law fitted to them: the same for all seeds, since fits take long."""
    *merges, fits = _law(parents)
    made = [
        write_stage(home, part(suite, "shared", seed, f"law-w{width}"), own)
        for width, own in zip(LAW.widths, merges, strict=True)
    ]
    return [*made, write_stage(home, part(suite, "shared", seed, "law-fit"), fits)]


@cache
def _landscape(seed: int, parents: tuple[str, ...]) -> dict[str, Tables]:
    space, rng = Routes(parents, LAYERS, "base"), stream(seed, 0, 0, "merges.landscape")
    single = rng.normal(0, 0.3, (len(parents), LAYERS, space.alleles))
    rows = []
    for number in range(space.models):
        genes = space.numbered(number)
        domains = single[:, range(LAYERS), genes].sum(axis=1) - 1.5
        solved = np.repeat(domains, ITEMS) + rng.normal(0, 0.3, ITEMS * len(parents)) > -1.2
        row: dict[str, Any] = {"model": number, "genes": space.describe(number), "genome_id": f"{number:016x}"}
        found = {"search_score": float(domains.mean()), "test_score": float(domains.mean() + rng.normal(0, 0.05))}
        found |= {"search_solved": float(solved.mean()), "test_solved": float(solved.mean())}
        told = {"domains": str(domains.tolist()), "solved": np.packbits(solved).tobytes().hex()}
        failed = number == FAILED
        rows.append(
            row | dict.fromkeys([*found, *told]) | {"reason": "nan"} if failed else row | found | told | {"reason": ""}
        )
    shards = [{"landscape": rows[number :: LANDSCAPE.shards]} for number in range(LANDSCAPE.shards)]
    items = [ITEMS] * len(parents)
    made = {f"landscape-{number}": own for number, own in enumerate(shards)}
    made["landmarks"] = _made(
        LANDMARKS, Known(parents=list(parents), layers=LAYERS), seed, shards, ("landscape_marks",)
    )
    for name in LANDSCAPE.strategies:
        asked = replay(parents, LAYERS, items, [0.25] * len(items), name, LANDSCAPE)
        made[f"regret-{name}"] = _made(REGRET, asked, seed, shards, ("regrets",))
    return made


@cache
def _law(parents: tuple[str, ...]) -> list[Tables]:
    rng = stream(0, 0, 0, "merges.law")
    true = {"linear": [0.05, 0.2, 0.5, 0.6, 0.3, 0.4], "ties": [0.1, 0.25, 0.5, 0.3, 0.3, 0.4]}
    merges: list[Tables] = [{"merge_law": []} for _ in SIZES]
    for size, own in zip(SIZES, merges, strict=True):
        for subset in subsets(parents):
            for method in LAW.methods:
                loss = law(np.log(true[method]), np.array(float(size)), np.array(len(subset)))
                row = {"parameters": size, "method": method, "merged": len(subset), "subset": ",".join(subset)}
                own["merge_law"].append(row | {"loss": float(loss + 0.001 * rng.standard_normal()), "solved": 0.5})
    asked = Fitting(fitted=LAW.fitted, first_predicted=LAW.first_predicted, bootstrap=LAW.bootstrap)
    return [*merges, _made(LAW_FIT, asked, 0, merges, ("law_fits", "law_points"))]


def _made(stage: Stage, config: Strict, seed: int, inputs: Sequence[Tables], names: Sequence[str]) -> Tables:
    """What the body of a stage leaves of its inputs."""
    with TemporaryDirectory() as work:
        folders = {}
        for number, tables in enumerate(inputs):
            folders[str(number)] = Path(work) / str(number)
            folders[str(number)].mkdir()
            for name, rows in tables.items():
                write_table(folders[str(number)], name, rows)
        out = Path(work) / "out"
        out.mkdir()
        stage.body(Work(config=config, seed=seed, folder=out, inputs=folders))
        return {name: read_table(out, name) for name in names}
