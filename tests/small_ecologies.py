"""Little ecologies on the shipped host."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from evolora_core.searches.adapters.ecology.events import TABLES
from evolora_core.searches.adapters.ecology.evolve import Evolved, advance, begin, finish
from evolora_core.searches.adapters.ecology.founding import found
from evolora_core.searches.adapters.ecology.horizon import Horizon
from evolora_core.searches.adapters.ecology.organelle import Organelle
from evolora_core.searches.adapters.ecology.regimes import registry
from evolora_core.searches.adapters.ecology.rules.registry import rule
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.ecology.state import State
from evolora_core.searches.adapters.settings.ecology import EcologyConfig


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


def evolve(small: Any, folder: Path, config: EcologyConfig | None = None, *, seed: int = 0, **more: Any) -> Evolved:
    """A run from its beginning, or its last commit, to its end."""
    small = type(small)(**{**vars(small), "task": replace(small.task, seed=seed)})
    run = start(small, folder, config, **more)
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
