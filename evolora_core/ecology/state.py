"""The state of an ecology between two generations. All of it is committed, so that a resumed run is the same run.


Random streams need no state (rng.py derives them), and wall-clock time is not part of it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file

from evolora_core.archive import Archive
from evolora_core.ecology.events import TABLES, empty_events, read_events, write_events
from evolora_core.ecology.ledger import Ledger
from evolora_core.families.base import Item
from evolora_core.meter import Meter
from evolora_core.plasticity.buffer import Buffer
from evolora_core.population.stack import Population
from evolora_core.population.train import StackedAdamW
from evolora_core.searches.adapters.settings.ecology import EcologyConfig


@dataclass(frozen=True)
class Organelle:
    """One adapter with its traits, account (in the ledger, under its id) and lineage."""

    id: int
    slot: int
    rank: int
    origin: str  # founder, mutation, merge
    born: int
    niche: str  # family that it mostly practises; "" = all families alike
    learning_rate: float  # relative to the run's
    temperature: float
    parents: tuple[int, ...] = ()
    strikes: int = 0
    learned: int = -1  # generation in which it last learned
    lessons: int = 0  # generations in which it learned; of a merged child, its parents' too
    died: int | None = None
    cause: str = ""

    @property
    def alive(self) -> bool:
        """Whether it takes part."""
        return self.died is None


@dataclass
class State:
    """One ecology. `practice[slot, cell]` holds the organelle's (answers, correct), decayed once a generation."""

    generation: int
    organelles: list[Organelle]
    population: Population
    optimizer: StackedAdamW
    elites: Population
    archive: Archive
    ledger: Ledger
    buffers: dict[int, Buffer]
    practice: np.ndarray  # [slots, cells, 2]
    curriculum: np.ndarray  # [cells, 2] fast and slow success averages
    baselines: np.ndarray  # [families] running mean reward, which the rule `hebbian` compares with
    meter: Meter
    events: dict[str, list[dict[str, Any]]] = field(default_factory=empty_events)
    extinct: bool = False
    phase: int = 0  # how many families have come and gone, if they arrive one after another
    phase_start: int = 0  # generation in which the phase began
    phase_updates: int = 0  # FLOPs of updates before it
    steps: int = 0  # of the learners since it began
    last_flops: int = (
        0  # FLOPs of the last generation without tests of pairs, which are made only if the budget pays for them
    )

    @property
    def living(self) -> list[Organelle]:
        """Organelles that are alive, by id."""
        return [organelle for organelle in self.organelles if organelle.alive]

    def free_slots(self) -> list[int]:
        """Slots of the population that no living organelle uses, in order."""
        used = {organelle.slot for organelle in self.living}
        return [slot for slot in range(len(self.practice)) if slot not in used]

    def change(self, organelle: Organelle, **changes: object) -> Organelle:
        """Replace fields of one organelle."""
        changed = replace(organelle, **changes)  # type: ignore[arg-type]
        self.organelles[organelle.id] = changed
        return changed

    def teach(self, organelle: Organelle) -> Organelle:
        """Record that an organelle takes learning steps in this generation."""
        return self.change(organelle, learned=self.generation, lessons=organelle.lessons + 1)

    def retire(self, organelle: Organelle, cause: str) -> None:
        """End an organelle. The sink takes what is left on its account, or pays what is missing."""
        name = str(organelle.id)
        left = self.ledger.balance(name)
        if left > 0:
            self.ledger.post(self.generation, "estate", name, "sink", left)
        elif left < 0:
            self.ledger.post(self.generation, "default", "sink", name, -left)
        self.change(organelle, died=self.generation, cause=cause)
        self.buffers.pop(organelle.id, None)
        self.population.clear(organelle.slot)
        self.practice[organelle.slot] = 0


def incumbents(organelles: Iterable[Organelle]) -> dict[str, Organelle]:
    """The learner of each niche that has one: the organelle that has learned in most generations. Of equals, a merged
    child comes before its parent.

    No evidence of skill is asked for, so that a child by mutation, which was born later, never takes its place.
    """
    taught = [organelle for organelle in organelles if organelle.lessons]
    return {o.niche: o for o in sorted(taught, key=lambda o: (o.lessons, o.origin == "merge", -o.id))}


def cells_of(items: Sequence[Item]) -> list[tuple[str, str]]:
    """The (family, depth) cells that occur, sorted."""
    return sorted({(item.family, item.depth) for item in items})


def slots_needed(config: EcologyConfig) -> int:
    """Slots for the living, one generation's newborns, and the candidate of a merge."""
    return config.population + config.variation.births + config.assimilation.attempts + 1


def save_state(state: State, folder: Path) -> None:
    """Write a state into an existing empty folder: safetensors for weights, JSON for the rest, Parquet for events."""
    tensors = {f"population.{k}": v for k, v in state.population.state_dict().items()}
    tensors |= {f"optimizer.{k}": v for k, v in state.optimizer.state_dict().items()}
    tensors |= {f"elites.{k}": v for k, v in state.elites.state_dict().items()}
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "state.safetensors")
    document = {
        "generation": state.generation,
        "organelles": [asdict(organelle) for organelle in state.organelles],
        "archive": state.archive.state(),
        "ledger": state.ledger.state(),
        "buffers": {str(i): buffer.state() for i, buffer in sorted(state.buffers.items())},
        "practice": state.practice.tolist(),
        "curriculum": state.curriculum.tolist(),
        "baselines": state.baselines.tolist(),
        "meter": state.meter.state(),
        "extinct": state.extinct,
        "phase": [state.phase, state.phase_start, state.phase_updates, state.steps],
        "last_flops": state.last_flops,
    }
    (folder / "state.json").write_text(json.dumps(document), encoding="utf-8")
    write_events(state.events, folder)


def load_state(state: State, folder: Path) -> State:
    """Fill a freshly founded `state` (same host and config) with what `save_state` wrote."""
    tensors = load_file(folder / "state.safetensors")
    for name, part in (("population", state.population), ("optimizer", state.optimizer), ("elites", state.elites)):
        prefix = name + "."
        part.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
    document = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    state.archive.restore(document["archive"])
    phase, phase_start, phase_updates, steps = document["phase"]
    return replace(
        state,
        generation=document["generation"],
        organelles=[Organelle(**{**row, "parents": tuple(row["parents"])}) for row in document["organelles"]],
        ledger=Ledger.from_state(document["ledger"]),
        buffers={int(i): Buffer.from_state(rows) for i, rows in document["buffers"].items()},
        practice=np.array(document["practice"]),
        curriculum=np.array(document["curriculum"]),
        baselines=np.array(document["baselines"]),
        meter=Meter.from_state(document["meter"]),
        events=read_events(folder, TABLES),
        extinct=document["extinct"],
        phase=phase,
        phase_start=phase_start,
        phase_updates=phase_updates,
        steps=steps,
        last_flops=document["last_flops"],
    )
