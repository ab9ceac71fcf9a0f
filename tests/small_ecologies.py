"""Little ecologies on the shipped host."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq

from evolora_core.language.datasets import build_splits
from evolora_core.language.decoding import DecodingConfig
from evolora_core.lora.answering.pricing import price
from evolora_core.searches.adapters.ecology.events import TABLES
from evolora_core.searches.adapters.ecology.evolve import FinishedRun, advance, begin, finish
from evolora_core.searches.adapters.ecology.founding import found
from evolora_core.searches.adapters.ecology.horizon import Horizon
from evolora_core.searches.adapters.ecology.organelle import Organelle
from evolora_core.searches.adapters.ecology.regimes import registry
from evolora_core.searches.adapters.ecology.rules.registry import rule
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.ecology.state import State
from evolora_core.searches.adapters.ecology.task import Task
from evolora_core.searches.adapters.settings.ecology import EcologyConfig

SMALL = EcologyConfig.model_validate(
    {
        "population": 4,
        "ranks": [1, 2, 4],
        "generations": 4,
        "episodes": 48,
        "samples": 3,
        "plasticity": {
            "learning_rate": 2e-3,
            "steps": 2,
            "batch_rows": 4,
            "single_batch_rows": 8,
            "max_grad_norm": 1.0,
        },
        "economy": {"endowment": 60.0, "ticket": 2.0},
        "assimilation": {"every": 1, "attempts": 1, "uplift": 0.3, "alpha": 0.4, "margin": 0.5},
    }
)


def little(host: Any) -> SimpleNamespace:
    """A little ecology on the shipped host: its task, settings and prices."""
    data = SimpleNamespace(
        train_families=["json_repair", "math"],
        ood_families=["string.sort"],
        retention_families=["code.format"],
        depths=["short"],
        train_items=300,
        selection_items=60,
        reselection_items=0,
        holdout_items=60,
    )
    splits = build_splits(data, 0)
    items = splits["train"]
    decoding = DecodingConfig(max_new_tokens=20, batch_rows=128)
    prices = price(host, items, SMALL.practice, decoding, seed=0)
    return SimpleNamespace(
        task=Task(host, items, splits["selection"], decoding, 0, prices),
        config=SMALL,
        decoding=decoding,
        prices=prices,
        host=host,
        items=items,
    )


def seeded(small: Any, seed: int) -> SimpleNamespace:
    """The same with another seed."""
    return SimpleNamespace(**{**vars(small), "task": replace(small.task, seed=seed)})


def founded(
    small: Any,
    config: EcologyConfig | None = None,
    *,
    mode: str = "ecology",
    budget: int | None = None,
    arrivals: Sequence[str] = (),
    folder: Path = Path(),
) -> Run:
    """A run before its first generation, whose budget has nothing set aside for the choice of routes."""
    config = config or small.config
    regime = registry.regime(mode)
    state = found(small.task, config, regime)
    horizon = Horizon(config.generations, budget, tuple(arrivals))
    return Run(small.task, config, horizon, regime, rule(config.plasticity.rule), state, folder)


def start(
    small: Any,
    folder: Path,
    config: EcologyConfig | None = None,
    *,
    mode: str = "ecology",
    budget: int | None = None,
    arrivals: Sequence[str] = (),
    shares: Sequence[float] = (),
) -> Run:
    """A run that is begun, or resumed, in a folder."""
    config = config or small.config
    horizon = Horizon(config.generations, budget, tuple(arrivals), tuple(shares))
    return begin(small.task, config, horizon, registry.regime(mode), folder)


def evolve(small: Any, folder: Path, config: EcologyConfig | None = None, *, seed: int = 0, **more: Any) -> FinishedRun:
    """A run from its beginning, or its last commit, to its end."""
    run = start(seeded(small, seed), folder, config, **more)
    advance(run)
    return finish(run, ["family", "single"])


def change(state: State, organelle: Organelle, **fields: Any) -> Organelle:
    """Another organelle in the place of one: its fields as a test wants them."""
    state.organelles[organelle.id] = replace(organelle, **fields)
    return state.organelles[organelle.id]


def rows(folder: Path, table: str) -> Any:
    """Rows of a table that a run left."""
    return pq.read_table(folder / f"{table}.parquet").to_pylist()


def without_clock(folder: Path) -> Any:
    """All tables that a run left, without what a clock measured."""
    return {
        name: [{k: v for k, v in row.items() if k != "seconds"} for row in rows(folder, name)]
        for name in [*TABLES, "compute"]
    }


def contending(small: Any, **contest: Any) -> EcologyConfig:
    """The little ecology without births and merges, whose founders draw their rates and contend."""
    changes: dict[str, Any] = {
        "population": 6,
        "assimilation": {"attempts": 0},
        "variation": {"births": 0},
        "economy": {"ticket": 0},
        "prior": {"learning_rate": [1e-4, 1.0]},
        "contest": {"contenders": 3, "every": 1, "items": 40, "alpha": 0.3, "loser": "copies", **contest},
    }
    return EcologyConfig.model_validate(small.config.model_dump() | changes)
