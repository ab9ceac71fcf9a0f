"""A state in files: safetensors for weights, JSON for the rest. What never changes again, the rows of tables and the
dead, stands in the segments of rows (`commits.py`), each written once.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.torch import load_file, save_file

from evolora_core.engine.commits import Commit
from evolora_core.engine.meter import Meter
from evolora_core.searches.adapters.ecology.events import Events
from evolora_core.searches.adapters.ecology.ledger import Ledger
from evolora_core.searches.adapters.ecology.memories import Buffer
from evolora_core.searches.adapters.ecology.organelle import Organelle
from evolora_core.searches.adapters.ecology.state import State


def save_state(state: State, folder: Path) -> None:
    """Write what is alive into an existing empty folder."""
    tensors = {f"population.{k}": v for k, v in state.population.state_dict().items()}
    tensors |= {f"optimizer.{k}": v for k, v in state.optimizer.state_dict().items()}
    tensors |= {f"elites.{k}": v for k, v in state.elites.state_dict().items()}
    save_file(tensors, folder / "state.safetensors")
    document = {
        "generation": state.generation,
        "organelles": [organelle.row() for organelle in state.living],
        "archive": state.archive.state(),
        "ledger": state.ledger.state(),
        "buffers": {str(i): buffer.state() for i, buffer in sorted(state.buffers.items())},
        "practice": state.practice.tolist(),
        "curriculum": state.curriculum.tolist(),
        "baselines": state.baselines.tolist(),
        "meter": state.meter.state(),
        "extinct": state.extinct,
        "phase": [state.phase, state.phase_start, state.phase_updates, state.steps],
        "departures": state.departures,
        "last_flops": state.last_flops,
    }
    (folder / "state.json").write_text(json.dumps(document), encoding="utf-8")


def load_state(state: State, commit: Commit) -> State:
    """Fill a freshly founded `state` (same host and config) with what was committed."""
    tensors = load_file(commit.folder / "state.safetensors")
    for name, part in (("population", state.population), ("optimizer", state.optimizer), ("elites", state.elites)):
        prefix = name + "."
        part.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
    document = json.loads((commit.folder / "state.json").read_text(encoding="utf-8"))
    state.archive.restore(document["archive"])
    events = Events(list(commit.segments))
    organelles = [Organelle.from_row(row) for row in [*events["dead"], *document["organelles"]]]
    phase, phase_start, phase_updates, steps = document["phase"]
    return replace(
        state,
        generation=document["generation"],
        organelles=sorted(organelles, key=lambda organelle: organelle.id),
        ledger=Ledger.from_state(document["ledger"]),
        buffers={int(i): Buffer.from_state(rows) for i, rows in document["buffers"].items()},
        practice=np.array(document["practice"]),
        curriculum=np.array(document["curriculum"]),
        baselines=np.array(document["baselines"]),
        meter=Meter.from_state(document["meter"]),
        events=events,
        extinct=document["extinct"],
        phase=phase,
        phase_start=phase_start,
        phase_updates=phase_updates,
        steps=steps,
        departures=document["departures"],
        last_flops=document["last_flops"],
    )
