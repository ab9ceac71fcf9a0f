"""One evolution under way: what it is about, by what rules it goes, and its state."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evolora_core.engine import rng
from evolora_core.searches.adapters.ecology.horizon import Horizon
from evolora_core.searches.adapters.ecology.organelle import Organelle
from evolora_core.searches.adapters.ecology.regime import Regime
from evolora_core.searches.adapters.ecology.rules.base import Rule
from evolora_core.searches.adapters.ecology.state import State
from evolora_core.searches.adapters.ecology.task import Task
from evolora_core.searches.adapters.settings.ecology import EcologySettings


@dataclass(frozen=True)
class Run:
    """`rule` is how organelles learn; `folder` has the commits, and at the end what the run leaves."""

    task: Task
    config: EcologySettings
    horizon: Horizon
    regime: Regime
    rule: Rule
    state: State
    folder: Path

    @property
    def checkpoints(self) -> Path:
        """The commits."""
        return self.folder / "checkpoints"

    def stream(self, slot: int, role: str) -> np.random.Generator:
        """A random stream of the present generation; every regime has streams of its own."""
        return rng.stream(self.task.seed, self.state.generation, slot, role, self.regime.word)

    def keys(self, role: str, rows: int) -> np.ndarray:
        """Keys `[rows]` of the streams of so many answers."""
        return rng.row_keys(rng.key(self.task.seed, self.state.generation, 0, role, self.regime.word), rows)

    @property
    def host_accuracy(self) -> np.ndarray:
        """Accuracy of the bare host per cell `[cells]`, as the run's verifier grades it."""
        return self.task.host_accuracy(self.config.verifier_error)

    @property
    def uniform(self) -> bool:
        """Whether every organelle gets equally many items and rows, and cells are drawn evenly."""
        return self.config.economy.allocation == "uniform"

    @property
    def cooldown(self) -> float:
        """Steps after the last generation relative to those before it."""
        return self.rule.cooldown(self.config.plasticity)

    def rate(self, organelle: Organelle) -> float:
        """Learning rate of an organelle in the present generation. A family that arrives begins at the full rate."""
        plasticity = self.config.plasticity
        age = self.state.generation - self.state.phase_start
        value: float = self.rule.rate(plasticity) * organelle.learning_rate * 0.5 ** (age / plasticity.half_life)
        return value

    @property
    def present(self) -> np.ndarray:
        """Which families are there now: bool `[families]`."""
        return np.array([self.horizon.there(family, self.state.phase) for family in self.task.families])

    @property
    def present_cells(self) -> np.ndarray:
        """Which cells are of a family that is there now: bool `[cells]`."""
        cells: np.ndarray = self.present @ self.task.inside
        return cells

    def awake(self) -> list[Organelle]:
        """The living organelles whose niche is there. The others sleep: they neither act nor pay."""
        here = {"", *np.array(self.task.families)[self.present]}
        return [organelle for organelle in self.state.living if organelle.niche in here]
